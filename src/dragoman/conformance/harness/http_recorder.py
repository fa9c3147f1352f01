"""An ASGI app between a client and our endpoint that records what the client does over HTTP and WebSocket.

It repairs what the client leaves out, so that one mistake does not hide the next, and hides our extensions. A probe may
change answers: cut streams anywhere, set cookies, open a stream late.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from typing import Any

import msgspec

from dragoman.conformance.harness.http_client import parse_json
from dragoman.transport.remote.server.ws_requests import DIRECT_EXTENSION

Json = Any

# The prefix of headers between our own clients and servers.
OWN_PREFIX = "dragoman-"

# The pause between two pieces of one event: long enough for each to be read by itself. Seconds.
PIECE_PAUSE = 0.001


class RecordedRequest(msgspec.Struct):
    """One request of the client; header names in lower case."""

    method: str
    headers: dict[str, str]
    body: bytes = b""

    @property
    def message(self) -> Json:
        """The body as JSON, or None."""
        return parse_json(self.body)

    @property
    def calls(self) -> str:
        """The method of its message, or ""."""
        return str(self.message.get("method", "")) if isinstance(self.message, dict) else ""


class HttpRecorder:
    """The recorded requests and frames, and the changes to the answers."""

    def __init__(self, app: Any) -> None:
        self.requests: list[RecordedRequest] = []
        self.frames: list[tuple[str, Any]] = []
        """Frames of the client: `text` or `binary`, and the content."""
        self.close_code: int | None = None
        """The code with which the client closed its socket."""
        self.cookie = ""
        self.stream_delay = 0.0
        """Seconds that the stream of a session takes to open."""
        self.is_202_typed = False
        """Whether a 202 has the content type of JSON, though it has no body."""
        self.shape: Callable[[bytes], list[bytes]] | None = None
        self.note: Callable[[str, str], Any] = lambda *_: None
        self._app = app
        self._connection = ""
        self._send: Any = None
        self._is_initialized = False

    async def close(self) -> None:
        """End the connections of the endpoint."""
        await self._app.close()

    async def binary(self, data: bytes) -> None:
        """Send a binary frame."""
        self.note("out", f"a binary frame of {len(data)} bytes")
        await self._send({"type": "websocket.send", "bytes": data})

    async def text(self, data: str) -> None:
        """Send a text frame as it is."""
        self.note("out", data)
        await self._send({"type": "websocket.send", "text": data})

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        """Record and repair the request, and pass it on."""
        headers = {name.decode("latin-1").lower(): value.decode("latin-1") for name, value in scope["headers"]}
        if scope["type"] == "websocket":
            await self._socket(scope, headers, receive, send)
            return
        if scope["method"] == "GET" and scope["path"].endswith("/api/host"):
            await self._describe_host(send)
            return
        body = b""
        while (message := await receive())["type"] == "http.request":
            body += bytes(message.get("body", b""))
            if not message.get("more_body", False):
                break
        recorded = RecordedRequest(scope["method"], headers, body)
        self.requests.append(recorded)
        names = ("accept", "content-type", "acp-connection-id", "acp-session-id", "cookie")
        self.note(
            "note", "\n".join([recorded.method, *(f"{name}: {headers[name]}" for name in names if name in headers)])
        )
        if recorded.method == "GET" and "acp-session-id" in headers and self.stream_delay:
            await asyncio.sleep(self.stream_delay)
        repaired = self._repair(recorded)
        left = [{"type": "http.request", "body": repaired.body, "more_body": False}]

        async def again() -> Any:
            return left.pop() if left else await receive()

        await self._app(
            {**scope, "headers": _raw_headers(repaired.headers)}, again, _ResponseFilter(self, recorded, send)
        )

    async def _describe_host(self, send: Any) -> None:
        """Answer as one of our hosts, for clients that ask (`dragoman run --host`)."""
        host = {"dragoman": "0", "user": "check", "role": "admin", "session": None, "agents": ["check"], "roots": None}
        headers = {"content-type": "application/json"}
        await send({"type": "http.response.start", "status": 200, "headers": _raw_headers(headers)})
        await send({"type": "http.response.body", "body": json.dumps(host).encode()})

    def _repair(self, recorded: RecordedRequest) -> RecordedRequest:
        headers = {name: value for name, value in recorded.headers.items() if not name.startswith(OWN_PREFIX)}
        body = recorded.body
        if isinstance(recorded.message, list) and len(recorded.message) == 1:
            body = json.dumps(recorded.message[0]).encode()
        if recorded.method == "POST":
            headers["content-type"] = "application/json"
        if recorded.method == "GET":
            headers["accept"] = "text/event-stream"
        if recorded.calls == "initialize":
            headers.pop("acp-connection-id", None)
        elif self._connection:
            headers.setdefault("acp-connection-id", self._connection)
        headers["content-length"] = str(len(body))
        return RecordedRequest(recorded.method, headers, body)

    def set_connection(self, connection: str) -> None:
        """Note the id that the endpoint gave the connection."""
        self._connection = connection

    async def _socket(self, scope: Any, headers: dict[str, str], receive: Any, send: Any) -> None:
        self.requests.append(RecordedRequest("UPGRADE", headers))
        self._send = send
        ours = {name: value for name, value in headers.items() if not name.startswith(OWN_PREFIX)}
        extensions = {
            name: value for name, value in (scope.get("extensions") or {}).items() if name != DIRECT_EXTENSION
        }

        async def next_event() -> Any:
            while True:
                message = await receive()
                if message["type"] == "websocket.disconnect":
                    self.close_code = message.get("code")
                elif message["type"] == "websocket.receive":
                    text, data = message.get("text"), message.get("bytes")
                    self.frames.append(("binary", data) if text is None else ("text", text))
                    if text is None:
                        text = (data or b"").decode("utf-8", "replace")
                        message = {"type": "websocket.receive", "text": text}
                    if not self._is_initialized and _is_notification(text):
                        continue
                    self._is_initialized = True
                return message

        await self._app({**scope, "headers": _raw_headers(ours), "extensions": extensions}, next_event, send)


class _ResponseFilter:
    """Change one response on its way to the client."""

    def __init__(self, wire: HttpRecorder, recorded: RecordedRequest, send: Any) -> None:
        self._wire = wire
        self._seen = recorded
        self._send = send
        self._is_stream = False

    async def __call__(self, message: Any) -> None:
        wire = self._wire
        if message["type"] == "http.response.start":
            headers = {name.decode(): value.decode() for name, value in message["headers"]}
            self._is_stream = headers.get("content-type", "").startswith("text/event-stream")
            if self._seen.calls == "initialize" and "acp-connection-id" in headers:
                wire.set_connection(headers["acp-connection-id"])
                if wire.cookie:
                    headers["set-cookie"] = wire.cookie
            if message["status"] == 202 and wire.is_202_typed:
                headers["content-type"] = "application/json"
            headers = {name: value for name, value in headers.items() if not name.startswith(OWN_PREFIX)}
            message = {**message, "headers": _raw_headers(headers)}
        elif self._is_stream and wire.shape is not None and message.get("body"):
            for piece in wire.shape(message["body"]):
                await self._send({**message, "body": piece, "more_body": True})
                await asyncio.sleep(PIECE_PAUSE)
            return
        await self._send(message)


def _is_notification(text: str) -> bool:
    """Return whether it is a notification, which is recorded and dropped before initialize."""
    message = parse_json(text.encode())
    return isinstance(message, dict) and "method" in message and "id" not in message


def _raw_headers(headers: dict[str, str]) -> list[tuple[bytes, bytes]]:
    return [(name.encode(), value.encode("latin-1")) for name, value in headers.items()]
