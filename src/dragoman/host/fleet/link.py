"""One connection to another node: requests, notifications and answers as JSON-RPC frames, in both directions.

Notifications and answers are processed in wire order, so an answer never overtakes an entry that was sent before it.
"""

from __future__ import annotations

import asyncio
import itertools
import time
from collections.abc import Callable, Coroutine
from contextlib import suppress
from typing import Any, Protocol

import msgspec
from msgspec import UNSET, Raw, UnsetType

from dragoman.engine.incoming import to_protocol_error
from dragoman.errors import ConnectionFailed, Kind, ProtocolError
from dragoman.schema.base import encode
from dragoman.transport.base import Transport

# How often a quiet link is tried, when its members count as away, and when it is given up and dialed again. Seconds.
PING_INTERVAL, AWAY_AFTER, GIVE_UP_AFTER = 1.0, 5.0, 10.0

# Bytes that may wait on a link before entries are left out. The other node then reads them from the store.
MAX_UNSENT = 8 * 1024 * 1024

PING = "ping"


class LinkFrame(msgspec.Struct):
    """A frame of a link."""

    id: int | UnsetType = UNSET
    method: str = ""
    params: Raw = Raw(b"null")
    result: Raw | UnsetType = UNSET
    error: Any = UNSET


_decode = msgspec.json.Decoder(LinkFrame).decode


class LinkHandler(Protocol):
    """What a node does with what another node sends."""

    def on_notification(self, link: Link, method: str, params: Any) -> None:
        """Process a notification, at once."""
        ...

    def on_entry(self, link: Link, params: Raw) -> None:
        """Process an entry of a session that this node watches."""
        ...

    async def on_request(self, link: Link, id: int, method: str, params: Any) -> Any:
        """Return the answer to a request. Starts in wire order."""
        ...

    def on_link_closed(self, link: Link, reason: str) -> None:
        """Forget a link that ended."""
        ...


class Link:
    """A link to one node."""

    def __init__(self, node: str, transport: Transport, handler: LinkHandler, report: Callable[[str], None]) -> None:
        self.node = node
        self.transport = transport
        self.round_trip = 0.0  # of the last ping. Seconds
        self.entries_sent = self.entries_received = 0
        self.is_closed = False
        self.is_away = False  # whether it was silent for AWAY_AFTER
        self.on_away: list[Callable[[bool], None]] = []
        self._handler = handler
        self._report = report
        self._ids = itertools.count(1)
        self._pending: dict[int, asyncio.Future[Any]] = {}
        self._serving: dict[int, asyncio.Task[None]] = {}
        self._behind: dict[str, int] = {}  # sessions with entries that were left out, and their last number
        self._last_heard = time.monotonic()
        self._drain_task: asyncio.Task[None] | None = None
        self._unchecked_bytes = 0

    async def run(self) -> None:
        """Receive until the link ends."""
        ping_task = asyncio.get_running_loop().create_task(self._ping_forever())
        reason = "the link ended"
        try:
            while True:
                frames = await self.transport.receive()
                self._last_heard = time.monotonic()
                self._set_away(False)
                for frame in frames:
                    if type(frame) is bytes:
                        self._take(frame)
        except ConnectionFailed as error:
            reason = str(error)
        except msgspec.MsgspecError as error:
            reason = f"node {self.node} sent an invalid frame: {error}"
        finally:
            ping_task.cancel()
            await self.close(reason)

    async def close(self, reason: str) -> None:
        """End the link. Requests that wait fail with connection_lost."""
        if self.is_closed:
            return
        self.is_closed = True
        self._handler.on_link_closed(self, reason)
        for future in list(self._pending.values()):
            if not future.done():
                future.set_exception(lost_link_error(self.node, reason))
                future.exception()
        self._pending.clear()
        for task in [*self._serving.values(), *([self._drain_task] if self._drain_task else [])]:
            if task is not asyncio.current_task():
                task.cancel()
        with suppress(Exception):
            await self.transport.close(reason)

    # --- sending ------------------------------------------------------------------------------------------------

    def start_request(self, method: str, params: Any) -> tuple[int, asyncio.Future[Any]]:
        """Send a request. Return its id, to cancel it by, and the future of its answer."""
        id = next(self._ids)
        future: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        if self.is_closed:
            future.set_exception(lost_link_error(self.node, "it is closed"))
            future.exception()
            return id, future
        self._pending[id] = future
        self._send(b'{"jsonrpc":"2.0","id":%d,"method":%b,"params":%b}' % (id, encode(method), encode(params)))
        return id, future

    async def request(self, method: str, params: Any, timeout: float | None = None) -> Any:
        """Send a request and return its answer. Raise its ProtocolError, connection_lost, or timeout."""
        id, future = self.start_request(method, params)
        try:
            async with asyncio.timeout(timeout):
                return await future
        except TimeoutError:
            self.cancel(id)
            message = f"node {self.node} did not answer within {timeout:g} s; try again"
            raise ProtocolError(Kind.TIMEOUT, message) from None
        except asyncio.CancelledError:
            self.cancel(id)
            raise

    def cancel(self, id: int) -> None:
        """Cancel a request of ours. A late answer is dropped."""
        if self._pending.pop(id, None) is not None:
            self.notify("cancel", {"id": id})

    def notify(self, method: str, params: Any) -> None:
        """Send a notification."""
        if not self.is_closed:
            self._send(b'{"jsonrpc":"2.0","method":%b,"params":%b}' % (encode(method), encode(params)))

    def send_entry(self, session: str, seq: int, frame: bytes) -> None:
        """Send an entry, unless too much waits. Then the other node reads it from the store."""
        if self.is_closed:
            return
        if self._behind:
            self._behind[session] = seq
            return
        self._unchecked_bytes += len(frame)
        if self._unchecked_bytes > MAX_UNSENT:
            self._unchecked_bytes = 0
            if self.transport.congested():
                self._behind[session] = seq
                self._drain_task = asyncio.get_running_loop().create_task(self._send_heads())
                return
        self.entries_sent += 1
        self._send(frame)

    async def _send_heads(self) -> None:
        """When the other node reads again, tell it how far each log is."""
        try:
            await self.transport.drain()
        except ConnectionFailed:
            return
        behind, self._behind = self._behind, {}
        for session, seq in behind.items():
            self.notify("head", {"session": session, "seq": seq})

    def _send(self, frame: bytes) -> None:
        try:
            self.transport.send(frame)
        except ConnectionFailed:
            pass  # `run` ends with the same error

    # --- receiving ----------------------------------------------------------------------------------------------

    def _take(self, data: bytes) -> None:
        frame = _decode(data)
        if frame.method:
            if isinstance(frame.id, UnsetType):
                self._take_notification(frame.method, frame.params)
            elif frame.method == PING:
                self._send(b'{"jsonrpc":"2.0","id":%d,"result":null}' % frame.id)
            else:
                params = msgspec.json.decode(frame.params)
                self._serve(frame.id, self._handler.on_request(self, frame.id, frame.method, params))
            return
        future = None if isinstance(frame.id, UnsetType) else self._pending.pop(frame.id, None)
        if future is None or future.done():
            return
        if frame.error is not UNSET:
            future.set_exception(error_from_json(frame.error))
            future.exception()
        else:
            future.set_result(None if isinstance(frame.result, UnsetType) else msgspec.json.decode(frame.result))

    def _take_notification(self, method: str, params: Raw) -> None:
        try:
            if method == "entry":
                self.entries_received += 1
                self._handler.on_entry(self, params)
            elif method == "cancel":
                task = self._serving.get(msgspec.json.decode(params)["id"])
                if task is not None:
                    task.cancel()
            else:
                self._handler.on_notification(self, method, msgspec.json.decode(params))
        except Exception as error:  # one session must not end the link of all others
            self._report(f"link to node {self.node}: {method} failed: {error!r}")

    def _serve(self, id: int, work: Coroutine[Any, Any, Any]) -> None:
        task = asyncio.get_running_loop().create_task(self._answer(id, work))
        self._serving[id] = task
        task.add_done_callback(lambda _: self._serving.pop(id, None))

    async def _answer(self, id: int, work: Coroutine[Any, Any, Any]) -> None:
        try:
            body = b'"result":%b' % encode(await work)
        except asyncio.CancelledError:
            body = b'"error":%b' % encode(error_to_json(ProtocolError(Kind.CANCELLED, "the request was cancelled")))
        except Exception as error:
            body = b'"error":%b' % encode(error_to_json(to_protocol_error(error)))
        if not self.is_closed:
            self._send(b'{"jsonrpc":"2.0","id":%d,%b}' % (id, body))

    async def _ping_forever(self) -> None:
        while True:
            started = time.monotonic()
            try:
                await self.request(PING, None, timeout=PING_INTERVAL)
                self.round_trip = time.monotonic() - started
            except ProtocolError:
                pass
            silence = time.monotonic() - self._last_heard
            if silence > AWAY_AFTER:
                self._set_away(True)
            if silence > GIVE_UP_AFTER:
                await self.close(f"node {self.node} was silent for {silence:.0f} s")
                return
            await asyncio.sleep(max(0.0, PING_INTERVAL - (time.monotonic() - started)))

    def _set_away(self, is_away: bool) -> None:
        if self.is_away != is_away:
            self.is_away = is_away
            for callback in list(self.on_away):
                callback(is_away)


def lost_link_error(node: str, reason: str) -> ProtocolError:
    """Return the error of a call whose link was lost before its answer came."""
    return ProtocolError(Kind.CONNECTION_LOST, f"the link to node {node} was lost: {reason}", {"node": node})


def error_to_json(error: ProtocolError) -> dict[str, Any]:
    """Return an error as it crosses a link."""
    return {"kind": error.kind, "message": error.message, "data": error.data}


def error_from_json(value: Any) -> ProtocolError:
    """Return the error that crossed a link."""
    values = value if isinstance(value, dict) else {}
    data = values.get("data")
    return ProtocolError(
        str(values.get("kind") or Kind.INTERNAL_ERROR),
        str(values.get("message") or ""),
        data if isinstance(data, dict) else None,
    )


def entry_frame(session: bytes, line: bytes) -> bytes:
    """Return the frame of an entry. `session` is the id as JSON, `line` the entry as JSON."""
    return b'{"jsonrpc":"2.0","method":"entry","params":{"session":%b,"line":%b}}' % (session, line)
