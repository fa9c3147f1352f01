"""What the tests of chains share: a chain between two scripted peers, with processes as proxies."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, NamedTuple

from dragoman import Chain
from dragoman.roles.proxy.chain import AnyProxy
from dragoman.testing import ScriptedPeer
from dragoman.transport.memory import memory_pair

Json = dict[str, Any]

# A chain of five processes on a busy machine takes a while to start.
BOUND = 60.0

HELLO: Json = {
    "protocolVersion": 1,
    "clientInfo": {"name": "editor", "version": "1"},
    "clientCapabilities": {"fs": {"readTextFile": True, "writeTextFile": True}, "terminal": True},
    "_color": "green",
}
AGENT: Json = {
    "protocolVersion": 1,
    "agentCapabilities": {"loadSession": True},
    "agentInfo": {"name": "a", "version": "1"},
}


def raw_proxy(*words: str) -> list[str]:
    """The command of the proxy that needs no library."""
    return [sys.executable, "-S", str(Path(__file__).with_name("raw_proxy.py")), *words]


def call(id: Any, method: str, params: Any) -> Json:
    return {"jsonrpc": "2.0", "id": id, "method": method, "params": params}


def reply(asked: Json, result: Any) -> Json:
    return {"jsonrpc": "2.0", "id": asked["id"], "result": result}


def chunk(text: str, session: str = "s") -> Json:
    content = {"type": "text", "text": text}
    update = {"sessionUpdate": "agent_message_chunk", "content": content}
    return {"jsonrpc": "2.0", "method": "session/update", "params": {"sessionId": session, "update": update}}


class Running(NamedTuple):
    """A chain that runs: the wire of its client, that of its agent, what it reported, and its end."""

    client: ScriptedPeer
    agent: ScriptedPeer
    reports: list[str]
    ended: asyncio.Task[BaseException]

    async def initialize(self) -> Json:
        """Initialize the chain; return the client's answer."""
        self.client.send(call("i", "initialize", HELLO))
        self.agent.send(reply(await self.agent.expect(method="initialize"), AGENT))
        return await self.client.expect(id="i")


@asynccontextmanager
async def running_chain(proxies: Sequence[AnyProxy], **settings: Any) -> AsyncIterator[Running]:
    """Run a chain between two scripted peers of v1."""
    front, left = memory_pair()
    back, right = memory_pair()
    reports: list[str] = []
    chain = Chain(proxies, agent=back, client_dialect="v1", agent_dialect="v1", **settings)
    ended = asyncio.create_task(chain.serve(front, report=reports.append))
    async with asyncio.timeout(BOUND):
        try:
            yield Running(ScriptedPeer(left, BOUND), ScriptedPeer(right, BOUND), reports, ended)
        finally:
            await left.close()
            await ended
