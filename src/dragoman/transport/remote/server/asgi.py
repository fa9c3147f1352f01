"""One HTTP request or WebSocket upgrade of an ASGI server: headers, bounded body, JSON responses."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Collection, Mapping, MutableMapping
from typing import Any, TypeAlias
from urllib.parse import parse_qsl

import msgspec
from msgspec import UNSET, UnsetType

from dragoman.transport.remote.server.auth import AuthRequest, Refused
from dragoman.transport.remote.server.limits import UnfinishedMessage
from dragoman.wire.envelope import Id

Scope: TypeAlias = MutableMapping[str, Any]
Message: TypeAlias = MutableMapping[str, Any]
Receive: TypeAlias = Callable[[], Awaitable[Message]]
Send: TypeAlias = Callable[[Message], Awaitable[None]]
App: TypeAlias = Callable[..., Awaitable[None]]

# Where our own server keeps what is known of a socket, in the scope of each of its requests.
SOCKET_KEY = "dragoman.socket"

# Where the cache of a socket has the certificate of the client, if it showed one of an authority that is trusted.
CERTIFICATE = "certificate"

# Response headers that a page of another origin may read, and request headers it may send.
_EXPOSED_HEADERS = "acp-connection-id, dragoman-cursor, dragoman-largest, retry-after"
_ALLOWED_HEADERS = (
    "content-type, authorization, acp-connection-id, acp-session-id, last-event-id, dragoman-frame, dragoman-cursor"
)


class Request:
    """A request and its response."""

    def __init__(self, scope: Scope, receive: Receive, send: Send, origins: Collection[str] = ()) -> None:
        self.scope = scope
        self.receive = receive
        self.send = send
        headers: dict[str, str] = {}
        for name, value in scope["headers"]:
            key, text = name.decode("latin-1").lower(), value.decode("latin-1")
            headers[key] = f"{headers[key]}, {text}" if key in headers else text
        self.headers = headers
        self.query = dict(parse_qsl(scope.get("query_string", b"").decode("latin-1"), keep_blank_values=True))
        self.method: str = scope.get("method", "GET")
        self.is_started = False
        self._origin = headers.get("origin") if headers.get("origin") in origins else None

    @property
    def path(self) -> str:
        """The path below the mount point of the app."""
        path, root = str(self.scope.get("path", "")), str(self.scope.get("root_path", "")).rstrip("/")
        return path[len(root) :] if root and path.startswith(root) else path

    def auth_request(self) -> AuthRequest:
        """What the request says about its sender."""
        address, port = self.scope.get("client") or ("", 0)
        server, server_port = self.scope.get("server") or ("", 0)
        return AuthRequest(
            path=self.path,
            headers=self.headers,
            query=self.query,
            address=str(address),
            port=port or 0,
            is_secure=self.scope.get("scheme") in ("https", "wss"),
            server_address=(str(server), server_port or 0),
            socket_cache=self.scope.get(SOCKET_KEY, {}),
        )

    async def read_body(self, limit: int, timeout: float, unfinished: UnfinishedMessage) -> bytes:
        """Read the whole body; raise Refused when it is too large or too slow, or too much comes at once."""
        declared = self.headers.get("content-length", "")
        if declared.isdigit() and int(declared) > limit:
            raise Refused(413, f"the body has {declared} bytes, and {limit} are the most; put large things into files")
        parts, size = [], 0
        try:
            async with asyncio.timeout(timeout):
                while True:
                    message = await self.receive()
                    if message["type"] == "http.disconnect":
                        raise ConnectionResetError("the client disconnected during its request")
                    parts.append(message.get("body", b""))
                    size += len(parts[-1])
                    if size > limit:
                        raise Refused(413, f"the body has more than {limit} bytes; put large things into files")
                    if not unfinished.resize(size):
                        headers = {"retry-after": "5", "connection": "close"}
                        raise Refused(429, "too many large messages at once; send this one again later", headers)
                    if not message.get("more_body", False):
                        return b"".join(parts)
        except TimeoutError:
            raise Refused(408, f"the body did not come within {timeout:g} seconds; send it again") from None
        finally:
            unfinished.resize(0)

    def response_headers(self, headers: Mapping[str, str]) -> list[tuple[bytes, bytes]]:
        """Return headers for the wire, with CORS headers for allowed origins."""
        all_headers = {**headers, "x-content-type-options": "nosniff"}
        if self._origin is not None:
            all_headers |= {
                "access-control-allow-origin": self._origin,
                "access-control-allow-credentials": "true",
                "access-control-expose-headers": _EXPOSED_HEADERS,
                "access-control-allow-headers": _ALLOWED_HEADERS,
                "access-control-allow-methods": "GET, POST, DELETE, OPTIONS",
                "vary": "origin",
            }
        return [(name.encode("latin-1"), value.encode("latin-1", "replace")) for name, value in all_headers.items()]

    async def respond(self, status: int, body: bytes = b"", headers: Mapping[str, str] | None = None) -> None:
        """Respond with this body, which is JSON unless empty."""
        all_headers = {"content-length": str(len(body)), "cache-control": "no-store", **(headers or {})}
        if body:
            all_headers["content-type"] = "application/json"
        await self.start_response(status, all_headers)
        await self.send({"type": "http.response.body", "body": body})

    async def start_response(self, status: int, headers: Mapping[str, str]) -> None:
        """Start a response whose body follows."""
        self.is_started = True
        await self.send({"type": "http.response.start", "status": status, "headers": self.response_headers(headers)})

    async def refuse(self, refused: Refused, id: Id | UnsetType = UNSET) -> None:
        """Respond with the status of a refusal and a body that says why."""
        headers = dict(refused.headers)
        if refused.status in (408, 413, 415, 501):
            headers["connection"] = "close"  # the rest of the body is not read
        if self.scope.get("http_version", "1.1") not in ("1.0", "1.1"):
            headers.pop("connection", None)
        await self.respond(refused.status, refusal_body(refused, id), headers)

    async def deny_upgrade(self, refused: Refused) -> None:
        """Refuse a WebSocket upgrade, with the status where the server supports it."""
        if "websocket.http.response" not in (self.scope.get("extensions") or {}):
            await self.send({"type": "websocket.close", "code": 1008, "reason": refused.message[:120]})
            return
        body = refusal_body(refused, UNSET)
        headers = {"content-type": "application/json", "content-length": str(len(body)), **refused.headers}
        encoded = self.response_headers(headers)
        await self.send({"type": "websocket.http.response.start", "status": refused.status, "headers": encoded})
        await self.send({"type": "websocket.http.response.body", "body": body})


def refusal_body(refused: Refused, id: Id | UnsetType) -> bytes:
    """Return the body of a refusal, with its kind and what to do. With an id it is a JSON-RPC response."""
    if isinstance(id, UnsetType):
        return msgspec.json.encode({"error": {"kind": refused.kind, "message": refused.message}})
    code = -32700 if refused.kind == "parse_error" else -32600
    error = {"code": code, "message": refused.message, "data": {"kind": refused.kind}}
    return msgspec.json.encode({"jsonrpc": "2.0", "id": id, "error": error})
