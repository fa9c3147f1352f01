"""Run an example in four ways, so that each test has one expectation.

`memory` connects client and agent without a process. `stdio` starts the agent as a process. The two others put
`dragoman translate` between them, with a client of another dialect. For an example agent the test is the client; an
example client runs unchanged, with its `main`.
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

# Several processes on a busy machine; longer than this is a hang. Seconds.
TIMEOUT = 120

MEMORY, STDIO = "memory", "stdio"


class Connected(NamedTuple):
    """An example agent and its client: the connection, its dialect, and a folder to work in."""

    remote: RemoteAgent
    dialect: str
    folder: Path


Client = Callable[[Connected], Awaitable[Any]]


def module_of(name: str) -> Any:
    """Import an example as a new module."""
    spec = importlib.util.spec_from_file_location(f"example_{name}", EXAMPLES / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def command_of(name: str, way: str, *, front: str = "auto") -> tuple[str, ...]:
    """The command of an example agent; for a dialect, with `dragoman translate` before it."""
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


def connect_to(name: str, way: str, folder: Path, **options: Any) -> AbstractAsyncContextManager[RemoteAgent]:
    """A connection to an example agent, in one of the ways."""
    options = {"cwd": str(folder), **options}  # 2025.1 has one folder for all sessions
    if way == MEMORY:
        return connect_in_memory(agent_of(name), **options)
    if way == STDIO:
        return connect(command_of(name, STDIO), **options)
    return connect(command_of(name, way, front=way), dialect=way, **options)


def run_agent(name: str, client: Client, way: str, folder: Path, **options: Any) -> Any:
    """Run an example agent with this client."""

    async def main() -> Any:
        async with asyncio.timeout(TIMEOUT), connect_to(name, way, folder, **options) as remote:
            return await client(Connected(remote, remote.dialect, folder))

    return asyncio.run(main())


def run_client(client: str, agent: str, way: str, folder: Path, arguments: Sequence[str] = ()) -> list[str]:
    """Run an example client with an agent; return the lines that it printed, and the kind of its error.

    Over stdio the client is a process, otherwise its `main` runs in this process.
    """
    if way == STDIO:
        return run(sys.executable, str(EXAMPLES / f"{client}.py"), *arguments, *command_of(agent, STDIO), cwd=folder)
    module = module_of(client)
    module.connect = lambda _, **options: connect_to(agent, way, folder, **options)

    async def main() -> None:
        async with asyncio.timeout(TIMEOUT):
            await module.main(*arguments, ["the agent"])

    here = os.getcwd()
    output = StringIO()
    os.chdir(folder)  # clients pass cwd="."
    try:
        with redirect_stdout(output):
            asyncio.run(main())
    except ProtocolError as error:
        output.write(f"{error.kind}\n")
    finally:
        os.chdir(here)
    return output.getvalue().splitlines()


def run(*command: str, cwd: Path) -> list[str]:
    """Run a command to its end; return the lines that it printed."""
    done = subprocess.run(
        command, cwd=cwd, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=TIMEOUT, check=False
    )
    assert done.returncode == 0, f"exit code {done.returncode}\n{done.stdout}\n{done.stderr}"
    return done.stdout.splitlines()


async def or_kind(work: Awaitable[Any]) -> Any:
    """Return the result, or the kind of the error."""
    try:
        return await work
    except ProtocolError as error:
        return error.kind
