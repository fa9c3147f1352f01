"""Sends POSTs to one server, and sends them again where that is safe.

Takes a frame and headers, gives the server's answer. What passes (too busy, too often, not there for a moment) is
waited for. A message that was cut on its way may have arrived: it is repeated only where the server counts them.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from typing import Any

import httpx

from dragoman.errors import TransportClosed
from dragoman.transport.remote.address import RemoteAddress, RemoteOptions, tls_context
from dragoman.transport.remote.errors import network_error, status_error
from dragoman.transport.remote.retry import Outage, RetryLoop

# To reach a server, and for it to take one message: far away and busy. Seconds.
CONNECT_TIMEOUT = 30.0
POST_TIMEOUT = 120.0

# An idle connection is not used again after this: node and uvicorn close theirs after five seconds, and a message that
# meets such a close may or may not have arrived.
IDLE_TIMEOUT = 3.0

# Refused without being looked at: the same message may be sent later, to any server.
_RETRY_STATUSES = frozenset({408, 425, 429, 503})

_JSON_HEADERS = {"Content-Type": "application/json"}


def build_http_client(address: RemoteAddress, remote: RemoteOptions) -> httpx.AsyncClient:
    """HTTP/2 where TLS agrees on it, the cookies of one connection, the proxy of the environment."""
    client = httpx.AsyncClient(
        http2=True,
        headers=list(address.headers),
        verify=tls_context(remote.tls, address.display_url) if address.is_secure else False,
        trust_env=not address.is_loopback,
        timeout=httpx.Timeout(POST_TIMEOUT, connect=CONNECT_TIMEOUT, pool=None),
        limits=httpx.Limits(max_connections=None, max_keepalive_connections=4, keepalive_expiry=IDLE_TIMEOUT),
    )
    if address.is_secure:
        for transport in (client._transport, *client._mounts.values()):
            if (pool := getattr(transport, "_pool", None)) is not None:
                pool._network_backend = _NetworkBackend(pool._network_backend)
    return client


class _NetworkBackend:
    """httpcore's way to open sockets, which forgets a socket whose TLS handshake is given up until it is swept away."""

    def __init__(self, backend: Any) -> None:
        self._backend = backend

    async def connect_tcp(self, *where: Any, **how: Any) -> Any:
        """Open a socket."""
        return _PlainSocket(await self._backend.connect_tcp(*where, **how))

    def __getattr__(self, name: str) -> Any:
        return getattr(self._backend, name)


class _PlainSocket:
    """A socket before TLS is spoken on it."""

    def __init__(self, socket: Any) -> None:
        self._socket = socket

    async def start_tls(self, *how: Any, **more: Any) -> Any:
        """Agree on TLS, or close it."""
        try:
            return await self._socket.start_tls(*how, **more)
        except BaseException:
            with suppress(Exception):
                await self._socket.aclose()
            raise

    def __getattr__(self, name: str) -> Any:
        return getattr(self._socket, name)


class Poster:
    """Posts for one connection."""

    def __init__(
        self, client: httpx.AsyncClient, address: RemoteAddress, remote: RemoteOptions, outage: Outage
    ) -> None:
        self.server_deduplicates = False  # whether the server delivers a message once that it gets twice
        self.may_have_arrived = False  # whether the message that is being sent may have reached the server
        self._client = client
        self._address = address
        self._backoff = remote.backoff
        self._outage = outage

    async def post_initialize(self, data: bytes) -> httpx.Response:
        """The first message of a connection: tried once, for nothing is lost yet."""
        return await self._post_once(data, {})

    async def post_with_retry(self, data: bytes, headers: Mapping[str, str]) -> httpx.Response:
        """Any later message, until the server has taken or refused it. Raises ConnectionFailed."""

        async def attempt() -> httpx.Response:
            answer = await self._post_once(data, headers)
            error = status_error(self._address.display_url, answer.status_code, answer.headers, answer.content)
            if answer.status_code in _RETRY_STATUSES or (error.is_passing and self.server_deduplicates):
                raise error
            return answer

        why = "a message could not be sent"
        return await RetryLoop(f"agent {self._address.display_url}", self._backoff, self._outage, why).run(attempt)

    async def _post_once(self, data: bytes, headers: Mapping[str, str]) -> httpx.Response:
        before, self.may_have_arrived = self.may_have_arrived, True  # while it is under way nobody can say
        try:
            answer = await self._client.post(self._address.url, content=data, headers={**_JSON_HEADERS, **headers})
        except (httpx.ConnectError, httpx.ConnectTimeout) as error:
            self.may_have_arrived = before
            raise network_error(self._address.display_url, error) from None
        except Exception as error:  # httpx also lets through what its parts raise, such as the end of a TLS stream
            fault = network_error(self._address.display_url, error)
            if headers and not self.server_deduplicates:
                raise TransportClosed(
                    f"{fault}; a message was on its way, and nobody can say whether it arrived: load the session again"
                ) from None
            raise fault from None
        if answer.status_code in (404, 410) or answer.status_code in _RETRY_STATUSES:
            self.may_have_arrived = (
                before  # a server that does not know the connection has not taken the message either
            )
        return answer
