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
from dragoman.roles.client.reconnect.frames import decode_frame
from dragoman.roles.client.reconnect.state import ReconnectState
from dragoman.transport.base import Transport
from dragoman.transport.remote.errors import MAX_RETRY_AFTER
from dragoman.wire.frames import Frame

# A host that answers at all has introduced itself, or read a session's log, by then. Seconds, for each of them.
ANSWER_TIMEOUT = 60.0

# Answers that would be the same the next time; all others are worth another try.
_PERMANENT_KINDS = frozenset(
    {Kind.SESSION_NOT_FOUND, Kind.SESSION_EXPIRED, Kind.SESSION_CORRUPTED, Kind.RESOURCE_NOT_FOUND, Kind.AUTH_REQUIRED}
    | {Kind.PERMISSION_DENIED, Kind.ACCESS_DENIED, Kind.CAPABILITY_UNSUPPORTED, Kind.METHOD_NOT_FOUND, Kind.TOO_LARGE}
    | {Kind.INVALID_PARAMS, Kind.INVALID_REQUEST, Kind.UNSUPPORTED_VERSION}
)

# How our ids begin: a glance at each frame must do.
_ID_PREFIX = "rejoin-"
_QUOTED_ID_PREFIX = f'"{_ID_PREFIX}'.encode()

RawAnswer = dict[str, Any]
ReadTask = asyncio.Task[ConnectionFailed]  # of the connection that is asked; its result is why it ended


class ReconnectRequests:
    """What is asked in the client's place."""

    def __init__(self, peer: str, state: ReconnectState, report: Callable[[str], None]) -> None:
        self._peer = peer
        self._state = state
        self._report = report
        self._loop = asyncio.get_running_loop()
        self._last_number = 0
        self._pending: dict[str, asyncio.Future[RawAnswer]] = {}
        self._replaying: dict[str, str] = {}  # by request: sessions that are told from their beginning, which we know

    def drop_own_answers(self, frames: list[Frame]) -> list[Frame]:
        """What was read, without the answers to our requests, and without a history that was told before."""
        return [frame for frame in frames if not self._is_hidden(frame)] if self._pending else frames

    def _is_hidden(self, frame: Frame) -> bool:
        if not isinstance(frame, bytes):
            return False
        if _QUOTED_ID_PREFIX in frame and (said := decode_frame(frame)) is not None and "method" not in said:
            answer = self._pending.pop(str(said.get("id")), None)
            if answer is not None:
                self._replaying.pop(str(said.get("id")), None)  # what comes next is news
                if not answer.done():
                    answer.set_result(said)
                return True
        return any(self._state.is_update_of(frame, session) for session in self._replaying.values())

    def cancel_pending(self) -> None:
        """The connection is gone: no answer comes any more."""
        for answer in self._pending.values():
            answer.cancel()
        self._pending.clear()
        self._replaying.clear()

    async def initialize(self, inner: Transport, reading: ReadTask) -> None:
        """Say who we are. Raises Unreachable when it may work later, StartFailed when it will not."""
        id = self._next_id()
        answer = await self._request(inner, self._state.initialize_frame(id), id, reading)
        result = answer.get("result")
        if isinstance(result, dict):
            self._state.note_initialized(result)
            if self._state.sessions and self._state.attach_method() is None:
                raise StartFailed(f"{self._peer} came back and cannot load sessions; open a new one")
            return
        fault = self._state.frames.lift_error(answer.get("error"))
        why = f"{self._peer} does not take the same introduction again: {fault.explanation}"
        if fault.kind in _PERMANENT_KINDS:
            raise StartFailed(why)
        raise Unreachable(why, is_passing=True, wait=_retry_after(fault))  # the host's agent died meanwhile, say

    async def attach_session(self, inner: Transport, session: str, reading: ReadTask | None = None) -> None:
        """Join one session; raises Unreachable when it may work later, and leaves it when it never will."""
        memory, id = self._state, self._next_id()
        # A server that replays everything to whoever loads would tell it all twice: what was told before is known here.
        if memory.attach_method() == "session/load" and not memory.is_hosted:
            self._replaying[id] = session
        answer = await self._request(inner, memory.attach_frame(session, id), id, reading)
        if "error" not in answer:
            return
        fault = memory.frames.lift_error(answer["error"])
        if fault.kind not in _PERMANENT_KINDS:
            raise Unreachable(fault.explanation, is_passing=True, wait=_retry_after(fault))
        self.abandon_session(session, fault.explanation)

    def abandon_session(self, session: str, reason: str) -> None:
        """Leave a session that cannot be joined, and say so."""
        self._state.remove_session(session)
        self._report(f"{self._peer}: session {session} could not be joined again: {reason}")

    def _next_id(self) -> str:
        self._last_number += 1
        return f"{_ID_PREFIX}{self._last_number}"

    async def _request(self, inner: Transport, frame: bytes, id: str, reading: ReadTask | None) -> RawAnswer:
        """One request; raises why no answer comes."""
        answer: asyncio.Future[RawAnswer] = self._loop.create_future()
        self._pending[id] = answer
        waited: set[asyncio.Future[Any]] = {answer} if reading is None else {answer, reading}
        try:
            inner.send(frame)
            done, _ = await asyncio.wait(waited, timeout=ANSWER_TIMEOUT, return_when=asyncio.FIRST_COMPLETED)
        finally:
            self._pending.pop(id, None)
            self._replaying.pop(id, None)
        if answer in done:
            return answer.result()
        if reading is not None and reading in done:
            raise reading.result()
        raise Unreachable(f"{self._peer} does not answer", is_passing=True)


def _retry_after(fault: ProtocolError) -> float | None:
    """How long a host asks us to wait."""
    after = fault.data.get("retryAfter") if isinstance(fault.data, dict) else None
    return min(max(float(after), 0.0), MAX_RETRY_AFTER) if isinstance(after, int | float) else None
