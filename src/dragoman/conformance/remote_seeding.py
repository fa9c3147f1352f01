"""Short ways to write a fault of the wire, as an ASGI app around another: requests, answers, events, sockets.

Every fault is made afresh for each server, with a `World` to remember things in. Edits change what they are given, in
place; an edit of events gives the events that go on. Above are the tables of faults.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable
from typing import Any

import msgspec

from dragoman.conformance.harness.http_recorder import message_of, method_of
from dragoman.conformance.remote_twin import App, RemoteFault
from dragoman.transport.remote.server.ws_requests import DIRECT_EXTENSION

# A stream that does not end goes on for so long, which no probe waits for. Seconds.
ENDLESS = 60.0

Json = Any
Send = Callable[[Any], Awaitable[None]]


class World(msgspec.Struct):
    """What a fault remembers of one server."""

    notes: dict[str, Json] = msgspec.field(default_factory=dict)
    sends: dict[tuple[str, str], Send] = msgspec.field(default_factory=dict)
    """How to say something on a stream, by connection and session ("" for the connection's own)."""


class Exchange(msgspec.Struct):
    """One HTTP request and its answer; names of headers in lower case."""

    world: World
    method: str
    headers: dict[str, str]
    body: bytes
    status: int = 0
    """Set by an edit of the request: it is answered so, and the app never sees it."""
    said: dict[str, str] = msgspec.field(default_factory=dict)
    answer: bytes = b""

    @property
    def message(self) -> Json:
        """The body, as JSON; None when it is none."""
        return message_of(self.body)

    @property
    def calls(self) -> str:
        """The method of the message, "" when there is none."""
        return method_of(self.body)

    @property
    def connection(self) -> str:
        """The connection it names."""
        return self.headers.get("acp-connection-id", "")

    @property
    def session(self) -> str:
        """The session it names."""
        return self.headers.get("acp-session-id", "")


class Event(msgspec.Struct):
    """One event of a stream as it is sent, and its message."""

    text: bytes

    @property
    def message(self) -> dict[str, Json]:
        """What it says; empty when that is no object."""
        data = b"\n".join(line[6:] for line in self.text.split(b"\n") if line.startswith(b"data: "))
        try:
            found = json.loads(data)
        except ValueError:
            return {}
        return found if isinstance(found, dict) else {}


Edit = Callable[[Exchange], Any]
Raw = Callable[[Exchange, bytes], bytes]
Events = Callable[[Exchange, list[Event]], list[Event]]


def _nothing(_: Exchange) -> None:
    return


def _same(_: Exchange, events: list[Event]) -> list[Event]:
    return events


def exchange(
    *,
    asked: Edit = _nothing,
    answered: Edit = _nothing,
    events: Events = _same,
    raw: Raw | None = None,
    ends: bool = True,
) -> RemoteFault:
    """A fault in requests, in answers that are no streams, in the events of streams, or in their bytes."""

    def around(app: App) -> App:
        world = World()

        async def faulty(scope: Any, receive: Any, send: Send) -> None:
            if scope["type"] != "http":
                await app(scope, receive, send)
                return
            headers = {name.decode("latin-1").lower(): value.decode("latin-1") for name, value in scope["headers"]}
            is_large = int(headers.get("content-length", "0")) > 64 * 1024 * 1024
            body = b"" if is_large else await _whole(receive)
            made = Exchange(world, scope["method"], headers, body)
            wait = asked(made)
            if wait is not None:
                await wait
            if made.status:
                await _answer(made, send)
                return
            scope = {**scope, "headers": [(name.encode(), value.encode()) for name, value in made.headers.items()]}
            await app(
                scope,
                _again(made.body, receive),
                _Speaking(made, send, receive, answered, events, raw, ends),
            )

        return _with_close(faulty, app)

    return RemoteFault(around=around)


class _Speaking:
    """The way out of one answer, with the fault in it."""

    def __init__(
        self,
        made: Exchange,
        send: Send,
        receive: Any,
        answered: Edit,
        events: Events,
        raw: Raw | None,
        ends: bool,
    ) -> None:
        self._made = made
        self._send = send
        self._receive = receive
        self._answered = answered
        self._events = events
        self._raw = raw
        self._ends = ends
        self._is_stream = False
        self._rest = b""  # of an event that is not whole yet

    async def __call__(self, message: Any) -> None:
        made = self._made
        if message["type"] == "http.response.start":
            made.status = message["status"]
            made.said = {name.decode(): value.decode() for name, value in message["headers"]}
            self._is_stream = made.said.get("content-type", "").startswith("text/event-stream")
            if self._is_stream:
                made.world.sends[made.connection, made.session] = self._send
                self._answered(made)
                await self._send(_head(made))
        elif self._is_stream:
            if message.get("more_body", False):
                await self._send({**message, "body": self._edited(message["body"])})
            elif self._ends:
                await self._send(message)
            else:
                await asyncio.sleep(ENDLESS)
        else:
            made.answer += message.get("body", b"")
            if not message.get("more_body", False):
                self._answered(made)
                await _answer(made, self._send)

    def _edited(self, body: bytes) -> bytes:
        if self._raw is not None:
            return self._raw(self._made, body)
        if self._events is _same:  # however a stream is cut, it stays so
            return body
        *whole, self._rest = (self._rest + body).split(b"\n\n")
        return b"".join(event.text for event in self._events(self._made, [Event(text + b"\n\n") for text in whole]))


def _head(made: Exchange) -> Any:
    headers = [(name.encode(), value.encode()) for name, value in made.said.items()]
    return {"type": "http.response.start", "status": made.status, "headers": headers}


async def _answer(made: Exchange, send: Send) -> None:
    made.said["content-length"] = str(len(made.answer))
    await send(_head(made))
    await send({"type": "http.response.body", "body": made.answer})


async def _whole(receive: Any) -> bytes:
    body = b""
    while True:
        message = await receive()
        body += bytes(message.get("body", b""))
        if not message.get("more_body", False):
            return body


def _again(body: bytes, receive: Any) -> Any:
    left = [{"type": "http.request", "body": body, "more_body": False}]

    async def give() -> Any:
        return left.pop() if left else await receive()

    return give


def _with_close(faulty: Any, app: Any) -> App:
    """The server ends the connections of the app it serves."""

    faulty.close = getattr(app, "close", None) or _closed
    made: App = faulty
    return made


async def _closed() -> None:
    return


def moved(meant: Callable[[dict[str, Json]], bool], to_session: bool = False) -> RemoteFault:
    """These messages come on the other stream: the connection's, or the one of the session that was read last."""

    def events(made: Exchange, found: list[Event]) -> list[Event]:
        if bool(made.session) is to_session:
            return found
        out = [event for event in found if meant(event.message)]
        others = [key for key in made.world.sends if key[0] == made.connection and key[1]]
        key = others[-1] if to_session and others else (made.connection, "")
        for event in out:
            message = {"type": "http.response.body", "body": event.text, "more_body": True}
            made.world.notes["moving"] = asyncio.ensure_future(made.world.sends[key](message))
        return [event for event in found if event not in out]

    return exchange(events=events)


# --- sockets ------------------------------------------------------------------------------------------------------

# Takes the world and a message of ASGI; gives those that go on in its place.
Frames = Callable[[World, dict[str, Any]], list[dict[str, Any]]]


def _unchanged(_: World, message: dict[str, Any]) -> list[dict[str, Any]]:
    return [message]


def socket(
    *,
    asked: Callable[[World, dict[str, str]], None] | None = None,
    hears: Frames = _unchanged,
    says: Frames = _unchanged,
    posted: int = 0,
) -> RemoteFault:
    """A fault in the upgrade, in the frames that come or go, or in what POSTs without a connection are answered."""

    def around(app: App) -> App:
        world = World()

        async def faulty(scope: Any, receive: Any, send: Send) -> None:
            if scope["type"] != "websocket":
                if posted and scope["type"] == "http":
                    await _answer(Exchange(world, "POST", {}, b"", posted), send)
                    return
                await app(scope, receive, send)
                return
            headers = {name.decode("latin-1").lower(): value.decode("latin-1") for name, value in scope["headers"]}
            if asked is not None:
                asked(world, headers)
            extensions = {
                name: value for name, value in (scope.get("extensions") or {}).items() if name != DIRECT_EXTENSION
            }
            spelled = [(name.encode(), value.encode()) for name, value in headers.items()]
            waiting: list[dict[str, Any]] = []

            async def hear() -> Any:
                while not waiting:
                    message = await receive()
                    for made in hears(world, message):
                        if made["type"].startswith("websocket.") and made["type"] in ("websocket.send", CLOSE):
                            await send(made)
                        else:
                            waiting.append(made)
                return waiting.pop(0)

            async def say(message: Any) -> None:
                for made in says(world, message):
                    await send(made)

            await app({**scope, "headers": spelled, "extensions": extensions}, hear, say)

        return _with_close(faulty, app)

    return RemoteFault(around=around)


CLOSE = "websocket.close"
