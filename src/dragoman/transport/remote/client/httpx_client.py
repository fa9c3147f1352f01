"""Requests by httpx: HTTP/2 where TLS negotiates it, and the proxy of the environment."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from typing import Any

import httpx

from dragoman.transport.remote.address import RemoteAddress, RemoteOptions, tls_context
from dragoman.transport.remote.client.cookies import join_cookies
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


class HttpxClient:
    """An HttpClient; cookies are kept as long as it lives."""

    def __init__(self, address: RemoteAddress, remote: RemoteOptions) -> None:
        self._url = address.url
        own_headers = httpx.Headers(address.headers)
        self._own_cookies = own_headers.pop("cookie", "")
        self._client = httpx.AsyncClient(
            http2=True,
            headers=own_headers,
            verify=tls_context(remote.tls, address.display_url) if address.is_secure else False,
            trust_env=not address.is_loopback,
            timeout=httpx.Timeout(POST_TIMEOUT, connect=CONNECT_TIMEOUT, pool=None),
            limits=httpx.Limits(
                max_connections=None, max_keepalive_connections=MAX_IDLE, keepalive_expiry=IDLE_TIMEOUT
            ),
        )
        self._backends: list[_NetworkBackend] = []
        if address.is_secure:
            for transport in (self._client._transport, *self._client._mounts.values()):
                if (pool := getattr(transport, "_pool", None)) is not None:
                    pool._network_backend = _NetworkBackend(pool._network_backend)
                    self._backends.append(pool._network_backend)

    async def post(self, data: bytes, headers: Mapping[str, str]) -> HttpAnswer:
        """Post one message."""
        return await _read(await self._send(self._build_request("POST", {**JSON_HEADERS, **headers}, data)))

    async def open_stream(self, headers: Mapping[str, str]) -> httpx.Response:
        """Request an event stream, which may be silent forever."""
        request = self._build_request("GET", {**STREAM_HEADERS, **headers})
        request.extensions["timeout"] = {**request.extensions["timeout"], "read": None}
        return await self._send(request)

    async def delete(self, headers: Mapping[str, str]) -> None:
        """Send DELETE."""
        await _read(await self._send(self._build_request("DELETE", headers)))

    async def aclose(self) -> None:
        """Close all connections."""
        try:
            await self._client.aclose()
        finally:
            for backend in self._backends:
                await backend.aclose()

    def _build_request(self, method: str, headers: Mapping[str, str], data: bytes | None = None) -> httpx.Request:
        """Return a request with the cookies of the user and of the server; httpx would send only those of the user."""
        request = self._client.build_request(method, self._url, headers=headers, content=data)
        if cookie := join_cookies(self._own_cookies, request.headers.get("cookie", "")):
            request.headers["cookie"] = cookie
        return request

    async def _send(self, request: httpx.Request) -> httpx.Response:
        """Send a request; return its response before its body. Raise NotConnected."""
        try:
            return await self._client.send(request, stream=True)
        except (httpx.ConnectError, httpx.ConnectTimeout) as error:
            raise NotConnected from error


async def _read(response: httpx.Response) -> HttpAnswer:
    """Read a response."""
    try:
        content = await read_body(response.status_code, response.aiter_bytes())
    finally:
        await response.aclose()
    return HttpAnswer(response.status_code, response.headers, content)


class _NetworkBackend:
    """A network backend for httpcore that closes the sockets which httpcore leaves open.

    One is that of an abandoned TLS handshake. The other: two requests wait for one connection, the first is cancelled,
    and the second connects. The pool has forgotten that connection with the first request.
    """

    def __init__(self, backend: Any) -> None:
        self._backend = backend
        self._sockets: list[Any] = []

    async def connect_tcp(self, *where: Any, **how: Any) -> Any:
        """Open a socket."""
        socket = await self._backend.connect_tcp(*where, **how)
        self._sockets = [*filter(_is_open, self._sockets), socket]
        return _PlainSocket(socket)

    async def aclose(self) -> None:
        """Close the sockets that are still open."""
        for socket in filter(_is_open, self._sockets):
            with suppress(Exception):
                await socket.aclose()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._backend, name)


def _is_open(socket: Any) -> bool:
    return bool(socket.get_extra_info("socket").fileno() >= 0)


class _PlainSocket:
    """A socket before TLS."""

    def __init__(self, socket: Any) -> None:
        self._socket = socket

    async def start_tls(self, *how: Any, **more: Any) -> Any:
        """Start TLS, or close the socket."""
        try:
            return await self._socket.start_tls(*how, **more)
        except BaseException:
            with suppress(Exception):
                await self._socket.aclose()
            raise

    def __getattr__(self, name: str) -> Any:
        return getattr(self._socket, name)
