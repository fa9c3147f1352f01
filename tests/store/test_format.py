"""The file's version: an older one is brought up to date with a copy kept, a newer or foreign one is not touched."""

from __future__ import annotations

import asyncio
import json
import sqlite3
from contextlib import closing
from pathlib import Path
from zlib import crc32

import pytest

from dragoman.errors import StoreFault
from dragoman.store.sqlite import SqliteStore, schema


def old_file(path: Path) -> None:
    """A file as the first version wrote it: no search."""
    with closing(sqlite3.connect(path)) as old:
        old.executescript(schema.MIGRATIONS[0])
        old.execute(f"PRAGMA application_id = {schema.APPLICATION_ID}")
        old.execute("PRAGMA user_version = 1")
        old.execute("INSERT INTO sessions (id, name, created_at) VALUES ('one', 'mine', 'a')")
        for seq, text in enumerate(["hello ", "world"], 1):
            chunk = '{"sessionUpdate":"agent_message_chunk","content":{"type":"text","text":"' + text + '"}}'
            line = f'{{"seq":{seq},"kind":"update","actor":"agent","time":"t{seq}","body":{chunk},"turn":null}}'
            old.execute("INSERT INTO entries VALUES (?, ?, ?)", ((1 << 40) + seq, line, crc32(line.encode())))
        old.execute("INSERT INTO progress VALUES (1, 2, 300, 't2', 1)")
        old.commit()


async def test_an_older_file_is_migrated_and_a_copy_is_kept(tmp_path: Path) -> None:
    path = tmp_path / "sessions.db"
    old_file(path)

    store = await SqliteStore.open(str(path))
    assert [entry.seq for entry in await store.read("one")] == [1, 2]
    assert [hit.snippet for hit in await store.search("world")] == ["hello world"]
    assert (await store.find("mine")).session_id == "one"
    assert (await store.find("mine")).imported == 0
    await store.close()
    copy = tmp_path / "sessions.db.format-1"
    assert copy.stat().st_mode & 0o777 == 0o600
    with closing(sqlite3.connect(copy)) as backup:
        assert backup.execute("PRAGMA user_version").fetchone() == (1,)
        assert backup.execute("SELECT count(*) FROM entries").fetchone() == (2,)


async def test_sessions_archived_before_the_list_had_a_column_are_found_in_their_logs(tmp_path: Path) -> None:
    path = tmp_path / "sessions.db"
    with closing(sqlite3.connect(path)) as old:
        for step in schema.MIGRATIONS[:2]:
            old.executescript(step)
        old.execute(f"PRAGMA application_id = {schema.APPLICATION_ID}")
        old.execute("PRAGMA user_version = 2")
        for number, story in enumerate([[True], [True, False], []], 1):
            old.execute("INSERT INTO sessions (id, created_at) VALUES (?, 'a')", (f"s{number}",))
            for seq, archived in enumerate(story, 1):
                note = {"sessionUpdate": "session_info_update", "_meta": {"dragoman": {"archived": archived}}}
                entry = {"seq": seq, "kind": "update", "actor": "user", "time": "t", "body": note, "turn": None}
                line = json.dumps(entry, separators=(",", ":"))
                old.execute("INSERT INTO entries VALUES (?, ?, ?)", ((number << 40) + seq, line, crc32(line.encode())))
            old.execute("INSERT INTO progress VALUES (?, ?, 300, 't', 1)", (number, len(story)))
        old.commit()

    store = await SqliteStore.open(str(path))
    assert {each.session_id: each.archived for each in await store.sessions()} == {
        "s1": True, "s2": False, "s3": False,
    }  # fmt: skip
    await store.close()


def test_a_failed_migration_leaves_the_older_file_unchanged(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "sessions.db"
    old_file(path)
    failing = "CREATE TABLE extra (a); CREATE TABLE sessions (a);"
    monkeypatch.setattr(schema, "MIGRATIONS", (schema.MIGRATIONS[0], failing))
    with pytest.raises(StoreFault):
        SqliteStore(str(path))
    with closing(sqlite3.connect(path)) as old:
        assert old.execute("PRAGMA user_version").fetchone() == (1,)
        assert old.execute("SELECT name FROM sqlite_schema WHERE name = 'extra'").fetchone() is None
        assert old.execute("SELECT count(*) FROM entries").fetchone() == (2,)


def test_a_newer_file_is_refused_and_not_changed(tmp_path: Path) -> None:
    path = tmp_path / "sessions.db"
    old_file(path)
    with closing(sqlite3.connect(path)) as file:
        file.execute(f"PRAGMA user_version = {schema.VERSION + 1}")
    before = path.read_bytes()
    with pytest.raises(StoreFault, match=r"newer Dragoman .*update") as caught:
        SqliteStore(str(path))
    assert caught.value.why == "newer"
    assert path.read_bytes() == before
    assert [file.name for file in tmp_path.iterdir()] == ["sessions.db"]


def test_a_database_of_another_program_is_refused_and_not_changed(tmp_path: Path) -> None:
    path = tmp_path / "other.db"
    with closing(sqlite3.connect(path)) as file:
        file.execute("CREATE TABLE theirs (a)")
    before = path.read_bytes()
    with pytest.raises(StoreFault, match="another program"):
        SqliteStore(str(path))
    assert path.read_bytes() == before


def test_a_file_that_is_not_a_database_is_not_called_damaged(tmp_path: Path) -> None:
    path = tmp_path / "sessions.db"
    path.write_bytes(b"this is a note, not a database" * 100)
    with pytest.raises(StoreFault, match="is not a store of sessions; name another file") as caught:
        SqliteStore(str(path))
    assert caught.value.why == "unusable"


def test_a_store_whose_first_bytes_are_lost_is_damaged(tmp_path: Path) -> None:
    path = tmp_path / "sessions.db"
    schema.prepare_file(str(path))
    content = path.read_bytes()
    path.write_bytes(bytes(100) + content[100:])
    with pytest.raises(StoreFault, match="run `dragoman sessions repair`") as caught:
        SqliteStore(str(path))
    assert caught.value.why == "damaged"


async def test_two_processes_that_open_a_new_file_create_it_once(tmp_path: Path) -> None:
    path = str(tmp_path / "sessions.db")

    stores = await asyncio.gather(*(SqliteStore.open(path) for _ in range(8)))
    for store in stores:
        await store.close()
    assert not (tmp_path / "sessions.db.format-1").exists()
