"""Short ways to write a fault of HTTP or WebSocket, as an ASGI app around another.

Every server gets a fresh fault with a `ServerMemory`. Edits change their argument in place; an edit of events returns
the events to pass on.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable
from typing import Any

import msgspec

from dragoman.conformance.harness.http_client import parse_json
from dragoman.transport.remote.server.ws_requests import DIRECT_EXTENSION
from tests.conformance.faults.fault import App, RemoteFault

# How long a stream that does not end stays open: longer than any probe waits. Seconds.
ENDLESS = 60.0

Json = Any
Send = Callable[[Any], Awaitable[None]]


class ServerMemory(msgspec.Struct):
    """What a fault remembers of one server."""

    notes: dict[str, Json] = msgspec.field(default_factory=dict)
    sends: dict[tuple[str, str], Send] = msgspec.field(default_factory=dict)
    """How to send on a stream, by connection and session ("" for the connection's own)."""


class Exchange(msgspec.Struct):
    """One HTTP request and its answer; header names in lower case."""

    memory: ServerMemory
    method: str
    headers: dict[str, str]
    body: bytes
    status: int = 0
    """Set by an edit of the request to answer with it instead of the app."""
    answer_headers: dict[str, str] = msgspec.field(default_factory=dict)
    answer: bytes = b""

    @property
    def message(self) -> Json:
        """The body as JSON, or None."""
        return parse_json(self.body)

    @property
    def calls(self) -> str:
        """The method of the message, or ""."""
        return str(self.message.get("method", "")) if isinstance(self.message, dict) else ""

    @property
    def connection(self) -> str:
        """The connection it names."""
        return self.headers.get("acp-connection-id", "")

    @property
    def session(self) -> str:
        """The session it names."""
        return self.headers.get("acp-session-id", "")


class Event(msgspec.Struct):
    """One event of a stream and its message."""

    text: bytes

    @property
    def message(self) -> dict[str, Json]:
        """The message; empty when it is not an object."""
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
    on_request: Edit = _nothing,
    on_response: Edit = _nothing,
    events: Events = _same,
    raw: Raw | None = None,
    ends: bool = True,
) -> RemoteFault:
    """A fault in requests, in answers that are no streams, in the events of streams, or in their bytes."""

    def wrap(app: App) -> App:
        memory = ServerMemory()

        async def faulty(scope: Any, receive: Any, send: Send) -> None:
            if scope["type"] != "http":
                await app(scope, receive, send)
                return
            headers = {name.decode("latin-1").lower(): value.decode("latin-1") for name, value in scope["headers"]}
            is_large = int(headers.get("content-length", "0")) > 64 * 1024 * 1024
            body = b"" if is_large else await _whole(receive)
            http = Exchange(memory, scope["method"], headers, body)
            wait = on_request(http)
            if wait is not None:
                await wait
            if http.status:
                await _answer(http, send)
                return
            scope = {**scope, "headers": [(name.encode(), value.encode()) for name, value in http.headers.items()]}
            await app(
                scope,
                _again(http.body, receive),
                _ResponseEdits(http, send, receive, on_response, events, raw, ends),
            )

        return _with_close(faulty, app)

    return RemoteFault(wrapper=wrap)


class _ResponseEdits:
    """Apply the fault to one answer."""

    def __init__(
        self,
        http: Exchange,
        send: Send,
        receive: Any,
        on_response: Edit,
        events: Events,
        raw: Raw | None,
        ends: bool,
    ) -> None:
        self._made = http
        self._send = send
        self._receive = receive
        self._answered = on_response
        self._events = events
        self._raw = raw
        self._ends = ends
        self._is_stream = False
        self._rest = b""  # of an event that is not whole yet

    async def __call__(self, message: Any) -> None:
        http = self._made
        if message["type"] == "http.response.start":
            http.status = message["status"]
            http.answer_headers = {name.decode(): value.decode() for name, value in message["headers"]}
            self._is_stream = http.answer_headers.get("content-type", "").startswith("text/event-stream")
            if self._is_stream:
                http.memory.sends[http.connection, http.session] = self._send
                self._answered(http)
                await self._send(_head(http))
        elif self._is_stream:
            if message.get("more_body", False):
                await self._send({**message, "body": self._edited(message["body"])})
            elif self._ends:
                await self._send(message)
            else:
                await asyncio.sleep(ENDLESS)
        else:
            http.answer += message.get("body", b"")
            if not message.get("more_body", False):
                self._answered(http)
                await _answer(http, self._send)

    def _edited(self, body: bytes) -> bytes:
        if self._raw is not None:
            return self._raw(self._made, body)
        if self._events is _same:  # however a stream is cut, it stays so
            return body
        *complete, self._rest = (self._rest + body).split(b"\n\n")
        return b"".join(event.text for event in self._events(self._made, [Event(text + b"\n\n") for text in complete]))


def _head(http: Exchange) -> Any:
    headers = [(name.encode(), value.encode()) for name, value in http.answer_headers.items()]
    return {"type": "http.response.start", "status": http.status, "headers": headers}


async def _answer(http: Exchange, send: Send) -> None:
    http.answer_headers["content-length"] = str(len(http.answer))
    await send(_head(http))
    await send({"type": "http.response.body", "body": http.answer})


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
    """Give the faulty app the `close` of the real one."""

    faulty.close = getattr(app, "close", None) or _closed
    http: App = faulty
    return http


async def _closed() -> None:
    return


def move_events(matches: Callable[[dict[str, Json]], bool], to_session: bool = False) -> RemoteFault:
    """Send these messages on the other stream: the connection's, or that of the session that was read last."""

    def events(http: Exchange, found: list[Event]) -> list[Event]:
        if bool(http.session) is to_session:
            return found
        out = [event for event in found if matches(event.message)]
        others = [key for key in http.memory.sends if key[0] == http.connection and key[1]]
        key = others[-1] if to_session and others else (http.connection, "")
        for event in out:
            message = {"type": "http.response.body", "body": event.text, "more_body": True}
            http.memory.notes["moving"] = asyncio.ensure_future(http.memory.sends[key](message))
        return [event for event in found if event not in out]

    return exchange(events=events)


# --- sockets ------------------------------------------------------------------------------------------------------

# Takes the memory and a message of ASGI; returns those to pass on.
Frames = Callable[[ServerMemory, dict[str, Any]], list[dict[str, Any]]]


def _unchanged(_: ServerMemory, message: dict[str, Any]) -> list[dict[str, Any]]:
    return [message]


def socket(
    *,
    on_request: Callable[[ServerMemory, dict[str, str]], None] | None = None,
    incoming: Frames = _unchanged,
    outgoing: Frames = _unchanged,
    posted: int = 0,
) -> RemoteFault:
    """A fault in the upgrade, in the frames of either direction, or in the answer to POSTs without a connection."""

    def wrap(app: App) -> App:
        memory = ServerMemory()

        async def faulty(scope: Any, receive: Any, send: Send) -> None:
            if scope["type"] != "websocket":
                if posted and scope["type"] == "http":
                    await _answer(Exchange(memory, "POST", {}, b"", posted), send)
                    return
                await app(scope, receive, send)
                return
            headers = {name.decode("latin-1").lower(): value.decode("latin-1") for name, value in scope["headers"]}
            if on_request is not None:
                on_request(memory, headers)
            extensions = {
                name: value for name, value in (scope.get("extensions") or {}).items() if name != DIRECT_EXTENSION
            }
            spelled = [(name.encode(), value.encode()) for name, value in headers.items()]
            waiting: list[dict[str, Any]] = []

            async def receive_frames() -> Any:
                while not waiting:
                    message = await receive()
                    for http in incoming(memory, message):
                        if http["type"].startswith("websocket.") and http["type"] in ("websocket.send", CLOSE):
                            await send(http)
                        else:
                            waiting.append(http)
                return waiting.pop(0)

            async def say(message: Any) -> None:
                for http in outgoing(memory, message):
                    await send(http)

            await app({**scope, "headers": spelled, "extensions": extensions}, receive_frames, say)

        return _with_close(faulty, app)

    return RemoteFault(wrapper=wrap)


CLOSE = "websocket.close"
