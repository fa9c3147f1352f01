"""Connect to a URL: `ws` and `wss` by WebSocket, `http` and `https` by Streamable HTTP (docs/protocol/http.md).

RemoteTransport is what both transports share. The packages for them come with the extra `host`.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable
from typing import TYPE_CHECKING

from dragoman.errors import ConnectionFailed, StartFailed
from dragoman.transport.base import ClosedOnce, FrameQueue
from dragoman.transport.remote.address import RemoteAddress, RemoteOptions, parse_address
from dragoman.transport.remote.retry import Outage

if TYPE_CHECKING:
    from dragoman.transport.remote.client.http import HttpTransport
    from dragoman.transport.remote.client.websocket import WebSocketTransport


async def dial_remote(
    url: str, remote: RemoteOptions | None = None, *, report: Callable[[str], None] | None = None
) -> WebSocketTransport | HttpTransport:
    """Return a transport to the agent at this URL. Raise StartFailed; over HTTP the first frame finds out whether a
    server is there.
    """
    remote = remote or RemoteOptions()
    address = parse_address(url, remote)
    try:
        if address.is_websocket:
            from dragoman.transport.remote.client.websocket import WebSocketTransport

            socket = WebSocketTransport(address, remote, report)
            await socket.dial()
            return socket
        from dragoman.transport.remote.client.http import HttpTransport

        return HttpTransport(address, remote, report)
    except ModuleNotFoundError as error:
        raise StartFailed(
            f"{address.display_url}: {error.name} is not installed; run: pip install 'dragoman[host]'"
        ) from None


class RemoteTransport(ClosedOnce):
    """A peer behind a URL; a subclass sends the frames."""

    def __init__(
        self, address: RemoteAddress, remote: RemoteOptions, report: Callable[[str], None] | None = None
    ) -> None:
        self.peer = f"agent {address.display_url}"
        self.connection_id = ""  # the server's id of this connection; "" when it has none
        self._address = address
        self._remote = remote
        self._report = report or (lambda _: None)
        self._outage = Outage(self._report)
        self._loop = asyncio.get_running_loop()
        self._incoming = FrameQueue()
        self.receive, self.listen = self._incoming.receive, self._incoming.listen
        self._space_available = asyncio.Event()
        self._max_message = sys.maxsize  # bytes of a message that the server allows, if it says so
        self._end_error: ConnectionFailed | None = None

    def _note_max_message(self, header: str) -> None:
        self._max_message = int(header) if header.isdigit() else sys.maxsize

    def _end(self, error: ConnectionFailed) -> None:
        """End the connection; the first error counts."""
        self._end_error = self._end_error or error
        self._incoming.end(self._end_error)
        self._space_available.set()
