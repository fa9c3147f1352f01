"""An agent that runs already, by its address: `unix:/path`, `tcp://127.0.0.1:port`, or an URL of HTTP or WebSocket.

Takes an address, gives a Transport. Over sockets of this machine frames are lines; nobody is authenticated and nothing
encrypted there: a Unix socket is guarded by the rights of its file, TCP is taken on the loopback alone. What has an URL
is left to transport/remote, which needs the extra `host`.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from dragoman.errors import StartFailed
from dragoman.transport.base import WRITE_STALL, Transport
from dragoman.transport.stream import StreamTransport
from dragoman.wire.frames import MAX_FRAME

if TYPE_CHECKING:
    from collections.abc import Callable
    from socket import AddressFamily

    from dragoman.transport.remote.address import RemoteOptions

# A socket of this machine answers at once or not at all. Seconds.
DIAL_TIMEOUT = 10.0

# Addresses that may be on other machines.
REMOTE_SCHEMES = ("http://", "https://", "ws://", "wss://")


def is_address(target: str) -> bool:
    """Whether this names an agent that runs already, not a command."""
    return target.startswith(("unix:", "tcp://", *REMOTE_SCHEMES))


def is_remote(target: str) -> bool:
    """Whether this is an URL of HTTP or WebSocket."""
    return target.startswith(REMOTE_SCHEMES)


async def dial(
    address: str,
    *,
    remote: RemoteOptions | None = None,
    report: Callable[[str], None] | None = None,
    stall: float = WRITE_STALL,
    max_frame: int = MAX_FRAME,
) -> Transport:
    """The agent behind this address; StartFailed says why it cannot be reached. `remote` is for URLs."""
    if is_remote(address):
        from dragoman.transport.remote.client.dial import dial_remote

        return await dial_remote(address, remote, report=report, stall=stall, max_frame=max_frame)
    return await dial_local(address, stall=stall, max_frame=max_frame)


async def dial_local(address: str, *, stall: float = WRITE_STALL, max_frame: int = MAX_FRAME) -> StreamTransport:
    """The agent behind a socket of this machine."""
    import socket

    family, place = parse_local_address(address)
    end = socket.socket(family, socket.SOCK_STREAM)
    try:
        end.setblocking(False)
        async with asyncio.timeout(DIAL_TIMEOUT):
            await asyncio.get_running_loop().sock_connect(end, place)
        if family is not socket.AF_UNIX:
            end.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)  # a lone frame must not wait for its neighbour
    except (OSError, TimeoutError) as error:
        end.close()
        why = getattr(error, "strerror", None) or "it does not answer"
        raise StartFailed(f"{address}: {why}; is the agent running there?") from None
    except BaseException:
        end.close()
        raise
    fd = end.detach()
    return StreamTransport(fd, fd, peer=f"agent {address}", stall=stall, max_frame=max_frame)


def parse_local_address(address: str) -> tuple[AddressFamily, str | tuple[str, int]]:
    """The kind of socket that an address means, and where it is."""
    import ipaddress  # few clients need these, and every one would pay for them
    import socket
    from urllib.parse import urlsplit

    if address.startswith("unix:"):
        path = address.removeprefix("unix:")
        path = path.removeprefix("//") if path.startswith("///") else path
        if not path.startswith("/"):
            raise StartFailed(f"{address}: name the socket by its whole path, like unix:/run/agent.sock")
        return socket.AF_UNIX, path
    try:
        parts = urlsplit(address)
        host, port = parts.hostname or "", parts.port
        ip = ipaddress.ip_address("127.0.0.1" if host == "localhost" else host)
    except ValueError:
        raise StartFailed(f"{address}: say it like tcp://127.0.0.1:9000") from None
    if port is None:
        raise StartFailed(f"{address}: the port is missing, as in tcp://127.0.0.1:9000")
    if not ip.is_loopback:
        raise StartFailed(f"{address}: plain TCP is for this machine alone; forward the port, with ssh -L for instance")
    return (socket.AF_INET if ip.version == 4 else socket.AF_INET6), (str(ip), port)
