"""The PostgreSQL store beyond the contract: pages, damage, lost answers, credentials, what is refused at the start."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import msgspec
import pytest

from dragoman.errors import ConfigFault, Kind, ProtocolError, StoreFault
from dragoman.store.contract import Draft, Selection
from dragoman.store.fleet import EngineOptions
from dragoman.store.postgres.engine import PostgresEngine, open_postgres
from dragoman.store.session_log import SessionLog
from dragoman.store.urls import open_engine, parse_address
from tests.store.postgres.server import Postgres

KEY = bytes(range(32))


@asynccontextmanager
async def open_engine_at(url: str, **options: Any) -> AsyncIterator[PostgresEngine]:
    engine = await open_postgres(url, EngineOptions(**options))
    try:
        yield engine
    finally:
        await engine.close()


def draft(text: str, kind: str = "update") -> Draft:
    return Draft(kind=kind, actor="agent", time="2026-01-01T00:00:00Z", body={"text": text})


async def append_turns(engine: PostgresEngine, count: int, session: str = "s") -> None:
    for number in range(count):
        await engine.store.append(session, [draft(f"word{number}")])
    await engine.store.append(session, [draft("", "turn_ended")])


async def until_joined(engine: PostgresEngine) -> None:
    async with asyncio.timeout(30):
        while (await engine.database.fetch("SELECT count(*) FROM blocks"))[0][0] > 1:  # noqa: ASYNC110
            await asyncio.sleep(0.01)


async def test_the_blocks_of_a_turn_are_joined_to_a_page_and_read_the_same(postgres_url: Callable[[], str]) -> None:
    async with open_engine_at(url := postgres_url()) as engine:
        await append_turns(engine, 20)
        await until_joined(engine)
        [(first, count)] = [tuple(row) for row in await engine.database.fetch("SELECT first, count FROM pages")]
        assert (first, count) == (1, 21)
        await engine.store.append("s", [draft("after"), draft("last")])
        texts = [entry.body["text"] for entry in await engine.store.read("s")]
        assert texts == [*(f"word{number}" for number in range(20)), "", "after", "last"]
        assert [entry.seq for entry in await engine.store.read("s", after=19, limit=3)] == [20, 21, 22]
    async with open_engine_at(url) as engine:
        assert len(await engine.store.read("s")) == 23
        assert (await engine.store.find("s")).entries == 23


async def test_large_appends_line_breaks_and_zero_characters_are_kept(postgres_url: Callable[[], str]) -> None:
    async with open_engine_at(postgres_url()) as engine:
        store = engine.store
        drafts = [draft("x" * 300_000) for _ in range(5)]
        await store.append("s", [*drafts, Draft(kind="update", actor="a", time="t", body=msgspec.Raw(b'{\n"a":\n1}'))])
        assert (await engine.database.fetch("SELECT count(*) FROM blocks"))[0][0] > 2
        entries = await store.read("s")
        assert [len(entry.body.get("text", "")) for entry in entries] == [300_000] * 5 + [0]
        zero = {"sessionUpdate": "session_info_update", "title": "a\0b"}
        prompt = {"prompt": [{"type": "text", "text": "find\0me"}]}
        bodies = [("update", zero), ("prompt", prompt)]
        await store.append("s", [Draft(kind=kind, actor="a", time="t\0", body=body) for kind, body in bodies])
        assert (await store.read("s", after=6))[0].body == zero
        assert (await store.find("s")).title == "a\ufffdb"
        assert [hit.seq for hit in await store.search("find")] == [8]


@pytest.mark.item("FL-10")
@pytest.mark.parametrize("damage", ["flip", "cut", "remove", "swap", "old"])
async def test_every_entry_that_is_damaged_in_the_database_is_named(
    damage: str, postgres_url: Callable[[], str]
) -> None:
    async with open_engine_at(postgres_url()) as engine:
        store, database = engine.store, engine.database
        for number in range(6):
            await store.append("s", [draft(f"{number}a"), draft(f"{number}b")])
        await {
            "flip": lambda: database.execute("UPDATE blocks SET body = set_byte(body, 20, 7) WHERE first = 5"),
            "cut": lambda: database.execute("UPDATE blocks SET body = substr(body, 1, 30) WHERE first = 5"),
            "remove": lambda: database.execute("DELETE FROM blocks WHERE first = 5"),
            "swap": lambda: database.execute(
                "UPDATE blocks AS a SET body = b.body, sum = b.sum FROM blocks AS b WHERE a.first = 5 AND b.first = 7"
            ),
            "old": lambda: database.execute("UPDATE blocks SET epoch = -1 WHERE first = 5"),
        }[damage]()
        with pytest.raises(ProtocolError, match="entries 5-6 of session 's'") as caught:
            await store.read("s")
        assert caught.value.kind == Kind.SESSION_CORRUPTED
        assert caught.value.data == {"sessionId": "s", "lost": [(5, 6)]}
        assert [entry.seq for entry in await store.read("s", intact=True)] == [1, 2, 3, 4, 7, 8, 9, 10, 11, 12]
        assert (await store.verify("s")).lost == [(5, 6)]
        assert (await store.repair("s")).lost == [(5, 6)]
        assert [entry.kind for entry in await store.read("s", after=4, limit=3)] == ["lost", "lost", "update"]
        assert (await store.append("s", [draft("on")]))[0].seq == 13


@pytest.mark.item("FL-06")
async def test_an_append_whose_connection_was_cut_is_settled_and_stored_once(postgres_url: Callable[[], str]) -> None:
    async with open_engine_at(postgres_url()) as engine, asyncio.timeout(60):
        store, database = engine.store, engine.database
        told: list[int] = []
        log = SessionLog(store, "s", on_entries=lambda _, entries: told.extend(entry.seq for entry in entries))
        log.claim = await store.claim("s", "a#1", epoch=0)
        await log.append_and_wait("update", {"n": 1})
        async with database.connection() as blocking:
            transaction = blocking.transaction()
            await transaction.start()
            await blocking.execute("LOCK TABLE progress IN EXCLUSIVE MODE")
            log.append("update", {"n": 2})
            query = "SELECT pid FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND query LIKE '%WITH heads%'"
            while not (waiting := await database.fetch(query)):  # noqa: ASYNC110
                await asyncio.sleep(0.01)
            await database.execute("SELECT pg_terminate_backend($1)", waiting[0]["pid"])
            await asyncio.sleep(0)
            await transaction.rollback()
        await log.wait_stored()
        assert [entry.body["n"] for entry in await store.read("s")] == [1, 2]
        assert told == [1, 2]
        assert log.claim is not None
        assert log.claim.epoch == 2


async def test_a_session_of_somebody_else_is_not_listed_and_the_owner_sees_what_has_no_members(
    postgres_url: Callable[[], str],
) -> None:
    from dragoman.host.auth.directory import open_directory

    async with open_engine_at(postgres_url(), owner="owner") as engine:
        roles = open_directory(engine, "", "owner").session_roles
        for number in range(4):
            await engine.store.append(f"s{number}", [draft("x")])
        await roles.set_creator("s1", "ann")
        await roles.set_creator("s1", "eve")  # too late
        await roles.set_role("s2", "ben", "viewer")

        async def of(user: str, **wanted: Any) -> list[str]:
            return [summary.session_id for summary in await engine.store.sessions(Selection(of=user, **wanted))]

        assert await of("ann") == ["s1"]
        assert await of("ben", limit=5) == ["s2"]
        assert await of("eve") == []
        assert await of("owner") == ["s3", "s2", "s0"]
        assert await of("owner", limit=2) == ["s3", "s2"]
        assert dict(await roles.members_of("s2")) == {"owner": "admin", "ben": "viewer"}


async def test_credentials_are_sealed_and_need_the_key_of_the_fleet(
    postgres: Postgres, postgres_url: Callable[[], str]
) -> None:
    secret = {"mcp": {"env": {"TOKEN": "s3cret"}}}
    async with open_engine_at(url := postgres_url(), secrets_key=KEY) as engine:
        await engine.store.append("s", [draft("x")])
        await engine.store.keep_credentials("s", secret)
    async with open_engine_at(url, secrets_key=KEY) as engine:
        assert await engine.store.credentials("s") == secret
        sealed = (await engine.database.fetch("SELECT sealed FROM credentials"))[0][0]
        assert b"s3cret" not in sealed
        # Sealed for one session: a row that was moved to another one opens nothing.
        await engine.database.execute("INSERT INTO credentials VALUES ('other', $1)", sealed)
        with pytest.raises(StoreFault, match="sealed with another key"):
            await engine.store.credentials("other")
    async with open_engine_at(url, secrets_key=bytes(32)) as engine:
        with pytest.raises(StoreFault, match="--secrets-key"):
            await engine.store.credentials("s")
    async with open_engine_at(url) as engine:
        assert await engine.store.credentials("s") == {}


async def test_tables_of_others_and_of_newer_versions_are_refused(postgres_url: Callable[[], str]) -> None:
    async with open_engine_at(url := postgres_url()) as engine:
        schema = engine.database.schema
        await engine.database.execute("UPDATE meta SET value = '99' WHERE key = 'format'")
    with pytest.raises(StoreFault, match="newer Dragoman") as caught:
        await open_engine(url)
    assert caught.value.why == "newer"
    async with open_engine_at(other := postgres_url()) as engine:
        await engine.database.execute("DROP TABLE meta")
    with pytest.raises(StoreFault, match=r"another program; name another one with \?schema=NAME") as caught:
        await open_engine(other)
    assert caught.value.why == "unusable"
    with pytest.raises(StoreFault, match="lower-case letters"):
        await open_engine(re.sub(schema, "Drop--", url))


@pytest.mark.parametrize(
    ("url", "why", "advice"),
    [
        ("postgresql://127.0.0.1:1/x", "away", "start it, or check the address"),
        ("postgresql:///x?host=/nowhere", "away", "cannot be reached"),
    ],
)
async def test_a_database_that_is_not_there_is_named_with_what_to_do(url: str, why: str, advice: str) -> None:
    with pytest.raises(StoreFault, match=advice) as caught:
        await open_engine(url)
    assert caught.value.why == why


async def test_a_database_that_does_not_exist_and_a_wrong_user_are_named(postgres: Postgres) -> None:
    for changes, advice in ((("///postgres", "///nothere"), "createdb"), (("user=tester", "user=eve"), "pg_hba.conf")):
        with pytest.raises(StoreFault, match=advice) as caught:
            await open_engine(postgres.url("x").replace(*changes))
        assert caught.value.why == "unusable"


@pytest.mark.parametrize(
    ("address", "why"),
    [
        ("postgresql://ann:pw@db/x", "PGPASSWORD"),
        ("postgresql://db/x?password=pw", "PGPASSWORD"),
        ("postgresql://db", "no database"),
        ("postgresql:db", "no database"),
        ("postgres://db/x", "unknown store"),
    ],
)
def test_an_address_with_a_password_or_without_a_database_is_refused(address: str, why: str) -> None:
    with pytest.raises(ConfigFault, match=why):
        parse_address(address)


async def test_the_guarantees_are_said_in_words(postgres_url: Callable[[], str]) -> None:
    async with open_engine_at(postgres_url()) as engine:
        assert re.match(r"PostgreSQL \S+.*acknowledged means: synced on the disk of one server", engine.guarantees[0])
        assert "data_checksums" in engine.guarantees[1]
        await engine.store.probe()


async def test_a_node_that_is_paused_in_a_transaction_does_not_keep_others_from_its_session(
    postgres_url: Callable[[], str],
) -> None:
    async with open_engine_at(url := postgres_url()) as paused, open_engine_at(url) as other:
        await other.store.append("s", [draft("one")])
        runs = 0

        async def hold_the_row_and_pause(connection: Any) -> None:
            nonlocal runs
            runs += 1
            await connection.fetch("SELECT * FROM progress FOR UPDATE")
            if runs == 1:
                await asyncio.wait_for(other.store.append("s", [draft("two")]), 60)
                async with asyncio.timeout(60):
                    while not connection.is_closed():  # noqa: ASYNC110
                        await asyncio.sleep(0.01)

        await paused.database.transact(hold_the_row_and_pause)
        assert runs == 2, "the server ended its first transaction, which had changed nothing, and it was repeated"
        assert [entry.body["text"] for entry in await other.store.read("s")] == ["one", "two"]
