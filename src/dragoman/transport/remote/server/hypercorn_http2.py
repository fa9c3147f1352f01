"""hypercorn's HTTP/2 for one socket, with limits that an exposed server needs and it lacks (decision 0014)."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from contextlib import suppress
from functools import partial
from typing import Any

import h2.events
from h2.errors import ErrorCodes
from h2.exceptions import ProtocolError
from h2.settings import SettingCodes, Settings
from hypercorn.asyncio.task_group import TaskGroup, _handle
from hypercorn.asyncio.tcp_server import TCPServer
from hypercorn.asyncio.worker_context import WorkerContext
from hypercorn.config import Config
from hypercorn.events import Closed, RawData, Updated
from hypercorn.protocol.events import Event, StreamClosed
from hypercorn.protocol.h2 import H2Protocol
from hypercorn.typing import ConnectionState

from dragoman.errors import Kind
from dragoman.transport.remote.server.limits import DRAIN_TIMEOUT, FloodMeter, ServerLimits, Stranger
from dragoman.transport.remote.server.uvicorn_http1 import HEADERS_TOO_LARGE, error_body

# The size of one read: small, so that a block of tiny frames delays nobody else for long.
READ_BLOCK = 16 * 1024

# How many times the largest body is read of a refused one: clients send all of it before they read the response.
DISCARD_FACTOR = 2

# The header table that we keep for a client, whatever it offers (the default of RFC 7541).
HEADER_TABLE_SIZE = 4096

# How many times the largest head is read, so that a client gets a 431; more is an attack.
HEADER_READ_FACTOR = 4

# What a header counts besides its characters (RFC 9113 section 6.5.2).
HEADER_OVERHEAD = 32

# Requests besides the event streams of a connection, which stay open.
EXTRA_STREAMS = 128

# Requests that a socket may have open until one of them is authenticated, and how often that is checked: the rest is
# not read before. No authentication waits for a body.
FEW_STREAMS = 8
DECISION_INTERVAL = 0.01

# The message for a CONNECT (RFC 8441).
NO_WEBSOCKET = "WebSocket works over HTTP/1.1 here; open another socket for it"

# Practically unlimited: hypercorn would end a socket, with all its streams, after a thousand requests.
UNLIMITED_REQUESTS = 1 << 60


def hypercorn_config(limits: ServerLimits, logger: logging.Logger, keep_alive: float) -> Config:
    """Return hypercorn's settings for these limits."""
    config = Config()
    config.include_server_header = False
    config.errorlog = config.accesslog = logger
    # One timeout for sockets without a request, whether they are idle, slow or send garbage.
    config.keep_alive_timeout = min(keep_alive, 3 * limits.header_timeout)
    config.keep_alive_max_requests = UNLIMITED_REQUESTS
    config.h2_max_header_list_size = limits.headers
    config.h2_max_concurrent_streams = limits.streams + EXTRA_STREAMS
    return config


class _RequestTasks(TaskGroup):
    """The requests of one socket. Events for a request that has ended are dropped."""

    async def spawn_app(
        self, app: Any, config: Config, scope: Any, send: Callable[[Any], Awaitable[None]]
    ) -> Callable[[Any], Awaitable[None]]:
        """Start a request; return the function that takes its body."""
        queue: asyncio.Queue[Any] = asyncio.Queue(config.max_app_queue_size)
        is_over = False

        async def run() -> None:
            nonlocal is_over
            executor = partial(self._loop.run_in_executor, None)
            try:
                await _handle(app, config, scope, queue.get, send, executor, _refuse_thread_call)
            finally:
                is_over = True
                while not queue.empty():  # let whoever waits for space go on
                    queue.get_nowait()

        async def put_event(event: Any) -> None:
            if event["type"].endswith(".disconnect"):
                while queue.full():  # it may come from the request itself, which must not wait for itself
                    queue.get_nowait()
            if not is_over:
                await queue.put(event)

        self.spawn(run)
        return put_event


def _refuse_thread_call(*_: Any) -> None:
    raise RuntimeError("only WSGI apps are called from a thread, and ours is none")


class _Http2Streams(H2Protocol):
    """The streams of one socket."""

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        self.connection.decoder.max_header_list_size = HEADER_READ_FACTOR * self.config.h2_max_header_list_size
        self.priority = type(self.priority)(maximum_streams=4 * self.config.h2_max_concurrent_streams)
        self._max_headers = self.config.h2_max_header_list_size
        self.connection.local_settings = _without_websocket(self.connection.local_settings)
        self.stranger: Stranger  # set by the socket
        self.discard_limit = 0  # bytes of a body that are read after its response
        self._discard_left: dict[int, int] = {}  # what is left of that, by stream
        self._last_progress = asyncio.get_running_loop().time()

    def is_stalled(self, now: float, timeout: float) -> bool:
        """Whether the client has let nothing pass for this long, while something waits."""
        if not any(stream_buffer.buffer for stream_buffer in self.stream_buffers.values()):
            self._last_progress = now
        return now - self._last_progress > timeout

    async def reject_flood(self) -> None:
        """Send the client an error for its flood."""
        with suppress(ProtocolError):
            self.connection.close_connection(ErrorCodes.ENHANCE_YOUR_CALM)
            await self._flush()

    async def handle(self, event: Any) -> None:
        """Handle bytes, or the end of the socket, after which nobody waits for space in it."""
        await super().handle(event)
        if isinstance(event, Closed):
            for buffer in list(self.stream_buffers.values()):
                await buffer.close()

    async def _handle_events(self, events: list[h2.events.Event]) -> None:
        for event in events:
            if isinstance(event, h2.events.DataReceived) and event.stream_id not in self.streams:
                await self._discard_data(event)
                continue
            if isinstance(event, h2.events.StreamEnded | h2.events.StreamReset):
                self._discard_left.pop(event.stream_id, None)
            if isinstance(event, h2.events.RequestReceived):
                while not self.stranger.is_admitted and len(self.streams) >= FEW_STREAMS and not self.closed:  # noqa: ASYNC110
                    await asyncio.sleep(DECISION_INTERVAL)  # the app decides, and calls nobody
                if not self.stranger.may_request(asyncio.get_running_loop().time()):
                    await self.reject_flood()
                    await self.send(Closed())
                    return
                if (b":method", b"CONNECT") in event.headers:
                    await self._refuse(event.stream_id, "501", Kind.CAPABILITY_UNSUPPORTED, NO_WEBSOCKET)
                    continue
                if sum(len(name) + len(value) + HEADER_OVERHEAD for name, value in event.headers) > self._max_headers:
                    await self._refuse(event.stream_id, "431", Kind.TOO_LARGE, HEADERS_TOO_LARGE)
                    continue
            if isinstance(event, h2.events.RemoteSettingsChanged):
                self._limit_header_table()
            await super()._handle_events([event])
        await self._flush()

    async def _refuse(self, stream_id: int, status: str, kind: str, message: str) -> None:
        """Refuse a request without calling the app; the other requests of its socket go on."""
        body = error_body(kind, message)
        size = str(len(body))
        headers = [(":status", status), ("content-type", "application/json"), ("content-length", size)]
        with suppress(ProtocolError):
            has_room = self.connection.local_flow_control_window(stream_id) >= len(body)
            self.connection.send_headers(stream_id, headers if has_room else headers[:1], end_stream=not has_room)
            if has_room:
                self.connection.send_data(stream_id, body, end_stream=True)
            self._discard_left[stream_id] = self.discard_limit
        await self._flush()

    async def _discard_data(self, event: h2.events.DataReceived) -> None:
        """Discard more of a body whose request was answered, up to a limit, so that the client reads the response."""
        stream_id, size = event.stream_id, event.flow_controlled_length
        with suppress(ProtocolError):
            self.connection.acknowledge_received_data(size, stream_id)
        if stream_id in self._discard_left:
            self._discard_left[stream_id] -= size
            if self._discard_left[stream_id] < 0:
                del self._discard_left[stream_id]
                await self._reset(stream_id, ErrorCodes.NO_ERROR)

    def _limit_header_table(self) -> None:
        """Keep no more of our own headers for the client than required, however much it offers."""
        encoder = self.connection.encoder
        encoder.header_table_size = min(encoder.header_table_size, HEADER_TABLE_SIZE)
        changes = encoder.table_size_changes
        if len(changes) > 2:  # it keeps changing the size: send the smallest and the last (RFC 7541 4.2)
            encoder.table_size_changes = [min(changes), changes[-1]]

    async def _priority_updated(self, event: h2.events.PriorityUpdated) -> None:
        """Ignore it: priorities have no meaning any more (RFC 9113 section 5.3.2) and would cost memory."""

    async def _send_data(self, stream_id: int) -> None:
        before = len(self.stream_buffers[stream_id].buffer) if stream_id in self.stream_buffers else 0
        await super()._send_data(stream_id)
        if stream_id not in self.stream_buffers:
            stream = self.connection.streams.get(stream_id)
            if stream is not None and not stream.closed:  # answered before its body had arrived
                self._discard_left[stream_id] = self.discard_limit
            self._last_progress = asyncio.get_running_loop().time()
        elif len(self.stream_buffers[stream_id].buffer) < before:
            self._last_progress = asyncio.get_running_loop().time()

    async def stream_send(self, event: Event) -> None:
        """Send what a request produces; reset one that ended in the middle of its response."""
        await super().stream_send(event)
        if isinstance(event, StreamClosed):
            buffer = self.stream_buffers.get(event.stream_id)
            if buffer is not None and not buffer._complete:
                await self._reset(event.stream_id, ErrorCodes.INTERNAL_ERROR)

    async def _reset(self, stream_id: int, code: ErrorCodes) -> None:
        stream = self.connection.streams.get(stream_id)
        if stream is not None and not stream.closed:
            with suppress(ProtocolError):
                self.connection.reset_stream(stream_id, code)
                await self._flush()
            await self._window_updated(stream_id)  # let whoever still sends find it closed


def _without_websocket(settings: Settings) -> Settings:
    """Return the settings without WebSocket over HTTP/2: hypercorn would keep its messages without our limits."""
    codes = (SettingCodes.MAX_CONCURRENT_STREAMS, SettingCodes.MAX_HEADER_LIST_SIZE)
    return Settings(client=False, initial_values={code: settings[code] for code in codes})


class Http2(TCPServer):
    """One socket that is known to speak HTTP/2: hypercorn would guess, and wait for a guessed one forever."""

    protocol: Any

    def __init__(
        self,
        app: Any,
        config: Config,
        context: WorkerContext,
        limits: ServerLimits,
        streams: tuple[Any, asyncio.StreamWriter],
        stranger: Stranger,
    ) -> None:
        super().__init__(app, asyncio.get_running_loop(), config, context, {}, *streams)
        self.protocol = None  # until it runs
        self._is_over = False  # ended by us: a flood, or bytes that cannot be parsed
        self._limits = limits
        self._flood_meter = FloodMeter(limits)
        self._stranger = stranger

    async def run(self) -> None:
        """Serve until the socket ends."""
        info = self.writer.get_extra_info
        try:
            async with _RequestTasks(self.loop) as group:
                self._task_group = group
                self.protocol = _Http2Streams(
                    self.app,
                    self.config,
                    self.context,
                    group,
                    ConnectionState(self.state),
                    info("ssl_object") is not None,
                    info("peername")[:2],
                    info("sockname")[:2],
                    self.protocol_send,
                )
                self.protocol.discard_limit = DISCARD_FACTOR * self._limits.body
                self.protocol.stranger = self._stranger
                await self.protocol.initiate()
                await self.idle_task.restart(group, self._idle_timeout)
                await self._read_data()
        except OSError:
            pass
        finally:
            await self._close()

    async def _read_data(self) -> None:
        while not self._is_over and not self.reader.at_eof():
            try:
                data = await self.reader.read(READ_BLOCK)
            except OSError:
                break
            meter, now = self._flood_meter, self.loop.time()
            if meter.accept(data, now) and self._stranger.may_send_frames(meter.last_count, now):
                await self.protocol.handle(RawData(data))
            else:
                await self.protocol.reject_flood()
                self._is_over = True
        await self.protocol.handle(Closed())
        # hypercorn would keep a socket that its client has closed until it is idle for long.
        await self.idle_task.stop()
        if self._is_over:
            await self._drain_input()
        self.writer.close()

    async def _drain_input(self) -> None:
        """Discard input before closing: with unread bytes the client would get a reset instead of the reason."""
        with suppress(TimeoutError, OSError):
            if self.writer.can_write_eof():
                self.writer.write_eof()
            async with asyncio.timeout(DRAIN_TIMEOUT):
                while await self.reader.read(READ_BLOCK):
                    pass

    async def protocol_send(self, event: Any) -> None:
        """Send bytes, or note the end of the socket and stop its timer."""
        if isinstance(event, Closed):
            self._is_over = True
        elif isinstance(event, RawData) and self.writer.is_closing():
            pass  # the client left before its responses: asyncio would log each of them
        elif not (isinstance(event, Updated) and self.protocol.closed):
            await super().protocol_send(event)

    def abort_if_stalled(self) -> None:
        """Abort a client that opens no window for what it has requested."""
        if self.protocol is not None and self.protocol.is_stalled(self.loop.time(), self._limits.stall):
            self.writer.transport.abort()
