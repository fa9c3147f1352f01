"""The server's end of a WebSocket connection: one message a frame, and a connection that may outlive its sockets.

A Wire is one socket; the transport takes the next one when a client that asked for it comes back, and sends again what
that client has not received. Above is the engine, below an ASGI server, or the direct way of `upgrade`. Text frames
are messages; binary ones are ignored (reference 3.2).
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Protocol

from dragoman.errors import ConnectionFailed, TransportClosed, WriteStalled
from dragoman.transport.base import CLOSE_PATIENCE, COALESCE, HIGH_WATER, Take
from dragoman.transport.inlet import Inlet
from dragoman.transport.remote.headers import GONE, SLOW
from dragoman.transport.remote.resume import ACK_DELAY, Receipt, Spool, read_ack
from dragoman.transport.remote.server.limits import Limits
from dragoman.wire.frames import Frame

# The first write of a long pass comes early, so that the client has something to do meanwhile (decision 0012).
FIRST_BLOCK = 4 * 1024

# Why we close a socket (RFC 6455 section 7.4): ours begin where the protocol leaves them to applications.
NORMAL, GOING_AWAY, POLICY, INTERNAL = 1000, 1001, 1008, 1011
EXPIRED, TAKEN_OVER = 4401, 4409


class Wire(Protocol):
    """One socket as the transport sees it."""

    @property
    def ready(self) -> bool:
        """Whether it takes more now; if not, it calls `SocketTransport.flow` when it does."""
        ...

    @property
    def buffered(self) -> int:
        """Bytes it has taken and not yet given to the system."""
        ...

    def write(self, frames: list[bytes]) -> None:
        """Send these frames, each a message of its own."""
        ...

    def pause(self) -> None:
        """Read no more, until `resume`."""
        ...

    def resume(self) -> None:
        """Read again."""
        ...

    def close(self, code: int, reason: str) -> None:
        """Send what was written, say goodbye and let go, in bounded time."""
        ...


class SocketTransport:
    """One client over WebSocket."""

    def __init__(self, peer: str, limits: Limits, *, resumable: bool = False) -> None:
        self.peer = peer
        self.resumable = resumable
        self.receipt = Receipt()
        self._limits = limits
        self._loop = asyncio.get_running_loop()
        self._inlet = Inlet()
        self._spool = Spool(keep=None if resumable else 0)
        self._wire: Wire | None = None
        self._broken: ConnectionFailed | None = None
        self._pass = 0
        self._burst = False
        self._block = FIRST_BLOCK
        self._exempt = 0  # the size of the frame that went beyond the limit, which does not count
        self._drainers: list[asyncio.Future[None]] = []
        self._receipt_timer: asyncio.TimerHandle | None = None
        self._parted = self._active = self._loop.time()  # since when there is no socket; the last message either way
        self._moved, self._left = self._active, 0  # when bytes last left, and how many waited then
        self.closed = self._loop.create_future()
        self.on_presence: Callable[[bool], None] = lambda _: None  # hears whether there is a socket

    # --- the contract -----------------------------------------------------------------------------------------

    async def receive(self) -> list[Frame]:
        """The next frames; raises TransportClosed or WriteStalled after the last one."""
        return await self._inlet.receive()

    def listen(self, take: Take) -> None:
        """Offer frames to `take` as they arrive."""
        self._inlet.listen(take)

    def send(self, data: bytes, session: str | None = None) -> None:
        """Queue one frame; alone it leaves at once, in a burst together with its neighbours."""
        if self._broken is not None:
            raise self._broken.with_traceback(None)
        spool = self._spool
        spool.add(data)
        self._pass += 1
        if self._pass == 1:
            self._loop.call_soon(self._end_pass)
            if not self._burst:
                self._flush()
        elif spool.waiting_size >= self._block:
            self._block = min(self._block * 2, COALESCE)
            self._flush()
        before, limit = spool.size - len(data), self._limits.buffered
        if before <= limit:
            self._exempt = len(data)  # one frame is taken however large: it would come again
        elif before + len(data) - self._exempt > limit:
            self._overflow()

    @property
    def buffered(self) -> int:
        """Bytes that wait for the client, or that it has not acknowledged."""
        return self._spool.size + (self._wire.buffered if self._wire is not None else 0)

    def congested(self) -> bool:
        """Whether so much waits for the client that the sender should await `drain`."""
        spool, wire = self._spool, self._wire
        waiting = spool.waiting_size + (wire.buffered if wire is not None else 0)
        return waiting > HIGH_WATER or spool.size > self._limits.buffered // 2

    async def drain(self) -> None:
        """Wait until the client has taken most of what waits."""
        while self._broken is None and self.congested():
            waiter = self._loop.create_future()
            self._drainers.append(waiter)
            await waiter
        if self._broken is not None:
            raise self._broken.with_traceback(None)

    async def close(self, reason: str = "") -> None:
        """Send what waits, for a bounded time, then let the socket go."""
        because = f": {reason}" if reason else ""
        self.fail(TransportClosed(f"the connection to {self.peer} was closed{because}"), NORMAL, reason)

    # --- sockets come and go ----------------------------------------------------------------------------------

    def attach(self, wire: Wire) -> None:
        """This socket carries the connection from now on."""
        old, self._wire = self._wire, wire
        self.on_presence(True)
        if old is not None:
            old.close(TAKEN_OVER, "the connection goes on over a newer socket")
        self._active = self._moved = self._loop.time()
        if self._inlet.is_full:
            self._hold()
        self._flush()

    def rewind(self, cursor: int) -> None:
        """The client comes back and has this many frames; raises Gone when the next ones are no longer kept."""
        self._spool.rewind(cursor)

    def part(self, wire: Wire, why: str, is_goodbye: bool = False) -> None:
        """This socket is gone; the connection too, unless its client may come back and did not say goodbye."""
        if wire is not self._wire:
            return
        self._wire = None
        self._parted = self._loop.time()
        if not self.resumable or is_goodbye:
            self.fail(TransportClosed(f"{self.peer} closed the connection{f': {why}' if why else ''}"))
        else:
            self.on_presence(False)

    def arrived(self, frames: list[Frame]) -> None:
        """These messages came over the socket."""
        self._active = self._loop.time()
        if self.resumable:
            frames = self._counted(frames)
        if frames:
            self._inlet.deliver(frames)
            if self._inlet.is_full:
                self._hold()

    def refused(self, frame: Frame) -> None:
        """This message came and is not passed on; who sent it must not send it again after a cut."""
        if self.resumable:
            self._counted([frame])

    def _hold(self) -> None:
        if self._wire is not None:
            self._wire.pause()
            self._inlet.when_room(self._go_on)

    def _go_on(self) -> None:
        if self._wire is not None:
            self._wire.resume()

    def _counted(self, frames: list[Frame]) -> list[Frame]:
        """The frames without receipts, counted; ours is told when it is due."""
        kept, due = [], False
        for frame in frames:
            cursor = read_ack(frame)
            if cursor is not None:
                self._spool.acknowledge(cursor)
                if self._drainers and not self.congested():
                    self._wake()
                continue
            kept.append(frame)
            due = self.receipt.add(len(frame) if type(frame) is bytes else 0) or due
        if due:
            self._tell_receipt()
        elif kept and self._receipt_timer is None:
            self._receipt_timer = self._loop.call_later(ACK_DELAY, self._tell_receipt)
        return kept

    def _tell_receipt(self) -> None:
        if self._receipt_timer is not None:
            self._receipt_timer.cancel()
            self._receipt_timer = None
        if self._wire is not None and self._wire.ready and self.receipt.count > self.receipt.told:
            self._wire.write([self.receipt.tell()])

    # --- going out --------------------------------------------------------------------------------------------

    def flow(self) -> None:
        """The socket takes more."""
        self._moved = self._loop.time()
        self._flush()

    def _end_pass(self) -> None:
        self._burst = self._pass > 1
        self._pass = 0
        if self._block < COALESCE:
            self._block = FIRST_BLOCK
        self._flush()

    def _flush(self) -> None:
        wire = self._wire
        if wire is None or not wire.ready:
            return
        frames = self._spool.take()
        if frames:
            self._active = self._loop.time()
            wire.write(frames)
        if self._drainers and not self.congested():
            self._wake()

    def _wake(self) -> None:
        drainers, self._drainers = self._drainers, []
        for waiter in drainers:
            if not waiter.done():
                waiter.set_result(None)

    # --- ending -----------------------------------------------------------------------------------------------

    def overdue(self, now: float) -> tuple[ConnectionFailed, int] | None:
        """Why the connection has to end now, and the code for its socket; None when it has not."""
        limits, wire = self._limits, self._wire
        if wire is None:
            if now - self._parted > limits.linger:
                return TransportClosed(f"{self.peer} did not come back within {limits.linger:g} seconds"), GONE
            return None
        if now - self._active > limits.idle:
            return TransportClosed(f"{self.peer} said nothing for {limits.idle:g} seconds"), GOING_AWAY
        left = wire.buffered
        if left == 0 or left < self._left or wire.ready:
            self._moved = now
        self._left = left
        if now - self._moved > limits.stall:
            return WriteStalled(f"{self.peer} took no bytes for {limits.stall:g} seconds while {left} waited"), SLOW
        return None

    def _overflow(self) -> None:
        size = self._spool.size
        error = WriteStalled(f"slow_consumer: {size} bytes wait for {self.peer}, which does not read or acknowledge")
        self.end_slow(error)

    def end_slow(self, error: ConnectionFailed) -> None:
        """End the connection: its client does not read."""
        self.fail(error, SLOW, "slow_consumer: read faster, or resume your sessions from a cursor")

    def fail(self, error: ConnectionFailed, code: int = NORMAL, reason: str = "") -> None:
        """End the connection for this reason; what waits is still sent where the socket takes it."""
        if self._broken is not None:
            return
        wire = self._wire
        if wire is not None:
            frames = self._spool.take()
            if frames and code in (NORMAL, GOING_AWAY):
                wire.write(frames)
        self._broken = error
        if self._receipt_timer is not None:
            self._receipt_timer.cancel()
        self._inlet.end(error)
        self._wake()
        self._wire = None
        if wire is not None:
            wire.close(code, reason)
        if not self.closed.done():
            self.closed.set_result(None)


class AsgiWire:
    """A socket of any ASGI server: one send for each message, by one task."""

    def __init__(self, transport: SocketTransport, send: object) -> None:
        self.buffered = 0
        self._transport = transport
        self._send = send
        self._queue: list[bytes] = []
        self._some = asyncio.Event()
        self._ending: tuple[int, str] | None = None
        self._reading = asyncio.Event()
        self._reading.set()
        self._task = asyncio.current_task()
        self._limit: asyncio.TimerHandle | None = None
        self.gone = False

    @property
    def ready(self) -> bool:
        """Whether what was written has mostly left."""
        return self.buffered < HIGH_WATER

    def write(self, frames: list[bytes]) -> None:
        """Queue these frames for the task."""
        self._queue += frames
        self.buffered += sum(map(len, frames))
        self._some.set()

    def pause(self) -> None:
        """Take no more messages of the server."""
        self._reading.clear()

    def resume(self) -> None:
        """Take messages again."""
        self._reading.set()

    async def room(self) -> None:
        """Wait until messages may be taken."""
        await self._reading.wait()

    def close(self, code: int, reason: str) -> None:
        """End the task after what was written, or after a while."""
        self._ending = self._ending or (code, reason)
        self._reading.set()
        self._some.set()
        self._limit = self._limit or asyncio.get_running_loop().call_later(CLOSE_PATIENCE, self._give_up)

    def _give_up(self) -> None:
        self.gone = True
        if self._task is not None:
            self._task.cancel()  # it waits for a peer that neither reads nor answers

    def end(self) -> None:
        """The socket is gone."""
        if self._limit is not None:
            self._limit.cancel()

    async def pump(self) -> None:
        """Send what is written until the end; the task of this socket."""
        send = self._send
        while not self.gone:
            if not self._queue:
                if self._ending is not None:
                    await send({"type": "websocket.close", "code": self._ending[0], "reason": self._ending[1][:120]})  # type: ignore[operator]
                    return
                self._some.clear()
                await self._some.wait()
                continue
            queue, self._queue = self._queue, []
            for frame in queue:
                await send({"type": "websocket.send", "text": frame.decode("utf-8", "replace")})  # type: ignore[operator]
                self.buffered -= len(frame)
            if self.ready:
                self._transport.flow()
