"""Connect to a running agent on this machine by its address: `unix:/path` or `tcp://127.0.0.1:port`.

Frames are lines. A Unix socket is protected by its file permissions; TCP is allowed on loopback only.
"""

from __future__ import annotations

import asyncio

from dragoman.errors import StartFailed
from dragoman.transport.address import parse_local_address
from dragoman.transport.stream import StreamTransport

# A local socket answers at once or not at all. Seconds.
DIAL_TIMEOUT = 10.0


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
