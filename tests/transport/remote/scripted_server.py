"""A server that answers HTTP requests as a test says, and records them: for deviations of other servers.

An ASGI app under our own server. It accepts every message and has every stream, except for the refusals of the test;
the test sends on its streams.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, NamedTuple

from dragoman.transport.remote.address import RemoteOptions
from dragoman.transport.remote.client.dial import dial_remote
from dragoman.transport.remote.client.http import HttpTransport
from dragoman.transport.remote.retry import Backoff
from dragoman.transport.remote.server.listener import open_listener
from tests.transport.remote.client_and_server import INITIALIZE, INTRODUCED


class ServerRequest(NamedTuple):
    """One request."""

    method: str
    headers: dict[str, str]
    body: Any

    @property
    def session(self) -> str | None:
        """The session it names."""
        return self.headers.get("acp-session-id")


class Scripted:
    """The server: its requests, its streams, and its refusals."""

    def __init__(self) -> None:
        self.asked: list[ServerRequest] = []
        self.streams: dict[str | None, asyncio.Queue[bytes | None]] = {}
        self.refusals: list[tuple[Any, int, bytes]] = []  # (which, status, body): each is used once
        self.cookie = ""
        self._news = asyncio.Condition()
        self.url = ""

    def refuse(self, which: Any, status: int, body: bytes = b"") -> None:
        """Answer the next matching request with a status."""
        self.refusals.append((which, status, body))

    def stream(self, session: str | None = None) -> asyncio.Queue[bytes | None]:
        """The queue of a stream; None ends it."""
        return self.streams.setdefault(session, asyncio.Queue())

    def say(self, session: str | None = None, **members: Any) -> None:
        """Send a message on a stream, as the official servers write it."""
        self.stream(session).put_nowait(b"data: " + json.dumps({"jsonrpc": "2.0", **members}).encode() + b"\n\n")

    async def wait_for_method(self, method: str, times: int = 1) -> None:
        """Wait until it got this method so many times."""
        async with self._news:
            await self._news.wait_for(lambda: [name for name, _ in self.posts()].count(method) >= times)

    def posts(self) -> list[tuple[str, str | None]]:
        """The messages it got, by method or what they answer, with their sessions."""
        return [
            (each.body.get("method") or f"answer to {each.body['id']}", each.session)
            for each in self.asked
            if each.method == "POST" and each.body.get("method") != "initialize"
        ]

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        assert scope["type"] == "http"
        headers = {name.decode("latin-1").lower(): value.decode("latin-1") for name, value in scope["headers"]}
        body = b""
        while True:
            message = await receive()
            body += message.get("body", b"")
            if not message.get("more_body"):
                break
        asked = ServerRequest(scope["method"], headers, json.loads(body) if body else None)
        async with self._news:
            self.asked.append(asked)
            self._news.notify_all()
        for refusal in self.refusals:
            if refusal[0](asked):
                self.refusals.remove(refusal)
                await self._answer(send, refusal[1], refusal[2], "text/plain")
                return
        if asked.method == "GET":
            await self._tell(send, receive, asked.session)
        elif asked.body is not None and asked.body.get("method") == "initialize":
            await self._answer(send, 200, INTRODUCED, "application/json")
        else:
            await self._answer(send, 202, b"", "application/json")

    async def _answer(self, send: Any, status: int, body: bytes, kind: str) -> None:
        headers = [(b"content-type", kind.encode()), (b"acp-connection-id", b"c1")]
        if self.cookie:
            headers.append((b"set-cookie", self.cookie.encode()))
        await send({"type": "http.response.start", "status": status, "headers": headers})
        await send({"type": "http.response.body", "body": body})

    async def _tell(self, send: Any, receive: Any, session: str | None) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": [(b"content-type", b"text/event-stream")]})
        await send({"type": "http.response.body", "body": b": hello\n\n", "more_body": True})
        queue = self.stream(session)
        gone = asyncio.ensure_future(receive())
        try:
            while True:
                event = asyncio.ensure_future(queue.get())
                await asyncio.wait({event, gone}, return_when=asyncio.FIRST_COMPLETED)
                if not event.done():
                    event.cancel()
                    return
                data = event.result()
                await send({"type": "http.response.body", "body": data or b"", "more_body": data is not None})
                if data is None:
                    return
        finally:
            gone.cancel()


@asynccontextmanager
async def scripted(said: list[str] | None = None) -> AsyncIterator[tuple[Scripted, HttpTransport]]:
    """A scripted server, and our transport to it, initialized."""
    server = Scripted()
    async with open_listener(server) as served:
        server.url = served.url
        remote = RemoteOptions(
            backoff=Backoff(initial_delay=0.002, max_delay=0.02, give_up_after=5.0),
            headers={"X-Team": "blue"},
            token="t",
        )
        ours = await dial_remote(served.url, remote, report=said.append if said is not None else None)
        assert isinstance(ours, HttpTransport)
        try:
            ours.send(INITIALIZE)
            assert await ours.receive() == [INTRODUCED]
            yield server, ours
        finally:
            await ours.close()
