"""The server's end of a Streamable HTTP connection: POSTs bring frames, event streams send them
(docs/protocol/http.md#streams). Frames are kept for a while, so that a stream resumes by Last-Event-ID.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator

from dragoman.dialect.peek import FramePeek, peek_frame
from dragoman.errors import ConnectionFailed
from dragoman.transport.base import CLOSE_TIMEOUT, HIGH_WATER, LOW_WATER, close_error
from dragoman.transport.remote.resume import ResumeBuffer
from dragoman.transport.remote.server.limits import ServerLimits
from dragoman.transport.remote.server.transport import GOING_AWAY, ServerTransport
from dragoman.transport.remote.sse import CHUNK_SIZE, KEEPALIVE, encode_events
from dragoman.transport.remote.streams import StreamRouter


class FrameStream:
    """One event stream: its frames, and the GET that reads it now."""

    def __init__(self, limits: ServerLimits) -> None:
        self.buffer = ResumeBuffer(keep_bytes=limits.kept)
        self.reader: FrameStreamReader | None = None
        self.was_opened = False  # whether a GET ever read it
        self.is_announced = False  # whether the client got a message that names the session
        self.after: dict[int, bytes] = {}  # what some of its frames must come after, by their numbers


class FrameStreamReader:
    """One GET on a stream."""

    def __init__(self, transport: HttpServerTransport, stream: FrameStream) -> None:
        self.stream = stream
        self._transport = transport
        self.is_waiting = False  # whether it waits for a wake
        self._wake_event = asyncio.Event()
        self._is_stopped = False

    def wake(self) -> None:
        """Wake the reader: there is something to read, or it ended."""
        self.is_waiting = False
        self._wake_event.set()

    def stop(self) -> None:
        """Stop: the client disconnected, or reads by a newer GET."""
        self._is_stopped = True
        self._wake_event.set()

    async def read_chunks(self, keepalive: float) -> AsyncGenerator[bytes, None]:
        """Yield the chunks of the stream until it ends, with keep-alives in between."""
        transport, stream = self._transport, self.stream
        try:
            while not self._is_stopped:
                self._wake_event.clear()
                chunk = transport.take_events(stream)
                if chunk:
                    yield chunk
                elif transport.is_closed:
                    return
                else:
                    self.is_waiting = True
                    timer = asyncio.get_running_loop().call_later(keepalive, self._wake_event.set)
                    try:
                        await self._wake_event.wait()
                    finally:
                        timer.cancel()
                    if self.is_waiting and not self._is_stopped:
                        yield KEEPALIVE
        finally:
            transport.close_reader(self)


class HttpServerTransport(ServerTransport):
    """One client over Streamable HTTP."""

    def __init__(self, peer: str, limits: ServerLimits) -> None:
        super().__init__(peer, limits)
        self.router = StreamRouter()
        self.last_delivered = 0  # the number of the client's last frame, if it numbers them
        self._connection_stream = FrameStream(limits)
        self._session_streams: dict[str, FrameStream] = {}
        self._waiting_bytes = 0  # bytes in all streams
        self._unopened_bytes = 0  # those of them in streams of sessions that the client has not opened yet
        self._initialize_answer: tuple[object, asyncio.Future[bytes]] | None = None
        self._drained = asyncio.Event()
        self._reader_count = 0
        self._waiting_posts = 0  # requests that wait until their message can be delivered

    def send(self, data: bytes, session: str | None = None) -> None:
        """Queue one frame in the stream it belongs to."""
        if self._end_error is not None:
            raise self._end_error.with_traceback(None)
        if self._initialize_answer is not None and self._take_initialize_answer(data):
            return
        stream = self._route_to_stream(self.router.session_of(data) if session is None else session)
        stream.buffer.add(data)
        if self.router.history_ended is not None:
            self._note_history_end(self.router.history_ended)
        self._waiting_bytes += len(data)
        if not stream.was_opened and stream is not self._connection_stream:
            self._unopened_bytes += len(data)
        reader = stream.reader
        if reader is not None and reader.is_waiting:
            reader.wake()
        if self._waiting_bytes > self._limits.buffered:
            self._check_overflow([data], self._waiting_bytes)

    @property
    def buffered_bytes(self) -> int:
        """Bytes that wait for the client."""
        return self._waiting_bytes

    def congested(self) -> bool:
        """Whether so much waits for the client that the sender should await `drain`."""
        return self._is_above(HIGH_WATER)

    def _is_above_low_water(self) -> bool:
        return self._is_above(LOW_WATER)

    def _is_above(self, mark: int) -> bool:
        """Whether more waits than this. What nobody can read yet has its own limit: a client may open the stream of a
        session only after the answer to session/load, which comes after the history.
        """
        limit = self._limits.buffered
        is_full = self._waiting_bytes > max(limit - HIGH_WATER, limit // 2)
        return is_full or self._waiting_bytes - self._unopened_bytes > min(mark, limit // 4)

    async def close(self, reason: str = "") -> None:
        """Let the streams send what waits, for a bounded time, then end them."""
        self.fail(close_error(self.peer, reason))
        try:
            async with asyncio.timeout(CLOSE_TIMEOUT):
                while self._reader_count and self._waiting_bytes > self._unopened_bytes:
                    self._space_available.clear()
                    await self._space_available.wait()
        except TimeoutError:
            pass

    def _note_history_end(self, session: str) -> None:
        """Mark the answer just queued as the end of this session's history, which goes by another stream."""
        self.router.history_ended = None
        history = self._session_streams.get(session)
        if history is not None:
            self._connection_stream.after[self._connection_stream.buffer.last_number] = b"%d %b" % (
                history.buffer.last_number,
                session.encode(),
            )

    def _route_to_stream(self, session: str | None) -> FrameStream:
        """Return the stream for a frame of this session, or of the connection (None).

        A client that loads a session may wait for a message that names it before it opens the stream (the official
        Python client does): until then its messages take the connection's stream.
        """
        if session is None:
            return self._connection_stream
        stream = self._session_streams.get(session)
        if stream is not None and stream.was_opened:
            return stream
        stream = self.session_stream(session)
        if stream is None:
            return self._connection_stream
        if not stream.was_opened and not stream.is_announced and session in self.router.unnamed_sessions:
            stream.is_announced = True
            return self._connection_stream
        return stream

    def session_stream(self, session: str | None) -> FrameStream | None:
        """Return the stream of a session; None when the client has too many."""
        if session is None:
            return self._connection_stream
        stream = self._session_streams.get(session)
        if stream is None and len(self._session_streams) < self._limits.streams:
            stream = self._session_streams[session] = FrameStream(self._limits)
        return stream

    def deliver_initialize(self, frame: bytes, peek: FramePeek) -> asyncio.Future[bytes]:
        """Deliver the client's initialize; return the future of its answer, which uses no stream."""
        future: asyncio.Future[bytes] = self._loop.create_future()
        self._initialize_answer = (peek.id, future)
        self._deliver(frame, peek)
        return future

    def _take_initialize_answer(self, data: bytes) -> bool:
        assert self._initialize_answer is not None
        id, future = self._initialize_answer
        peek = peek_frame(data)
        if peek.method or peek.id != id:
            return False
        self._initialize_answer = None
        if not future.done():
            future.set_result(data)
        return True

    async def deliver_post(self, frame: bytes, peek: FramePeek, number: int = 0) -> None:
        """Deliver one message of the client; wait while too many are unread. One with a number is delivered once."""
        if self._incoming.is_full:
            await self._wait_for_space()
        if number:
            if number <= self.last_delivered:
                return
            self.last_delivered = number
        self._deliver(frame, peek)

    async def _wait_for_space(self) -> None:
        """Wait while too many messages are unread. Raise TimeoutError."""
        self._waiting_posts += 1
        try:
            async with asyncio.timeout(self._limits.stall):
                while self._incoming.is_full:
                    self._drained.clear()  # one event for all waiting POSTs: the queue calls back once
                    self._incoming.call_when_drained(self._drained.set)
                    await self._drained.wait()
        finally:
            self._waiting_posts -= 1

    def _deliver(self, frame: bytes, peek: FramePeek) -> None:
        self._last_active = self._last_seen = self._loop.time()
        self.router.note_client_frame(peek)
        self._incoming.deliver([frame])

    def acknowledge(self, cursor: int) -> None:
        """Drop the connection's frames up to this number: the client has them."""
        self._connection_stream.buffer.acknowledge(cursor)

    def open_reader(self, stream: FrameStream, cursor: int | None) -> FrameStreamReader:
        """Let a GET read this stream; `cursor` is the last event the client has (raises FramesGone)."""
        if cursor is not None:
            before = stream.buffer.waiting_size
            stream.buffer.rewind(cursor)
            self._waiting_bytes += stream.buffer.waiting_size - before
        reader = FrameStreamReader(self, stream)
        if stream.reader is not None:
            stream.reader.stop()
        stream.reader = reader
        if not stream.was_opened and stream is not self._connection_stream:
            self._unopened_bytes -= stream.buffer.waiting_size
        stream.was_opened = True
        self._reader_count += 1
        self._last_progress = self._last_seen = self._loop.time()
        return reader

    def close_reader(self, reader: FrameStreamReader) -> None:
        """Detach a GET."""
        if reader.stream.reader is reader:
            reader.stream.reader = None
        self._reader_count -= 1
        self._last_seen = self._loop.time()
        self._wake_drains()

    @property
    def is_closed(self) -> bool:
        """Whether the connection has ended."""
        return self._end_error is not None

    def take_events(self, stream: FrameStream) -> bytes:
        """Take the events that wait in a stream, up to one chunk."""
        first, before = stream.buffer.last_taken + 1, stream.buffer.waiting_size
        frames = stream.buffer.take(CHUNK_SIZE)
        if frames:
            self._waiting_bytes -= before - stream.buffer.waiting_size
            self._last_active = self._last_progress = self._loop.time()
            self._wake_drains()
        return encode_events(frames, first, stream.after)

    def _wake_drains(self) -> None:
        if not self._is_above_low_water() or not self._reader_count:
            self._space_available.set()

    def overdue_error(self, now: float) -> tuple[ConnectionFailed, int] | None:
        """Return why the connection has to end now; None while it may go on."""
        is_connected = bool(self._reader_count or self._waiting_posts) or self._initialize_answer is not None
        if is_connected and self._waiting_bytes == self._unopened_bytes and not self.congested():
            self._last_progress = now
        return self._timeout_error(now, is_connected, self._waiting_bytes)

    def fail(self, error: ConnectionFailed, code: int = GOING_AWAY, reason: str = "") -> None:
        """End the connection with this error; streams that are read send what waits first."""
        if self._end_error is not None:
            return
        self._end(error)
        if self._initialize_answer is not None and not self._initialize_answer[1].done():
            self._initialize_answer[1].set_exception(error)
        for stream in (self._connection_stream, *self._session_streams.values()):
            if stream.reader is not None:
                stream.reader.wake()
