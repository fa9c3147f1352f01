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
from dragoman.transport.remote.address import Address, Remote, trust
from dragoman.transport.remote.errors import failed, refused
from dragoman.transport.remote.retry import Outage, Retrying

# To reach a server, and for it to take one message: far away and busy. Seconds.
CONNECT_PATIENCE = 30.0
POST_PATIENCE = 120.0

# An idle connection is not used again after this: node and uvicorn close theirs after five seconds, and a message that
# meets such a close may or may not have arrived.
IDLE = 3.0

# Refused without being looked at: the same message may be sent later, to any server.
_LATER = frozenset({408, 425, 429, 503})

_JSON = {"Content-Type": "application/json"}


def http_client(address: Address, remote: Remote) -> httpx.AsyncClient:
    """HTTP/2 where TLS agrees on it, the cookies of one connection, the proxy of the environment."""
    client = httpx.AsyncClient(
        http2=True,
        headers=list(address.headers),
        verify=trust(remote.tls, address.shown) if address.is_secure else False,
        trust_env=not address.is_loopback,
        timeout=httpx.Timeout(POST_PATIENCE, connect=CONNECT_PATIENCE, pool=None),
        limits=httpx.Limits(max_connections=None, max_keepalive_connections=4, keepalive_expiry=IDLE),
    )
    if address.is_secure:
        for transport in (client._transport, *client._mounts.values()):
            if (pool := getattr(transport, "_pool", None)) is not None:
                pool._network_backend = _Network(pool._network_backend)
    return client


class _Network:
    """httpcore's way to open sockets, which forgets a socket whose TLS handshake is given up until it is swept away."""

    def __init__(self, network: Any) -> None:
        self._network = network

    async def connect_tcp(self, *where: Any, **how: Any) -> Any:
        """Open a socket."""
        return _Socket(await self._network.connect_tcp(*where, **how))

    def __getattr__(self, name: str) -> Any:
        return getattr(self._network, name)


class _Socket:
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


class Postman:
    """Posts for one connection."""

    def __init__(self, client: httpx.AsyncClient, address: Address, remote: Remote, outage: Outage) -> None:
        self.counts = False  # whether the server delivers a message once that it gets twice
        self.has_left = False  # whether the message that is being sent may have reached the server
        self._client = client
        self._address = address
        self._patience = remote.patience
        self._outage = outage

    async def introduce(self, data: bytes) -> httpx.Response:
        """The first message of a connection: tried once, for nothing is lost yet."""
        return await self._once(data, {})

    async def deliver(self, data: bytes, headers: Mapping[str, str]) -> httpx.Response:
        """Any later message, until the server has taken or refused it. Raises ConnectionFailed."""

        async def attempt() -> httpx.Response:
            answer = await self._once(data, headers)
            error = refused(self._address.shown, answer.status_code, answer.headers, answer.content)
            if answer.status_code in _LATER or (error.is_passing and self.counts):
                raise error
            return answer

        why = "a message could not be sent"
        return await Retrying(f"agent {self._address.shown}", self._patience, self._outage, why).run(attempt)

    async def _once(self, data: bytes, headers: Mapping[str, str]) -> httpx.Response:
        before, self.has_left = self.has_left, True  # while it is under way nobody can say
        try:
            answer = await self._client.post(self._address.url, content=data, headers={**_JSON, **headers})
        except (httpx.ConnectError, httpx.ConnectTimeout) as error:
            self.has_left = before
            raise failed(self._address.shown, error) from None
        except Exception as error:  # httpx also lets through what its parts raise, such as the end of a TLS stream
            fault = failed(self._address.shown, error)
            if headers and not self.counts:
                raise TransportClosed(
                    f"{fault}; a message was on its way, and nobody can say whether it arrived: load the session again"
                ) from None
            raise fault from None
        if answer.status_code in (404, 410) or answer.status_code in _LATER:
            self.has_left = before  # a server that does not know the connection has not taken the message either
        return answer
