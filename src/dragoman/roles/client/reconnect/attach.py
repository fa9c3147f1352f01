"""Our own requests on a new connection: the introduction, and one for each session that is joined again.

Takes the memory of a client and a connection, says what whereabouts.py spells, and takes the answers out of what is
read meanwhile. Tells what may pass (a host that starts, an agent that crashed, asked too often) from what never will.
Above is rejoin.py, which decides what to do about either.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

from dragoman.errors import ConnectionFailed, Kind, ProtocolError, StartFailed, Unreachable
from dragoman.roles.client.reconnect.frames import decoded
from dragoman.roles.client.reconnect.state import Whereabouts
from dragoman.transport.base import Transport
from dragoman.transport.remote.errors import LONGEST_WAIT
from dragoman.wire.frames import Frame

# A host that answers at all has introduced itself, or read a session's log, by then. Seconds, for each of them.
ANSWER_PATIENCE = 60.0

# Answers that would be the same the next time; all others are worth another try.
_FINAL = frozenset(
    {Kind.SESSION_NOT_FOUND, Kind.SESSION_EXPIRED, Kind.SESSION_CORRUPTED, Kind.RESOURCE_NOT_FOUND, Kind.AUTH_REQUIRED}
    | {Kind.PERMISSION_DENIED, Kind.ACCESS_DENIED, Kind.CAPABILITY_UNSUPPORTED, Kind.METHOD_NOT_FOUND, Kind.TOO_LARGE}
    | {Kind.INVALID_PARAMS, Kind.INVALID_REQUEST, Kind.UNSUPPORTED_VERSION}
)

# How our ids begin: a glance at each frame must do.
_OURS = "rejoin-"
_GLANCE = f'"{_OURS}'.encode()

Answer = dict[str, Any]
Reading = asyncio.Task[ConnectionFailed]  # of the connection that is asked; its result is why it ended


class Joining:
    """What is asked in the client's place."""

    def __init__(self, peer: str, memory: Whereabouts, report: Callable[[str], None]) -> None:
        self._peer = peer
        self._memory = memory
        self._report = report
        self._loop = asyncio.get_running_loop()
        self._numbers = 0
        self._answers: dict[str, asyncio.Future[Answer]] = {}
        self._silent: dict[str, str] = {}  # by request: sessions that are told from their beginning, which we know

    def without_ours(self, frames: list[Frame]) -> list[Frame]:
        """What was read, without the answers to our requests, and without a history that was told before."""
        return [frame for frame in frames if not self._is_ours(frame)] if self._answers else frames

    def _is_ours(self, frame: Frame) -> bool:
        if not isinstance(frame, bytes):
            return False
        if _GLANCE in frame and (said := decoded(frame)) is not None and "method" not in said:
            answer = self._answers.pop(str(said.get("id")), None)
            if answer is not None:
                self._silent.pop(str(said.get("id")), None)  # what comes next is news
                if not answer.done():
                    answer.set_result(said)
                return True
        return any(self._memory.is_history(frame, session) for session in self._silent.values())

    def stop(self) -> None:
        """The connection is gone: no answer comes any more."""
        for answer in self._answers.values():
            answer.cancel()
        self._answers.clear()
        self._silent.clear()

    async def introduce(self, inner: Transport, reading: Reading) -> None:
        """Say who we are. Raises Unreachable when it may work later, StartFailed when it will not."""
        id = self._next_id()
        answer = await self._ask(inner, self._memory.introducing(id), id, reading)
        result = answer.get("result")
        if isinstance(result, dict):
            self._memory.met(result)
            if self._memory.stays and self._memory.way_in() is None:
                raise StartFailed(f"{self._peer} came back and cannot load sessions; open a new one")
            return
        fault = self._memory.words.fault(answer.get("error"))
        why = f"{self._peer} does not take the same introduction again: {fault.explanation}"
        if fault.kind in _FINAL:
            raise StartFailed(why)
        raise Unreachable(why, is_passing=True, wait=_wait(fault))  # the host's agent died meanwhile, say

    async def enter(self, inner: Transport, session: str, reading: Reading | None = None) -> None:
        """Join one session; raises Unreachable when it may work later, and leaves it when it never will."""
        memory, id = self._memory, self._next_id()
        # A server that replays everything to whoever loads would tell it all twice: what was told before is known here.
        if memory.way_in() == "session/load" and not memory.is_hosted:
            self._silent[id] = session
        answer = await self._ask(inner, memory.entering(session, id), id, reading)
        if "error" not in answer:
            return
        fault = memory.words.fault(answer["error"])
        if fault.kind not in _FINAL:
            raise Unreachable(fault.explanation, is_passing=True, wait=_wait(fault))
        self.give_up(session, fault.explanation)

    def give_up(self, session: str, why: str) -> None:
        """Leave a session that cannot be joined, and say so."""
        self._memory.left(session)
        self._report(f"{self._peer}: session {session} could not be joined again: {why}")

    def _next_id(self) -> str:
        self._numbers += 1
        return f"{_OURS}{self._numbers}"

    async def _ask(self, inner: Transport, frame: bytes, id: str, reading: Reading | None) -> Answer:
        """One request; raises why no answer comes."""
        answer: asyncio.Future[Answer] = self._loop.create_future()
        self._answers[id] = answer
        waited: set[asyncio.Future[Any]] = {answer} if reading is None else {answer, reading}
        try:
            inner.send(frame)
            done, _ = await asyncio.wait(waited, timeout=ANSWER_PATIENCE, return_when=asyncio.FIRST_COMPLETED)
        finally:
            self._answers.pop(id, None)
            self._silent.pop(id, None)
        if answer in done:
            return answer.result()
        if reading is not None and reading in done:
            raise reading.result()
        raise Unreachable(f"{self._peer} does not answer", is_passing=True)


def _wait(fault: ProtocolError) -> float | None:
    """How long a host asks us to wait."""
    after = fault.data.get("retryAfter") if isinstance(fault.data, dict) else None
    return min(max(float(after), 0.0), LONGEST_WAIT) if isinstance(after, int | float) else None
