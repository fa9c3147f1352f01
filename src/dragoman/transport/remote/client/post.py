"""Send POSTs to one server, and retry temporary failures.

A message that was interrupted may have arrived: it is sent again only if the server counts messages.
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

# How long to connect, and for the server to take one message. Seconds.
CONNECT_TIMEOUT = 30.0
POST_TIMEOUT = 120.0

# An idle connection is not used again after this: node and uvicorn close theirs after five seconds, and a message sent
# at that moment may or may not have arrived.
IDLE_TIMEOUT = 3.0

# Refused without being processed: the same message may be sent later, to any server.
_RETRY_STATUSES = frozenset({408, 425, 429, 503})

_JSON_HEADERS = {"Content-Type": "application/json"}


def build_http_client(address: RemoteAddress, remote: RemoteOptions) -> httpx.AsyncClient:
    """Build a client: HTTP/2 where TLS negotiates it, cookies per connection, the proxy of the environment."""
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
    """A network backend for httpcore that closes the socket of an abandoned TLS handshake; httpcore leaves it open."""

    def __init__(self, backend: Any) -> None:
        self._backend = backend

    async def connect_tcp(self, *where: Any, **how: Any) -> Any:
        """Open a socket."""
        return _PlainSocket(await self._backend.connect_tcp(*where, **how))

    def __getattr__(self, name: str) -> Any:
        return getattr(self._backend, name)


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


class Poster:
    """Sends the POSTs of one connection."""

    def __init__(
        self, client: httpx.AsyncClient, address: RemoteAddress, remote: RemoteOptions, outage: Outage
    ) -> None:
        self.server_deduplicates = False  # whether the server delivers a message only once if it gets it twice
        self.may_have_arrived = False  # whether the current message may have reached the server
        self._client = client
        self._address = address
        self._backoff = remote.backoff
        self._outage = outage

    async def post_initialize(self, data: bytes) -> httpx.Response:
        """Post the first message of a connection, without retry."""
        return await self._post_once(data, {})

    async def post_with_retry(self, data: bytes, headers: Mapping[str, str]) -> httpx.Response:
        """Post a message until the server has taken or refused it. Raise ConnectionFailed."""

        async def attempt() -> httpx.Response:
            answer = await self._post_once(data, headers)
            error = status_error(self._address.display_url, answer.status_code, answer.headers, answer.content)
            if answer.status_code in _RETRY_STATUSES or (error.is_passing and self.server_deduplicates):
                raise error
            return answer

        reason = "a message could not be sent"
        return await RetryLoop(f"agent {self._address.display_url}", self._backoff, self._outage, reason).run(attempt)

    async def _post_once(self, data: bytes, headers: Mapping[str, str]) -> httpx.Response:
        before, self.may_have_arrived = self.may_have_arrived, True  # unknown while it is being sent
        try:
            answer = await self._client.post(self._address.url, content=data, headers={**_JSON_HEADERS, **headers})
        except (httpx.ConnectError, httpx.ConnectTimeout) as error:
            self.may_have_arrived = before
            raise network_error(self._address.display_url, error) from None
        except Exception as error:  # httpx also raises errors of its parts, such as the end of a TLS stream
            fault = network_error(self._address.display_url, error)
            if headers and not self.server_deduplicates:
                raise TransportClosed(
                    f"{fault}; a message may or may not have arrived: load the session again"
                ) from None
            raise fault from None
        if answer.status_code in (404, 410) or answer.status_code in _RETRY_STATUSES:
            self.may_have_arrived = (
                before  # a server that does not know the connection has not taken the message either
            )
        return answer
