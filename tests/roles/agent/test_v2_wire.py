"""Our agent and our client of version 2 in raw JSON: ids of requests, arrays, and the tags of commands."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from dragoman import Agent, connect
from dragoman.schema.update import AvailableCommand, CommandInput
from dragoman.transport.memory import memory_pair

INFO = {"name": "editor", "version": "1"}
INITIALIZE = {"protocolVersion": 2, "info": INFO, "capabilities": {}}


class Wire:
    """One end of a connection, message by message."""

    def __init__(self, transport: Any) -> None:
        self._transport = transport
        self._unread: list[Any] = []

    def send(self, message: Any) -> None:
        self._transport.send(json.dumps(message).encode())

    async def receive(self, matches: Any = lambda _: True) -> Any:
        async with asyncio.timeout(60):
            while True:
                for message in list(self._unread):
                    self._unread.remove(message)
                    if matches(message):
                        return message
                self._unread += [json.loads(frame) for frame in await self._transport.receive()]

    async def result(self, method: str, params: Any, id: Any) -> Any:
        self.send({"jsonrpc": "2.0", "id": id, "method": method, "params": params})
        return (await self.receive(lambda message: message.get("id") == id))["result"]


@asynccontextmanager
async def client_of(agent: Agent) -> AsyncIterator[Wire]:
    ours, theirs = memory_pair()
    connection = agent.start_connection(theirs, report=lambda _: None)
    wire = Wire(ours)
    try:
        await wire.result("initialize", INITIALIZE, 1)
        yield wire
    finally:
        await connection.close()


@pytest.mark.item("V2-04")
@pytest.mark.parametrize("id", [None, 1.5])
async def test_a_request_with_an_invalid_id_gets_an_error_without_one_and_the_connection_lives(id: Any) -> None:
    async with client_of(Agent("echo")) as wire:
        wire.send({"jsonrpc": "2.0", "id": id, "method": "session/list", "params": {}})
        answer = await wire.receive()
        assert (answer["id"], answer["error"]["code"]) == (None, -32600)
        assert await wire.result("session/list", {}, 7) == {"sessions": []}


@pytest.mark.item("V2-04")
async def test_an_array_gets_one_error_without_an_id_and_the_connection_lives() -> None:
    async with client_of(Agent("echo")) as wire:
        wire.send([{"jsonrpc": "2.0", "id": id, "method": "session/list", "params": {}} for id in (3, 4)])
        answer = await wire.receive()
        assert (answer["id"], answer["error"]["code"]) == (None, -32600)
        wire.send({"jsonrpc": "2.0", "id": 5, "method": "session/list", "params": {}})
        assert (await wire.receive())["id"] == 5


@pytest.mark.item("V2-04")
async def test_our_client_refuses_a_request_with_an_invalid_id_and_goes_on() -> None:
    ours, theirs = memory_pair()
    agent = Wire(theirs)

    async def serve() -> Any:
        asked = await agent.receive(lambda message: message.get("method") == "initialize")
        agent.send({"jsonrpc": "2.0", "id": asked["id"], "result": {**INITIALIZE, "capabilities": {"session": {}}}})
        agent.send({"jsonrpc": "2.0", "id": 2.5, "method": "session/request_permission", "params": {}})
        return await agent.receive(lambda message: "error" in message)

    serving = asyncio.ensure_future(serve())
    async with connect(ours, dialect="v2"):
        answer = await serving
        assert (answer["id"], answer["error"]["code"]) == (None, -32600)


@pytest.mark.item("V2-08")
async def test_commands_have_both_tags_for_a_v2_client() -> None:
    commands = [
        AvailableCommand(name="go", description="Goes", input=CommandInput(hint="where")),
        AvailableCommand(name="stop", description="Stops"),
    ]
    async with client_of(Agent("commands", commands=commands)) as wire:
        result = await wire.result("session/new", {"cwd": "/"}, 2)
        told = result.get("availableCommands")
        if told is None:
            update = await wire.receive(lambda message: message.get("method") == "session/update")
            told = update["params"]["update"]["availableCommands"]
        assert told == [
            {"type": "command", "name": "go", "description": "Goes", "input": {"type": "text", "hint": "where"}},
            {"type": "command", "name": "stop", "description": "Stops"},
        ]


@pytest.mark.item("V2-08")
async def test_commands_without_tags_are_read() -> None:
    ours, theirs = memory_pair()
    agent = Wire(theirs)
    untagged = [{"name": "go", "description": "Goes", "input": {"hint": "where"}}]

    async def serve() -> None:
        asked = await agent.receive(lambda message: message.get("method") == "initialize")
        agent.send({"jsonrpc": "2.0", "id": asked["id"], "result": {**INITIALIZE, "capabilities": {"session": {}}}})
        asked = await agent.receive(lambda message: message.get("method") == "session/new")
        result = {"sessionId": "s", "availableCommands": untagged}
        agent.send({"jsonrpc": "2.0", "id": asked["id"], "result": result})

    serving = asyncio.ensure_future(serve())
    async with connect(ours, dialect="v2") as remote:
        session = await remote.open_session(cwd="/")
        await serving
        told = asyncio.Event()
        session.on_update = lambda _: told.set()
        if not session.commands:
            async with asyncio.timeout(60):
                await told.wait()
        [command] = session.commands
        assert (command.name, command.description) == ("go", "Goes")
        assert command.input
        assert command.input.hint == "where"
