"""The tables in PostgreSQL, their version, and what is checked before they are used."""

from __future__ import annotations

import re
from typing import Any

from dragoman.errors import StoreFault
from dragoman.store.postgres.database import Database

# The version of the tables; newer ones are refused.
VERSION = 1

# Older servers lack what the tables use.
MIN_VERSION = 130000

_SCHEMA_NAME = re.compile(r"[a-z_][a-z0-9_]{0,40}")

# Two nodes that create the tables at once wait for each other here ("Drag").
_LOCK = 0x44726167

TABLES = """
CREATE TABLE meta (key text PRIMARY KEY, value text NOT NULL);
CREATE TABLE sessions (
  number        bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  id            text COLLATE "C" NOT NULL UNIQUE,
  name          text COLLATE "C" UNIQUE,
  turns         bigint NOT NULL DEFAULT 0,
  created_at    text NOT NULL DEFAULT '',
  title         text,
  prompted      text,
  agent         text,
  agent_session text,
  cwd           text,
  forked_from   text,
  archived      boolean NOT NULL DEFAULT false,
  imported      bigint NOT NULL DEFAULT 0,
  scanned       bigint NOT NULL DEFAULT 0,
  indexed       bigint NOT NULL DEFAULT 0,
  expired_at    text
) WITH (fillfactor = 80);
CREATE TABLE progress (
  number        bigint PRIMARY KEY,
  entries       bigint NOT NULL DEFAULT 0,
  size          bigint NOT NULL DEFAULT 0,
  updated_at    text COLLATE "C" NOT NULL DEFAULT '',
  epoch         bigint NOT NULL DEFAULT 0,
  node          text NOT NULL DEFAULT ''
) WITH (fillfactor = 50, autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_cost_delay = 0);
CREATE INDEX progress_by_time ON progress (updated_at);
CREATE TABLE blocks (
  session bigint NOT NULL,
  first   bigint NOT NULL,
  count   integer NOT NULL,
  epoch   bigint NOT NULL,
  sum     bigint NOT NULL,
  body    bytea NOT NULL,
  PRIMARY KEY (session, first)
) WITH (autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_cost_delay = 0);
CREATE TABLE pages (LIKE blocks INCLUDING ALL);
CREATE TABLE states (number bigint PRIMARY KEY, seq bigint NOT NULL, state bytea NOT NULL);
CREATE TABLE passages (
  session bigint NOT NULL,
  first   bigint NOT NULL,
  part    integer NOT NULL,
  role    text NOT NULL,
  text    text NOT NULL,
  words   tsvector NOT NULL,
  PRIMARY KEY (session, first, part)
);
CREATE INDEX passages_by_word ON passages USING gin (words);
CREATE TABLE credentials (session text COLLATE "C" PRIMARY KEY, sealed bytea NOT NULL);
CREATE TABLE members (
  session text COLLATE "C" NOT NULL,
  member  text COLLATE "C" NOT NULL,
  role    text NOT NULL,
  PRIMARY KEY (session, member)
);
CREATE INDEX members_by_member ON members (member);
CREATE TABLE tokens (
  id      text COLLATE "C" PRIMARY KEY,
  digest  bytea NOT NULL,
  member  text COLLATE "C" NOT NULL,
  role    text NOT NULL,
  label   text NOT NULL,
  session text COLLATE "C",
  maker   text NOT NULL,
  created double precision NOT NULL,
  expires double precision,
  used    double precision,
  revoked double precision
);
CREATE INDEX tokens_by_session ON tokens (session) WHERE session IS NOT NULL;
CREATE INDEX tokens_by_member ON tokens (member);
CREATE TABLE nodes (
  name    text COLLATE "C" PRIMARY KEY,
  key     text NOT NULL,
  info    bytea NOT NULL,
  renewed timestamptz NOT NULL,
  seconds double precision NOT NULL
);
CREATE SEQUENCE record_versions;
CREATE TABLE records (
  kind    text COLLATE "C" NOT NULL,
  key     text COLLATE "C" NOT NULL,
  value   bytea NOT NULL,
  version bigint NOT NULL,
  PRIMARY KEY (kind, key)
);
INSERT INTO meta VALUES ('program', 'dragoman'), ('format', '1'), ('probe', '');
"""

# Texts compress to a third; where the server was built without lz4 it uses its own method.
_COMPRESS = """
DO $$ BEGIN
  ALTER TABLE blocks ALTER COLUMN body SET COMPRESSION lz4;
  ALTER TABLE pages ALTER COLUMN body SET COMPRESSION lz4;
EXCEPTION WHEN OTHERS THEN NULL;
END $$
"""

# Settings without which an acknowledged entry can be lost, with the values that keep it.
_NEEDED = {"fsync": "on", "full_page_writes": "on"}


async def prepare_schema(database: Database) -> None:
    """Create the tables if there are none; raise StoreFault if they are newer or somebody else's."""
    schema = database.schema
    if _SCHEMA_NAME.fullmatch(schema) is None:
        raise StoreFault("unusable", f"?schema={schema}: use lower-case letters, digits and _, as in dragoman_test")

    async def prepare(connection: Any) -> None:
        await connection.execute("SELECT pg_advisory_xact_lock($1)", _LOCK)
        tables = await connection.fetchval(
            "SELECT count(*) FROM pg_class WHERE relnamespace = to_regnamespace($1)", schema
        )
        if tables:
            await _check_tables(connection, database)
            return
        await connection.execute(f"CREATE SCHEMA IF NOT EXISTS {schema}")
        await connection.execute(TABLES)
        await connection.execute(_COMPRESS)

    await database.transact(prepare)


async def _check_tables(connection: Any, database: Database) -> None:
    where = f"the schema {database.schema!r} of {database.where}"
    is_ours = await connection.fetchval("SELECT to_regclass($1) IS NOT NULL", f"{database.schema}.meta")
    program = await connection.fetchval("SELECT value FROM meta WHERE key = 'program'") if is_ours else None
    if program != "dragoman":
        raise StoreFault("unusable", f"{where} has tables of another program; name another one with ?schema=NAME")
    version = int(await connection.fetchval("SELECT value FROM meta WHERE key = 'format'"))
    if version > VERSION:
        raise StoreFault("newer", f"{where} was written by a newer Dragoman (format {version}); update this one")


async def check_guarantees(database: Database, *, trusts_engine: bool) -> list[str]:
    """Return what an acknowledgement means, in words; raise StoreFault if entries could be lost."""
    names = [*_NEEDED, "server_version", "server_version_num", "data_checksums", "synchronous_commit"]
    names += ["synchronous_standby_names", "max_connections"]
    rows = await database.fetch("SELECT name, setting FROM pg_settings WHERE name = ANY($1)", names)
    settings = {row["name"]: row["setting"] for row in rows}
    if int(settings["server_version_num"]) < MIN_VERSION:
        version = settings["server_version"]
        raise StoreFault("unusable", f"{database.where} is PostgreSQL {version}; Dragoman needs 13 or newer")
    unsafe = [f"{name} = {value}" for name, value in _NEEDED.items() if settings[name] != value]
    if unsafe and not trusts_engine:
        raise StoreFault(
            "unusable",
            f"{database.where} can lose acknowledged entries; set {' and '.join(unsafe)} in postgresql.conf "
            "(or start with --trust-engine where that is wanted, as in a test)",
        )
    standby = settings["synchronous_standby_names"]
    kept = f"on the disk of the primary and of its standby ({standby})" if standby else "on the disk of one server"
    means = f"acknowledged means: synced {kept}"
    if unsafe:
        means = f"NOT SAFE, trusted by --trust-engine: it runs without {' and '.join(unsafe)}"
    guarantees = [f"PostgreSQL {settings['server_version']}; {means}"]
    if settings["data_checksums"] == "on":
        guarantees.append("a damaged page is noticed by the server (data_checksums)")
    else:
        guarantees.append("data_checksums are off: only Dragoman's own sums notice damage; pg_checksums --enable")
    return guarantees
