"""Requests by HTTP/1.1 without TLS: idle sockets are used again, one request at a time on each."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping
from typing import cast

from dragoman.transport.base import HIGH_WATER
from dragoman.transport.remote.address import RemoteAddress
from dragoman.transport.remote.client.cookies import Cookies, join_cookies
from dragoman.transport.remote.client.http1_parser import MalformedResponse, ResponseHeaders, ResponseParser
from dragoman.transport.remote.client.http_client import (
    CONNECT_TIMEOUT,
    IDLE_TIMEOUT,
    JSON_HEADERS,
    MAX_IDLE,
    POST_TIMEOUT,
    STREAM_HEADERS,
    HttpAnswer,
    NotConnected,
    read_body,
)

# How long the first address of a name is tried alone (RFC 8305). Seconds.
NEXT_ADDRESS_DELAY = 0.25


class Http1Client:
    """An HttpClient; cookies are kept as long as it lives."""

    def __init__(self, address: RemoteAddress) -> None:
        self._address = address
        self._cookies = Cookies(address.url)
        self._idle_sockets: list[Http1Socket] = []
        self._sockets: set[Http1Socket] = set()
        self._is_closed = False
        own_headers = {name.lower(): value for name, value in address.headers}
        self._base_headers = {"host": address.netloc, "accept": "*/*", "user-agent": "dragoman", **own_headers}

    async def post(self, data: bytes, headers: Mapping[str, str]) -> HttpAnswer:
        """Post one message."""
        length = {"Content-Length": str(len(data))}
        response = await self._request("POST", {**JSON_HEADERS, **length, **headers}, data, POST_TIMEOUT)
        return await _read(response)

    async def open_stream(self, headers: Mapping[str, str]) -> Http1Response:
        """Request an event stream, which may be silent forever."""
        return await self._request("GET", {**STREAM_HEADERS, **headers}, b"", None)

    async def delete(self, headers: Mapping[str, str]) -> None:
        """Send DELETE."""
        await _read(await self._request("DELETE", headers, b"", POST_TIMEOUT))

    async def aclose(self) -> None:
        """Close all connections, also those that are being opened."""
        self._is_closed = True
        for socket in list(self._sockets):
            socket.abort()

    async def _request(
        self, method: str, headers: Mapping[str, str], body: bytes, timeout: float | None
    ) -> Http1Response:
        message = self._request_head(method, headers) + body
        socket = self._take_idle_socket() or await self._connect()
        try:
            response = await socket.request(message, timeout)
        except BaseException:
            socket.abort()
            raise
        if response.headers.cookies:
            self._cookies.store(response.headers.cookies)
        return response

    def _request_head(self, method: str, headers: Mapping[str, str]) -> bytes:
        """Return the head of a request. Raise ValueError when a header would end its line."""
        all_headers = self._base_headers | {name.lower(): value for name, value in headers.items()}
        if cookie := self._cookies.header():
            all_headers["cookie"] = join_cookies(all_headers.get("cookie", ""), cookie)
        lines = [f"{method} {self._address.target} HTTP/1.1"]
        lines += [f"{name}: {value}" for name, value in all_headers.items()]
        head = "\r\n".join(lines)
        if head.count("\n") != len(lines) - 1 or head.count("\r") != len(lines) - 1 or "\0" in head:
            raise ValueError("a header has a line end in it")
        return head.encode("latin-1") + b"\r\n\r\n"

    def _take_idle_socket(self) -> Http1Socket | None:
        while self._idle_sockets:
            socket = self._idle_sockets.pop()
            if socket.is_fresh():
                return socket
            socket.abort()
        return None

    async def _connect(self) -> Http1Socket:
        """Open a socket. Raise NotConnected."""
        loop, host, port = asyncio.get_running_loop(), self._address.host, self._address.port

        # With a delay, asyncio tries several addresses at once (Happy Eyeballs). If we are cancelled right after one of
        # them connected, asyncio leaves its socket open. This machine needs no delay: its addresses answer at once.
        delay = None if self._address.is_loopback else NEXT_ADDRESS_DELAY

        def make() -> Http1Socket:
            return Http1Socket(self._keep_idle, self._drop)

        try:
            async with asyncio.timeout(CONNECT_TIMEOUT):
                try:
                    _, socket = await loop.create_connection(make, host, port, happy_eyeballs_delay=delay)
                except OSError as error:
                    if error.errno is not None:
                        raise
                    # asyncio merges the errors of several addresses into one without errno. One more try with only
                    # the last address gives an error that says what is wrong.
                    address = await loop.getaddrinfo(host, port)
                    _, socket = await loop.create_connection(make, *address[-1][4][:2])
        except (OSError, TimeoutError) as error:
            raise NotConnected from error
        if self._is_closed:  # while it was being opened
            socket.abort()
            raise NotConnected from ConnectionAbortedError("this connection was closed")
        self._sockets.add(socket)
        return socket

    def _keep_idle(self, socket: Http1Socket) -> None:
        if self._is_closed:
            socket.abort()
            return
        self._idle_sockets.append(socket)
        if len(self._idle_sockets) > MAX_IDLE:
            self._idle_sockets.pop(0).abort()

    def _drop(self, socket: Http1Socket) -> None:
        self._sockets.discard(socket)
        if socket in self._idle_sockets:
            self._idle_sockets.remove(socket)


class Http1Response:
    """An HttpResponse, whose body arrives at its socket."""

    def __init__(self, socket: Http1Socket, status_code: int, headers: ResponseHeaders) -> None:
        self.status_code = status_code
        self.headers = headers
        self._socket: Http1Socket | None = socket  # until the body was read

    async def aiter_raw(self) -> AsyncIterator[bytes]:
        """Read the body in parts, as they arrive."""
        socket = self._socket
        while socket is not None:
            if part := socket.take_body():
                yield part
            elif socket.is_complete:
                self._socket = None
                socket.release()
                return
            else:
                await socket.wait()

    async def aclose(self) -> None:
        """Close the socket if the body was not read."""
        if self._socket is not None:
            self._socket.abort()
            self._socket = None


async def _read(response: Http1Response) -> HttpAnswer:
    """Read a response. Its socket is used again only if it was read to its end."""
    try:
        content = await read_body(response.status_code, response.aiter_raw())
    finally:
        await response.aclose()
    return HttpAnswer(response.status_code, response.headers, content)


class Http1Socket(asyncio.Protocol):
    """One socket: a request, its response, then the next."""

    def __init__(self, on_idle: Callable[[Http1Socket], None], on_lost: Callable[[Http1Socket], None]) -> None:
        self._on_idle = on_idle
        self._on_lost = on_lost
        self._loop = asyncio.get_running_loop()
        self._parser = ResponseParser()
        self._waiter: asyncio.Future[None] | None = None
        self._error: BaseException | None = None  # set when the socket cannot be used any more
        self._paused = False
        self._idle_since = 0.0
        self._timeout: float | None = None  # without progress; None: it may take forever
        self._last_progress = 0.0
        self._unsent_bytes = 0
        self._timer: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Keep the transport."""
        self._transport = cast(asyncio.Transport, transport)
        self._transport.set_write_buffer_limits(high=0)  # resume_writing is then called when all was sent

    async def request(self, message: bytes, timeout: float | None) -> Http1Response:
        """Send a request; return its response as soon as its head is there."""
        self._parser.start()
        self._timeout, self._last_progress = timeout, self._loop.time()
        if timeout is not None and self._timer is None:
            self._timer = self._loop.call_later(timeout, self._check_progress)
        self._transport.write(message)
        self._unsent_bytes = self._transport.get_write_buffer_size()
        while not self._parser.status:
            await self.wait()
        return Http1Response(self, self._parser.status, self._parser.headers)

    @property
    def is_complete(self) -> bool:
        """Whether the whole response arrived."""
        return self._parser.is_complete

    async def wait(self) -> None:
        """Wait until more of the response arrives. Raise what ended the socket."""
        if self._error is not None:
            raise self._error
        self._waiter = self._loop.create_future()
        try:
            await self._waiter
        finally:
            self._waiter = None

    def take_body(self) -> bytes:
        """Take what has arrived of the body."""
        parts, self._parser.parts = self._parser.parts, []
        if self._paused:
            self._paused = False
            self._transport.resume_reading()
        return parts[0] if len(parts) == 1 else b"".join(parts)

    def release(self) -> None:
        """Keep the socket for the next request, or close it; the response has been read."""
        self._timeout, self._idle_since = None, self._loop.time()
        if not self._parser.keeps_alive or self._error is not None or self._transport.get_write_buffer_size():
            self.abort()
        else:
            self._on_idle(self)

    def is_fresh(self) -> bool:
        """Whether the idle socket can be used again."""
        return self._error is None and self._loop.time() - self._idle_since < IDLE_TIMEOUT

    def abort(self) -> None:
        """Close the socket at once."""
        self._transport.abort()

    def data_received(self, data: bytes) -> None:
        """Parse a part of the response."""
        self._last_progress = self._loop.time()
        try:
            self._parser.feed(data)
        except MalformedResponse as error:
            self._fail(error)
            return
        if sum(map(len, self._parser.parts)) > HIGH_WATER and not self._paused:
            self._paused = True
            self._transport.pause_reading()
        self._wake()

    def resume_writing(self) -> None:
        """Note when the whole request was sent: the time for the response begins then, not at the next check."""
        self._unsent_bytes, self._last_progress = 0, self._loop.time()

    def connection_lost(self, exc: Exception | None) -> None:
        """Note the end, which completes some responses."""
        if self._timer is not None:
            self._timer.cancel()
        is_complete = exc is None and self._parser.end()
        reason = (
            "it closed the connection in its response"
            if self._parser.status
            else "it closed the connection before it answered"
        )
        if self._error is None:
            self._error = exc or ConnectionResetError(0, reason)
        if is_complete or self._waiter is not None:
            self._wake()
        self._on_lost(self)

    def _fail(self, error: Exception) -> None:
        self._error = self._error or error
        self._wake()
        self.abort()

    def _wake(self) -> None:
        waiter = self._waiter
        if waiter is None or waiter.done():
            return
        if self._error is not None and not self._parser.is_complete:
            waiter.set_exception(self._error)
        else:
            waiter.set_result(None)

    def _check_progress(self) -> None:
        """Fail a request that makes no progress in either direction. One timer serves all requests of a socket."""
        unsent = self._transport.get_write_buffer_size()
        if unsent < self._unsent_bytes:
            self._last_progress = self._loop.time()
        self._unsent_bytes, self._timer = unsent, None
        if self._timeout is None:
            return
        deadline = self._last_progress + self._timeout
        if self._loop.time() >= deadline:
            self._fail(TimeoutError())
        else:
            self._timer = self._loop.call_at(deadline, self._check_progress)
