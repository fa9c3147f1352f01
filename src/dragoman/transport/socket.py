"""Connect to a running agent on this machine by its address: `unix:/path` or `tcp://127.0.0.1:port`.

Frames are lines. A Unix socket is protected by its file permissions; TCP is allowed on loopback only.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from dragoman.errors import StartFailed
from dragoman.transport.stream import StreamTransport

if TYPE_CHECKING:
    from socket import AddressFamily

# A local socket answers at once or not at all. Seconds.
DIAL_TIMEOUT = 10.0

# Addresses that may be on other machines.
REMOTE_SCHEMES = ("http://", "https://", "ws://", "wss://")


def is_address(target: str) -> bool:
    """Whether this is the address of a running agent, not a command."""
    return target.startswith(("unix:", "tcp://", *REMOTE_SCHEMES))


def is_remote(target: str) -> bool:
    """Whether this is a URL of HTTP or WebSocket."""
    return target.startswith(REMOTE_SCHEMES)


async def dial_local(address: str) -> StreamTransport:
    """Connect to an agent behind a local socket."""
    import socket

    family, socket_address = parse_local_address(address)
    end = socket.socket(family, socket.SOCK_STREAM)
    try:
        end.setblocking(False)
        async with asyncio.timeout(DIAL_TIMEOUT):
            await asyncio.get_running_loop().sock_connect(end, socket_address)
        if family is not socket.AF_UNIX:
            end.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)  # a single frame must not wait for the next one
    except (OSError, TimeoutError) as error:
        end.close()
        reason = getattr(error, "strerror", None) or "it does not answer"
        raise StartFailed(f"{address}: {reason}; is the agent running there?") from None
    except BaseException:
        end.close()
        raise
    fd = end.detach()
    return StreamTransport(fd, fd, peer=f"agent {address}")


def parse_local_address(address: str) -> tuple[AddressFamily, str | tuple[str, int]]:
    """Return the kind of socket that an address means, and where it is."""
    import ipaddress  # slow to import, rarely needed
    import socket
    from urllib.parse import urlsplit

    if address.startswith("unix:"):
        path = address.removeprefix("unix:")
        path = path.removeprefix("//") if path.startswith("///") else path
        if not path.startswith("/"):
            raise StartFailed(f"{address}: give the full path of the socket, like unix:/run/agent.sock")
        return socket.AF_UNIX, path
    try:
        parts = urlsplit(address)
        host, port = parts.hostname or "", parts.port
        ip = ipaddress.ip_address("127.0.0.1" if host == "localhost" else host)
    except ValueError:
        raise StartFailed(f"{address}: write it like tcp://127.0.0.1:9000") from None
    if port is None:
        raise StartFailed(f"{address}: the port is missing, as in tcp://127.0.0.1:9000")
    if not ip.is_loopback:
        raise StartFailed(f"{address}: plain TCP is for this machine alone; forward the port, with ssh -L for instance")
    return (socket.AF_INET if ip.version == 4 else socket.AF_INET6), (str(ip), port)
