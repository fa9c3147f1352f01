"""What diagnostics after an edit cost: `diagnosing SPECIFICATION` prints figures for writes with ruff and ty.

The servers' own time is that of the same edits, given to both at once without a client and an agent between.
"""

import asyncio
import json
import os
import sys
from pathlib import Path
from statistics import median
from time import perf_counter

import msgspec

from dragoman import Agent, Turn, WorkspaceAccess, connect
from dragoman.bridge.lsp.language_servers import LanguageServers
from dragoman.bridge.lsp.server_table import BUILT_IN, ServerRow
from dragoman.bridge.lsp.workspace_observer import LanguageServerObserver
from dragoman.transport.memory import memory_pair

Figures = dict[str, float]

WARM = 5
BODY = "".join(f"def function_{number}(x: int) -> int:\n    return x + {number}\n\n\n" for number in range(200))


def text(number: int) -> str:
    """A file with an error that is new in each edit."""
    return f'{BODY}value_{number}: int = "text"\n'


def rows() -> list[ServerRow]:
    """Return ruff and ty of this environment."""
    programs = os.path.dirname(sys.executable)
    found = [row for row in BUILT_IN if row.name in ("ruff", "ty")]
    return [
        msgspec.structs.replace(row, command=(os.path.join(programs, row.command[0]), *row.command[1:]))
        for row in found
    ]


async def own_time(count: int, folder: Path) -> float:
    """Return the seconds that the servers themselves take for an edit, in the middle."""
    path = str(folder / "own.py")
    Path(path).write_text(text(0))
    servers, times = LanguageServers([str(folder)], rows()), []
    try:
        for number in range(WARM + count):
            started = perf_counter()
            await servers.diagnose({path: text(number)}, 60.0)
            times.append(perf_counter() - started)
    finally:
        await servers.close()
    return median(times[WARM:])


async def write_time(count: int, folder: Path, with_servers: bool) -> float:
    """Return the seconds that a write of an agent takes until it is answered, in the middle."""
    agent, times = Agent("writer"), list[float]()
    path = str(folder / f"written_{with_servers}.py")
    Path(path).write_text(text(0))

    @agent.prompt
    async def prompt(turn: Turn) -> None:
        async with turn.tool("Edit", kind="edit", paths=[path]):
            for number in range(WARM + count):
                started = perf_counter()
                await turn.files.write(path, text(number))
                times.append(perf_counter() - started)

    access = WorkspaceAccess()
    access.observer = LanguageServerObserver(rows()) if with_servers else None
    ours, theirs = memory_pair()
    serving = asyncio.create_task(agent.serve(theirs))
    async with connect(ours, workspace=access) as remote:
        session = await remote.open_session(str(folder))
        await session.ask("write")
    await serving
    return median(times[WARM:])


async def main() -> None:
    """Do the work, print the figures."""
    specification = json.loads(sys.argv[1])
    count, folder = int(specification["count"]), Path(specification["cwd"])
    (folder / "pyproject.toml").touch()
    own = await own_time(count, folder)
    plain = await write_time(count, folder, False)
    full = await write_time(count, folder, True)
    figures: Figures = {"own_ms": own * 1e3, "write_ms": full * 1e3, "added_ms": (full - plain - own) * 1e3}
    print(json.dumps(figures))


if __name__ == "__main__":
    asyncio.run(main())
