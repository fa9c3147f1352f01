"""Recorded peers for tests: a recording plays the agent for a client under test, or the client for an agent.

Reads a file of `dragoman inspect run` or of another recorder. `replay` is below.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator, Collection
from contextlib import asynccontextmanager
from typing import Any

from dragoman.errors import ConnectionFailed
from dragoman.inspect.reader import NotARecording, RecordingReader
from dragoman.inspect.replay import ReplayScript, play_script
from dragoman.testing.connections import Target, Wrap, scripted_client
from dragoman.testing.scripted_peer import TIMEOUT
from dragoman.transport.base import Transport, WrappedTransport
from dragoman.transport.memory import memory_pair
from dragoman.transport.process.module_command import module_command
from dragoman.transport.recording.format import TO_AGENT, TO_CLIENT


class Recording:
    """One recorded conversation, to be replayed as one of its two sides."""

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = os.fspath(path)
        reader = RecordingReader()
        self.frames = [each for each in reader.read_file(self.path) if each.direction in (TO_AGENT, TO_CLIENT)]
        if not self.frames:
            raise NotARecording(f"{self.path} has no messages; record with `dragoman inspect run --out FILE -- CMD`")
        self.problems = [f"line {line}: {why}" for line, why in reader.problems]
        if reader.is_incomplete:
            self.problems.append("it has no end: it was cut, or is still being written")

    def command(self, *, strict: bool = False, ignore: Collection[str] = ()) -> list[str]:
        """Return the command of an agent that plays this recording, for a client that starts its agent."""
        command = [*module_command(), "inspect", "replay", os.path.abspath(self.path), "--as", "agent"]
        ignored = [argument for path in ignore for argument in ("--ignore", path)]
        return [*command, "--strict", *ignored] if strict else command

    @asynccontextmanager
    async def as_agent(
        self, *, strict: bool = False, ignore: Collection[str] = (), wrap: Wrap | None = None
    ) -> AsyncIterator[Transport]:
        """Play the recorded agent for a client in this process, which connects to the returned transport.

        `strict` requires order and content as recorded, except for the members named in `ignore`. On exit, raises
        AssertionError if the client deviated.
        """
        ours, theirs = memory_pair()
        far = wrap(theirs) if wrap else theirs
        playing = asyncio.ensure_future(self._play(TO_CLIENT, far, strict, ignore, initiates=False))
        try:
            yield ours
            await ours.close("the client is done")
            async with asyncio.timeout(TIMEOUT):
                problems = await playing
        finally:
            playing.cancel()
            await asyncio.gather(playing, return_exceptions=True)
            await far.close()
        self._raise_for_problems("client", problems)

    async def play_to_agent(
        self,
        agent: Target,
        *,
        strict: bool = False,
        ignore: Collection[str] = (),
        timeout: float = TIMEOUT,
        **options: Any,
    ) -> list[bytes]:
        """Play the recorded client to an agent under test: an Agent, a command, a list of arguments or a transport.

        Return the frames of the agent. Raises AssertionError if a recorded message is missing; with `strict`, also if
        one differs, except for the members named in `ignore`.
        """
        received: list[bytes] = []
        async with scripted_client(agent, timeout=timeout, **options) as client:
            transport = _KeepingTransport(client.transport, received)
            self._raise_for_problems(
                "agent", await self._play(TO_AGENT, transport, strict, ignore, initiates=True, timeout=timeout)
            )
        return received

    async def _play(
        self,
        our_direction: str,
        transport: Transport,
        strict: bool,
        ignore: Collection[str],
        *,
        initiates: bool,
        timeout: float | None = None,
    ) -> list[str]:
        script = ReplayScript(self.frames, our_direction, strict, frozenset(ignore))
        try:
            return await play_script(script, transport, initiates=initiates, original_timing=False, timeout=timeout)
        except ConnectionFailed as error:
            return [str(error)]

    def _raise_for_problems(self, who: str, problems: list[str]) -> None:
        if problems:
            raise AssertionError(f"the {who} deviated from the recording {self.path}: " + "\n  ".join(problems))


class _KeepingTransport(WrappedTransport):
    """A transport that keeps every received frame."""

    def __init__(self, transport: Transport, received: list[bytes]) -> None:
        super().__init__(transport)
        self._received = received

    async def receive(self) -> list[Any]:
        """Return the next frames and keep them."""
        frames = await self._transport.receive()
        self._received.extend(frame for frame in frames if isinstance(frame, bytes))
        return frames
