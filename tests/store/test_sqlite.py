"""The SQLite store keeps the contract, in a file that only its owner can read, and after a restart."""

from __future__ import annotations

import asyncio
import errno
import os
import shutil
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import msgspec
import pytest

from dragoman.errors import Kind, ProtocolError, StoreFault
from dragoman.host.auth.database import lock_store
from dragoman.store.contract import Draft
from dragoman.store.fleet import Engine
from dragoman.store.local_fleet import local_engine
from dragoman.store.memory import MemoryStore
from dragoman.store.sqlite import SqliteStore
from dragoman.store.sqlite import store as sqlite_store
from dragoman.store.sqlite.append import LogWriter
from dragoman.store.summary import check_new_name
from dragoman.testing import check_fleet, check_store


def draft(number: int, kind: str = "update") -> Draft:
    return Draft(kind=kind, actor="agent", time=f"2026-01-01T00:00:{number % 60:02}Z", body={"n": number})


async def test_the_sqlite_store_passes_the_contract_checks(tmp_path: Path) -> None:
    made = 0

    async def make() -> SqliteStore:
        nonlocal made
        made += 1
        return await SqliteStore.open(str(tmp_path / f"{made}.db"), durability="off")

    await check_store(make)


async def test_two_stores_on_one_file_pass_the_fleet_checks(tmp_path: Path) -> None:
    made = 0

    async def make() -> tuple[Engine, Engine]:
        nonlocal made
        made += 1
        path = str(tmp_path / f"{made}.db")
        one = local_engine("sqlite", await SqliteStore.open(path, durability="off"), [])
        other = msgspec.structs.replace(one, store=await SqliteStore.open(path, durability="off"))
        return one, other

    await check_fleet(make, rounds=5)


@pytest.mark.parametrize("durability", ["full", "normal", "off"])
def test_stored_entries_survive_a_restart(tmp_path: Path, durability: str) -> None:
    path = str(tmp_path / "state" / "sessions.db")

    async def write() -> None:
        store = await SqliteStore.open(path, durability=durability)
        await asyncio.gather(*(store.append(f"s{n % 3}", [draft(n), draft(n)]) for n in range(300)))
        last = asyncio.ensure_future(store.append("s0", [draft(7)]))
        await asyncio.sleep(0)
        await store.close()  # keeps what was given, whether or not anybody waits
        assert (await last)[0].seq == 201

    async def read() -> None:
        store = await SqliteStore.open(path)
        for session in range(3):
            entries = await store.read(f"s{session}")
            assert [entry.seq for entry in entries] == list(range(1, len(entries) + 1))
            expected = [n for n in range(300) if n % 3 == session for _ in range(2)] + [7] * (session == 0)
            assert [entry.body["n"] for entry in entries] == expected
        await store.close()

    asyncio.run(write())
    asyncio.run(read())


async def test_only_the_owner_can_read_the_file(tmp_path: Path) -> None:
    folder = tmp_path / "state"
    path = str(folder / "sessions.db")

    before = os.umask(0)
    try:
        store = await SqliteStore.open(path)
        await store.append("one", [draft(1)])
        await store.keep_credentials("one", {"token": "s3cret"})
        names = sorted(file.name for file in folder.iterdir())
        assert [name for name in names if name.startswith("sessions.db")] == names
        assert {"sessions.db", "sessions.db-wal", "sessions.db-shm", "sessions.db.credentials"} <= set(names)
        assert {name: oct((folder / name).stat().st_mode & 0o777) for name in names} == dict.fromkeys(names, "0o600")
        assert folder.stat().st_mode & 0o777 == 0o700
        await store.close()
    finally:
        os.umask(before)
    assert b"s3cret" not in Path(path).read_bytes()


async def test_a_file_that_others_can_read_becomes_private(tmp_path: Path) -> None:
    path = tmp_path / "sessions.db"
    path.touch(0o644)
    store = SqliteStore(str(path))
    assert path.stat().st_mode & 0o777 == 0o600
    await store.close()


async def test_a_cancelled_append_affects_no_other_append(tmp_path: Path) -> None:
    store = await SqliteStore.open(str(tmp_path / "s.db"))
    waiting = asyncio.ensure_future(store.append("one", [draft(1)]))
    await asyncio.sleep(0)
    waiting.cancel()
    entries = await store.append("one", [draft(2)])
    assert entries[0].seq == 2
    assert [entry.body["n"] for entry in await store.read("one")] == [1, 2]
    await store.close()


async def test_a_broken_connection_fails_one_append_and_is_reopened(tmp_path: Path) -> None:
    store = await SqliteStore.open(str(tmp_path / "s.db"))
    await store.append("one", [draft(1)])
    with pytest.raises(StoreFault):
        await store._write(lambda connection: connection.close())
    assert (await store.append("one", [draft(2)]))[0].seq == 2
    assert len(await store.read("one")) == 2
    await store.close()


async def test_an_entry_is_one_line_whatever_its_body_is(tmp_path: Path) -> None:
    store = await SqliteStore.open(str(tmp_path / "s.db"))
    body = msgspec.Raw(b'{\n "a": "x\\ny\\u0000"\n}')
    await store.append("one", [Draft(kind="update", actor="a", time="t", body=body), draft(2)])
    lone = Draft(kind="update", actor="a", time="t", body={"text": "cut \ud83d"})
    await store.append("one", [lone])
    lines = await store.lines("one")
    assert len(lines) == 3
    assert not any(b"\n" in line for line in lines)
    first, _, third = await store.read("one")
    assert first.body == {"a": "x\ny\x00"}
    assert third.body == {"text": "cut \ufffd"}
    await store.close()


async def test_the_event_loop_runs_while_a_long_log_is_read(tmp_path: Path) -> None:
    store = await SqliteStore.open(str(tmp_path / "s.db"), durability="off")
    await store.append("one", [draft(n) for n in range(20_000)])
    reading = asyncio.ensure_future(store.read("one"))
    passes = 0
    while not reading.done():
        await asyncio.sleep(0)
        passes += 1
    assert len(await reading) == 20_000
    assert passes > 10
    await store.close()


async def test_a_probe_writes_and_changes_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(**_: Any) -> Any:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    store = await SqliteStore.open(str(tmp_path / "s.db"))
    await store.append("one", [draft(1)])
    before, files = (tmp_path / "s.db-wal").stat().st_size, sorted(os.listdir(tmp_path))
    await store.probe()
    assert (tmp_path / "s.db-wal").stat().st_size > before
    assert sorted(os.listdir(tmp_path)) == files
    assert len(await store.read("one")) == 1
    monkeypatch.setattr(sqlite_store, "TemporaryFile", full)
    with pytest.raises(StoreFault, match="is full"):
        await store.probe()
    await store.close()


@pytest.mark.parametrize(
    "name",
    [
        *(f"a{sign}b" for sign in "`$\"'\\|&;<>()[]{}*?!#=^%\t\n\x1b\x7f\u00a0\u200b\u202e\u2028"),
        "-a",
        "~a",
        "/a",
        "#a",
        " a",
        "a ",
    ],
)
async def test_names_with_special_shell_or_terminal_characters_are_rejected(name: str) -> None:
    store = MemoryStore()
    await store.append("one", [draft(1)])
    with pytest.raises(ProtocolError, match="is not a valid session name") as refused:
        await store.rename("one", name)
    assert refused.value.kind == Kind.INVALID_PARAMS


@pytest.mark.parametrize("end", ["", "-wal"])
@pytest.mark.parametrize("way", ["moved", "replaced"])
async def test_nothing_is_acknowledged_in_a_file_that_was_moved(tmp_path: Path, end: str, way: str) -> None:
    path = tmp_path / "s.db"
    file, elsewhere = Path(f"{path}{end}"), tmp_path / "elsewhere"

    store = await SqliteStore.open(str(path))
    await store.append("one", [draft(1)])
    file.rename(elsewhere)
    if way == "replaced":
        shutil.copyfile(elsewhere, file)
    for call in (store.append("one", [draft(2)]), store.rename("one", "name"), store.probe()):
        with pytest.raises(StoreFault, match="put it back") as caught:
            await call
        assert caught.value.why == "moved"
    assert len(await store.read("one")) == 1
    elsewhere.replace(file)
    await store.probe()
    assert (await store.append("one", [draft(2)]))[0].seq == 2
    assert (await store.sessions())[0].name is None
    await store.close()


def test_the_error_for_an_invalid_name_lists_the_allowed_characters() -> None:
    with pytest.raises(ProtocolError) as refused:
        check_new_name("x$(id)")
    assert refused.value.message == (
        "'x$(id)' is not a valid session name: '$' is not allowed there; use letters, digits, blanks and "
        ". _ - + @ : , / ~, starting with a letter, a digit or . _ @"
    )


@pytest.mark.parametrize(
    "name",
    ["roof", "roof work", "2026-11-16 10:30", "v1.2+rc,3", "ann@x.org/plan", "_a~b", "Dächer", "हिन्दी", "屋根 2"],
)
def test_names_have_letters_of_every_script(name: str) -> None:
    assert check_new_name(name) == name


async def test_a_commit_during_a_move_of_the_file_is_not_acknowledged(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "s.db"
    append = LogWriter.append

    def moving(log: LogWriter, batch: Any) -> None:
        append(log, batch)
        path.rename(tmp_path / "elsewhere")

    store = await SqliteStore.open(str(path))
    monkeypatch.setattr(LogWriter, "append", moving)
    with pytest.raises(StoreFault, match="put it back"):
        await store.append("one", [draft(1)])
    await store.close()


@pytest.mark.parametrize("make", [MemoryStore, SqliteStore])
async def test_a_session_name_cannot_be_the_id_of_another_session(tmp_path: Path, make: Any) -> None:
    store = make() if make is MemoryStore else await SqliteStore.open(str(tmp_path / "s.db"), durability="off")
    await store.append("one", [draft(1)])
    await store.append("two", [draft(1)])
    for name in ("two", "5a0d3c1e-94b1-4d5f-9a2b-0123456789ab", "5A0D3C1E-94B1-4D5F-9A"):
        with pytest.raises(ProtocolError) as refused:
            await store.rename("one", name)
        assert refused.value.kind == Kind.INVALID_PARAMS
    for name in ("one", "20261116-1030", "deadbeef"):
        assert (await store.rename("one", name)).name == name
    await store.close()


@pytest.mark.parametrize("content", [b"office\n", b"\x89PNG\r\n\x1a\n" + bytes(1000)])
async def test_a_file_that_is_no_store_is_refused_and_stays_as_it_is(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "hostname"
    path.write_bytes(content)
    path.chmod(0o644)
    with pytest.raises(StoreFault, match="hostname is not a store of sessions; name another file") as caught:
        await SqliteStore.open(str(path))
    assert caught.value.why == "unusable"
    with pytest.raises(StoreFault, match="is not a store"), lock_store(str(path)):
        pass
    assert (path.read_bytes(), path.stat().st_mode & 0o777) == (content, 0o644)
    assert list(tmp_path.iterdir()) == [path]


async def test_a_database_of_another_program_keeps_its_mode(tmp_path: Path) -> None:
    path = tmp_path / "other.db"
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("CREATE TABLE birds (name)")
    path.chmod(0o644)
    with pytest.raises(StoreFault, match="is a database of another program"):
        await SqliteStore.open(str(path))
    assert path.stat().st_mode & 0o777 == 0o644
