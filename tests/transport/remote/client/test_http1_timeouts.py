"""When our HTTP/1.1 client gives a request up: a limit after its last progress, in either direction."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from dragoman.transport.remote.address import parse_address
from dragoman.transport.remote.client import http1_client
from dragoman.transport.remote.client.http1_client import Http1Client

# The limit of a request here, in seconds. A test advances the clock by a few of them, and has a limit of its own.
LIMIT = 30.0

# More than the buffers of a socket hold.
LARGE = b"x" * 20_000_000


class Clock:
    """The clock of the event loop, which a test can advance."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self._ahead = 0.0
        monkeypatch.setattr(asyncio.get_running_loop(), "time", lambda: time.monotonic() + self._ahead)

    async def advance(self, seconds: float) -> None:
        """Let time pass, and run what is due."""
        self._ahead += seconds
        for _ in range(5):
            await asyncio.sleep(0)


class Peer:
    """The server's end of one socket, which the test reads and answers."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer

    async def read_head(self) -> int:
        """Read the head of a request; return the length of its body."""
        head = await self._reader.readuntil(b"\r\n\r\n")
        return int(head.lower().partition(b"content-length: ")[2].partition(b"\r\n")[0])

    async def read_request(self) -> None:
        """Read one request to its end."""
        await self._reader.readexactly(await self.read_head())

    async def read_until_less_is_unsent(self, client: Http1Client) -> int:
        """Read a part of a body; return how much of it the client still has."""
        before = unsent_bytes(client)
        while (unsent := unsent_bytes(client)) >= before:
            await self._reader.read(65536)
        return unsent

    def accept(self) -> None:
        """Answer."""
        self._writer.write(b"HTTP/1.1 202 Accepted\r\ncontent-length: 0\r\n\r\n")


def unsent_bytes(client: Http1Client) -> int:
    (socket,) = client._sockets
    return socket._transport.get_write_buffer_size()


@asynccontextmanager
async def serve(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[tuple[Http1Client, asyncio.Queue[Peer]]]:
    """A client with a short limit, and the sockets that a server accepted from it."""
    monkeypatch.setattr(http1_client, "POST_TIMEOUT", LIMIT)
    peers: asyncio.Queue[Peer] = asyncio.Queue()
    server = await asyncio.start_server(lambda *streams: peers.put_nowait(Peer(*streams)), "127.0.0.1", 0)
    client = Http1Client(parse_address(f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/acp"))
    try:
        yield client, peers
    finally:
        await client.aclose()
        server.close()


async def test_a_slow_upload_goes_on_as_long_as_it_makes_progress(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = Clock(monkeypatch)
    async with serve(monkeypatch) as (client, peers):
        posting = asyncio.ensure_future(client.post(LARGE, {}))
        peer = await peers.get()
        await peer.read_head()
        for _ in range(4):
            assert await peer.read_until_less_is_unsent(client) > 0
            await clock.advance(LIMIT * 0.6)
            assert not posting.done()
        peer.accept()
        assert (await posting).status_code == 202


async def test_the_limit_of_a_request_does_not_depend_on_the_one_before(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http1_client, "IDLE_TIMEOUT", LIMIT)
    clock = Clock(monkeypatch)
    async with serve(monkeypatch) as (client, peers):
        first = asyncio.ensure_future(client.post(b"{}", {}))
        peer = await peers.get()
        await peer.read_request()
        peer.accept()
        await first
        await clock.advance(LIMIT * 0.5)
        second = asyncio.ensure_future(client.post(b"{}", {}))
        await peer.read_request()
        assert peers.empty(), "both requests use one socket"
        await clock.advance(LIMIT * 0.6)  # now the limit of the first request is over
        assert not second.done()
        await clock.advance(LIMIT * 0.4)
        assert second.done()
        assert isinstance(second.exception(), TimeoutError)


async def test_the_limit_of_a_response_begins_when_the_request_was_sent(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = Clock(monkeypatch)
    async with serve(monkeypatch) as (client, peers):
        posting = asyncio.ensure_future(client.post(LARGE, {}))
        await (await peers.get()).read_request()
        await clock.advance(LIMIT / 2)
        assert not posting.done()
        await clock.advance(LIMIT / 2)
        assert posting.done()
        assert isinstance(posting.exception(), TimeoutError)
