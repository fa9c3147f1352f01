"""Channels to MCP servers, as the SDK takes them: a context manager that gives a stream to read and one to write.

A command runs in a process transport of our own: it is guarded by the watchdog, its messages are bounded, its stderr is
kept. HTTP and SSE are the SDK's, with bounds on what they read.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Any, Protocol

from dragoman.errors import ConnectionFailed
from dragoman.mcp.limits import MAX_FLOOD, MAX_MESSAGE, MAX_NOTIFICATIONS, OPEN_TIMEOUT
from dragoman.mcp.sdk import load
from dragoman.transport.process.process_tree import StopTimeouts
from dragoman.transport.process.transport import ProcessTransport, spawn
from dragoman.wire.envelope import parse_excerpt
from dragoman.wire.frames import Frame, Oversize

# What a server inherits of our environment: nothing that can hold a credential (the list of the SDK).
INHERITED = ("HOME", "LOGNAME", "PATH", "SHELL", "TERM", "USER", "LANG", "LC_ALL", "TMPDIR")

# A server sees the end of its input, then SIGTERM, then SIGKILL; the whole tree of its processes.
_STOP_TIMEOUTS = StopTimeouts(eof=2.0, term=2.0)

# A stream of HTTP events without an event for this long is no fault: calls have their own timeouts. Seconds.
_HTTP_READ_TIMEOUT = 3600.0

# Messages of a server that the SDK need not take at once: a hand-over for each costs more than the rest.
_BUFFERED = 16

Streams = AbstractAsyncContextManager[tuple[Any, Any]]


class Channel(Protocol):
    """How a server is reached. `failure` says why it ended, if more is known than that it did."""

    failure: str

    def open(self) -> Streams:
        """Connect and give the two streams; leaving the block disconnects."""
        ...


class ProcessChannel:
    """A server that is a command."""

    def __init__(
        self, name: str, command: list[str], env: Mapping[str, str], cwd: str | None, report: Callable[[str], None]
    ) -> None:
        self.failure = ""
        self.pid = 0
        self._name = name
        self._command = command
        self._env = env
        self._cwd = cwd
        self._report = report
        self._reported: set[str] = set()
        self._flood = 0
        self._second = 0.0
        self._notifications = 0

    @asynccontextmanager
    async def open(self) -> AsyncIterator[tuple[Any, Any]]:
        """Start the process while the SDK is imported."""
        importing = asyncio.create_task(load(self._name))
        try:
            transport = await spawn(
                self._command,
                cwd=self._cwd,
                env=self._env,
                inherit_env=INHERITED,
                stop_timeouts=_STOP_TIMEOUTS,
                peer=f"MCP server {self._name}",
                max_frame=MAX_MESSAGE,
            )
        except BaseException:
            importing.cancel()
            raise
        self.pid = transport.pid
        reading: asyncio.Task[None] | None = None
        try:
            await importing
            import anyio

            received, read_stream = anyio.create_memory_object_stream[Any](_BUFFERED)
            reading = asyncio.create_task(self._read(transport, received))
            yield read_stream, _Writer(self, transport)
        finally:
            if reading is not None:
                reading.cancel()
            await asyncio.shield(asyncio.ensure_future(transport.close()))

    async def _read(self, transport: ProcessTransport, received: Any) -> None:
        from mcp.shared.message import SessionMessage

        def take(frames: list[Frame]) -> bool:
            """Take frames as they are read, if the SDK can have them all now; saves a hand-over."""
            if received.statistics().current_buffer_used + len(frames) > _BUFFERED or self._flood > MAX_FLOOD:
                return False
            try:
                for frame in frames:
                    message = self._parse(frame)
                    if message is not None:
                        received.send_nowait(SessionMessage(message))
            except Exception:  # the SDK closed its end; `send` below says so
                return False
            return True

        async with received:
            try:
                transport.listen(take)
                while True:
                    for frame in await transport.receive():
                        message = self._parse(frame)
                        if message is not None:
                            await received.send(SessionMessage(message))
                        elif self._flood > MAX_FLOOD:
                            self.failure = f"it floods its output ({self._flood} bytes that are no answer)"
                            return
            except ConnectionFailed as error:
                self.failure = str(error).removeprefix(f"{transport.peer} ")
            except Exception as error:  # the SDK closed its end
                self.failure = self.failure or f"{type(error).__name__}"

    def _parse(self, frame: Frame) -> Any:
        """Return the JSON-RPC message of a line; None if there is none, or too many notifications came."""
        import mcp_types as types

        if isinstance(frame, Oversize):
            return self._oversize_error(frame)
        message = None
        if frame.lstrip()[:1] == b"{":
            try:
                message = types.jsonrpc_message_adapter.validate_json(frame, by_name=False)
            except ValueError:
                message = None
        if message is None:
            self._flood += len(frame)
            self._report_once("it writes lines to its stdout that are not messages; they are ignored")
        elif isinstance(message, types.JSONRPCNotification) and not self._may_notify():
            self._flood += len(frame)
            return None
        return message

    def _may_notify(self) -> bool:
        now = time.monotonic()
        if now - self._second >= 1:
            self._second, self._notifications = now, 0
        self._notifications += 1
        if self._notifications == MAX_NOTIFICATIONS + 1:
            self._report_once(f"it sends more than {MAX_NOTIFICATIONS} notifications a second; the rest is dropped")
        return self._notifications <= MAX_NOTIFICATIONS

    def _report_once(self, text: str) -> None:
        """Tell the user; a server that goes on the same way is not news."""
        if text not in self._reported:
            self._reported.add(text)
            self._report(text)

    def _oversize_error(self, frame: Oversize) -> Any:
        """Return an error as the answer to the request whose answer is too large to hold."""
        import mcp_types as types

        excerpt = parse_excerpt(frame)
        text = f"a message of {frame.size} bytes is over the limit of {MAX_MESSAGE}"
        self._report(f"{text}; it was skipped")
        if not isinstance(excerpt.id, str | int) or isinstance(excerpt.method, str):
            return None
        error = types.ErrorData(code=types.INTERNAL_ERROR, message=text)
        return types.JSONRPCError(jsonrpc="2.0", id=excerpt.id, error=error)


class _Writer:
    """The stream to which the SDK writes: straight to the pipe, without a task between them."""

    def __init__(self, channel: ProcessChannel, transport: ProcessTransport) -> None:
        self._channel = channel
        self._transport = transport
        self._is_closed = False

    async def send(self, message: Any) -> None:
        """Write one message; raise what the SDK expects of a closed stream."""
        import anyio

        if self._is_closed:
            raise anyio.ClosedResourceError
        transport = self._transport
        try:
            transport.send(message.message.model_dump_json(by_alias=True, exclude_unset=True).encode())
            if transport.congested():
                await transport.drain()
        except ConnectionFailed as error:
            self._channel.failure = self._channel.failure or str(error)
            raise anyio.BrokenResourceError from error

    async def aclose(self) -> None:
        """Take no more messages."""
        self._is_closed = True

    async def __aenter__(self) -> _Writer:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()


class HttpChannel:
    """A server at a url, over Streamable HTTP or the older HTTP with SSE."""

    def __init__(self, name: str, url: str, headers: Mapping[str, str], *, is_sse: bool = False) -> None:
        self.failure = ""
        self._name = name
        self._url = url
        self._headers = dict(headers)
        self._is_sse = is_sse

    @asynccontextmanager
    async def open(self) -> AsyncIterator[tuple[Any, Any]]:
        """Connect; the SDK sends the first request when its client opens."""
        await load(self._name)
        from mcp.client.sse import sse_client
        from mcp.client.streamable_http import streamable_http_client

        if self._is_sse:
            streams = sse_client(
                self._url,
                headers=self._headers,
                timeout=OPEN_TIMEOUT,
                sse_read_timeout=_HTTP_READ_TIMEOUT,
                httpx_client_factory=lambda headers=None, timeout=None, auth=None: _http_client(headers or {}),
            )
            async with streams as (read, write):
                yield read, write
            return
        async with _http_client(self._headers) as client:
            http = streamable_http_client(self._url, http_client=client, max_sse_event_size=MAX_MESSAGE)
            async with http as (read, write):
                yield read, write


def _http_client(headers: Mapping[str, str]) -> Any:
    """Return an HTTP client whose answers are bounded."""
    import httpx2

    async def bound(response: Any) -> None:
        length = response.headers.get("content-length", "")
        if length.isdigit() and int(length) > MAX_MESSAGE:
            raise _too_large(int(length))
        if "text/event-stream" not in response.headers.get("content-type", ""):
            response.stream = _bounded_stream(response.stream)

    return httpx2.AsyncClient(
        headers=dict(headers),
        timeout=httpx2.Timeout(OPEN_TIMEOUT, read=_HTTP_READ_TIMEOUT),
        event_hooks={"response": [bound]},
    )


def _too_large(size: int) -> Exception:
    import httpx2

    return httpx2.StreamError(f"an answer of {size} bytes or more is over the limit of {MAX_MESSAGE}")


def _bounded_stream(stream: Any) -> Any:
    import httpx2

    class Bounded(httpx2.AsyncByteStream):
        async def __aiter__(self) -> AsyncIterator[bytes]:
            size = 0
            async for part in stream:
                size += len(part)
                if size > MAX_MESSAGE:
                    raise _too_large(size)
                yield part

        async def aclose(self) -> None:
            await stream.aclose()

    return Bounded()
