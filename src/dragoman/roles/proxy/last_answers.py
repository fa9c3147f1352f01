"""What a client that closed its input still gets: the answers to its open requests, while it reads."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import suppress

from dragoman.engine.connection import EOF_GRACE, Connection

# How long a client that closed its input still gets answers other than that of a turn: some agents install themselves
# before the first answer (docs/protocol/peers.md#slow-start). Seconds.
ANSWER_TIMEOUT = 120.0

# How often to check meanwhile whether the client still reads. Seconds.
POLL_INTERVAL = 0.2

_PROMPT = "session/prompt"


class LastAnswers:
    """Waits for answers after the end of a client's input."""

    def __init__(self, client: Connection, has_open_requests: Callable[[str], bool]) -> None:
        """`has_open_requests` says whether requests of the client are open, besides those of a method."""
        self._client = client
        self._has_open_requests = has_open_requests
        self._answered = asyncio.Event()
        self._is_reading: Callable[[], bool] | None = getattr(client.transport, "has_reader", None)
        if self._is_reading is not None:
            client.on_eof = self._wait

    def note_answer(self) -> None:
        """Note that a forwarded request has its answer."""
        self._answered.set()

    async def _wait(self) -> None:
        """Wait for answers while the client reads, although its input has ended; for the end of a turn only briefly."""
        client = self._client
        client.note_peer_eof()
        assert self._is_reading is not None
        loop = asyncio.get_running_loop()
        deadline, turn_deadline = loop.time() + ANSWER_TIMEOUT, loop.time() + EOF_GRACE
        while self._has_open_requests("") and self._is_reading() and loop.time() < deadline:
            if self._has_open_requests(_PROMPT):
                turn_deadline = loop.time() + EOF_GRACE
            elif loop.time() >= turn_deadline:
                break
            if client.running_requests.is_busy:
                await client.running_requests.wait_finished(POLL_INTERVAL)
                continue
            self._answered.clear()
            with suppress(TimeoutError):
                async with asyncio.timeout(POLL_INTERVAL):
                    await self._answered.wait()
