"""A client that ends its input still gets the answers to its requests."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from dragoman import Proxy
from dragoman.testing import ScriptedPeer
from dragoman.transport.memory import memory_pair
from dragoman.transport.stream import StreamTransport
from tests.pairs.peers import BOUND
from tests.pairs.words import WORDS

HELLO = {"protocolVersion": 1, "clientCapabilities": {"fs": {"readTextFile": True}}}


class Editor:
    """A client on two pipes that can be closed separately."""

    def __init__(self) -> None:
        self.its_input, self._to = os.pipe()
        self._from, self.its_output = os.pipe()
        self.wire = StreamTransport(self._from, self._to)
        self.peer = ScriptedPeer(self.wire)

    async def say_no_more(self) -> None:
        await self.wire.send_eof()


@asynccontextmanager
async def translated_editor(dialect: str) -> AsyncIterator[tuple[Editor, ScriptedPeer, asyncio.Task[Any]]]:
    editor = Editor()
    back, right = memory_pair()
    proxy = Proxy(client_dialect="v1", agent_dialect=dialect)
    running = asyncio.create_task(proxy.serve(StreamTransport(editor.its_input, editor.its_output), back))
    async with asyncio.timeout(BOUND):
        try:
            yield editor, ScriptedPeer(right), running
        finally:
            await editor.wire.close()
            await running


def call(id: int, method: str, params: Any) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "id": id, "method": method, "params": params}


def reply(asked: Any, result: Any) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "id": asked["id"], "result": result}


@pytest.mark.parametrize("dialect", ["v1", "draft"])
async def test_requests_before_the_end_of_input_are_answered(dialect: str) -> None:
    async with translated_editor(dialect) as (editor, agent, running):
        editor.peer.send(call(1, "initialize", HELLO))
        await editor.say_no_more()
        asked = await agent.expect(method="initialize")
        assert not running.done()
        agent.send(reply(asked, WORDS[dialect].introduction))
        assert (await editor.peer.expect(id=1))["result"]["protocolVersion"] == 1
        await running  # nothing is owed any more


async def test_a_turn_ends_without_a_client_that_could_be_asked() -> None:
    async with translated_editor("v1") as (editor, agent, running):
        editor.peer.send(call(1, "initialize", HELLO))
        agent.send(reply(await agent.expect(method="initialize"), WORDS["v1"].introduction))
        await editor.peer.expect(id=1)
        editor.peer.send(call(2, "session/prompt", {"sessionId": "s", "prompt": [{"type": "text", "text": "hi"}]}))
        turn = await agent.expect(method="session/prompt")
        agent.send(call(7, "fs/read_text_file", {"sessionId": "s", "path": "/tmp/a"}))
        await editor.peer.expect(method="fs/read_text_file")
        await editor.say_no_more()
        assert "cannot answer any more" in (await agent.expect(id=7))["error"]["message"]
        agent.send(call(8, "fs/read_text_file", {"sessionId": "s", "path": "/tmp/a"}))
        assert "error" in await agent.expect(id=8)
        agent.send(reply(turn, {"stopReason": "end_turn"}))
        await editor.peer.expect(id=2, result={"stopReason": "end_turn"})
        await running


async def test_the_translator_ends_when_the_editor_disconnects() -> None:
    async with translated_editor("v1") as (editor, agent, running):
        editor.peer.send(call(1, "initialize", HELLO))
        await agent.expect(method="initialize")
        await editor.wire.close()
        await running
