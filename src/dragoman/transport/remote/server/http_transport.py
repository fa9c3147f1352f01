"""The server's end of a Streamable HTTP connection: POSTs bring frames, event streams take them away (reference 3.2).

One stream for the connection and one for each session, each with its own numbers; a frame waits in its stream until a
GET reads it, and is kept for a while after, so that a cut stream goes on by Last-Event-ID. Above is the engine, below
the requests that `endpoint` hands over.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator

from dragoman.errors import ConnectionFailed, TransportClosed, WriteStalled
from dragoman.transport.base import CLOSE_PATIENCE, HIGH_WATER, LOW_WATER, Take
from dragoman.transport.inlet import Inlet
from dragoman.transport.remote.headers import GONE, SLOW
from dragoman.transport.remote.resume import Spool
from dragoman.transport.remote.server.limits import Limits
from dragoman.transport.remote.server.ws_transport import GOING_AWAY
from dragoman.transport.remote.sse import CHUNK, KEEPALIVE, events
from dragoman.transport.remote.streams import Gist, Routing, gist
from dragoman.wire.frames import Frame


class Stream:
    """One event stream: its frames, and the GET that reads it now."""

    def __init__(self, limits: Limits) -> None:
        self.spool = Spool(keep=limits.kept)
        self.reader: Reader | None = None
        self.opened = False  # whether a GET ever read it
        self.announced = False  # whether the client was told of the session by a message that names it
        self.after: dict[int, bytes] = {}  # what some of its frames must not overtake, by their numbers


class Reader:
    """One GET on a stream."""

    def __init__(self, transport: StreamsTransport, stream: Stream) -> None:
        self.stream = stream
        self._transport = transport
        self.sleeps = False  # whether it waits for a wake
        self._some = asyncio.Event()
        self._left = False

    def wake(self) -> None:
        """There is something to read, or it ended."""
        self.sleeps = False
        self._some.set()

    def leave(self) -> None:
        """Stop: the client is gone, or reads by a newer GET."""
        self._left = True
        self._some.set()

    async def chunks(self, keepalive: float) -> AsyncGenerator[bytes, None]:
        """The chunks of the stream until it ends, with a sign of life in between."""
        transport, stream = self._transport, self.stream
        try:
            while not self._left:
                self._some.clear()
                chunk = transport.take(stream)
                if chunk:
                    yield chunk
                elif transport.is_broken:
                    return
                else:
                    self.sleeps = True
                    try:
                        async with asyncio.timeout(keepalive):
                            await self._some.wait()
                    except TimeoutError:
                        yield KEEPALIVE
        finally:
            transport.leave(self)


class StreamsTransport:
    """One client over Streamable HTTP."""

    def __init__(self, peer: str, limits: Limits) -> None:
        self.peer = peer
        self.routing = Routing()
        self.delivered = 0  # the number of the client's last frame, where it numbers them
        self._limits = limits
        self._loop = asyncio.get_running_loop()
        self._inlet = Inlet()
        self._main = Stream(limits)
        self._streams: dict[str, Stream] = {}
        self._waiting = 0  # bytes in all streams
        self._exempt = 0  # the size of the frame that went beyond the limit, which does not count
        self._broken: ConnectionFailed | None = None
        self._introduced: tuple[object, asyncio.Future[bytes]] | None = None
        self._drainers: list[asyncio.Future[None]] = []
        self._readers = 0
        self._busy = 0  # requests under way
        self._active = self._seen = self._moved = self._loop.time()
        self.closed = self._loop.create_future()

    # --- the contract -----------------------------------------------------------------------------------------

    async def receive(self) -> list[Frame]:
        """The next frames; raises TransportClosed or WriteStalled after the last one."""
        return await self._inlet.receive()

    def listen(self, take: Take) -> None:
        """Offer frames to `take` as they arrive."""
        self._inlet.listen(take)

    def send(self, data: bytes, session: str | None = None) -> None:
        """Queue one frame in the stream it belongs to."""
        if self._broken is not None:
            raise self._broken.with_traceback(None)
        if self._introduced is not None and self._answers(data):
            return
        stream = self._stream_of(self.routing.goes(data) if session is None else session)
        stream.spool.add(data)
        if self.routing.answered is not None:
            self._note(self.routing.answered)
        self._waiting += len(data)
        reader = stream.reader
        if reader is not None and reader.sleeps:
            reader.wake()
        before, limit = self._waiting - len(data), self._limits.buffered
        if before <= limit:
            self._exempt = len(data)  # one frame is taken however large: it would come again
        elif self._waiting - self._exempt > limit:
            error = WriteStalled(f"slow_consumer: {self._waiting} bytes wait for {self.peer}, which does not read")
            self.end_slow(error)

    def end_slow(self, error: ConnectionFailed) -> None:
        """End the connection: its client does not read."""
        self.fail(error)

    @property
    def buffered(self) -> int:
        """Bytes that wait for the client."""
        return self._waiting

    def congested(self) -> bool:
        """Whether so much waits for the client that the sender should await `drain`."""
        return self._waiting > min(HIGH_WATER, self._limits.buffered // 2)

    async def drain(self) -> None:
        """Wait until the client has taken most of what waits."""
        while self._broken is None and self._waiting > min(LOW_WATER, self._limits.buffered // 4):
            waiter = self._loop.create_future()
            self._drainers.append(waiter)
            await waiter
        if self._broken is not None:
            raise self._broken.with_traceback(None)

    async def close(self, reason: str = "") -> None:
        """Let the streams end after what waits in them, for a bounded time."""
        because = f": {reason}" if reason else ""
        self.fail(TransportClosed(f"the connection to {self.peer} was closed{because}"))
        try:
            async with asyncio.timeout(CLOSE_PATIENCE):
                while self._readers and self._waiting:
                    waiter = self._loop.create_future()
                    self._drainers.append(waiter)
                    await waiter
        except TimeoutError:
            pass

    def _note(self, session: str) -> None:
        """The answer that was just queued ends the history of this session, which goes by another stream."""
        self.routing.answered = None
        history = self._streams.get(session)
        if history is not None:
            self._main.after[self._main.spool.last] = b"%d %b" % (history.spool.last, session.encode())

    # --- where a frame goes -----------------------------------------------------------------------------------

    def _stream_of(self, session: str | None) -> Stream:
        """The stream for a frame of this session, None: of the connection.

        A client that loads a session may wait for a message that names it before it opens the stream (the official
        Python client does): until then its messages take the connection's.
        """
        if session is None:
            return self._main
        stream = self._streams.get(session)
        if stream is not None and stream.opened:
            return stream
        stream = self.stream(session)
        if stream is None:
            return self._main
        if not stream.opened and not stream.announced and session in self.routing.nameless:
            stream.announced = True
            return self._main
        return stream

    def stream(self, session: str | None) -> Stream | None:
        """The stream of a session; None when the client has too many."""
        if session is None:
            return self._main
        stream = self._streams.get(session)
        if stream is None and len(self._streams) < self._limits.streams:
            stream = self._streams[session] = Stream(self._limits)
        return stream

    # --- requests ---------------------------------------------------------------------------------------------

    def introduce(self, frame: bytes, said: Gist) -> asyncio.Future[bytes]:
        """The client's initialize came; gives its answer, which takes no stream."""
        future: asyncio.Future[bytes] = self._loop.create_future()
        self._introduced = (said.id, future)
        self._arrived(frame, said)
        return future

    def _answers(self, data: bytes) -> bool:
        assert self._introduced is not None
        id, future = self._introduced
        said = gist(data)
        if said.method or said.id != id:
            return False
        self._introduced = None
        if not future.done():
            future.set_result(data)
        return True

    async def post(self, frame: bytes, said: Gist, number: int = 0) -> None:
        """One message of the client; waits while too many are unread. One with a number is delivered once."""
        self._busy += 1
        try:
            async with asyncio.timeout(self._limits.stall):
                while self._inlet.is_full:
                    await self._room()
        finally:
            self._busy -= 1
        if number:
            if number <= self.delivered:
                return
            self.delivered = number
        self._arrived(frame, said)

    async def _room(self) -> None:
        room = asyncio.Event()
        self._inlet.when_room(room.set)
        await room.wait()

    def _arrived(self, frame: bytes, said: Gist) -> None:
        self._active = self._seen = self._loop.time()
        self.routing.came(said)
        self._inlet.deliver([frame])

    def acknowledge(self, cursor: int) -> None:
        """The client has the connection's frames up to this number."""
        self._main.spool.acknowledge(cursor)

    def open(self, stream: Stream, cursor: int | None) -> Reader:
        """A GET reads this stream from now on; `cursor` is where a cut one stopped (raises Gone)."""
        if cursor is not None:
            before = stream.spool.waiting_size
            stream.spool.rewind(cursor)
            self._waiting += stream.spool.waiting_size - before
        reader = Reader(self, stream)
        if stream.reader is not None:
            stream.reader.leave()
        stream.reader = reader
        stream.opened = True
        self._readers += 1
        self._moved = self._seen = self._loop.time()
        return reader

    def leave(self, reader: Reader) -> None:
        """A GET reads no more."""
        if reader.stream.reader is reader:
            reader.stream.reader = None
        self._readers -= 1
        self._seen = self._loop.time()
        self._wake(0)

    @property
    def is_broken(self) -> bool:
        """Whether the connection has ended."""
        return self._broken is not None

    def take(self, stream: Stream) -> bytes:
        """The events that wait in a stream, as many as one chunk may have."""
        first, before = stream.spool.taken + 1, stream.spool.waiting_size
        frames = stream.spool.take(CHUNK)
        if frames:
            self._took(before - stream.spool.waiting_size)
        return events(frames, first, stream.after)

    def _took(self, size: int) -> None:
        self._waiting -= size
        self._active = self._moved = self._loop.time()
        self._wake(LOW_WATER)

    def _wake(self, mark: int) -> None:
        if self._drainers and (self._waiting <= mark or not self._readers):
            drainers, self._drainers = self._drainers, []
            for waiter in drainers:
                if not waiter.done():
                    waiter.set_result(None)

    # --- ending -----------------------------------------------------------------------------------------------

    def overdue(self, now: float) -> tuple[ConnectionFailed, int] | None:
        """Why the connection has to end now; None when it has not."""
        limits = self._limits
        if not self._readers and not self._busy and self._introduced is None:
            if now - self._seen > limits.linger:
                return TransportClosed(f"{self.peer} did not come back within {limits.linger:g} seconds"), GONE
            return None
        if now - self._active > limits.idle:
            return TransportClosed(f"{self.peer} said nothing for {limits.idle:g} seconds"), GOING_AWAY
        if not self._waiting:
            self._moved = now
        if now - self._moved > limits.stall:
            waiting = f"took no bytes for {limits.stall:g} seconds while {self._waiting} waited"
            return WriteStalled(f"{self.peer} {waiting}"), SLOW
        return None

    def fail(self, error: ConnectionFailed, code: int = GOING_AWAY, reason: str = "") -> None:
        """End the connection for this reason; streams that are read end after what waits in them."""
        if self._broken is not None:
            return
        self._broken = error
        self._inlet.end(error)
        if self._introduced is not None and not self._introduced[1].done():
            self._introduced[1].set_exception(error)
        for stream in (self._main, *self._streams.values()):
            if stream.reader is not None:
                stream.reader.wake()
        drainers, self._drainers = self._drainers, []
        for waiter in drainers:
            if not waiter.done():
                waiter.set_result(None)
        if not self.closed.done():
            self.closed.set_result(None)
