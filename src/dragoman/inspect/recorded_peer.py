"""Recorded peers for tests: a recording plays the agent for a client under test, or the client for an agent.

Takes a file of `dragoman inspect run` (or of another recorder) and gives a peer in memory, over a process or behind a
command. Above are tests, and the pytest plug-in beside this; below are `script`, which decides what to say, and
`player`, which says it. It stands here and not in `dragoman.testing`, for that is below recordings.
"""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import AsyncIterator, Callable, Collection
from contextlib import asynccontextmanager
from typing import Any

from dragoman.errors import ConnectionFailed
from dragoman.inspect.format import TO_AGENT, TO_CLIENT, Recorded
from dragoman.inspect.open_recording import lines_of, opened
from dragoman.inspect.reader import NotRecorded, Reader
from dragoman.inspect.replay_player import play
from dragoman.inspect.replay_script import Script
from dragoman.testing.scripted_peer import PATIENCE
from dragoman.testing.stand_ins import Target, scripted_client
from dragoman.transport.base import Transport
from dragoman.transport.memory import pair

Wrap = Callable[[Transport], Transport]


class Recording:
    """One conversation that was recorded, to be played by one of its two sides."""

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = os.fspath(path)
        reader = Reader()
        with opened(self.path) as file:
            self.frames: list[Recorded] = [each for each in reader.read(lines_of(file, reader)) if each.way in _TRAFFIC]
        if not self.frames:
            raise NotRecorded(f"{self.path} has no message; record one with `dragoman inspect run --out FILE -- CMD`")
        self.troubles = [f"line {line}: {why}" for line, why in reader.troubles]
        if reader.is_unended:
            self.troubles.append("it has no end: it was cut, or is still being written")

    def command(self, *, strict: bool = False, ignoring: Collection[str] = ()) -> list[str]:
        """The command of an agent that plays this recording, for a client that starts its agent itself."""
        words = [sys.executable, "-m", "dragoman", "inspect", "replay", os.path.abspath(self.path), "--as", "agent"]
        ignored = [word for path in ignoring for word in ("--ignore", path)]
        return [*words, "--strict", *ignored] if strict else words

    @asynccontextmanager
    async def as_agent(
        self, *, strict: bool = False, ignoring: Collection[str] = (), through: Wrap | None = None
    ) -> AsyncIterator[Transport]:
        """The recorded agent, for a client in this process: connect to the transport this gives.

        Strict wants order and content as recorded, but for the members named in `ignoring`; on the way out an
        AssertionError says where the client departed from it.
        """
        ours, theirs = pair()
        far = through(theirs) if through else theirs
        playing = asyncio.ensure_future(self._play(TO_CLIENT, far, strict, ignoring, leads=False))
        try:
            yield ours
            await ours.close("the client is done")
            async with asyncio.timeout(PATIENCE):
                wrong = await playing
        finally:
            playing.cancel()
            await asyncio.gather(playing, return_exceptions=True)
            await far.close()
        self._blame("client", wrong)

    async def meets(
        self,
        agent: Target,
        *,
        strict: bool = False,
        ignoring: Collection[str] = (),
        patience: float = PATIENCE,
        **options: Any,
    ) -> list[bytes]:
        """The recorded client meets an agent under test: an Agent, a command, its words or a transport.

        Gives the frames the agent said. An AssertionError tells what it did not do that the recorded one did; when
        strict, also what it did otherwise, but for the members named in `ignoring`.
        """
        said: list[bytes] = []
        async with scripted_client(agent, patience=patience, **options) as client:
            overheard = _Overheard(client.transport, said)
            self._blame("agent", await self._play(TO_AGENT, overheard, strict, ignoring, leads=True, patience=patience))
        return said

    async def _play(
        self,
        we: str,
        transport: Transport,
        strict: bool,
        ignoring: Collection[str],
        *,
        leads: bool,
        patience: float | None = None,
    ) -> list[str]:
        script = Script(self.frames, we, strict, frozenset(ignoring))
        try:
            return await play(script, transport, leads=leads, original=False, patience=patience)
        except ConnectionFailed as error:
            return [str(error)]

    def _blame(self, who: str, wrong: list[str]) -> None:
        if wrong:
            raise AssertionError(f"the {who} departed from the recording {self.path}: " + "\n  ".join(wrong))


_TRAFFIC = frozenset({TO_AGENT, TO_CLIENT})


class _Overheard:
    """A transport of which every frame that comes is kept."""

    def __init__(self, transport: Transport, heard: list[bytes]) -> None:
        self.peer = transport.peer
        self._transport = transport
        self._heard = heard
        self.listen = transport.listen
        self.send = transport.send
        self.congested = transport.congested
        self.drain = transport.drain
        self.close = transport.close

    async def receive(self) -> list[Any]:
        """The next frames, kept."""
        frames = await self._transport.receive()
        self._heard.extend(frame for frame in frames if isinstance(frame, bytes))
        return frames
