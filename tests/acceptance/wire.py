"""Both ends of the wire for tests: a raw client or agent that only sends frames, and our commands.

Tests write the frames. Nothing here knows a dialect, except how a connection is opened.
"""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from types import TracebackType
from typing import Any, TypeVar

from dragoman import Agent, RemoteAgent, Turn, connect
from dragoman.testing import ScriptedPeer
from dragoman.transport.memory import memory_pair

T = TypeVar("T")
Json = Any
Part = Callable[[ScriptedPeer], Awaitable[None]]

# No test takes longer unless it hangs; processes on a busy machine need some seconds to start.
BOUND = 60.0

DRAGOMAN = [sys.executable, "-m", "dragoman"]


def run(work: Coroutine[Any, Any, T]) -> T:
    """Run a test's coroutine with a time limit."""

    async def bounded() -> T:
        async with asyncio.timeout(BOUND):
            return await work

    return asyncio.run(bounded())


def call(id: Json, method: str, params: Json) -> dict[str, Json]:
    """Return a request."""
    return {"jsonrpc": "2.0", "id": id, "method": method, "params": params}


def note(method: str, params: Json) -> dict[str, Json]:
    """Return a notification."""
    return {"jsonrpc": "2.0", "method": method, "params": params}


def result(asked: Json, value: Json) -> dict[str, Json]:
    """Return the answer to a received request, or to the one with this id."""
    return {"jsonrpc": "2.0", "id": asked["id"] if isinstance(asked, dict) else asked, "result": value}


def error(asked: dict[str, Json], code: int, message: str) -> dict[str, Json]:
    """Return an error for a received request."""
    return {"jsonrpc": "2.0", "id": asked["id"], "error": {"code": code, "message": message}}


def acting(**acts: Callable[[Turn], Awaitable[str | None]]) -> Callable[[Turn], Awaitable[str | None]]:
    """Return a prompt function that runs the act that the prompt names."""

    async def act(turn: Turn) -> str | None:
        return await acts[turn.text](turn)

    return act


@asynccontextmanager
async def client_of(agent: Agent) -> AsyncIterator[ScriptedPeer]:
    """Connect a raw client to one of our agents; nothing is sent yet."""
    ours, theirs = memory_pair()
    connection = agent.start_connection(theirs)
    try:
        yield ScriptedPeer(ours)
    finally:
        await connection.close()


@asynccontextmanager
async def agent_played(part: Part, **options: Any) -> AsyncIterator[RemoteAgent]:
    """Connect our client to a raw agent, whose part must run to its end."""
    ours, theirs = memory_pair()
    peer = ScriptedPeer(theirs)

    async def play() -> None:
        try:
            await part(peer)
        except BaseException as fault:  # otherwise our client waits for an agent that has ended
            await theirs.close(repr(fault))
            raise

    playing = asyncio.ensure_future(play())
    try:
        async with connect(ours, **options) as agent:
            yield agent
            await playing
    finally:
        if not playing.done():
            playing.cancel()
        elif (fault := playing.exception()) is not None:
            raise fault


async def serve(peer: ScriptedPeer, method: str, value: Json) -> dict[str, Json]:
    """Expect a request and answer it; return the request."""
    asked = await peer.expect(method=method)
    peer.send(result(asked, value))
    return asked


class Child:
    """One of our commands as a process, driven by lines. Stderr is kept."""

    def __init__(self, *words: str, cwd: Path | None = None) -> None:
        self._command: Sequence[str] = [*DRAGOMAN, *words]
        self._cwd = cwd
        self.lines: list[bytes] = []
        self.received: list[dict[str, Json]] = []

    async def __aenter__(self) -> Child:
        pipe = asyncio.subprocess.PIPE
        self._process = await asyncio.create_subprocess_exec(
            *self._command, stdin=pipe, stdout=pipe, stderr=pipe, cwd=self._cwd, limit=1 << 24
        )
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, fault: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._process.returncode is None:
            self._process.kill()
            await self._process.wait()

    def send(self, message: dict[str, Json] | bytes) -> None:
        """Send one line."""
        assert self._process.stdin is not None
        line = message if isinstance(message, bytes) else json.dumps(message).encode()
        self._process.stdin.write(line + b"\n")

    async def receive(self) -> dict[str, Json]:
        """Return the next line, which must be a complete message."""
        assert self._process.stdout is not None
        line = await self._process.stdout.readline()
        assert line.endswith(b"\n"), f"{line!r} is no line"
        self.lines.append(line)
        message: dict[str, Json] = json.loads(line)
        self.received.append(message)
        return message

    async def until(self, id: Json) -> list[dict[str, Json]]:
        """Return everything up to the answer to this request, which is last."""
        received = [await self.receive()]
        while "method" in received[-1] or received[-1].get("id") != id:
            received.append(await self.receive())
        return received

    async def request(self, id: Json, method: str, params: Json) -> dict[str, Json]:
        """Send a request and return the answer; other messages are in `received`."""
        self.send(call(id, method, params))
        return (await self.until(id))[-1]

    async def end(self) -> tuple[int | None, str, str]:
        """Close its input and wait; return its exit status, the rest of its output, and its stderr."""
        assert self._process.stdin is not None
        self._process.stdin.close()
        rest, aside = await self._process.communicate()
        return self._process.returncode, rest.decode(), aside.decode()
