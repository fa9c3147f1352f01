"""A client of a fleet run: it connects to any node, reads, prompts, and records what it was sent and answered."""

from __future__ import annotations

import asyncio
import random
import time
from collections import Counter
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

import msgspec

from dragoman.errors import ConnectionFailed, DragomanError, ProtocolError
from tests.host.fleet.node_process import LEASE
from tests.host.fleet.run.history import ANSWERED, FAILED, UNKNOWN, History, Prompt, Reading

if TYPE_CHECKING:
    from tests.host.fleet.node_process import NodeProcess

# How long a client waits for the answer to a prompt, and for a connection. Seconds.
PROMPT_TIMEOUT, CONNECT_TIMEOUT = 4 * LEASE + 20, 15.0


class ReachedNode(Protocol):
    """A node, as its clients know it."""

    @property
    def process(self) -> NodeProcess | None:
        """Its process."""
        ...


class ClientsRun(Protocol):
    """The run that a client is part of."""

    history: History
    counts: Counter[str]
    sessions: list[str]
    folder: Path
    seed: str
    is_over: bool

    @property
    def nodes(self) -> Sequence[ReachedNode]:
        """Where clients connect."""
        ...


def split_author(text: str) -> tuple[str, str]:
    """Return a text of a prompt or an answer without the command, and the node whose agent said it."""
    said, _, author = text.removeprefix("/echo ").partition("@")
    return said, author


class RunClient:
    """A client that connects to any node, prompts, reads, and connects again when it is cut off."""

    def __init__(self, number: int, run: ClientsRun) -> None:
        self._number = number
        self._run = run
        self._random = random.Random(f"{run.seed} {number}")
        self._count = 0
        self._cursors: dict[str, int] = {}

    async def work(self) -> None:
        while not self._run.is_over:
            node = self._random.choice(self._run.nodes)
            session = self._random.choice(self._run.sessions)
            try:
                await self._visit(node, session)
            except (DragomanError, TimeoutError, OSError) as error:
                self._run.counts[f"client: {type(error).__name__}"] += 1
                await asyncio.sleep(0.2)

    async def _visit(self, node: ReachedNode, session: str) -> None:
        assert node.process is not None
        reading = Reading(session, self._cursors.get(session, 0))
        async with asyncio.timeout(CONNECT_TIMEOUT):
            remote = await node.process.connect().__aenter__()
        try:
            remote.connection.tap = lambda _, frame: self._on_frame(reading, frame)
            params = {"sessionId": session, "cwd": str(self._run.folder), "mcpServers": []}
            async with asyncio.timeout(CONNECT_TIMEOUT):
                self._run.history.readings.append(reading)
                await remote.request("session/load", {**params, "_meta": {"dragoman": {"cursor": reading.after}}})
            for _ in range(self._random.randint(1, 4)):
                if not self._run.is_over:
                    await self._prompt(remote, reading)
        finally:
            self._cursors[session] = reading.received[-1][0] if reading.received else reading.after
            with suppress(Exception):
                async with asyncio.timeout(CONNECT_TIMEOUT):
                    await remote.close()

    async def _prompt(self, remote: Any, reading: Reading) -> None:
        self._count += 1
        text = f"/echo c{self._number}-{self._count}"
        prompt = Prompt(reading.session, text.removeprefix("/echo "), time.monotonic())
        self._run.history.prompts.append(prompt)
        reading.own_prompts.append(prompt.text)
        params = {"sessionId": reading.session, "prompt": [{"type": "text", "text": text}]}
        try:
            async with asyncio.timeout(PROMPT_TIMEOUT):
                await remote.request("session/prompt", params)
            prompt.answered, prompt.outcome = time.monotonic(), ANSWERED
        except ProtocolError as error:
            prompt.answered, prompt.outcome = time.monotonic(), FAILED
            self._run.counts[f"prompt: {error.message.split(':')[0][:50]}"] += 1
        except (ConnectionFailed, TimeoutError):
            prompt.outcome = UNKNOWN
            raise
        finally:
            self._run.counts[f"prompts {prompt.outcome}"] += 1

    def _on_frame(self, reading: Reading, frame: bytes) -> tuple[bool, None]:
        if b'"session/update"' in frame:
            params = msgspec.json.decode(frame)["params"]
            seq = params.get("_meta", {}).get("dragoman", {}).get("seq")
            update = params["update"]
            text = update.get("content", {}).get("text") if isinstance(update.get("content"), dict) else None
            if isinstance(seq, int) and isinstance(text, str) and update["sessionUpdate"].endswith("message_chunk"):
                reading.received.append((seq, split_author(text)[0]))
        return False, None
