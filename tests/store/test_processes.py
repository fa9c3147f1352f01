"""Several processes and one file: they number entries together, and full disks lose nothing."""

from __future__ import annotations

import asyncio
import os
import resource
import shutil
import sqlite3
import subprocess
import sys
import tempfile
import textwrap
from contextlib import closing
from pathlib import Path

import pytest

from dragoman.errors import StoreFault
from dragoman.store.contract import Draft
from dragoman.store.sqlite import SqliteStore

SCRIBE = Path(__file__).with_name("writer_process.py")

TIMEOUT = 60.0


def draft(size: int = 10) -> Draft:
    return Draft(kind="update", actor="agent", time="2026-01-01T00:00:00Z", body="x" * size)


def test_two_processes_write_the_same_logs_without_a_gap(tmp_path: Path) -> None:
    path = str(tmp_path / "sessions.db")
    words = [sys.executable, str(SCRIBE), path]
    writers = [
        subprocess.Popen([*words, name, "3", "60"], stdout=subprocess.PIPE, text=True) for name in ("one", "two")
    ]
    output = [writer.communicate(timeout=TIMEOUT)[0].splitlines() for writer in writers]
    assert [writer.returncode for writer in writers] == [0, 0]
    acknowledged = {tuple(line.split()[:2]): line.split()[2] for lines in output for line in lines}
    assert len(acknowledged) == sum(map(len, output)), "a number was given twice"

    async def main() -> None:
        store = await SqliteStore.open(path)
        for session in ("s0", "s1", "s2"):
            entries = await store.read(session)
            assert [entry.seq for entry in entries] == list(range(1, len(entries) + 1))
            assert {(session, str(entry.seq)): entry.body for entry in entries} == {
                key: text for key, text in acknowledged.items() if key[0] == session
            }
            for name in ("one", "two"):  # what each wrote is in its order
                own = [entry.body for entry in entries if entry.body.startswith(name)]
                assert own == [line.split()[2] for line in output[name == "two"] if line.startswith(session)]
        await store.close()

    asyncio.run(main())


async def test_a_file_locked_by_another_process_is_reported_and_nothing_is_lost(tmp_path: Path) -> None:
    path = str(tmp_path / "sessions.db")

    store = await SqliteStore.open(path, timeout=0.2)
    await store.append("one", [draft()])
    with closing(sqlite3.connect(path, isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        with pytest.raises(StoreFault, match="locked by another program") as caught:
            await store.append("one", [draft()])
        assert caught.value.why == "locked"
        assert len(await store.read("one")) == 1, "reading needs no lock"
        other.execute("ROLLBACK")
    assert (await store.append("one", [draft()]))[0].seq == 2
    await store.close()


async def test_a_full_disk_fails_the_append_and_loses_nothing(tmp_path: Path) -> None:
    path = str(tmp_path / "sessions.db")

    store = await SqliteStore.open(path)
    kept = (await store.append("one", [draft()]))[-1].seq
    await store._write(lambda connection: connection.execute("PRAGMA max_page_count = 60").fetchone())

    async def fill() -> None:
        nonlocal kept
        for _ in range(100):
            kept = (await store.append("one", [draft(4000)]))[-1].seq

    with pytest.raises(StoreFault, match="is full") as caught:
        await fill()
    assert caught.value.why == "full"
    assert 1 < kept < 100
    assert len(await store.read("one")) == kept
    await store._write(lambda connection: connection.execute("PRAGMA max_page_count = 100000").fetchone())
    assert (await store.append("one", [draft(4000)]))[0].seq == kept + 1
    await store.close()


LIMITED = """
import asyncio, resource, sys
from dragoman.errors import StoreFault
from dragoman.store.contract import Draft
from dragoman.store.sqlite import SqliteStore

async def main():
    store = await SqliteStore.open(sys.argv[1])
    kept, draft = 0, Draft(kind="update", actor="a", time="t", body="x" * 3000)
    await store.append("one", [draft])
    resource.setrlimit(resource.RLIMIT_FSIZE, (400_000, resource.RLIM_INFINITY))
    try:
        for _ in range(1000):
            kept = (await store.append("one", [draft]))[0].seq
    except StoreFault as fault:
        print(kept, fault.why)
    else:
        print("no fault")
    resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
    entries = await store.append("one", [draft])
    assert entries[0].seq == kept + 1, entries
    await store.close()

asyncio.run(main())
"""


def test_a_file_that_may_not_grow_fails_the_append_and_loses_nothing(tmp_path: Path) -> None:
    assert resource.getrlimit(resource.RLIMIT_FSIZE)[1] == resource.RLIM_INFINITY
    path = str(tmp_path / "sessions.db")
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(LIMITED), path], capture_output=True, text=True, timeout=TIMEOUT
    )
    assert done.returncode == 0, done.stderr
    kept, why = done.stdout.split()
    assert why in ("full", "io")

    async def main() -> None:
        store = await SqliteStore.open(path)
        assert len(await store.read("one")) == int(kept) + 1
        await store.close()

    asyncio.run(main())


UNWRITABLE = """
import asyncio, os, sys
from dragoman.errors import StoreFault
from dragoman.store.sqlite import SqliteStore

if os.getuid() == 0:
    os.setgid(65534)
    os.setuid(65534)
try:
    SqliteStore(sys.argv[1])
except StoreFault as fault:
    print(fault.why, fault)
"""


@pytest.mark.parametrize("what", ["folder", "file"])
def test_a_path_that_cannot_be_written_is_reported(what: str) -> None:
    # Not a folder of pytest's: root may do everything, so the process becomes nobody, who must get there.
    folder = Path(tempfile.mkdtemp())
    path = folder / "sessions.db"
    if what == "file":
        asyncio.run(SqliteStore(str(path)).close())
        path.chmod(0o400)
    before = path.read_bytes() if path.exists() else None
    folder.chmod(0o555)
    try:
        done = subprocess.run(
            [sys.executable, "-c", textwrap.dedent(UNWRITABLE), str(path)],
            capture_output=True,
            text=True,
            timeout=TIMEOUT,
        )
        assert done.stdout.startswith("readonly"), done.stdout + done.stderr
        assert "cannot be written" in done.stdout
        assert (path.read_bytes() if path.exists() else None) == before
    finally:
        folder.chmod(0o755)
        shutil.rmtree(folder)


def test_no_process_of_these_tests_is_left() -> None:
    assert not [pid for pid in _children(os.getpid()) if "scribe" in _command(pid)]


def _children(pid: int) -> list[int]:
    try:
        return [int(each) for each in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
    except OSError:
        return []


def _command(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/cmdline").read_text()
    except OSError:
        return ""
