"""Draft peers in raw JSON, for tests on the wire: a client for our agents, an agent for our client.

Every frame is written by hand, without Dragoman's tables of the draft. `serving` connects our agent to a raw client,
`during_turn` connects our client to a raw agent that does something during a turn.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any, NamedTuple

from dragoman import Agent, ClientSession, ClientTurn, ProtocolError, RemoteAgent, connect
from dragoman.testing import ScriptedPeer
from dragoman.transport.memory import memory_pair

Json = Any

# Longer than any of this takes on a busy machine; a test that waits so long has failed. Seconds.
BOUND = 30.0
SESSION = "sess_abc123"
CREATED = "2026-02-04T10:30:00Z"

CLIENT: dict[str, Json] = {
    "fs": {"read": True, "write": True},
    "terminal": {"create": True, "interactive": False, "maxConcurrent": 5},
    "ui": {"permissionDialogs": True, "diffViewer": True},
}
AGENT: dict[str, Json] = {
    "loadSession": True,
    "mcpCapabilities": {"servers": True, "transport": ["stdio", "http"]},
    "promptCapabilities": {"streaming": True, "cancellation": True, "attachments": True},
    "sessionCapabilities": {
        "modes": ["default", "plan", "code"],
        "configOptions": ["autoApprove", "maxTokens"],
        "persistence": True,
    },
}


def run(work: Awaitable[Any]) -> Any:
    """Run a test's coroutine with a time limit."""

    async def bounded() -> Any:
        async with asyncio.timeout(BOUND):
            return await work

    return asyncio.run(bounded())


async def kind_of(work: Awaitable[Any]) -> str:
    """Return the kind of an error, "" if there is none: for code that runs inside an agent."""
    try:
        await work
    except ProtocolError as error:
        return error.kind
    return ""


class Raw(ScriptedPeer):
    """One end of a draft connection; `answers` has its answers by method."""

    def __init__(self, transport: Any) -> None:
        super().__init__(transport)
        self.answers: dict[str, Callable[[Json], Json]] = {}
        self._last = 1000

    def ask(self, method: str, params: Json) -> int:
        """Send a request; return its id."""
        self._last += 1
        self.send({"jsonrpc": "2.0", "id": self._last, "method": method, "params": params})
        return self._last

    def notify(self, method: str, params: Json) -> None:
        """Send a notification."""
        self.send({"jsonrpc": "2.0", "method": method, "params": params})

    def reply(self, asked: Json, result: Json) -> None:
        """Answer a received request."""
        self.send({"jsonrpc": "2.0", "id": asked["id"], "result": result})

    def refuse(self, asked: Json, code: int, message: str) -> None:
        """Answer a received request with an error."""
        self.send({"jsonrpc": "2.0", "id": asked["id"], "error": {"code": code, "message": message}})

    async def until(self, is_it: Callable[[Json], bool]) -> Json:
        """Return the next matching message; answer requests before it."""
        while True:
            message = await self.receive()
            if is_it(message):
                return message
            if "method" in message and "id" in message:
                answer = self.answers.get(message["method"])
                if answer is None:
                    self.refuse(message, -32601, "Method not found")
                else:
                    self.reply(message, answer(message["params"]))

    async def answer(self, id: int) -> Json:
        """Return the whole answer to a request of ours."""
        return await self.until(lambda message: "method" not in message and message.get("id") == id)

    async def call(self, method: str, params: Json) -> Json:
        """Send a request; return the whole answer."""
        return await self.answer(self.ask(method, params))

    async def wait_for_call(self, method: str) -> Json:
        """Wait until the other end calls this method; do not answer it."""
        return await self.until(lambda message: message.get("method") == method)

    async def result(self, method: str, params: Json) -> Json:
        """Send a request; return the result, which must exist."""
        answered = await self.call(method, params)
        assert "result" in answered, answered
        return answered["result"]

    async def error(self, method: str, params: Json) -> Json:
        """Send a request; return the error, which must exist."""
        answered = await self.call(method, params)
        assert "error" in answered, answered
        return answered["error"]

    def params_of(self, method: str) -> list[Json]:
        """Return the params of every received call of a method, in order."""
        return [message["params"] for message in self.received if message.get("method") == method]

    def updates(self, kind: str | None = None) -> list[Json]:
        """Return the data of every received update (of one type), in order."""
        return [params["data"] for params in self.params_of("session/update") if kind in (None, params["type"])]


def initialize(capabilities: Json = None, **members: Json) -> dict[str, Json]:
    """Return the params of a draft client's initialize."""
    return {
        "protocolVersion": 1,
        "clientInfo": {"name": "VS Code", "version": "1.85.0"},
        "capabilities": CLIENT if capabilities is None else capabilities,
        **members,
    }


@asynccontextmanager
async def serving(agent: Agent, capabilities: Json = None) -> AsyncIterator[Raw]:
    """Connect our agent to an initialized raw client."""
    ours, theirs = memory_pair()
    connection = agent.start_connection(theirs)
    client = Raw(ours)
    try:
        await client.result("initialize", initialize(capabilities))
        yield client
    finally:
        await connection.close()


async def open_session(client: Raw, folder: Any = "/home/user/project", **members: Json) -> str:
    """Open a session in a folder; return its id."""
    result = await client.result("session/new", {"workingDirectory": str(folder), **members})
    return str(result["sessionId"])


async def prompted(client: Raw, session: str, text: str = "go", **members: Json) -> Json:
    """Prompt and return the whole answer; answer the agent's requests meanwhile."""
    content = [{"type": "text", "text": text}]
    return await client.call("session/prompt", {"sessionId": session, "content": content, **members})


def bare(value: Json) -> Json:
    """Return the same JSON without `_meta`, which has what the draft cannot carry."""
    if isinstance(value, dict):
        return {name: bare(member) for name, member in value.items() if name != "_meta"}
    return [bare(member) for member in value] if isinstance(value, list) else value


def text_prompt(session: str, text: str = "go") -> dict[str, Json]:
    """Return the params of a prompt with one text."""
    return {"sessionId": session, "content": [{"type": "text", "text": text}]}


@asynccontextmanager
async def playing(
    part: Callable[[Raw], Awaitable[None]], introduction: Json = None, **options: Any
) -> AsyncIterator[RemoteAgent]:
    """Connect our client to a raw agent that answers initialize and then runs its part to the end."""
    ours, theirs = memory_pair()
    agent = Raw(theirs)

    async def play() -> None:
        try:
            asked = await agent.expect(method="initialize")
            info = {"name": "Claude Agent", "version": "1.0.0"}
            agent.reply(asked, introduction or {"protocolVersion": 1, "agentInfo": info, "capabilities": AGENT})
            await part(agent)
        except BaseException as fault:  # the client must not wait for an agent that left its part
            await theirs.close(repr(fault))
            raise

    task = asyncio.ensure_future(play())
    try:
        async with connect(ours, dialect="draft", **options) as remote:
            yield remote
            await task
    finally:
        if not task.done():
            task.cancel()
        elif (fault := task.exception()) is not None:
            raise fault


class Played(NamedTuple):
    """The result of a turn: the raw agent with its messages, our client's session, its turn and its updates."""

    agent: Raw
    session: ClientSession
    turn: ClientTurn
    updates: list[Any]


async def during_turn(
    folder: Any,
    work: Callable[[Raw], Awaitable[None]],
    *,
    introduction: Json = None,
    result: Json = None,
    **options: Any,
) -> Played:
    """Open a session in a folder with our client and prompt; the raw agent works and ends the turn."""
    kept: list[Raw] = []

    async def part(agent: Raw) -> None:
        kept.append(agent)
        agent.reply(await agent.expect(method="session/new"), {"sessionId": SESSION, "createdAt": CREATED})
        asked = await agent.expect(method="session/prompt")
        await work(agent)
        agent.reply(asked, result or {"stopReason": "end_turn"})

    async with playing(part, introduction, **options) as remote:
        session = await remote.open_session(str(folder))
        async with session.prompt("go") as turn:
            updates = [update async for update in turn]
    return Played(kept[0], session, turn, updates)
