"""The HTTP client that the transport uses: its interface, its limits, and the choice between two clients.

Http1Client, our own, is for `http` addresses: it needs far less time for each message than httpx (decision 0025).
HttpxClient is for `https` addresses, because it negotiates HTTP/2, and for proxies.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from typing import NamedTuple, Protocol

from dragoman.transport.remote.address import RemoteAddress, RemoteOptions
from dragoman.wire.frames import MAX_FRAME

# How long to connect, and for the server to take one message. Seconds.
CONNECT_TIMEOUT = 30.0
POST_TIMEOUT = 120.0

# An idle connection is not used again after this: node and uvicorn close theirs after five seconds, and a message sent
# at that moment may or may not have arrived.
IDLE_TIMEOUT = 3.0

# How many idle connections are kept.
MAX_IDLE = 4

# How much of the body of an error is read: nobody is shown more.
MAX_ERROR_BODY = 64 * 1024

JSON_HEADERS = {"Content-Type": "application/json"}

STREAM_HEADERS = {"Accept": "text/event-stream", "Accept-Encoding": "identity"}


class NotConnected(Exception):
    """There was no connection to the server, so nothing has arrived there; the cause says why."""


class ResponseTooLarge(Exception):
    """A response is longer than any message."""


class HttpAnswer(NamedTuple):
    """A response that was read. Names of headers are case-insensitive."""

    status_code: int
    headers: Mapping[str, str]
    content: bytes


class HttpResponse(Protocol):
    """A response whose body was not read. Names of headers are case-insensitive."""

    @property
    def status_code(self) -> int:
        """The status."""

    @property
    def headers(self) -> Mapping[str, str]:
        """The headers."""

    def aiter_raw(self) -> AsyncIterator[bytes]:
        """Read the body in parts, as they arrive."""

    async def aclose(self) -> None:
        """Let the connection go; it is closed if the body was not read."""


class HttpClient(Protocol):
    """Requests to one address, with its headers and with cookies. Raises NotConnected, or any other error."""

    async def post(self, data: bytes, headers: Mapping[str, str]) -> HttpAnswer:
        """Post one message; return the whole response."""

    async def open_stream(self, headers: Mapping[str, str]) -> HttpResponse:
        """Request an event stream; return the response before its body."""

    async def delete(self, headers: Mapping[str, str]) -> None:
        """Send DELETE."""

    async def aclose(self) -> None:
        """Close all connections."""


async def read_body(status_code: int, parts: AsyncIterator[bytes]) -> bytes:
    """Read the body of a response: that of an error up to a limit, any other whole. Raise ResponseTooLarge."""
    is_error = status_code >= 300
    limit = MAX_ERROR_BODY if is_error else MAX_FRAME
    body = bytearray()
    async for part in parts:
        body += part
        if len(body) > limit:
            if is_error:
                break
            raise ResponseTooLarge(f"its response has more than {limit:,} bytes")
    return bytes(body[:limit])


def build_http_client(address: RemoteAddress, remote: RemoteOptions) -> HttpClient:
    """Return the client for an address."""
    from dragoman.transport.remote.client.http_proxy import proxy_url

    if address.is_secure or proxy_url(address) is not None:
        from dragoman.transport.remote.client.httpx_client import HttpxClient

        return HttpxClient(address, remote)
    from dragoman.transport.remote.client.http1_client import Http1Client

    return Http1Client(address)
