"""Copies between stores: the same exports, also after a kill in the middle, and nothing is overwritten."""

from __future__ import annotations

import asyncio
import io
import os
import random
import signal
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from dragoman.cli import exit_codes
from dragoman.errors import ProtocolError, StoreFault
from dragoman.host.auth.database import HostDatabase
from dragoman.host.auth.tokens import Tokens
from dragoman.store.contract import Draft, Store, Summary
from dragoman.store.copy import copy_session, copy_sessions
from dragoman.store.export import export_session
from dragoman.store.fleet import EngineOptions, NodeInfo
from dragoman.store.memory import MemoryStore
from dragoman.store.sqlite import SqliteStore
from dragoman.store.urls import open_engine, open_store
from tests.cli.process import DRAGOMAN, TIMEOUT, dragoman

KEY = "0a" * 32


def draft(number: int, text: str = "") -> Draft:
    body = {"n": number, "text": text or "é\u2028" * (number % 7)}
    return Draft(
        kind="update", actor="agent", time=f"2026-01-01T00:{number // 60 % 60:02}:{number % 60:02}Z", body=body
    )


async def fill(store: Store, sessions: int = 6) -> None:
    for number in range(sessions):
        id = f"s{number}"
        for start in range(0, 40 * number + 1, 40):
            await store.append(id, [draft(start + each) for each in range(40)])
    await store.rename("s1", "roof work")
    await store.fork("s2", "fork", upto=33)
    await store.begin_import("imported", 2)
    await store.append("imported", [draft(1), draft(2), draft(3)])
    await store.keep_credentials("s1", {"mcp": {"env": {"TOKEN": "s3cret"}}})
    await store.save_state("s1", 40, b"state")


async def exports(store: Store) -> dict[str, bytes]:
    found = {}
    for summary in await store.sessions():
        file = io.BytesIO()
        await export_session(store, summary.session_id, file, "now")
        found[summary.session_id] = file.getvalue()
    return found


async def copied(source: Store, target: Store) -> list[str]:
    return [each.error async for each in copy_sessions(source, target)]


async def test_a_copy_has_the_same_exports_order_states_and_credentials() -> None:
    one, two, three = MemoryStore(), MemoryStore(), MemoryStore()
    await fill(one)
    assert not any(await copied(one, two))
    assert not any(await copied(two, three))
    assert await exports(three) == await exports(one)
    assert await three.sessions() == await one.sessions()
    assert await three.credentials("s1") == await one.credentials("s1")
    assert await three.saved_state("s1") == await one.saved_state("s1")


async def test_a_session_with_other_entries_is_reported_and_left_alone() -> None:
    one, two = MemoryStore(), MemoryStore()
    await fill(one)
    await two.append("s3", [draft(99)])
    errors = [error for error in await copied(one, two) if error]
    assert len(errors) == 1
    assert "another session 's3'" in errors[0]
    assert len(await two.read("s3")) == 1
    assert len(await two.read("s4")) == len(await one.read("s4"))


async def test_a_copy_goes_on_where_it_was_interrupted_and_follows_a_log_that_grows() -> None:
    one, two = MemoryStore(), MemoryStore()
    await one.append("s", [draft(number) for number in range(2500)])
    await two.begin_import("s", 0)
    await two.append("s", [draft(number) for number in range(1300)])
    first = await copy_session(one, two, await one.find("s"))
    assert (first.entries, first.added) == (2500, 1200)
    await one.append("s", [draft(2500)])
    again = await copy_session(one, two, await one.find("s"))
    assert again.added == 1
    assert await two.lines("s") == await one.lines("s")


async def test_a_store_that_changes_lines_is_noticed() -> None:
    class Forgetful(MemoryStore):
        async def lines(
            self, session_id: str, after: int = 0, limit: int | None = None, *, intact: bool = False
        ) -> list[bytes]:
            return [line.replace(b'"n":5', b'"n":6') for line in await super().lines(session_id, after, limit)]

    one = MemoryStore()
    await one.append("s", [draft(number) for number in range(9)])
    with pytest.raises(ProtocolError, match="the copy of session 's' differs"):
        await copy_session(one, Forgetful(), await one.find("s"))


def run_killed(command: list[str]) -> None:
    """Run a command that is killed at some moment, twice, and then to its end."""
    rng = random.Random(17)
    for _ in range(2):
        with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as running:
            try:
                running.wait(1.0 + rng.random() * 2)
            except subprocess.TimeoutExpired:
                running.send_signal(signal.SIGKILL)
    done = subprocess.run(command, capture_output=True, text=True, timeout=TIMEOUT, check=False)
    assert done.returncode == exit_codes.OK, [line for line in done.stdout.splitlines() if '"error": "' in line]


@pytest.fixture(params=["postgres", "nats"])
def engine_url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """The address of an empty engine."""
    if request.param == "nats":
        pytest.importorskip("nats")
        return f"nats:{tmp_path / 'nats'}"
    return str(request.getfixturevalue("postgres_url")())


@pytest.mark.item("FL-25")
async def test_sqlite_to_an_engine_and_back_killed_in_the_middle_gives_identical_exports(
    tmp_path: Path, engine_url: str
) -> None:
    path, back, url = tmp_path / "sessions.db", tmp_path / "back.db", engine_url
    key = tmp_path / "key"
    key.write_text(KEY)
    key.chmod(0o600)
    store = await SqliteStore.open(str(path))
    await fill(store, 12)
    before = await exports(store)
    await store.close()
    with HostDatabase(f"{path}.host", "owner") as database:
        text, token = Tokens(database).create("ann", "viewer", label="laptop")
        await database.set_role("s1", "ann", "viewer")
    for source, target in ((path, url), (url, back)):
        command = [*DRAGOMAN, "store", "copy", str(source), str(target), "--secrets-key", str(key), "--json"]
        await asyncio.to_thread(run_killed, command)
    assert not path.exists()
    assert Path(f"{path}.moved").exists()
    copy = await SqliteStore.open(str(back))
    assert await exports(copy) == before
    assert await copy.credentials("s1") == {"mcp": {"env": {"TOKEN": "s3cret"}}}
    await copy.close()
    with HostDatabase(f"{back}.host", "owner") as database:
        assert Tokens(database).verify(text).label == token.label
        assert dict(await database.members_of("s1")) == {"owner": "admin", "ann": "viewer"}


@pytest.mark.item("FL-26")
async def test_a_back_up_of_a_running_store_is_restored_with_everything_that_was_stored_before(
    tmp_path: Path,
) -> None:
    pytest.importorskip("nats")
    url = f"nats:{tmp_path / 'nats'}"
    engine = await open_engine(url, EngineOptions())
    await fill(engine.store)
    lease = await engine.nodes.join(NodeInfo(node="n1"), seconds=60)
    folder = tmp_path / "backup"
    acknowledged: list[int] = []

    async def write() -> None:
        while True:
            acknowledged.extend(entry.seq for entry in await engine.store.append("busy", [draft(len(acknowledged))]))

    writing = asyncio.ensure_future(write())
    async with asyncio.timeout(60):
        while len(acknowledged) < 5:  # noqa: ASYNC110
            await asyncio.sleep(0.01)
    earlier = len(acknowledged)
    done = await asyncio.to_thread(dragoman, "store", "backup", url, str(folder))
    assert done.returncode == 0, done.stderr
    assert len(acknowledged) > earlier, "nothing was written during the back-up: this test shows nothing"
    writing.cancel()
    await asyncio.gather(writing, return_exceptions=True)
    assert "all sums are equal" in done.stdout
    assert (folder / "manifest.json").stat().st_size > 100
    refused = await asyncio.to_thread(dragoman, "store", "copy", str(folder / "sessions.db"), url)
    assert refused.returncode == exit_codes.NO_STORE
    assert "in use by n1" in refused.stderr
    before = await exports(engine.store)
    busy = await engine.store.lines("busy")
    await engine.nodes.leave(lease)
    await engine.close()
    restored = f"sqlite:{tmp_path / 'restored.db'}"
    done = dragoman("store", "copy", str(folder / "sessions.db"), restored, "--keep")
    assert done.returncode == 0, done.stderr
    store = await open_store(restored)
    kept = await store.lines("busy")
    assert len(kept) >= earlier
    assert kept == busy[: len(kept)]
    assert {**await exports(store), "busy": b""} == {**before, "busy": b""}
    await store.close()


async def test_verify_names_the_lost_entries_of_every_session(tmp_path: Path, postgres_url: Callable[[], str]) -> None:
    from dragoman.store.postgres.engine import open_postgres

    engine = await open_postgres(url := postgres_url(), EngineOptions())
    await fill(engine.store)
    done = dragoman("store", "verify", url)
    assert (done.returncode, done.stdout) == (0, "8 sessions, 0 of them damaged\n")
    numbers = "SELECT number FROM sessions WHERE id = 's3'"
    await engine.database.execute(f"DELETE FROM blocks WHERE first = 41 AND session = ({numbers})")
    await engine.close()
    done = dragoman("store", "verify", url)
    assert done.returncode == 1
    assert "s3: entries 41-80 are lost" in done.stdout
    assert dragoman("store", "verify", url, "--repair").returncode == 1
    assert dragoman("store", "verify", url).returncode == 0


def test_wrong_usage_is_named(tmp_path: Path) -> None:
    for arguments, advice in (
        (["copy", "x.db"], "copy needs two stores"),
        (["copy", "x.db", "./x.db"], "the same"),
        (["verify", str(tmp_path / "none.db")], "there is no file"),
    ):
        done = dragoman("store", *arguments, cwd=tmp_path)
        assert done.returncode == exit_codes.USAGE
        assert advice in done.stderr
    key = tmp_path / "key"
    key.write_text("short")
    os.chmod(key, 0o600)
    done = dragoman("store", "verify", "memory:", "--secrets-key", str(key))
    assert done.returncode == exit_codes.USAGE
    assert "openssl rand" in done.stderr


async def test_a_store_fault_stops_the_whole_copy() -> None:
    class Full(MemoryStore):
        async def begin_import(self, session_id: str, entries: int, *, forked_from: str | None = None) -> Summary:
            raise StoreFault("full", "the disk is full")

    one = MemoryStore()
    await fill(one)
    with pytest.raises(StoreFault, match="full"):
        await copied(one, Full())
