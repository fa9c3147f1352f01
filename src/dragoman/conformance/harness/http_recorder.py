"""What a client does on the wire of HTTP and WebSocket, seen by its agent: an ASGI app that records and passes on.

Between the client and an endpoint of ours. What a client leaves out is recorded and mended, so that a probe sees the
whole turn and not only the first mistake; extensions of ours are hidden, so that the endpoint is as plain as any. A
probe may have answers shaped: streams cut anywhere, cookies, a stream that opens late.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from typing import Any

import msgspec

from dragoman.transport.remote.server.ws_requests import DIRECT_EXTENSION


def message_of(body: bytes) -> Any:
    """The body as JSON, None when it is none."""
    try:
        return json.loads(body)
    except ValueError:
        return None


def method_of(body: bytes) -> str:
    """The method of the message in a body, "" when it calls nothing."""
    found = message_of(body)
    return str(found.get("method", "")) if isinstance(found, dict) else ""


Json = Any

# What only our own clients and servers say to each other.
OWN = "dragoman-"

# Between two pieces of one event: long enough for each to be read by itself. Seconds.
BREATH = 0.001


class Seen(msgspec.Struct):
    """One request of the client, as it came; names of headers in lower case."""

    method: str
    headers: dict[str, str]
    body: bytes = b""

    @property
    def message(self) -> Json:
        """The body as JSON, None when it is none."""
        return message_of(self.body)

    @property
    def calls(self) -> str:
        """The method of its message, "" when it calls nothing."""
        return method_of(self.body)


class Wire:
    """Everything a client did, and how it is answered."""

    def __init__(self, app: Any) -> None:
        self.requests: list[Seen] = []
        self.frames: list[tuple[str, Any]] = []
        """Frames of the client: `text` or `binary`, and what was in them."""
        self.farewell: int | None = None
        """The code with which the client closed its socket."""
        self.cookie = ""
        self.late = 0.0
        """Seconds that the stream of a session takes to open."""
        self.typed = False
        """Whether a 202 says that it is JSON, though it has no body."""
        self.shape: Callable[[bytes], list[bytes]] | None = None
        self.note: Callable[[str, str], Any] = lambda *_: None
        self._app = app
        self._connection = ""
        self._send: Any = None
        self._is_met = False

    async def close(self) -> None:
        """End the connections of the endpoint."""
        await self._app.close()

    async def binary(self, data: bytes) -> None:
        """Say a binary frame."""
        self.note("out", f"a binary frame of {len(data)} bytes")
        await self._send({"type": "websocket.send", "bytes": data})

    async def text(self, data: str) -> None:
        """Say a text frame as it is."""
        self.note("out", data)
        await self._send({"type": "websocket.send", "text": data})

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        """Record, mend, and pass on."""
        headers = {name.decode("latin-1").lower(): value.decode("latin-1") for name, value in scope["headers"]}
        if scope["type"] == "websocket":
            await self._socket(scope, headers, receive, send)
            return
        if scope["method"] == "GET" and scope["path"].endswith("/api/host"):
            await self._introduce(send)
            return
        body = b""
        while (message := await receive())["type"] == "http.request":
            body += bytes(message.get("body", b""))
            if not message.get("more_body", False):
                break
        seen = Seen(scope["method"], headers, body)
        self.requests.append(seen)
        shown = ("accept", "content-type", "acp-connection-id", "acp-session-id", "cookie")
        self.note("note", "\n".join([seen.method, *(f"{name}: {headers[name]}" for name in shown if name in headers)]))
        if seen.method == "GET" and "acp-session-id" in headers and self.late:
            await asyncio.sleep(self.late)
        mended = self._mended(seen)
        left = [{"type": "http.request", "body": mended.body, "more_body": False}]

        async def again() -> Any:
            return left.pop() if left else await receive()

        await self._app({**scope, "headers": _spelled(mended.headers)}, again, _Answering(self, seen, send))

    async def _introduce(self, send: Any) -> None:
        """What a host of ours says of itself, for clients that ask (`dragoman run --host`)."""
        host = {"dragoman": "0", "user": "check", "role": "admin", "session": None, "agents": ["check"], "roots": None}
        headers = {"content-type": "application/json"}
        await send({"type": "http.response.start", "status": 200, "headers": _spelled(headers)})
        await send({"type": "http.response.body", "body": json.dumps(host).encode()})

    def _mended(self, seen: Seen) -> Seen:
        headers = {name: value for name, value in seen.headers.items() if not name.startswith(OWN)}
        body = seen.body
        if isinstance(seen.message, list) and len(seen.message) == 1:
            body = json.dumps(seen.message[0]).encode()
        if seen.method == "POST":
            headers["content-type"] = "application/json"
        if seen.method == "GET":
            headers["accept"] = "text/event-stream"
        if seen.calls == "initialize":
            headers.pop("acp-connection-id", None)
        elif self._connection:
            headers.setdefault("acp-connection-id", self._connection)
        headers["content-length"] = str(len(body))
        return Seen(seen.method, headers, body)

    def named(self, connection: str) -> None:
        """The endpoint gave a connection its name."""
        self._connection = connection

    async def _socket(self, scope: Any, headers: dict[str, str], receive: Any, send: Any) -> None:
        self.requests.append(Seen("UPGRADE", headers))
        self._send = send
        kept = {name: value for name, value in headers.items() if not name.startswith(OWN)}
        extensions = {
            name: value for name, value in (scope.get("extensions") or {}).items() if name != DIRECT_EXTENSION
        }

        async def hear() -> Any:
            while True:
                message = await receive()
                if message["type"] == "websocket.disconnect":
                    self.farewell = message.get("code")
                elif message["type"] == "websocket.receive":
                    text, data = message.get("text"), message.get("bytes")
                    self.frames.append(("binary", data) if text is None else ("text", text))
                    if text is None:
                        text = (data or b"").decode("utf-8", "replace")
                        message = {"type": "websocket.receive", "text": text}
                    if not self._is_met and _is_remark(text):
                        continue
                    self._is_met = True
                return message

        await self._app({**scope, "headers": _spelled(kept), "extensions": extensions}, hear, send)


class _Answering:
    """The way out of one answer."""

    def __init__(self, wire: Wire, seen: Seen, send: Any) -> None:
        self._wire = wire
        self._seen = seen
        self._send = send
        self._is_stream = False

    async def __call__(self, message: Any) -> None:
        wire = self._wire
        if message["type"] == "http.response.start":
            headers = {name.decode(): value.decode() for name, value in message["headers"]}
            self._is_stream = headers.get("content-type", "").startswith("text/event-stream")
            if self._seen.calls == "initialize" and "acp-connection-id" in headers:
                wire.named(headers["acp-connection-id"])
                if wire.cookie:
                    headers["set-cookie"] = wire.cookie
            if message["status"] == 202 and wire.typed:
                headers["content-type"] = "application/json"
            headers = {name: value for name, value in headers.items() if not name.startswith(OWN)}
            message = {**message, "headers": _spelled(headers)}
        elif self._is_stream and wire.shape is not None and message.get("body"):
            for piece in wire.shape(message["body"]):
                await self._send({**message, "body": piece, "more_body": True})
                await asyncio.sleep(BREATH)
            return
        await self._send(message)


def _is_remark(text: str) -> bool:
    """Whether it is a notification: before initialize it is recorded as a mistake, and mended."""
    said = message_of(text.encode())
    return isinstance(said, dict) and "method" in said and "id" not in said


def _spelled(headers: dict[str, str]) -> list[tuple[bytes, bytes]]:
    return [(name.encode(), value.encode("latin-1")) for name, value in headers.items()]
