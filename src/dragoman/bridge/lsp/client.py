"""The JSON-RPC client of one language server: requests with deadlines, notifications, and answers to its own requests.

Tolerant: what cannot be read is dropped. A server that floods, or prints something else than messages, is ended.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable, Mapping
from typing import Any

import msgspec

from dragoman.errors import ConnectionFailed, Kind, ProtocolError, TransportClosed
from dragoman.transport.base import Transport
from dragoman.wire.frames import Frame, Oversize

# Messages and bytes in one window of time. The start of gopls on a large project has some thousand messages; a server
# that sends more than this is broken, and would keep our event loop busy.
FLOOD_WINDOW = 5.0  # seconds
MAX_MESSAGES = 20_000
MAX_BYTES = 256 * 1024 * 1024

METHOD_NOT_FOUND = -32601
CONTENT_MODIFIED = -32801
SERVER_CANCELLED = -32802

_ID = re.compile(rb'"id"\s*:\s*(\d{1,15})')

Answer = Callable[[Any], Any]


class LanguageClient:
    """A connection to a language server; `run` reads until it ends."""

    def __init__(
        self,
        transport: Transport,
        *,
        answers: Mapping[str, Answer],
        on_notification: Callable[[str, Any], None],
        on_lost: Callable[[], None] = lambda: None,
    ) -> None:
        """`answers` has a function for each request that the server may send. `on_lost` is called at the end."""
        self.peer = transport.peer
        self._transport = transport
        self._answers = answers
        self._on_notification = on_notification
        self._on_lost = on_lost
        self._pending: dict[int, asyncio.Future[Any]] = {}
        self._last_id = 0
        self.failure: ConnectionFailed | None = None  # why the connection ended
        self._window_start = 0.0
        self._window_messages = 0
        self._window_bytes = 0

    async def run(self) -> ConnectionFailed:
        """Read until the server exits or breaks the protocol; return why. Open requests fail with it."""
        try:
            while True:
                for frame in await self._transport.receive():
                    self._check_flood(frame)
                    self._accept(frame)
        except ConnectionFailed as error:
            self._fail(error)
            return error
        except asyncio.CancelledError:
            self._fail(TransportClosed(f"{self.peer} was stopped"))
            raise

    async def request(self, method: str, params: Any = None, *, timeout: float) -> Any:
        """Send a request and return its result.

        Raise TimeoutError after `timeout` seconds, ProtocolError for an error of the server, ConnectionFailed if it is
        gone. A request that is given up is cancelled at the server.
        """
        if self.failure is not None:
            raise self.failure.with_traceback(None)
        self._last_id += 1
        id = self._last_id
        future: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        self._pending[id] = future
        try:
            self._send({"jsonrpc": "2.0", "id": id, "method": method} | _params(params))
            async with asyncio.timeout(timeout):
                return await future
        except (TimeoutError, asyncio.CancelledError):
            if self.failure is None:
                self.notify("$/cancelRequest", {"id": id})
            raise
        finally:
            self._pending.pop(id, None)

    def notify(self, method: str, params: Any = None) -> None:
        """Send a notification; nothing happens if the server is gone."""
        try:
            self._send({"jsonrpc": "2.0", "method": method} | _params(params))
        except ConnectionFailed:
            pass  # `run` reports it

    def _send(self, message: dict[str, Any]) -> None:
        self._transport.send(msgspec.json.encode(message))

    def _fail(self, error: ConnectionFailed) -> None:
        self.failure = self.failure or error
        for future in self._pending.values():
            if not future.done():
                future.set_exception(error)
                future.exception()  # a request that was given up meanwhile does not read it
        self._pending.clear()
        self._on_lost()

    def _check_flood(self, frame: Frame) -> None:
        now = asyncio.get_running_loop().time()
        if now - self._window_start > FLOOD_WINDOW:
            self._window_start, self._window_messages, self._window_bytes = now, 0, 0
        self._window_messages += 1
        self._window_bytes += len(frame) if isinstance(frame, bytes) else frame.size
        if self._window_messages > MAX_MESSAGES or self._window_bytes > MAX_BYTES:
            raise TransportClosed(
                f"{self.peer} sent {self._window_messages} messages with {self._window_bytes} bytes "
                f"in {FLOOD_WINDOW:g} s; it was ended"
            )

    # --- messages of the server ---------------------------------------------------------------------------------

    def _accept(self, frame: Frame) -> None:
        if isinstance(frame, Oversize):
            self._reject_oversize(frame)
            return
        try:
            message = msgspec.json.decode(frame)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            return
        if not isinstance(message, dict):
            return
        method, id = message.get("method"), message.get("id")
        if not isinstance(method, str):
            self._accept_answer(id, message)
        elif id is None:
            self._on_notification(method, message.get("params"))
        else:
            self._answer(id, method, message.get("params"))

    def _accept_answer(self, id: Any, message: dict[str, Any]) -> None:
        future = self._pending.pop(id, None) if isinstance(id, int) else None
        if future is None or future.done():
            return
        error = message.get("error")
        if isinstance(error, dict):
            text, code = str(error.get("message", "error"))[:2000], error.get("code")
            future.set_exception(
                ProtocolError(Kind.INTERNAL_ERROR, f"{self.peer}: {text}", code=code if isinstance(code, int) else None)
            )
        else:
            future.set_result(message.get("result"))

    def _reject_oversize(self, frame: Oversize) -> None:
        """Fail the request whose answer is too large; end a server that prints something else than messages."""
        if not frame.head:
            text = f"{self.peer} printed {frame.size} bytes that are no messages; is it a language server?"
            raise TransportClosed(text)
        found = _ID.search(frame.head) or _ID.search(frame.tail)
        future = self._pending.pop(int(found[1]), None) if found else None
        if future is not None and not future.done():
            message = f"{self.peer}: the answer has {frame.size} bytes, which is too large; ask for less"
            future.set_exception(ProtocolError(Kind.TOO_LARGE, message))

    def _answer(self, id: Any, method: str, params: Any) -> None:
        """Answer a request of the server: some wait for it before they do anything else."""
        answer = self._answers.get(method)
        message: dict[str, Any] = {"jsonrpc": "2.0", "id": id}
        if answer is None:
            message["error"] = {"code": METHOD_NOT_FOUND, "message": f"{method} is not supported"}
        else:
            message["result"] = answer(params)
        try:
            self._send(message)
        except ConnectionFailed:
            pass


def _params(params: Any) -> dict[str, Any]:
    """Return the member `params`: none at all if there are none, since TypeScript 7 refuses null."""
    return {} if params is None else {"params": params}
