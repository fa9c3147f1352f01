"""Tools of an attacker: raw sockets, handwritten requests, names of other users.

Each function returns the outcome as a short text, such as `403 access_denied`, to compare with the documentation.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any

from msgspec import Struct
from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed, InvalidStatus

# A host that neither answers nor closes by then hangs. Seconds; its own timeouts are shorter.
WITHIN = 20.0

JSON = {"Content-Type": "application/json"}
INITIALIZE: dict[str, Any] = {
    "jsonrpc": "2.0",
    "id": 0,
    "method": "initialize",
    "params": {"protocolVersion": 1, "clientCapabilities": {}},
}


class Target(Struct):
    """Where the host is, whose tokens are valid, and what belongs to the victim."""

    port: int
    folder: str
    good: str  # a valid token of a user without sessions
    expired: str
    revoked: str
    shared: str  # a share link to a session of the victim
    session: str = ""  # another session of the victim
    connection: str = ""  # the victim's connection

    @property
    def url(self) -> str:
        """Its WebSocket address."""
        return f"ws://127.0.0.1:{self.port}/acp"

    async def raw(self, *pieces: bytes, pause: float = 0.0, ends: bool = False) -> bytes:
        """Send bytes, piece by piece. Return all that the host sends until it closes, or b"hangs"."""
        reader, writer = await asyncio.open_connection("127.0.0.1", self.port)
        record_notifications = asyncio.create_task(_read_all(reader))
        try:
            async with asyncio.timeout(WITHIN):
                try:
                    for piece in pieces:
                        if record_notifications.done():
                            break
                        writer.write(piece)
                        await writer.drain()
                        if pause:
                            await asyncio.wait({record_notifications}, timeout=pause)
                    if ends and writer.can_write_eof():
                        writer.write_eof()
                except OSError:
                    pass  # it closed in the middle
                return await record_notifications
        except TimeoutError:
            return b"hangs"
        finally:
            record_notifications.cancel()
            writer.transport.abort()

    async def ask(
        self,
        method: str = "POST",
        path: str = "/acp",
        headers: Mapping[str, str] | None = None,
        body: Any = INITIALIZE,
        *,
        token: str | None = None,
    ) -> str:
        """Send one HTTP request. Return the status, and the kind in the body."""
        data = body if isinstance(body, bytes) else json.dumps(body).encode() if method == "POST" else b""
        headers_sent = {"Host": f"127.0.0.1:{self.port}", "Connection": "close", "Content-Length": str(len(data))}
        headers_sent |= (JSON if method == "POST" else {}) | dict(headers or {})
        if token is not None:
            headers_sent["Authorization"] = f"Bearer {token}"
        lines = "".join(f"{name}: {value}\r\n" for name, value in headers_sent.items())
        return read(await self.raw(f"{method} {path} HTTP/1.1\r\n{lines}\r\n".encode("latin-1") + data))

    @asynccontextmanager
    async def socket(self, token: str | None = None, path: str = "", **headers: str) -> AsyncIterator[ClientConnection]:
        """Open a WebSocket. Raise InvalidStatus when it is refused."""
        headers_sent = {name.replace("_", "-"): value for name, value in headers.items()}
        if token is not None:
            headers_sent["Authorization"] = f"Bearer {token}"
        async with connect(
            self.url + path,
            additional_headers=headers_sent,
            max_size=None,
            ping_interval=None,
            open_timeout=WITHIN,
            proxy=None,
        ) as open_session:
            yield open_session

    async def upgrade(self, token: str | None = None, path: str = "", **headers: str) -> str:
        """Try a WebSocket. Return `101`, or how it was refused."""
        try:
            async with self.socket(token, path, **headers):
                return "101"
        except InvalidStatus as refused:
            body = bytes(refused.response.body or b"")
            return f"{refused.response.status_code} {_kind(body)}"

    async def call(self, method: str, params: Mapping[str, Any], *, token: str) -> str:
        """Connect with a token and send a request. Return the kind of the error, or `answered`."""
        async with self.socket(token) as socket, asyncio.timeout(WITHIN):
            await socket.send(json.dumps(INITIALIZE))
            await socket.recv()
            await socket.send(json.dumps({"jsonrpc": "2.0", "id": 1, "method": method, "params": params}))
            while True:
                message = json.loads(await socket.recv())
                if message.get("id") == 1:
                    return str(message["error"]["data"]["kind"]) if "error" in message else "answered"


async def _read_all(reader: asyncio.StreamReader) -> bytes:
    data = b""
    try:
        while more := await reader.read(65536):
            data += more
    except OSError:
        pass  # cut off, as a client that does not stop may be
    return data


async def closing(socket: ClientConnection) -> str:
    """Wait until the host closes a socket. Return the code."""
    try:
        async with asyncio.timeout(WITHIN):
            while True:
                await socket.recv()
    except ConnectionClosed as closed:
        return str(closed.rcvd.code if closed.rcvd is not None else 1006)
    except TimeoutError:
        return "hangs"


def read(said: bytes) -> str:
    """Return an HTTP answer in short: `403 access_denied`; `` for none."""
    if not said.startswith(b"HTTP/1.1 "):
        return said.decode("latin-1")[:40]
    head, _, body = said.partition(b"\r\n\r\n")
    return f"{head.split(b' ')[1].decode()} {_kind(body)}".strip()


def _kind(body: bytes) -> str:
    try:
        error = json.loads(body)["error"]
        return str(error.get("data", error)["kind"])
    except (ValueError, KeyError, TypeError):
        return ""
