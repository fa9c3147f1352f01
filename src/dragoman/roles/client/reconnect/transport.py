"""A connection that is begun anew when the last one is gone for good: the sessions are joined where they were left.

Takes a way to dial, gives the Transport contract, so neither the engine above nor `dragoman attach` notices more than
a pause. After the host restarted, or a client was away too long, it dials again, introduces itself with the same words,
joins every session after the last entry it was told, and answers what was open and is lost. Below are transports that
mend cuts by themselves; what must be remembered is in whereabouts.py.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from dragoman.errors import ConnectionFailed, TransportClosed, Unreachable, WriteStalled
from dragoman.roles.client.reconnect.attach import ReconnectRequests
from dragoman.roles.client.reconnect.frames import decode_frame, session_of
from dragoman.roles.client.reconnect.state import ReconnectState
from dragoman.transport.base import HIGH_WATER, FrameConsumer, Transport
from dragoman.transport.inlet import FrameQueue
from dragoman.transport.remote.errors import ClosedByServer
from dragoman.transport.remote.retry import Backoff, Outage, RetryLoop
from dragoman.wire.frames import Frame

# Who waits for an answer that is lost is told when the sessions are joined again, or after this. Seconds.
LOST_ANSWER_DELAY = 10.0

# A session that cannot be joined for a reason that may pass is tried again for so long; what is said in it waits. An
# agent that ends again and again is started after a minute at the latest. Seconds.
ATTACH_TIMEOUT = 120.0

# A connection that ends sooner than this was none: the next one is begun after a pause that grows. Seconds.
STABLE_AFTER = 10.0

DialFunction = Callable[[], Awaitable[Transport]]


async def dial_reconnecting(
    dial: DialFunction, *, backoff: Backoff | None = None, report: Callable[[str], None] | None = None
) -> ReconnectingTransport:
    """Dial for the first time; what goes wrong then is raised, for nothing is lost yet."""
    return ReconnectingTransport(await dial(), dial, backoff or Backoff(), report or (lambda _: None))


class ReconnectingTransport:
    """A transport over one connection after another."""

    def __init__(self, first: Transport, dial: DialFunction, backoff: Backoff, report: Callable[[str], None]) -> None:
        self.peer = first.peer
        self._dial = dial
        self._backoff = backoff
        self._report = report
        self._loop = asyncio.get_running_loop()
        self._inner: Transport | None = first
        self._connected_at = self._loop.time()
        self._short_connections = 0  # connections in a row that ended at once
        self._state = ReconnectState()
        self._requests = ReconnectRequests(self.peer, self._state, report)
        self._queue = FrameQueue()
        self._has_room = asyncio.Event()
        self._held_frames: list[bytes] = []  # said while there was no connection
        self._held_size = 0
        self._unattached: dict[str, list[bytes]] = {}  # sessions not joined yet, and what was said in them meanwhile
        self._late_attach_task: asyncio.Task[None] | None = None  # joins those
        self._reconnected = asyncio.Event()
        self._failure: ConnectionFailed | None = None
        self._closing: asyncio.Future[None] | None = None
        first.listen(self._take)
        self._task = self._loop.create_task(self._run(first), name=f"dragoman stays with {self.peer}")

    # --- reading ----------------------------------------------------------------------------------------------

    async def receive(self) -> list[Frame]:
        """The next frames, of whichever connection there is."""
        return await self._queue.receive()

    def listen(self, take: FrameConsumer) -> None:
        """Offer each block to `take` first, while nothing older waits."""
        self._queue.listen(take)

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
        except Exception as error:  # whoever receives must hear of it, whatever it is
            self._end(TransportClosed(f"{self.peer}: could not go on: {type(error).__name__}: {error}"))

    async def _read(self, inner: Transport) -> ConnectionFailed:
        """Pass on what comes until the connection ends; gives why."""
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

    # --- coming back ------------------------------------------------------------------------------------------

    async def _reconnect(self, lost: Transport, error: ConnectionFailed) -> Transport:
        """Another connection in place of one that is gone; raises why there cannot be one."""
        memory = self._state
        is_over = isinstance(error, ClosedByServer) or _is_refusal(error) or self._backoff.give_up_after <= 0
        if is_over or not memory.can_reconnect:
            raise error
        self._inner = None
        self._reconnected.clear()
        await self._stop_attaching()
        self._deliver_own(memory.on_disconnect())
        unsent: list[bytes] = getattr(lost, "unsent", list)()
        held = [frame for frames in self._unattached.values() for frame in frames]
        self._unattached = {}
        self._held_frames = [*memory.resendable_calls(unsent), *held, *self._held_frames]
        self._held_size = sum(map(len, self._held_frames))
        grace = self._loop.call_later(LOST_ANSWER_DELAY, lambda: self._deliver_own(memory.fail_open_requests()))
        try:
            await lost.close()
            await self._wait_if_unstable()
            inner = await RetryLoop(self.peer, self._backoff, Outage(self._report), str(error)).run(
                self._open_connection
            )
        finally:
            grace.cancel()
        self._deliver_own(memory.fail_open_requests())
        inner.listen(self._take)
        self._inner = inner
        waiting, self._held_frames, self._held_size = self._held_frames, [], 0
        for frame in waiting:
            self._send_now(inner, frame)
        self._reconnected.set()
        count = len(memory.sessions) - len(self._unattached)
        self._report(f"{self.peer}: a new connection; {count} session{'s' if count != 1 else ''} joined again")
        if self._unattached:
            self._late_attach_task = self._loop.create_task(
                self._attach_late(inner), name=f"dragoman joins sessions of {self.peer}"
            )
        return inner

    async def _wait_if_unstable(self) -> None:
        """A server that ends every connection at once must not be dialled in a circle."""
        self._short_connections = (
            self._short_connections + 1 if self._loop.time() - self._connected_at < STABLE_AFTER else 0
        )
        if self._short_connections:
            await asyncio.sleep(self._backoff.delay(self._short_connections))

    async def _open_connection(self) -> Transport:
        """Dial, introduce ourselves as before, and join every session; those that cannot be joined yet come later."""
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
            await inner.close()
            if isinstance(error, TransportClosed | WriteStalled) and not isinstance(error, ClosedByServer):
                raise Unreachable(str(error), is_passing=True) from None
            raise
        finally:
            reading.cancel()
            await asyncio.gather(reading, return_exceptions=True)

    async def _attach_late(self, inner: Transport) -> None:
        """Join what could not be joined at once, each as soon as it can be; what was said in it follows."""
        await asyncio.gather(*(self._attach_session(inner, session) for session in list(self._unattached)))

    async def _attach_session(self, inner: Transport, session: str) -> None:
        patience = Backoff(
            initial_delay=self._backoff.initial_delay,
            max_delay=self._backoff.max_delay,
            give_up_after=min(self._backoff.give_up_after, ATTACH_TIMEOUT),
        )
        name = f"{self.peer}: session {session}"
        retrying = RetryLoop(
            name, patience, Outage(self._report), failure_text="cannot be joined yet", recovery_text="joined again"
        )
        try:
            await retrying.run(lambda: self._requests.attach_session(inner, session))
        except Unreachable as error:
            self._requests.abandon_session(session, str(error))
        except ConnectionFailed:
            return  # the connection is gone; with the next one it is joined anew
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
        """Send a frame, or keep it until there is a connection again."""
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
        said = self._state.filter_outgoing(data)
        if said is None:
            return
        try:
            inner.send(said)
        except ConnectionFailed:
            if not self._state.can_reconnect:
                raise  # else whoever waits for it hears so when the sessions are joined again

    def congested(self) -> bool:
        """Whether the sender should wait."""
        return self._held_size > HIGH_WATER if self._inner is None else self._inner.congested()

    async def drain(self) -> None:
        """Wait until it need not."""
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

    async def close(self, reason: str = "") -> None:
        """Close the connection there is, and begin no other."""
        if self._closing is not None:
            await asyncio.shield(self._closing)
            return
        self._closing = self._loop.create_future()
        because = f": {reason}" if reason else ""
        inner = self._inner
        self._end(TransportClosed(f"the connection to {self.peer} was closed{because}"))
        try:
            self._task.cancel()
            await self._stop_attaching()
            await asyncio.gather(self._task, return_exceptions=True)
            if inner is not None:
                await inner.close(reason)
        finally:
            self._closing.set_result(None)


def _is_refusal(error: ConnectionFailed) -> bool:
    """Whether trying again would only be refused again."""
    return isinstance(error, Unreachable) and not error.is_passing
