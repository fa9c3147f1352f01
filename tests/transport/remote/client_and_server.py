"""Both ends of a remote connection: our server with the transports it accepts, and our client's transport."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from dragoman.errors import ConnectionFailed
from dragoman.transport.base import Transport
from dragoman.transport.remote.address import RemoteOptions
from dragoman.transport.remote.client.dial import dial_remote
from dragoman.transport.remote.retry import Backoff
from dragoman.transport.remote.server.auth import AuthRequest, Principal
from dragoman.transport.remote.server.endpoint import Endpoint
from dragoman.transport.remote.server.limits import ServerLimits
from dragoman.transport.remote.server.listener import open_listener

INITIALIZE = b'{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":1}}'
INTRODUCED = b'{"jsonrpc":"2.0","id":0,"result":{"protocolVersion":1}}'

# Tests cut connections often and must not wait long.
EAGER = RemoteOptions(backoff=Backoff(initial_delay=0.002, max_delay=0.05, give_up_after=20.0))


class Meeting:
    """A server and the transports it has accepted."""

    def __init__(self) -> None:
        self.accepted: asyncio.Queue[Transport] = asyncio.Queue()
        self.url = ""
        self.port = 0

    async def accept(self, transport: Transport, client: Principal) -> None:
        """Keep a transport for the test, until it ends."""
        self.accepted.put_nowait(transport)
        with_end: Any = transport
        await with_end.closed

    def address(self, over: str, port: int | None = None) -> str:
        """The URL for `ws` or `http`, straight or through a relay at that port."""
        return f"{over}://127.0.0.1:{port or self.port}/acp"

    async def meet(
        self, over: str, port: int | None = None, report: Any = None, remote: RemoteOptions = EAGER
    ) -> tuple[Transport, Transport]:
        """Return the client's end and the server's, initialized: over HTTP a connection begins with initialize."""
        ours = await dial_remote(self.address(over, port), remote, report=report)
        ours.send(INITIALIZE)
        theirs = await self.accepted.get()
        assert await theirs.receive() == [INITIALIZE]
        theirs.send(INTRODUCED)
        assert await ours.receive() == [INTRODUCED]
        return ours, theirs


async def anybody(request: AuthRequest) -> Principal:
    """Allow everybody: authentication is tested elsewhere."""
    return Principal(user="somebody", address=request.address)


@asynccontextmanager
async def meeting(limits: ServerLimits | None = None, **options: Any) -> AsyncIterator[Meeting]:
    """A server of ours on the loopback."""
    there = Meeting()
    endpoint = Endpoint(there.accept, **{"limits": limits, "authenticate": anybody, **options})
    async with open_listener(endpoint) as served:
        there.url, there.port = served.url, served.port
        yield there


async def take(transport: Transport, count: int) -> list[bytes]:
    """So many frames."""
    frames: list[Any] = []
    while len(frames) < count:
        frames += await transport.receive()
    return frames


async def ending(transport: Transport) -> str:
    """Return why no more frames come."""
    try:
        while True:
            await transport.receive()
    except ConnectionFailed as error:
        return str(error)
