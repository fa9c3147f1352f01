"""The requests of ReconnectingTransport on a new connection: initialize, and one for each session.

An error is either permanent or worth a retry (a host that starts, an agent that crashed, a rate limit).
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

from dragoman.dialect.peek import decode_frame
from dragoman.errors import ConnectionFailed, Kind, ProtocolError, StartFailed, Unreachable
from dragoman.roles.client.reconnect.state import ReconnectState
from dragoman.transport.base import Transport
from dragoman.transport.remote.errors import MAX_RETRY_AFTER
from dragoman.wire.frames import Frame

# A host that answers at all has answered initialize, or read a session's log, by then. Seconds for each request.
ANSWER_TIMEOUT = 60.0

# Errors that another attempt would get again; others are worth a retry.
_PERMANENT_KINDS = frozenset(
    {Kind.SESSION_NOT_FOUND, Kind.SESSION_EXPIRED, Kind.SESSION_CORRUPTED, Kind.RESOURCE_NOT_FOUND, Kind.AUTH_REQUIRED}
    | {Kind.PERMISSION_DENIED, Kind.ACCESS_DENIED, Kind.CAPABILITY_UNSUPPORTED, Kind.METHOD_NOT_FOUND, Kind.TOO_LARGE}
    | {Kind.INVALID_PARAMS, Kind.INVALID_REQUEST, Kind.UNSUPPORTED_VERSION}
)

# The prefix of our ids, so that each frame is checked quickly.
_ID_PREFIX = "rejoin-"
_QUOTED_ID_PREFIX = f'"{_ID_PREFIX}'.encode()

RawAnswer = dict[str, Any]
ReadTask = asyncio.Task[ConnectionFailed]  # reads the connection; its result is why it ended


class ReconnectRequests:
    """Requests in the client's place."""

    def __init__(self, peer: str, state: ReconnectState, report: Callable[[str], None]) -> None:
        self._peer = peer
        self._state = state
        self._report = report
        self._loop = asyncio.get_running_loop()
        self._last_number = 0
        self._pending: dict[str, asyncio.Future[RawAnswer]] = {}
        self._replaying: dict[str, str] = {}  # by request: sessions whose history is replayed, which the client has

    def drop_own_answers(self, frames: list[Frame]) -> list[Frame]:
        """Remove the answers to our requests, and a history that the client already has."""
        return [frame for frame in frames if not self._is_hidden(frame)] if self._pending else frames

    def _is_hidden(self, frame: Frame) -> bool:
        if not isinstance(frame, bytes):
            return False
        if _QUOTED_ID_PREFIX in frame and (message := decode_frame(frame)) is not None and "method" not in message:
            answer = self._pending.pop(str(message.get("id")), None)
            if answer is not None:
                self._replaying.pop(str(message.get("id")), None)  # the updates after it are new
                if not answer.done():
                    answer.set_result(message)
                return True
        return any(self._state.is_update_of(frame, session) for session in self._replaying.values())

    def cancel_pending(self) -> None:
        """Cancel all requests, because the connection is gone."""
        for answer in self._pending.values():
            answer.cancel()
        self._pending.clear()
        self._replaying.clear()

    async def initialize(self, inner: Transport, reading: ReadTask) -> None:
        """Send initialize. Raises Unreachable if a retry may help, StartFailed if not."""
        id = self._next_id()
        answer = await self._request(inner, self._state.initialize_frame(id), id, reading)
        result = answer.get("result")
        if isinstance(result, dict):
            self._state.note_initialized(result)
            if self._state.sessions and self._state.attach_method() is None:
                raise StartFailed(f"{self._peer} came back but cannot load sessions; open a new one")
            return
        fault = self._state.frames.lift_error(answer.get("error"))
        why = f"{self._peer} rejected initialize on the new connection: {fault.explanation}"
        if fault.kind in _PERMANENT_KINDS:
            raise StartFailed(why)
        raise Unreachable(why, is_passing=True, wait=_retry_after(fault))  # perhaps the host's agent died meanwhile

    async def attach_session(self, inner: Transport, session: str, reading: ReadTask | None = None) -> None:
        """Attach to one session. Raises Unreachable if a retry may help; drops the session if not."""
        state, id = self._state, self._next_id()
        # Another server replays everything on load: hide what the client already has.
        if state.attach_method() == "session/load" and not state.is_hosted:
            self._replaying[id] = session
        answer = await self._request(inner, state.attach_frame(session, id), id, reading)
        if "error" not in answer:
            return
        fault = state.frames.lift_error(answer["error"])
        if fault.kind not in _PERMANENT_KINDS:
            raise Unreachable(fault.explanation, is_passing=True, wait=_retry_after(fault))
        self.abandon_session(session, fault.explanation)

    def abandon_session(self, session: str, reason: str) -> None:
        """Drop a session that cannot be attached, and report it."""
        self._state.remove_session(session)
        self._report(f"{self._peer}: session {session} could not be attached again: {reason}")

    def _next_id(self) -> str:
        self._last_number += 1
        return f"{_ID_PREFIX}{self._last_number}"

    async def _request(self, inner: Transport, frame: bytes, id: str, reading: ReadTask | None) -> RawAnswer:
        """Send a request and return the answer. Raise if none comes."""
        answer: asyncio.Future[RawAnswer] = self._loop.create_future()
        self._pending[id] = answer
        waits: set[asyncio.Future[Any]] = {answer} if reading is None else {answer, reading}
        try:
            inner.send(frame)
            done, _ = await asyncio.wait(waits, timeout=ANSWER_TIMEOUT, return_when=asyncio.FIRST_COMPLETED)
        finally:
            self._pending.pop(id, None)
            self._replaying.pop(id, None)
        if answer in done:
            return answer.result()
        if reading is not None and reading in done:
            raise reading.result()
        raise Unreachable(f"{self._peer} does not answer", is_passing=True)


def _retry_after(fault: ProtocolError) -> float | None:
    """Return how long the host asks us to wait."""
    after = fault.data.get("retryAfter") if isinstance(fault.data, dict) else None
    return min(max(float(after), 0.0), MAX_RETRY_AFTER) if isinstance(after, int | float) else None
