"""Projects with two files, and the servers for them: what the tests with real language servers share."""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import msgspec

from dragoman.bridge.lsp.language_servers import LanguageServers
from dragoman.bridge.lsp.server_table import BUILT_IN, ServerRow
from dragoman.transport.process.process_tree import StopTimeouts, read_process_stat

# Longer than a server needs on a busy machine; a test that waits so long has failed. Seconds.
PATIENCE = 90.0

# Shorter delays than users have.
QUICK = {"first_delay": 0.01, "stop_timeouts": StopTimeouts(eof=0.3, term=0.3)}

BROKEN = str(Path(__file__).with_name("broken_server.py"))


def built_in(name: str, program: str = "") -> ServerRow:
    """Return a built-in server, from another program if one is named."""
    row = next(row for row in BUILT_IN if row.name == name)
    beside = os.path.join(os.path.dirname(sys.executable), row.command[0])
    program = program or (beside if os.path.exists(beside) else row.command[0])
    return msgspec.structs.replace(row, command=(program, *row.command[1:]))


def broken(how: str, log: Path, **more: Any) -> ServerRow:
    """Return a server that misbehaves."""
    command = (sys.executable, BROKEN, how, str(log))
    return ServerRow(**{"name": "broken", "group": "broken", "command": command, "files": ("*.txt",), **more})


@asynccontextmanager
async def language_servers(
    folder: Path, rows: Sequence[ServerRow], reports: list[str] | None = None, **settings: Any
) -> AsyncIterator[LanguageServers]:
    """Language servers of a session in a folder, which are gone afterwards."""
    report = (lambda text: None) if reports is None else reports.append
    servers = LanguageServers([str(folder)], rows, report=report, settings=QUICK | settings)
    try:
        yield servers
        pids = [each["pid"] for each in servers.status() if each.get("pid")]
    finally:
        await servers.close()
    assert [pid for pid in pids if (found := read_process_stat(pid)) is not None and found.is_alive] == []


async def wait_for(condition: Callable[[], Any], what: str) -> Any:
    """Wait until a condition holds."""
    async with asyncio.timeout(PATIENCE):
        while not (found := condition()):  # noqa: ASYNC110  (it polls another process)
            await asyncio.sleep(0.01)
    assert found, what
    return found


def write(folder: Path, name: str, text: str) -> str:
    """Write a file of the project; return its path."""
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")
    return str(path)


async def prepare_all(servers: LanguageServers, *paths: str) -> None:
    """Let the servers read these files, and wait until they have."""
    for path in paths:
        servers.prepare(path)
    if servers._preparing:
        await asyncio.wait(list(servers._preparing.values()), timeout=PATIENCE)
