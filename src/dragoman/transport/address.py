"""Addresses of running agents, told apart and taken apart without a connection.

The configuration reads them in every command, so nothing slow is imported here.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from dragoman.errors import StartFailed

if TYPE_CHECKING:
    from socket import AddressFamily

# Addresses that may be on other machines.
REMOTE_SCHEMES = ("http://", "https://", "ws://", "wss://")


def is_address(target: str) -> bool:
    """Whether this is the address of a running agent, not a command."""
    return target.startswith(("unix:", "tcp://", *REMOTE_SCHEMES))


def is_remote(target: str) -> bool:
    """Whether this is a URL of HTTP or WebSocket."""
    return target.startswith(REMOTE_SCHEMES)


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
