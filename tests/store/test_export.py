"""A session as a file: it comes out of an import as it went into the export, and a changed file is refused."""

from __future__ import annotations

import asyncio
import io
import json
from collections.abc import Callable
from hashlib import sha256
from pathlib import Path

import pytest

from dragoman.errors import Kind, ProtocolError
from dragoman.store.contract import Draft
from dragoman.store.export import export_session, import_session
from dragoman.store.memory import MemoryStore
from dragoman.store.sqlite import SqliteStore

NOW = "2026-01-02T00:00:00Z"


def drafts(count: int) -> list[Draft]:
    opened = Draft(kind="opened", actor="user", time="2026-01-01T00:00:00Z", body={"agent": {"name": "echo"}})
    return [opened, *(Draft(kind="update", actor="agent", time=f"t{n}", body={"n": n}, turn="t") for n in range(count))]


async def exported(count: int = 3) -> bytes:
    store = MemoryStore()
    await store.append("one", drafts(count))
    await store.rename("one", "mine")
    await store.keep_credentials("one", {"token": "s3cret"})
    file = io.BytesIO()
    assert await export_session(store, "mine", file, NOW) == count + 1
    return file.getvalue()


async def test_a_session_is_exported_and_imported(tmp_path: Path) -> None:
    data = await exported(2500)
    assert b"s3cret" not in data
    store = await SqliteStore.open(str(tmp_path / "s.db"), durability="off")
    summary = await import_session(store, io.BytesIO(data))
    assert (summary.session_id, summary.name, summary.agent, summary.entries) == ("one", "mine", "echo", 2501)
    assert summary.imported == 2501
    again = io.BytesIO()
    await export_session(store, "one", again, NOW)
    assert again.getvalue() == data
    with pytest.raises(ProtocolError, match="already used") as caught:
        await import_session(store, io.BytesIO(data))
    assert caught.value.kind == Kind.INVALID_PARAMS
    second = await import_session(store, io.BytesIO(data), session_id="two")
    assert (second.session_id, second.name) == ("two", None)
    assert await store.read("two") == await store.read("one")
    await store.close()


DEEP = b"[" * 100_000 + b"]" * 100_000

CHANGES: dict[str, Callable[[bytes], bytes]] = {
    "a byte": lambda data: data.replace(b'"n":1', b'"n":7'),
    "a line": lambda data: b"\n".join(line for line in data.split(b"\n") if b'"n":1' not in line),
    "the end": lambda data: data[: len(data) // 2],
    "the seal": lambda data: b"\n".join(data.split(b"\n")[:-2]) + b"\n",
    "everything": lambda data: b"hello\n",
    "the version": lambda data: data.replace(b'"version":1', b'"version":9'),
    "the format": lambda data: data.replace(b'"turn":"t"', b'"turn":"t","format":9'),
    "nothing is left": lambda data: b"",
    "no text": lambda data: data.replace(b'"agent":{"name":"echo"}', b'"agent":"\xff"'),
    "brackets in an entry": lambda data: data.replace(b'"n":1', b'"n":' + DEEP),
    "brackets in the header": lambda data: data.replace(b'"version":1', b'"version":1,"x":' + DEEP),
    "brackets in the seal": lambda data: data.replace(b'{"entries":', b'{"x":' + DEEP + b',"entries":'),
}


@pytest.mark.parametrize("what", CHANGES)
async def test_a_changed_file_is_refused_and_nothing_of_it_is_stored(what: str) -> None:
    data = CHANGES[what](await exported())
    store = MemoryStore()
    with pytest.raises(ProtocolError, match="cannot be imported") as caught:
        await import_session(store, io.BytesIO(data))
    assert caught.value.kind == Kind.INVALID_PARAMS
    assert await store.sessions() == []


def test_which_entries_were_imported_is_known_after_a_restart_and_in_forks(tmp_path: Path) -> None:
    path = str(tmp_path / "s.db")

    async def write() -> None:
        store = await SqliteStore.open(path)
        await import_session(store, io.BytesIO(await exported()))
        await store.append("one", drafts(0))
        await store.fork("one", "fork")
        await store.append("own", drafts(3))
        await store.close()

    async def read() -> None:
        store = await SqliteStore.open(path)
        assert {each.session_id: (each.entries, each.imported) for each in await store.sessions()} == {
            "one": (5, 4), "fork": (5, 4), "own": (4, 0),
        }  # fmt: skip
        again = io.BytesIO()
        await export_session(store, "fork", again, NOW)
        again.seek(0)
        assert (await import_session(store, again, session_id="back")).imported == 5
        await store.close()

    asyncio.run(write())
    asyncio.run(read())


async def test_a_session_is_marked_as_imported_before_its_first_entry_is_stored(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    store, seen = MemoryStore(), []
    keep = store.append

    async def looking(session_id: str, some: list[Draft]) -> object:
        seen.append((await store.find(session_id)).imported)
        return await keep(session_id, some)

    monkeypatch.setattr(store, "append", looking)
    await import_session(store, io.BytesIO(await exported()))
    assert seen == [4]


async def test_an_import_that_another_program_writes_to_stores_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    store = MemoryStore()
    keep = store.append

    async def disturbed(session_id: str, some: list[Draft]) -> object:
        await keep(session_id, drafts(0))
        return await keep(session_id, some)

    monkeypatch.setattr(store, "append", disturbed)
    with pytest.raises(ProtocolError, match="another program wrote") as caught:
        await import_session(store, io.BytesIO(await exported()))
    assert caught.value.kind == Kind.INVALID_STATE
    assert await store.sessions() == []


def renamed(data: bytes, **members: str) -> bytes:
    """The file with another header, sealed again."""
    first, *rest, _, _ = data.split(b"\n")
    lines = [json.dumps({**json.loads(first), **members}).encode(), *rest]
    body = b"".join(line + b"\n" for line in lines)
    return body + json.dumps({"entries": len(rest), "sha256": sha256(body).hexdigest()}).encode() + b"\n"


async def test_an_unsafe_name_is_dropped_and_an_unsafe_id_refused() -> None:
    data = await exported()
    store = MemoryStore()
    summary = await import_session(store, io.BytesIO(renamed(data, name="x$(touch PWNED)")))
    assert (summary.session_id, summary.name) == ("one", None)
    for id in ("$(touch PWNED)", "a\nb", "-x", ""):
        with pytest.raises(ProtocolError, match="is not a valid session id"):
            await import_session(store, io.BytesIO(renamed(data, sessionId=id)))
    assert [each.session_id for each in await store.sessions()] == ["one"]


async def test_an_import_that_fails_half_way_stores_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    data = await exported(2500)
    store = MemoryStore()
    keep, calls = store.append, 0

    async def failing(session_id: str, some: list[Draft]) -> object:
        nonlocal calls
        calls += 1
        if calls == 2:
            raise OSError("is full")
        return await keep(session_id, some)

    monkeypatch.setattr(store, "append", failing)
    with pytest.raises(OSError, match="is full"):
        await import_session(store, io.BytesIO(data))
    assert await store.sessions() == []
