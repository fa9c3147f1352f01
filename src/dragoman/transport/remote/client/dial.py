"""Connect to a URL: `ws` and `wss` by WebSocket, `http` and `https` by Streamable HTTP (docs/protocol/http.md).

The packages for it come with the extra `host`; without them the error says what to install.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from dragoman.errors import StartFailed
from dragoman.transport.base import WRITE_STALL
from dragoman.transport.remote.address import RemoteOptions, parse_address
from dragoman.wire.frames import MAX_FRAME

if TYPE_CHECKING:
    from dragoman.transport.remote.client.http import HttpTransport
    from dragoman.transport.remote.client.websocket import WebSocketTransport


async def dial_remote(
    url: str,
    remote: RemoteOptions | None = None,
    *,
    report: Callable[[str], None] | None = None,
    stall: float = WRITE_STALL,
    max_frame: int = MAX_FRAME,
) -> WebSocketTransport | HttpTransport:
    """Return a transport to the agent at this URL. Raise StartFailed; over HTTP the first frame finds out whether a
    server is there.
    """
    remote = remote or RemoteOptions()
    address = parse_address(url, remote)
    try:
        if address.is_websocket:
            from dragoman.transport.remote.client.websocket import WebSocketTransport

            socket = WebSocketTransport(address, remote, report=report, stall=stall, max_frame=max_frame)
            await socket.dial()
            return socket
        from dragoman.transport.remote.client.http import HttpTransport

        return HttpTransport(address, remote, report=report, stall=stall, max_frame=max_frame)
    except ModuleNotFoundError as error:
        raise StartFailed(
            f"{address.display_url}: {error.name} is not installed; run: pip install 'dragoman[host]'"
        ) from None
