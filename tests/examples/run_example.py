"""The four ways in which every example is met, so that each writes its expectation once.

`memory` joins client and agent without a process. `stdio` starts the agent as people do. The two others put `dragoman
translate` between them, with a client of another dialect in front. A scene plays the client of an example agent; an
example client is played as it stands, with its `main`.
"""

from __future__ import annotations

import asyncio
import importlib.util
import os
import subprocess
import sys
from collections.abc import Awaitable, Callable, Sequence
from contextlib import AbstractAsyncContextManager, redirect_stdout
from io import StringIO
from pathlib import Path
from typing import Any, NamedTuple

from dragoman import Agent, ProtocolError, RemoteAgent, connect
from dragoman.testing import connect_in_memory

EXAMPLES = Path(__file__).parents[2] / "docs" / "examples"
DRAGOMAN = (sys.executable, "-m", "dragoman")

# A handful of interpreters on a busy machine; longer than this is a hang. Seconds.
PATIENCE = 120

MEMORY, STDIO = "memory", "stdio"


class Met(NamedTuple):
    """An agent as a scene meets it: the client's end, the dialect it is spoken in, and a folder to work in."""

    remote: RemoteAgent
    dialect: str
    folder: Path


Scene = Callable[[Met], Awaitable[Any]]


def module_of(name: str) -> Any:
    """An example as a module, fresh."""
    spec = importlib.util.spec_from_file_location(f"example_{name}", EXAMPLES / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def command_of(name: str, way: str, *, front: str = "auto") -> tuple[str, ...]:
    """How an example agent is started; for a dialect, with the interpreter before it."""
    if name == "everything":
        agent: tuple[str, ...] = (*DRAGOMAN, "agent", "everything")
    else:
        agent = (sys.executable, str(EXAMPLES / f"{name}.py"))
    return agent if way == STDIO else (*DRAGOMAN, "translate", "--client-dialect", front, "--", *agent)


def agent_of(name: str) -> Agent:
    """The agent of an example, in this process."""
    if name == "everything":
        from dragoman.agents.everything.agent import everything

        return everything()
    agent: Agent = module_of(name).agent
    return agent


def meeting(name: str, way: str, folder: Path, **options: Any) -> AbstractAsyncContextManager[RemoteAgent]:
    """A connection to an example agent, made in one of the ways."""
    options = {"cwd": str(folder), **options}  # 2025.1 has one folder for all sessions
    if way == MEMORY:
        return connect_in_memory(agent_of(name), **options)
    if way == STDIO:
        return connect(command_of(name, STDIO), **options)
    return connect(command_of(name, way, front=way), dialect=way, **options)


def play(name: str, scene: Scene, way: str, folder: Path, **options: Any) -> Any:
    """Let a scene meet an example agent."""

    async def main() -> Any:
        async with asyncio.timeout(PATIENCE), meeting(name, way, folder, **options) as remote:
            return await scene(Met(remote, remote.dialect, folder))

    return asyncio.run(main())


def perform(client: str, agent: str, way: str, folder: Path, arguments: Sequence[str] = ()) -> list[str]:
    """Let an example client, as it stands, meet an agent; gives the lines it printed, and the kind of its error.

    Over stdio it is a process of its own, as its reader would run it; else its `main` runs here.
    """
    if way == STDIO:
        return run(sys.executable, str(EXAMPLES / f"{client}.py"), *arguments, *command_of(agent, STDIO), cwd=folder)
    module = module_of(client)
    module.connect = lambda _, **options: meeting(agent, way, folder, **options)

    async def main() -> None:
        async with asyncio.timeout(PATIENCE):
            await module.main(*arguments, ["the agent"])

    here = os.getcwd()
    heard = StringIO()
    os.chdir(folder)  # clients say cwd="."
    try:
        with redirect_stdout(heard):
            asyncio.run(main())
    except ProtocolError as error:
        heard.write(f"{error.kind}\n")
    finally:
        os.chdir(here)
    return heard.getvalue().splitlines()


def run(*command: str, cwd: Path) -> list[str]:
    """Run a command to its end and give the lines it printed."""
    done = subprocess.run(
        command, cwd=cwd, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=PATIENCE, check=False
    )
    assert done.returncode == 0, f"exit code {done.returncode}\n{done.stdout}\n{done.stderr}"
    return done.stdout.splitlines()


async def or_kind(work: Awaitable[Any]) -> Any:
    """What something gives, or the kind of its error."""
    try:
        return await work
    except ProtocolError as error:
        return error.kind
