"""Capabilities: a method that a peer did not offer is refused on our side and never sent."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from dragoman.engine.peer_info import offers
from dragoman.errors import Kind, ProtocolError
from dragoman.schema.initialize import ClientCapabilities, FileSystemCapabilities
from dragoman.schema.side import Side
from tests.engine.raw_peer import Talk, call, result, talking


@pytest.mark.parametrize(
    ("capabilities", "is_open"),
    [
        (None, False),
        ({}, False),
        ({"session": None}, False),
        ({"session": {}}, False),
        ({"session": {"list": None}}, False),
        ({"session": {"list": False}}, False),
        ({"session": "yes"}, False),
        ({"session": {"list": {}}}, True),
        ({"session": {"list": True}}, True),
        ({"session": {"list": {"more": 1}}}, True),
    ],
)
def test_absent_null_and_false_are_unsupported_and_an_empty_object_is_supported(
    capabilities: Any, is_open: bool
) -> None:
    assert offers("agent.session.list", capabilities) is is_open


def test_a_method_without_a_capability_is_always_offered_and_structs_are_read() -> None:
    assert offers("", None)
    lends = ClientCapabilities(fs=FileSystemCapabilities(read_text_file=True), terminal=False)
    assert offers("client.fs.readTextFile", lends)
    assert not offers("client.fs.writeTextFile", lends)
    assert not offers("client.terminal", lends)


TERMINAL = {"sessionId": "s", "terminalId": "t"}
LENT: dict[str, tuple[str, Any]] = {
    "fs/read_text_file": ("read", {"sessionId": "s", "path": "/a"}),
    "fs/write_text_file": ("write", {"sessionId": "s", "path": "/a", "content": ""}),
    "terminal/create": ("terminal", {"sessionId": "s", "command": "ls"}),
    "terminal/output": ("terminal", TERMINAL),
    "terminal/wait_for_exit": ("terminal", TERMINAL),
    "terminal/kill": ("terminal", TERMINAL),
    "terminal/release": ("terminal", TERMINAL),
}


def official(offered: str | None) -> Any:
    fs = {"readTextFile": offered == "read", "writeTextFile": offered == "write"}
    return {"protocolVersion": 1, "clientCapabilities": {"fs": fs, "terminal": offered == "terminal"}}


def draft(offered: str | None) -> Any:
    fs = {"read": offered == "read", "write": offered == "write"}
    return {"protocolVersion": 1, "capabilities": {"fs": fs, "terminal": {"create": offered == "terminal"}}}


def y2025(offered: str | None) -> Any:
    both = {"text_files": offered in ("read", "write"), "terminal": offered == "terminal"}
    return {"protocol_version": "2025.1", "capabilities": both, "client_info": {"name": "c", "version": "1"}}


async def initialize(talk: Talk, introduction: Any) -> None:
    talk.peer.send(call("hello", "initialize", introduction))
    await talk.peer.expect(id="hello")


@pytest.mark.item("001-07", "004-41")
@pytest.mark.parametrize("method", LENT)
@pytest.mark.parametrize(("dialect", "introduce"), [("v1", official), ("draft", draft), ("2025.1", y2025)])
async def test_an_agent_never_calls_what_its_client_did_not_offer(dialect: str, introduce: Any, method: str) -> None:
    needed, params = LENT[method]

    answer = {"protocolVersion": 1, "agentCapabilities": {}}
    for offered in (None, needed):
        async with talking({"initialize": lambda _: answer}, dialect=dialect) as talk:
            await initialize(talk, introduce(offered))
            asking = asyncio.create_task(talk.connection.request(method, params))
            if offered is None:
                with pytest.raises(ProtocolError) as caught:
                    await asking
                assert caught.value.kind == Kind.CAPABILITY_UNSUPPORTED
                assert await talk.answers() == []
            elif (dialect, method) == ("draft", "terminal/output"):
                asking.cancel()  # the draft's clients push their output: a poll is answered on our side
                await asyncio.gather(asking, return_exceptions=True)
            else:
                assert (await talk.peer.receive())["method"] == method
                asking.cancel()
                await asyncio.gather(asking, return_exceptions=True)


OFFERED: dict[str, tuple[Any, Any]] = {
    "session/load": ({"loadSession": True}, {"sessionId": "s", "cwd": "/", "mcpServers": []}),
    "session/list": ({"sessionCapabilities": {"list": {}}}, {}),
    "session/resume": ({"sessionCapabilities": {"resume": {}}}, {"sessionId": "s", "cwd": "/", "mcpServers": []}),
    "session/fork": ({"sessionCapabilities": {"fork": {}}}, {"sessionId": "s", "cwd": "/", "mcpServers": []}),
    "session/close": ({"sessionCapabilities": {"close": {}}}, {"sessionId": "s"}),
    "session/delete": ({"sessionCapabilities": {"delete": {}}}, {"sessionId": "s"}),
}


@pytest.mark.parametrize("method", OFFERED)
async def test_a_client_never_calls_what_its_agent_did_not_offer(method: str) -> None:
    capabilities, params = OFFERED[method]

    nothing: dict[str, Any] = {}
    for offered in (nothing, capabilities):
        async with talking(we=Side.CLIENT) as talk:
            meeting = asyncio.create_task(talk.connection.request("initialize", official(None)))
            asked = await talk.peer.expect(method="initialize")
            talk.peer.send(result(asked["id"], {"protocolVersion": 1, "agentCapabilities": offered}))
            await meeting
            asking = asyncio.create_task(talk.connection.request(method, params))
            if offered:
                await talk.peer.expect(method=method)
                asking.cancel()
                await asyncio.gather(asking, return_exceptions=True)
            else:
                with pytest.raises(ProtocolError) as caught:
                    await asking
                assert caught.value.kind == Kind.CAPABILITY_UNSUPPORTED
                assert caught.value.data is not None
                assert caught.value.data["method"] == method
                assert await talk.answers() == []


async def test_before_initialize_nothing_is_offered() -> None:
    async with talking() as talk:
        with pytest.raises(ProtocolError) as caught:
            await talk.connection.request(*("fs/read_text_file", LENT["fs/read_text_file"][1]))
        assert caught.value.kind == Kind.CAPABILITY_UNSUPPORTED
        assert await talk.answers() == []
