"""Agents in memory that share a tree: each runs the steps that a test gives it, in turns of its own."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any

from dragoman import Agent, ClientSession, Turn, WorkspaceAccess
from dragoman.roles.client.workspace import Approve, allow_all
from dragoman.store.contract import Store
from dragoman.testing import connect_in_memory
from dragoman.workspace.coordination import FileCoordinator

Work = Callable[[Turn], Awaitable[None]]


class TreeAgent:
    """One agent with a session on the tree."""

    def __init__(self, name: str, session: ClientSession, inbox: asyncio.Queue[Work]) -> None:
        self.name = name
        self.session = session
        self._inbox = inbox

    async def run(self, work: Work) -> None:
        """Run this work in a turn; its error is raised here."""
        failures: list[BaseException] = []

        async def keep_failure(turn: Turn) -> None:
            try:
                await work(turn)
            except Exception as error:
                failures.append(error)

        self._inbox.put_nowait(keep_failure)
        await self.session.ask("go")
        if failures:
            raise failures[0]

    async def write(self, path: object, text: str) -> None:
        await self.run(lambda turn: turn.files.write(str(path), text))

    async def read(self, path: object) -> str:
        texts: list[str] = []

        async def read(turn: Turn) -> None:
            texts.append(await turn.files.read(str(path)))

        await self.run(read)
        return texts[0]

    async def execute(self, command: str, cwd: object) -> None:
        async def execute(turn: Turn) -> None:
            terminal = await turn.terminals.create("sh", ["-c", command], cwd=str(cwd))
            await terminal.wait()
            await terminal.release()

        await self.run(execute)


@asynccontextmanager
async def agents_on(
    folder: os.PathLike[str],
    *names: str,
    coordinator: FileCoordinator | None = None,
    coordinate: bool = True,
    store: Store | None = None,
    approve: Approve = allow_all,
) -> AsyncIterator[list[TreeAgent]]:
    """Connect agents of these names, each with a session in this folder."""
    async with AsyncExitStack() as stack:
        found = []
        for name in names:
            inbox: asyncio.Queue[Work] = asyncio.Queue()
            agent = Agent(name)

            @agent.prompt
            async def answer(turn: Turn, inbox: asyncio.Queue[Work] = inbox) -> None:
                await inbox.get_nowait()(turn)

            workspace = WorkspaceAccess(approve=approve, coordinator=coordinator, coordinate=coordinate)
            options: dict[str, Any] = {"workspace": workspace, "store": store}
            remote = await stack.enter_async_context(connect_in_memory(agent, **options))
            found.append(TreeAgent(name, await remote.open_session(os.fspath(folder)), inbox))
        yield found
