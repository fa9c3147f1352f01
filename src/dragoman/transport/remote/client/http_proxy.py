"""The proxy of the environment: whether there is one on the way to an address, and a tunnel through it.

HTTP_PROXY, HTTPS_PROXY, ALL_PROXY and NO_PROXY mean what they mean to httpx, which looks by itself; this is for
WebSocket. This machine is never looked for behind a proxy.
"""

from __future__ import annotations

import asyncio
import base64
import socket
from urllib.parse import unquote, urlsplit
from urllib.request import getproxies, proxy_bypass

from dragoman.errors import Unreachable
from dragoman.transport.remote.address import RemoteAddress, redact_url
from dragoman.transport.remote.errors import status_error

# The head of a proxy's answer; more is none.
_MAX_RESPONSE_HEAD = 64 * 1024


def proxy_url(address: RemoteAddress) -> str | None:
    """The URL of the proxy that leads to this address; None to go there directly."""
    if address.is_loopback or proxy_bypass(f"{address.host}:{address.port}"):
        return None
    proxies = getproxies()
    return proxies.get("https" if address.is_secure else "http") or proxies.get("all")


async def open_tunnel(proxy: str, address: RemoteAddress) -> socket.socket:
    """A socket that a proxy joined to the address. Raises Unreachable or OSError."""
    parts = urlsplit(proxy if "://" in proxy else f"http://{proxy}")
    name = f"the proxy {redact_url(parts.geturl())}"
    if parts.scheme != "http" or not parts.hostname:
        raise Unreachable(f"{name}: WebSocket goes through http:// proxies alone; name {address.host} in NO_PROXY")
    loop = asyncio.get_running_loop()
    found = await loop.getaddrinfo(parts.hostname, parts.port or 80, type=socket.SOCK_STREAM)
    family, kind, protocol, _, place = found[0]
    end = socket.socket(family, kind, protocol)
    try:
        end.setblocking(False)
        await loop.sock_connect(end, place)
        await loop.sock_sendall(end, _connect_request(address, parts.username, parts.password))
        head = b""
        while not head.endswith(b"\r\n\r\n"):  # byte by byte: what comes after belongs to the server
            byte = await loop.sock_recv(end, 1)
            head += byte
            if not byte or len(head) > _MAX_RESPONSE_HEAD:
                raise Unreachable(f"{name} hung up", is_passing=True)
        status = head.split(b" ", 2)[1:2]
        if status != [b"200"]:
            number = int(status[0]) if status and status[0].isdigit() else 502
            raise status_error(name, number, action=f"CONNECT {address.host}")
        return end
    except BaseException:
        end.close()
        raise


def _connect_request(address: RemoteAddress, user: str | None, password: str | None) -> bytes:
    host = f"[{address.host}]" if ":" in address.host else address.host
    place = f"{host}:{address.port}"
    lines = [f"CONNECT {place} HTTP/1.1", f"Host: {place}"]
    if user:
        pair = f"{unquote(user)}:{unquote(password or '')}".encode()
        lines.append(f"Proxy-Authorization: Basic {base64.b64encode(pair).decode()}")
    return "\r\n".join([*lines, "", ""]).encode()
