"""The proxy of the environment: its URL for an address, and for WebSocket a tunnel through it.

HTTP_PROXY, HTTPS_PROXY, ALL_PROXY and NO_PROXY mean the same as for httpx. This machine is never behind a proxy.
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
from dragoman.transport.remote.headers import MAX_RESPONSE_HEAD


def proxy_url(address: RemoteAddress) -> str | None:
    """Return the URL of the proxy for this address; None to connect directly."""
    if address.is_loopback or proxy_bypass(f"{address.host}:{address.port}"):
        return None
    proxies = getproxies()
    return proxies.get("https" if address.is_secure else "http") or proxies.get("all")


async def open_tunnel(proxy: str, address: RemoteAddress) -> socket.socket:
    """Return a socket that the proxy connected to the address. Raise Unreachable or OSError."""
    parts = urlsplit(proxy if "://" in proxy else f"http://{proxy}")
    name = f"the proxy {redact_url(parts.geturl())}"
    if parts.scheme != "http" or not parts.hostname:
        raise Unreachable(f"{name}: WebSocket supports only http:// proxies; add {address.host} to NO_PROXY")
    loop = asyncio.get_running_loop()
    addresses = await loop.getaddrinfo(parts.hostname, parts.port or 80, type=socket.SOCK_STREAM)
    family, kind, protocol, _, socket_address = addresses[0]
    end = socket.socket(family, kind, protocol)
    try:
        end.setblocking(False)
        await loop.sock_connect(end, socket_address)
        await loop.sock_sendall(end, _connect_request(address, parts.username, parts.password))
        head = b""
        while not head.endswith(b"\r\n\r\n"):  # byte by byte: what follows belongs to the server
            byte = await loop.sock_recv(end, 1)
            head += byte
            if not byte or len(head) > MAX_RESPONSE_HEAD:
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
    netloc = f"{host}:{address.port}"
    lines = [f"CONNECT {netloc} HTTP/1.1", f"Host: {netloc}"]
    if user:
        pair = f"{unquote(user)}:{unquote(password or '')}".encode()
        lines.append(f"Proxy-Authorization: Basic {base64.b64encode(pair).decode()}")
    return "\r\n".join([*lines, "", ""]).encode()
