"""The access log: one line for each request and each WebSocket, as text or JSON. Queries are left out: they may hold a
token.
"""

from __future__ import annotations

import contextvars
import json
import sys
import time
from datetime import UTC, datetime
from typing import TextIO
from urllib.parse import quote

import msgspec

from dragoman.transport.remote.server.asgi import Message, Scope, Send
from dragoman.transport.remote.server.auth import Authenticate, AuthRequest, Principal

# The name of the log for stderr.
STDERR = "-"

# Characters of a path or a user that are written. Longer ones come from attacks.
MAX_TEXT = 512


class AccessRecord(msgspec.Struct):
    """One request while it is served."""

    address: str
    method: str
    path: str
    started: float
    user: str = ""
    status: int = 0
    bytes: int = 0


_current: contextvars.ContextVar[AccessRecord | None] = contextvars.ContextVar("access", default=None)


class AccessLog:
    """Writes the access log to a file, which `reopen` opens again after a rotation."""

    def __init__(self, path: str, form: str = "text") -> None:
        self._path = path
        self._form = form
        self._stream: TextIO = self._open()

    def _open(self) -> TextIO:
        if self._path == STDERR:
            return sys.stderr
        return open(self._path, "a", encoding="utf-8", buffering=1)

    def reopen(self) -> None:
        """Open the file again: it may have been renamed. Raise OSError, with the old one in use, if that fails."""
        stream = self._open()
        self.close()
        self._stream = stream

    def close(self) -> None:
        """Close the file."""
        if self._stream is not sys.stderr:
            self._stream.close()

    def begin(self, scope: Scope) -> AccessRecord:
        """Begin the record of a request. Authentication in this task adds the user."""
        client = scope.get("client") or ("", 0)
        method = "WEBSOCKET" if scope["type"] == "websocket" else str(scope.get("method", ""))
        record = AccessRecord(str(client[0]), method, str(scope.get("path", "")), time.monotonic())
        _current.set(record)
        return record

    def end(self, record: AccessRecord) -> None:
        """Write the line of a request. A full disk stops no request."""
        now = datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
        duration = round((time.monotonic() - record.started) * 1000, 1)
        path, user = record.path[:MAX_TEXT], record.user[:MAX_TEXT]
        if self._form == "json":
            values = {"address": record.address, "user": user, "method": record.method, "path": path}
            measured = {"status": record.status, "bytes": record.bytes, "ms": duration}
            line = json.dumps({"time": now, "level": "access", **values, **measured})
        else:
            words = (record.address or "-", quote(user, safe="@._+-()") or "-", record.method, quote(path, safe="/%"))
            line = f"{now} access: {' '.join(words)} {record.status or '-'} {record.bytes} B {duration} ms"
        try:
            print(line, file=self._stream, flush=True)
        except (OSError, ValueError):
            pass


def note_status(record: AccessRecord, send: Send) -> Send:
    """Return a send function that notes the status and counts the bytes of the body."""

    async def noting_send(message: Message) -> None:
        kind = message["type"]
        if kind.endswith("response.start"):
            record.status = message["status"]
        elif kind == "websocket.accept":
            record.status = 101
        elif kind == "http.response.body":
            record.bytes += len(message.get("body", b""))
        await send(message)

    return noting_send


def note_user(authenticate: Authenticate) -> Authenticate:
    """Return an authenticate function that adds the user to the record of the request."""

    async def noting_authenticate(request: AuthRequest) -> Principal:
        principal = await authenticate(request)
        if (record := _current.get()) is not None:
            record.user = principal.user
        return principal

    return noting_authenticate
