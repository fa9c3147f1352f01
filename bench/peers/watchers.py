"""Clients that join a session and only count the updates they receive: a thousand fit into one process.

Each is a WebSocket of its own that speaks as little of the protocol as it must, so that the host is what is measured.
"""

import asyncio
import json
from typing import Any

HOST = "127.0.0.1"
TOLD = b'"dragoman":{"seq":'  # occurs once in every update of a host
TIMEOUT = 60.0  # seconds for a host to answer, with a thousand at once on a busy machine

_UPGRADE = (
    b"GET /acp HTTP/1.1\r\nHost: 127.0.0.1:%d\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n"
    b"Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n"
)


def masked(text: bytes) -> bytes:
    """One text message of a client; the mask is zero, and so what is masked is the text."""
    length = len(text)
    head = b"\x81" + (bytes([0x80 | length]) if length < 126 else b"\xfe" + length.to_bytes(2, "big"))
    return head + b"\0\0\0\0" + text


class Watcher(asyncio.Protocol):
    """One of them."""

    def __init__(self, port: int) -> None:
        self.told = 0
        self._port = port
        self._wanted = 0
        self._tail = b""
        self._answer: asyncio.Future[bytes] = asyncio.get_running_loop().create_future()
        self._reached: asyncio.Future[None] | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Ask for the upgrade."""
        assert isinstance(transport, asyncio.Transport)
        self.transport = transport
        transport.write(_UPGRADE % self._port)

    def data_received(self, data: bytes) -> None:
        """Count the updates; whoever waits for an answer gets the rest."""
        data = self._tail + data
        self.told += data.count(TOLD)
        # The beginning of a mark that was cut stays; a whole one must not be counted again.
        self._tail = data[-(len(TOLD) - 1) :] if TOLD not in data[-len(TOLD) :] else b""
        if not self._answer.done():
            self._answer.set_result(data)
        if self._reached is not None and self.told >= self._wanted and not self._reached.done():
            self._reached.set_result(None)

    async def answer(self) -> bytes:
        """What the host says next."""
        async with asyncio.timeout(TIMEOUT):
            said = await self._answer
        self._answer = asyncio.get_running_loop().create_future()
        return said

    async def ask(self, method: str, params: dict[str, Any], mark: bytes) -> bytes:
        """Ask, and wait for an answer in which this mark stands."""
        self.transport.write(
            masked(json.dumps({"jsonrpc": "2.0", "id": method, "method": method, "params": params}).encode())
        )
        said = b""
        while mark not in said:
            said += await self.answer()
            if b'"error":{' in said:
                raise ValueError(f"{method}: {said[:500]!r}")
        return said

    async def enter(self) -> None:
        """Be let in."""
        if b" 101 " not in await self.answer():
            raise ValueError("the host did not upgrade")
        await self.ask("initialize", {"protocolVersion": 1, "clientCapabilities": {}}, b'"id":"initialize"')

    async def attach(self, session: str) -> None:
        """Receive the updates of a session from now on."""
        await self.ask("session/attach", {"sessionId": session, "historyPolicy": "none"}, b'"id":"session/attach"')

    def expect(self, count: int) -> asyncio.Future[None]:
        """Done when so many more updates were received."""
        self._wanted = self.told + count
        self._reached = asyncio.get_running_loop().create_future()
        return self._reached


async def watcher(port: int) -> Watcher:
    """One that was let in."""
    _, protocol = await asyncio.get_running_loop().create_connection(lambda: Watcher(port), HOST, port)
    await protocol.enter()
    return protocol
