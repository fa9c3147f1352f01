"""Handwritten HTTP/2 frames for attacks, and how the server reacts.

Outcomes are short texts such as `calm` (ENHANCE_YOUR_CALM), `goaway 1`, `401`, or `` for a closed connection.
"""

from __future__ import annotations

import asyncio
import ssl
import struct
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager

from hpack import Encoder

PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"

DATA, HEADERS, PRIORITY, RST, SETTINGS, PUSH, PING, GOAWAY, WINDOW, CONTINUATION = range(10)
END_STREAM, END_HEADERS = 0x1, 0x4
TABLE_SIZE, INITIAL_WINDOW = 1, 4

# ENHANCE_YOUR_CALM (RFC 9113 section 7).
CALM = 11


def frame(kind: int, payload: bytes = b"", *, flags: int = 0, stream: int = 0) -> bytes:
    """Return one frame."""
    return len(payload).to_bytes(3, "big") + bytes((kind, flags)) + stream.to_bytes(4, "big") + payload


def settings(**values: int) -> bytes:
    """Return a SETTINGS frame. Names are numbers after an underscore, `_4=0`."""
    return frame(SETTINGS, b"".join(struct.pack(">HL", int(name[1:]), value) for name, value in values.items()))


def heads(method: str = "POST", path: str = "/acp", extra: Iterable[tuple[str, str]] = ()) -> bytes:
    """Return the headers of a request, encoded without the dynamic table."""
    pairs = [(":method", method), (":scheme", "http"), (":path", path), (":authority", "127.0.0.1"), *extra]
    return bytes(Encoder().encode(pairs))


def request(stream: int, *, flags: int = END_STREAM | END_HEADERS, block: bytes = heads()) -> bytes:
    """Return a request without a body."""
    return frame(HEADERS, block, flags=flags, stream=stream)


class Http2Socket:
    """One HTTP/2 socket."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, within: float) -> None:
        self.frames: list[tuple[int, int, bytes]] = []  # what came: kind, stream, payload
        self._writer = writer
        self._within = within
        self._hearing = asyncio.create_task(self._read_answers(reader))

    async def send(self, *pieces: bytes, pause: float = 0.0) -> None:
        """Send frames while the connection is open."""
        try:
            async with asyncio.timeout(self._within):
                for piece in pieces:
                    if self._hearing.done():
                        return
                    self._writer.write(piece)
                    await self._writer.drain()
                    if pause:
                        await asyncio.wait({self._hearing}, timeout=pause)
        except OSError:
            pass  # it closed in the middle

    async def outcome(self) -> str:
        """Return how it ends: `calm`, `goaway N`, `` when closed, `hangs`."""
        try:
            async with asyncio.timeout(self._within):
                await asyncio.shield(self._hearing)
        except TimeoutError:
            return "hangs"
        codes = [int.from_bytes(payload[4:8], "big") for kind, _, payload in self.frames if kind == GOAWAY]
        return "" if not codes else "calm" if CALM in codes else f"goaway {codes[-1]}"

    async def answers(self, count: int) -> list[int]:
        """Return the answered streams, when there are so many; fewer if it closed."""
        try:
            async with asyncio.timeout(self._within):
                while len(found := [stream for kind, stream, _ in self.frames if kind == HEADERS]) < count:
                    if self._hearing.done():
                        break
                    await asyncio.sleep(0.01)
                return found
        except TimeoutError:
            return []

    async def _read_answers(self, reader: asyncio.StreamReader) -> None:
        try:
            while True:
                head = await reader.readexactly(9)
                payload = await reader.readexactly(int.from_bytes(head[:3], "big"))
                self.frames.append((head[3], int.from_bytes(head[5:9], "big"), payload))
        except (OSError, asyncio.IncompleteReadError):
            pass

    def abort(self) -> None:
        """Abort the connection."""
        self._hearing.cancel()
        self._writer.transport.abort()


@asynccontextmanager
async def http2_socket(port: int, within: float, *, tls: ssl.SSLContext | None = None) -> AsyncIterator[Http2Socket]:
    """Yield a socket that has sent its preface and settings."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port, ssl=tls)
    line = Http2Socket(reader, writer, within)
    try:
        await line.send(PREFACE + frame(SETTINGS))
        yield line
    finally:
        line.abort()
