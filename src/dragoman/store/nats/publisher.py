"""Publish to streams at little cost: what is sent in one pass of the event loop is one write, acknowledged by number.

`Client.request` of nats-py makes an inbox and a timer for each message, which cost more than the append itself. So the
frames are made here (docs/decisions/0026-the-cost-of-an-append.md has the figures).
"""

from __future__ import annotations

import asyncio
from collections import deque
from typing import Any

# What waits for a connection that was lost, at most. Bytes; as much as nats-py keeps.
MAX_PENDING = 2 * 1024 * 1024


class NoStream(Exception):
    """No server has a stream for the subject now, so nothing was stored."""


class NoAnswer(Exception):
    """Nobody knows whether the message was stored."""


class Publisher:
    """Publishes over one connection of nats-py."""

    def __init__(self, connection: Any, timeout: float) -> None:
        self._connection = connection
        self._timeout = timeout
        self._inbox = str(connection.new_inbox())
        self._count = 0
        self._waiting: dict[str, asyncio.Future[bytes]] = {}
        self._deadlines: deque[tuple[float, str]] = deque()
        self._timer: asyncio.TimerHandle | None = None
        self._frames: list[bytes] = []
        self._sending: asyncio.Task[None] | None = None

    async def start(self) -> None:
        """Listen for answers."""
        await self._connection.subscribe(f"{self._inbox}.*", cb=self._note_answer)

    def publish(self, subject: str, data: bytes, head: bytes) -> asyncio.Future[bytes]:
        """Send a message with its `header`; the result is the answer of the server. Fails with NoStream or NoAnswer."""
        if self._connection.is_closed or self._is_full:
            raise NoStream("there is no connection")
        loop = asyncio.get_running_loop()
        self._count += 1
        number = str(self._count)
        future = self._waiting[number] = loop.create_future()
        self._deadlines.append((loop.time() + self._timeout, number))
        if self._timer is None:
            self._timer = loop.call_later(self._timeout, self._note_deadline)
        self._frames.append(_frame(f"{subject} {self._inbox}.{number}", data, head))
        if self._sending is None:
            self._sending = loop.create_task(self._send())
        return future

    @property
    def _is_full(self) -> bool:
        """Whether so much waits for a connection that was lost that no more is taken."""
        return self._connection.pending_data_size > MAX_PENDING and not self._connection.is_connected

    def close(self) -> None:
        """Stop waiting for answers."""
        if self._timer is not None:
            self._timer.cancel()
        if self._sending is not None:
            self._sending.cancel()
        for number in list(self._waiting):
            self._fail(number, NoAnswer("the connection was closed"))

    async def _send(self) -> None:
        try:
            while self._frames:
                frames, self._frames = self._frames, []
                # A connection that is lost keeps them until it is there again, as nats-py does with its own.
                await self._connection._send_command(b"".join(frames))
                await self._connection._flush_pending()
        finally:
            self._sending = None

    async def _note_answer(self, message: Any) -> None:
        future = self._waiting.pop(message.subject[len(self._inbox) + 1 :], None)
        if future is None or future.done():
            return
        if message.headers and not message.data:
            future.set_exception(NoStream(message.headers.get("Status", "")))
        else:
            future.set_result(message.data)

    def _note_deadline(self) -> None:
        loop = asyncio.get_running_loop()
        while self._deadlines and (self._deadlines[0][0] <= loop.time() or self._deadlines[0][1] not in self._waiting):
            self._fail(self._deadlines.popleft()[1], NoAnswer(f"no answer within {self._timeout:g} s"))
        later = self._deadlines[0][0] if self._deadlines else None
        self._timer = None if later is None else loop.call_at(later, self._note_deadline)

    def _fail(self, number: str, error: Exception) -> None:
        future = self._waiting.pop(number, None)
        if future is not None and not future.done():
            future.set_exception(error)


def header(expected: int | None, ttl: float | None) -> bytes:
    """Return the header of a message: the last sequence that its subject must have, and how many seconds it is kept."""
    if expected is None and ttl is None:
        return b""
    expectation = b"" if expected is None else b"Nats-Expected-Last-Subject-Sequence: %d\r\n" % expected
    end = b"" if ttl is None else b"Nats-TTL: %ds\r\n" % max(int(ttl), 1)
    return b"NATS/1.0\r\n%b%b\r\n" % (expectation, end)


def _frame(to: str, data: bytes, head: bytes) -> bytes:
    """Return a message in the protocol of NATS clients. `to` is its subject and where to answer."""
    if not head:
        return b"PUB %b %d\r\n%b\r\n" % (to.encode(), len(data), data)
    return b"HPUB %b %d %d\r\n%b%b\r\n" % (to.encode(), len(head), len(head) + len(data), head, data)
