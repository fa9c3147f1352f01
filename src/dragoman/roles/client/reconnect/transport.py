"""ReconnectingTransport: when a connection is lost for good, dial again, send the same initialize, attach to every
session after its last entry, and answer lost requests with an error. The transports below handle short interruptions.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

from dragoman.dialect.peek import decode_frame, session_of
from dragoman.errors import (
    ConnectionFailed,
    Kind,
    ProtocolError,
    StartFailed,
    TransportClosed,
    Unreachable,
    WriteStalled,
)
from dragoman.roles.client.reconnect.state import ReconnectState
from dragoman.transport.base import HIGH_WATER, ClosedOnce, FrameQueue, Transport
from dragoman.transport.remote.errors import MAX_RETRY_AFTER, ClosedByServer
from dragoman.transport.remote.retry import Backoff, Outage, RetryLoop
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
        self._attaching: dict[str, asyncio.Future[RawAnswer]] = {}  # by session: an attach that has no answer yet

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
        self._attaching.clear()

    async def initialize(self, inner: Transport, reading: ReadTask) -> None:
        """Send initialize. Raises Unreachable if a retry may help, StartFailed if not."""
        id = self._next_id()
        sent = self._send(inner, self._state.initialize_frame(id), id)
        answer = await self._wait(sent, reading)
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
        """Attach to one session. Raises Unreachable if a retry may help; drops the session if not.

        A retry after silence waits for the same answer: attached twice, the client would get entries twice.
        """
        state = self._state
        sent = self._attaching.get(session)
        if sent is None:
            id = self._next_id()
            # Another server replays everything on load: hide what the client already has.
            if state.attach_method() == "session/load" and not state.is_hosted:
                self._replaying[id] = session
            sent = self._attaching[session] = self._send(inner, state.attach_frame(session, id), id)
        answer = await self._wait(sent, reading)
        self._attaching.pop(session, None)
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

    def _send(self, inner: Transport, frame: bytes, id: str) -> asyncio.Future[RawAnswer]:
        """Send a request; return the future of its answer."""
        answer = self._pending[id] = self._loop.create_future()
        inner.send(frame)
        return answer

    async def _wait(self, answer: asyncio.Future[RawAnswer], reading: ReadTask | None) -> RawAnswer:
        """Return the answer to a request. Raise if none comes in time, or the connection ends."""
        waits: set[asyncio.Future[Any]] = {answer} if reading is None else {answer, reading}
        done, _ = await asyncio.wait(waits, timeout=ANSWER_TIMEOUT, return_when=asyncio.FIRST_COMPLETED)
        if answer in done:
            return answer.result()
        if reading is not None and reading in done:
            raise reading.result()
        raise Unreachable(f"{self._peer} does not answer", is_passing=True)


def _retry_after(fault: ProtocolError) -> float | None:
    """Return how long the host asks us to wait."""
    after = fault.data.get("retryAfter") if isinstance(fault.data, dict) else None
    return min(max(float(after), 0.0), MAX_RETRY_AFTER) if isinstance(after, int | float) else None


# Lost requests are answered when the sessions are attached again, or after this. Seconds.
LOST_ANSWER_DELAY = 10.0

# How long attaching to a session is retried after a temporary error, while its frames are held. A host restarts a
# crashing agent after a minute at the latest. Seconds.
ATTACH_TIMEOUT = 120.0

# A connection that ends sooner than this counts as a failed attempt, so that the next one waits. Seconds.
STABLE_AFTER = 10.0

DialFunction = Callable[[], Awaitable[Transport]]


async def dial_reconnecting(
    dial: DialFunction, *, backoff: Backoff | None = None, report: Callable[[str], None] | None = None
) -> ReconnectingTransport:
    """Dial for the first time; errors are raised, because nothing is lost yet."""
    return ReconnectingTransport(await dial(), dial, backoff or Backoff(), report or (lambda _: None))


class ReconnectingTransport(ClosedOnce):
    """A transport over one connection after another."""

    def __init__(self, first: Transport, dial: DialFunction, backoff: Backoff, report: Callable[[str], None]) -> None:
        self.peer = first.peer
        self._dial = dial
        self._backoff = backoff
        self._report = report
        self._loop = asyncio.get_running_loop()
        self._inner: Transport | None = first
        self._connected_at = self._loop.time()
        self._short_connections = 0  # consecutive connections that ended at once
        self._state = ReconnectState()
        self._requests = ReconnectRequests(self.peer, self._state, report)
        self._queue = FrameQueue()
        self.receive, self.listen = self._queue.receive, self._queue.listen
        self._has_room = asyncio.Event()
        self._held_frames: list[bytes] = []  # sent while there was no connection
        self._held_size = 0
        self._unattached: dict[str, list[bytes]] = {}  # sessions not attached yet, and the frames held for them
        self._late_attach_task: asyncio.Task[None] | None = None  # attaches to those
        self._reconnected = asyncio.Event()
        self._failure: ConnectionFailed | None = None
        first.listen(self._take)
        self._task = self._loop.create_task(self._run(first), name=f"dragoman reconnect {self.peer}")

    # --- reading ----------------------------------------------------------------------------------------------

    def _take(self, frames: list[Frame]) -> bool:
        if self._queue.is_full or self._failure is not None:
            return False
        self._deliver(frames)
        return True

    def _deliver(self, frames: list[Frame]) -> None:
        passed = self._state.filter_incoming(self._requests.drop_own_answers(frames))
        if passed:
            self._queue.deliver(passed)

    async def _run(self, inner: Transport) -> None:
        try:
            while True:
                error = await self._read(inner)
                inner = await self._reconnect(inner, error)
        except ConnectionFailed as error:
            self._end(error)
        except Exception as error:  # the receiver must get any error
            self._end(TransportClosed(f"{self.peer}: reconnecting failed: {type(error).__name__}: {error}"))

    async def _read(self, inner: Transport) -> ConnectionFailed:
        """Deliver frames until the connection ends; return the reason."""
        while True:
            try:
                frames = await inner.receive()
            except ConnectionFailed as error:
                return error
            self._deliver(frames)
            while self._queue.is_full:
                self._has_room.clear()
                self._queue.call_when_drained(self._has_room.set)
                await self._has_room.wait()

    # --- reconnecting -----------------------------------------------------------------------------------------

    async def _reconnect(self, lost: Transport, error: ConnectionFailed) -> Transport:
        """Return a new connection. Raise the error of the lost one if there can be none."""
        state = self._state
        is_refusal = isinstance(error, ClosedByServer) or (isinstance(error, Unreachable) and not error.is_passing)
        if is_refusal or self._backoff.give_up_after <= 0 or not state.can_reconnect:
            raise error
        self._inner = None
        self._reconnected.clear()
        await self._stop_attaching()
        self._deliver_own(state.on_disconnect())
        unsent: list[bytes] = getattr(lost, "unsent", list)()
        held = [frame for frames in self._unattached.values() for frame in frames]
        self._unattached = {}
        self._held_frames = [*state.resendable_calls(unsent), *held, *self._held_frames]
        self._held_size = sum(map(len, self._held_frames))
        timer = self._loop.call_later(LOST_ANSWER_DELAY, lambda: self._deliver_own(state.fail_open_requests()))
        try:
            await lost.close()
            await self._wait_if_unstable()
            inner = await RetryLoop(self.peer, self._backoff, Outage(self._report), str(error)).run(
                self._open_connection
            )
        finally:
            timer.cancel()
        self._deliver_own(state.fail_open_requests())
        inner.listen(self._take)
        self._inner = inner
        held, self._held_frames, self._held_size = self._held_frames, [], 0
        for frame in held:
            self._send_now(inner, frame)
        self._reconnected.set()
        count = len(state.sessions) - len(self._unattached)
        self._report(f"{self.peer}: a new connection; {count} session{'s' if count != 1 else ''} attached again")
        if self._unattached:
            self._late_attach_task = self._loop.create_task(
                self._attach_late(inner), name=f"dragoman attach sessions of {self.peer}"
            )
        return inner

    async def _wait_if_unstable(self) -> None:
        """Wait before dialing again if the server ended the last connections at once."""
        self._short_connections = (
            self._short_connections + 1 if self._loop.time() - self._connected_at < STABLE_AFTER else 0
        )
        if self._short_connections:
            await asyncio.sleep(self._backoff.delay(self._short_connections))

    async def _open_connection(self) -> Transport:
        """Dial, initialize, and attach to every session; those that fail temporarily are retried later."""
        inner = await self._dial()
        self._connected_at = self._loop.time()
        reading = self._loop.create_task(self._read(inner))
        try:
            await self._requests.initialize(inner, reading)
            self._unattached = {}
            for session in list(self._state.sessions):
                try:
                    await self._requests.attach_session(inner, session, reading)
                except Unreachable as error:
                    if reading.done() or not error.is_passing:
                        raise
                    self._unattached[session] = []
            return inner
        except BaseException as error:
            self._requests.cancel_pending()
            await inner.close()
            if isinstance(error, TransportClosed | WriteStalled) and not isinstance(error, ClosedByServer):
                raise Unreachable(str(error), is_passing=True) from None
            raise
        finally:
            reading.cancel()
            await asyncio.gather(reading, return_exceptions=True)

    async def _attach_late(self, inner: Transport) -> None:
        """Attach to the remaining sessions, each as soon as possible, and send the frames held for it."""
        await asyncio.gather(*(self._attach_session(inner, session) for session in list(self._unattached)))

    async def _attach_session(self, inner: Transport, session: str) -> None:
        backoff = Backoff(
            initial_delay=self._backoff.initial_delay,
            max_delay=self._backoff.max_delay,
            give_up_after=min(self._backoff.give_up_after, ATTACH_TIMEOUT),
        )
        name = f"{self.peer}: session {session}"
        retry = RetryLoop(
            name, backoff, Outage(self._report), failure_text="cannot be attached yet", recovery_text="attached again"
        )
        try:
            await retry.run(lambda: self._requests.attach_session(inner, session))
        except Unreachable as error:
            self._requests.abandon_session(session, str(error))
        except ConnectionFailed:
            return  # the connection is gone; the next one attaches again
        for frame in self._unattached.pop(session, []):
            self._send_now(inner, frame)

    async def _stop_attaching(self) -> None:
        late, self._late_attach_task = self._late_attach_task, None
        self._requests.cancel_pending()
        if late is not None:
            late.cancel()
            await asyncio.gather(late, return_exceptions=True)

    def _deliver_own(self, frames: list[bytes]) -> None:
        if frames and self._failure is None:
            self._queue.deliver(list(frames))

    # --- writing ----------------------------------------------------------------------------------------------

    def send(self, data: bytes, session: str | None = None) -> None:
        """Send a frame, or hold it until there is a connection."""
        if self._failure is not None:
            raise self._failure.with_traceback(None)
        if self._inner is None:
            self._held_frames.append(data)
            self._held_size += len(data)
            return
        self._send_now(self._inner, data)

    def _send_now(self, inner: Transport, data: bytes) -> None:
        if (
            self._unattached
            and (held := self._unattached.get(session_of((decode_frame(data) or {}).get("params")) or "")) is not None
        ):
            held.append(data)
            return
        frame = self._state.filter_outgoing(data)
        if frame is None:
            return
        try:
            inner.send(frame)
        except ConnectionFailed:
            if not self._state.can_reconnect:
                raise  # otherwise lost requests are answered after reconnecting

    def congested(self) -> bool:
        """Return whether the sender should `drain`."""
        return self._held_size > HIGH_WATER if self._inner is None else self._inner.congested()

    async def drain(self) -> None:
        """Wait until the sender may continue."""
        while self._failure is None and self.congested():
            if self._inner is None:
                await self._reconnected.wait()
                continue
            try:
                await self._inner.drain()
            except ConnectionFailed:
                if not self._state.can_reconnect:
                    raise
                await asyncio.sleep(0)
        if self._failure is not None:
            raise self._failure.with_traceback(None)

    # --- ending -----------------------------------------------------------------------------------------------

    def _end(self, error: ConnectionFailed) -> None:
        self._deliver_own(self._state.fail_open_requests() if self._state.can_reconnect else [])
        if self._failure is None:
            self._failure = error
        self._queue.end(self._failure)
        self._reconnected.set()
        self._has_room.set()

    async def _release(self, error: ConnectionFailed, reason: str) -> None:
        """Close the current connection, and do not reconnect."""
        inner = self._inner
        self._end(error)
        self._task.cancel()
        await self._stop_attaching()
        await asyncio.gather(self._task, return_exceptions=True)
        if inner is not None:
            await inner.close(reason)
