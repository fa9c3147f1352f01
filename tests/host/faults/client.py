"""A client of a fault run: it is in one session over WebSocket or HTTP, and some of them prompt there.

It uses the public API. The library reconnects after a cut. If that fails, the client starts again with a new view. It
records every update as it comes off the wire.
"""

from __future__ import annotations

import asyncio
import random
from typing import Any

from dragoman import connect
from dragoman.errors import ConnectionFailed, DragomanError
from dragoman.schema.permission import RequestPermissionParams
from dragoman.schema.update import AgentMessageChunk
from dragoman.transport.recording.format import TO_CLIENT
from dragoman.transport.recording.tap import Tap
from tests.host.faults.view import View, read

# The pause after a refusal, and the longest between two prompts. Seconds.
RETRY = 0.1
PAUSE = 0.5

# After this many of a hundred turns a client disconnects by itself and connects again.
LEAVES = 4

# Timeout of every request but a prompt: the host may be starting. Seconds.
ANSWER = 60.0

# After the last fault a prompt is answered, but perhaps late: a crashed agent restarts with a delay.
TRIES = 100

# A prompt that is still not answered then hangs, which is a fault. Seconds.
HANGS = 300.0


class FaultClient:
    """One client with all its connections."""

    def __init__(self, name: str, url: str, folder: str, session: asyncio.Future[str], *, opens: bool, prompts: bool):
        self.name = name
        self.url = url
        self.authority: str | None = None  # the certificates it trusts, if connections are encrypted
        self.views: list[View] = []
        self.ending = asyncio.Event()
        self.leaving = asyncio.Event()  # everything was seen: it may stop
        self.here = asyncio.Event()  # it has joined its session
        self.quiet = asyncio.Event()  # it sends no more prompts
        self.hanging: list[str] = []  # prompts that were never answered
        self._folder = folder
        self._session = session
        self._opens = opens
        self._prompts = prompts
        self._dice = random.Random(name)
        self._number = 0

    async def run(self) -> None:
        """Connect again and again."""
        while not self.leaving.is_set():
            view = View(f"{self.name}-{len(self.views) + 1}")
            self.views.append(view)
            try:
                await self._live(view)
            except (DragomanError, TimeoutError) as error:
                _count(view, f"life: {_kind(error)}")
                view.reports.append(str(error))
                await asyncio.sleep(RETRY)

    async def _live(self, view: View) -> None:
        def received(way: str, frame: bytes) -> None:
            if way == TO_CLIENT:
                view.take(frame)

        def answer(params: RequestPermissionParams) -> str:
            return params.options[0].option_id

        async with connect(
            self.url,
            trace=Tap(received),
            permission=answer,
            report=view.reports.append,
            timeout=ANSWER,
            tls=self.authority,
        ) as agent:
            if self._opens and not self._session.done():
                session = await agent.open_session(self._folder)
                self._session.set_result(session.id)
            else:
                session = await agent.load_session(await asyncio.shield(self._session), self._folder)
            view.session = session.id
            self.here.set()
            if self._prompts:
                await self._talk(view, agent, session)
            await self._stay(agent)
            view.is_whole = self.leaving.is_set()

    async def _talk(self, view: View, agent: Any, session: Any) -> None:
        while not self.ending.is_set() and agent.connection.failure is None:
            await self._turn(view, session)
            if self._dice.randrange(100) < LEAVES:
                return
            await asyncio.sleep(self._dice.random() * PAUSE)
        if self._opens and self.ending.is_set():
            await self._last(view, session)

    async def _last(self, view: View, session: Any) -> None:
        """Send one prompt after all faults. It must be answered, and everybody in the session must see it."""
        for _ in range(TRIES):
            await self._turn(view, session)
            if view.begun[-1] in view.answered:
                return

    async def _turn(self, view: View, session: Any) -> None:
        prompt = f"{view.name}.{self._number}"
        self._number += 1
        view.begun.append(prompt)
        given = []
        try:
            async with asyncio.timeout(HANGS):
                async with session.prompt(prompt) as turn:
                    async for update in turn:
                        if isinstance(update, AgentMessageChunk):
                            text = read({"sessionUpdate": "", "content": {"text": update.content.text}})[1]  # type: ignore[union-attr]
                            if text.startswith(f"{prompt}:"):
                                given.append(text)
            view.answered[prompt] = given
        except TimeoutError:
            self.hanging.append(prompt)
            raise
        except ConnectionFailed:
            _count(view, "connection")
            raise
        except DragomanError as error:
            _count(view, _kind(error))
            view.reports.append(f"{prompt}: {error}")
            await asyncio.sleep(RETRY)

    async def _stay(self, agent: Any) -> None:
        """Watch. A client that prompts leaves only briefly, the others stay until everything was seen."""
        if self._prompts and not self.ending.is_set():
            return
        self.quiet.set()
        leaving = asyncio.create_task(self.leaving.wait())
        stop_host = asyncio.create_task(agent.connection.ended.wait())
        try:
            await asyncio.wait({leaving, stop_host}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            leaving.cancel()
            stop_host.cancel()
        if not self.leaving.is_set():
            raise ConnectionFailed(str(agent.connection.failure))


def _kind(error: BaseException) -> str:
    return str(getattr(error, "kind", type(error).__name__))


def _count(view: View, what: str) -> None:
    view.refused[what] = view.refused.get(what, 0) + 1
