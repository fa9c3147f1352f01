"""The relay between a raw client and a raw agent: protocol versions, the end of input, options for the client."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from dragoman.roles.client.dial import Dialer
from dragoman.roles.proxy.proxy import translate
from dragoman.roles.proxy.relay import Relay
from dragoman.testing import ScriptedPeer
from dragoman.transport.memory import memory_pair
from tests.acceptance.draft import Raw
from tests.pairs.peers import BOUND
from tests.pairs.words import WORDS
from tests.roles.agent.test_end_of_input import HELLO, call, reply, translated_editor

CWD = "/home/user/project"


class Pair:
    """A raw client and a raw agent with a relay between them, and what it reported."""

    def __init__(self, client: Raw, agent: ScriptedPeer, reports: list[str]) -> None:
        self.client, self.agent, self.reports = client, agent, reports

    async def request(self, method: str, params: Any, answer: Any, name: str = "") -> Any:
        """Send a request; the agent, which may call it by another name, gives this answer. Return the client's."""
        id = self.client.ask(method, params)
        self.agent.send(reply(await self.agent.expect(method=name or method), answer))
        return (await self.client.answer(id))["result"]


@asynccontextmanager
async def relayed(client: str, agent: str) -> AsyncIterator[Pair]:
    front, left = memory_pair()
    back, right = memory_pair()
    reports: list[str] = []
    relay = Relay(front, Dialer(back, dialect=agent, cwd=CWD), client_dialect=client, report=reports.append)
    running = asyncio.create_task(relay.run())
    async with asyncio.timeout(BOUND):
        try:
            yield Pair(Raw(left), ScriptedPeer(right), reports)
        finally:
            await left.close()
            await running


@pytest.mark.parametrize("agent", ["v1", "banjo", "draft", "crow", "2025.1"])
async def test_a_client_of_a_later_version_is_answered_with_version_1(agent: str) -> None:
    async with relayed("v1", agent) as pair:
        id = pair.client.ask("initialize", {"protocolVersion": 65535, "clientCapabilities": {}})
        asked = await pair.agent.expect(method="initialize")
        assert asked["params"].get("protocolVersion", 1) == 1
        pair.agent.send(reply(asked, WORDS[agent].introduction))
        assert (await pair.client.answer(id))["result"]["protocolVersion"] == 1


@pytest.mark.parametrize("dialect", ["v1", "draft"])
async def test_a_turn_is_waited_for_only_briefly_after_the_end_of_input(
    dialect: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("dragoman.roles.proxy.last_answers.EOF_GRACE", 0.05)
    async with translated_editor(dialect) as (editor, agent, running):
        editor.peer.send(call(1, "initialize", HELLO))
        agent.send(reply(await agent.expect(method="initialize"), WORDS[dialect].introduction))
        await editor.peer.expect(id=1)
        editor.peer.send(call(2, "session/prompt", {"sessionId": "s", "prompt": [{"type": "text", "text": "hi"}]}))
        await agent.expect(method="session/prompt")
        await editor.say_no_more()
        await running


@pytest.mark.parametrize("client", ["draft", "crow", "2025.1"])
async def test_what_initialize_loses_is_reported(client: str) -> None:
    offered = {"loadSession": True, "sessionCapabilities": {"fork": {}}, "promptCapabilities": {"audio": False}}
    async with relayed(client, "v1") as pair:
        result = {"protocolVersion": 1, "agentCapabilities": offered, "authMethods": []}
        await pair.request("initialize", WORDS[client].initialize(True, True, CWD), result)
        (report,) = [each for each in pair.reports if each.startswith("initialize: ")]
        assert report.startswith(f"initialize: {client} cannot carry agentCapabilities.sessionCapabilities")
        assert "authMethods" not in report
        assert "audio" not in report


@pytest.mark.parametrize("agent", ["draft", "crow", "2025.1"])
async def test_what_initialize_loses_on_its_way_to_the_agent_is_reported(agent: str) -> None:
    offered = {"elicitation": {"form": {}}, "fs": {"readTextFile": True, "writeTextFile": False}}
    async with relayed("v1", agent) as pair:
        params = {"protocolVersion": 1, "clientCapabilities": offered}
        await pair.request("initialize", params, WORDS[agent].introduction)
        (report,) = [each for each in pair.reports if each.startswith(f"initialize: {agent} cannot carry")]
        assert "clientCapabilities.elicitation" in report
        assert "writeTextFile" not in report


async def test_a_plan_without_priorities_is_completed_between_two_official_peers() -> None:
    """docs/decisions/0007-banjo-is-read-as-v1.md: an unnamed banjo agent; official clients drop such entries."""

    def plan(*entries: Any) -> dict[str, Any]:
        update = {"sessionUpdate": "plan", "entries": list(entries)}
        return {"jsonrpc": "2.0", "method": "session/update", "params": {"sessionId": "s", "update": update}}

    def chunk(text: str) -> dict[str, Any]:
        update = {"sessionUpdate": "agent_message_chunk", "content": {"type": "text", "text": text}}
        return {"jsonrpc": "2.0", "method": "session/update", "params": {"sessionId": "s", "update": update}}

    whole = {"content": "Look", "priority": "high", "status": "pending", "new": 1}
    async with relayed("v1", "v1") as pair:
        await pair.request("initialize", HELLO, WORDS["v1"].introduction)
        sent = [chunk("one"), plan({"content": "Look", "status": "pending", "id": "1"}), plan(whole), chunk('"plan"')]
        for message in sent:
            pair.agent.send(message)
        await pair.request("session/new", {"cwd": CWD, "mcpServers": []}, {"sessionId": "s"})
        one, bare, *rest = [each["update"] for each in pair.client.params_of("session/update")]
        assert one == sent[0]["params"]["update"]
        assert bare["entries"][0]["priority"] == "medium"
        assert rest == [each["params"]["update"] for each in sent[2:]]


EDIT = {
    "toolCallId": "effect-38b3",
    "title": "Write out.txt",
    "kind": "edit",
    "locations": [{"path": "/work/out.txt"}],
    "rawInput": {"path": "/work/out.txt"},
}
YES_NO = [
    {"optionId": "yes", "name": "Yes", "kind": "allow_once"},
    {"optionId": "no", "name": "No", "kind": "reject_once"},
]


@pytest.mark.parametrize("dialect", ["draft", "crow", "2025.1"])
async def test_a_question_that_names_its_tool_call_by_id_only_is_sent_with_what_was_announced(dialect: str) -> None:
    words = WORDS[dialect]
    async with relayed(dialect, "v1") as pair:
        await pair.request("initialize", words.initialize(True, False, CWD), WORDS["v1"].introduction)
        made = await pair.request("session/new", words.new(CWD, "s"), {"sessionId": "s"})
        session = words.opened(made, "s")
        prompt = pair.client.ask("session/prompt", words.prompt(session, "go"))
        turn = await pair.agent.expect(method="session/prompt")
        update = {"sessionId": "s", "update": {"sessionUpdate": "tool_call", **EDIT}}
        pair.agent.send({"jsonrpc": "2.0", "method": "session/update", "params": update})
        question = {"sessionId": "s", "toolCall": {"toolCallId": EDIT["toolCallId"]}, "options": YES_NO}
        pair.agent.send(call(5, "session/request_permission", question))
        if dialect == "draft":
            asked = (await pair.client.wait_for_call("session/request_permission"))["params"]
            told = [asked["operation"], asked["resource"], asked["reason"]]
            assert told == ["file_write", "/work/out.txt", "Write out.txt"]
        elif dialect == "crow":
            asked = await pair.client.until(lambda message: "permission_options" in str(message))
            shown = asked["params"]["update"]
            assert (shown["title"], "out.txt" in shown["arguments"]) == ("Write out.txt", True)
        else:  # it cannot be asked; it serves files itself, so an edit is allowed
            answer = await pair.agent.expect(id=5)
            assert answer["result"]["outcome"]["optionId"] == "yes"
        pair.agent.send(reply(turn, {"stopReason": "end_turn"}))
        await pair.client.answer(prompt)


def tool_update(*content: Any) -> Any:
    update = {"sessionUpdate": "tool_call_update", "toolCallId": "t1", "status": "completed", "content": list(content)}
    return {"jsonrpc": "2.0", "method": "session/update", "params": {"sessionId": "s", "update": update}}


TEXT = {"type": "content", "content": {"type": "text", "text": "x"}}
DIFF = {"type": "diff", "path": "/a/b", "oldText": "o", "newText": "n"}
MODES = {"currentModeId": "ask", "availableModes": [{"id": "ask", "name": "Ask"}]}


@pytest.mark.parametrize("dialect", ["draft", "crow", "2025.1"])
async def test_losses_inside_messages_and_of_results_are_reported(dialect: str) -> None:
    words = WORDS[dialect]
    async with relayed(dialect, "v1") as pair:
        await pair.request("initialize", words.initialize(True, False, CWD), WORDS["v1"].introduction)
        await pair.request("session/new", words.new(CWD, "s"), {"sessionId": "s", "modes": MODES})
        assert f"session/new result: {dialect} cannot carry modes" in pair.reports
        before = len(pair.reports)
        pair.agent.send(tool_update(TEXT))
        pair.agent.send(tool_update(DIFF, TEXT))
        await pair.client.wait_for_call("session/update")
        await pair.client.wait_for_call("session/update")
        lost = [text for text in pair.reports[before:] if "update.content" in text]
        assert len(lost) >= 1, pair.reports
        told = len(pair.reports)
        pair.agent.send(tool_update(DIFF, TEXT))
        await pair.client.wait_for_call("session/update")
        assert len(pair.reports) == told  # once


VERBOSE = {"persistence": True, "configOptions": ["verbose"]}
_DRAFT = WORDS["draft"].introduction
INTRODUCTION = {**_DRAFT, "capabilities": {**_DRAFT["capabilities"], "sessionCapabilities": VERBOSE}}


@pytest.mark.parametrize("announces", [False, True])
async def test_booleans_of_a_draft_agent_are_choices_unless_the_client_announced_them(announces: bool) -> None:
    offered: Any = {"session": {"configOptions": {"boolean": {}}}} if announces else {}
    async with relayed("v1", "draft") as pair:
        await pair.request("initialize", {"protocolVersion": 1, "clientCapabilities": offered}, INTRODUCTION)
        result = await pair.request(
            "session/load",
            {"sessionId": "s", "cwd": CWD, "mcpServers": []},
            {"sessionId": "s", "workingDirectory": CWD, "mode": "default", "configOptions": {"verbose": False}},
        )
        (option,) = result["configOptions"]
        assert (option["type"], option["currentValue"]) == (("boolean", False) if announces else ("select", "false"))
        value = {"type": "boolean", "value": True} if announces else {"value": "true"}
        id = pair.client.ask("session/set_config_option", {"sessionId": "s", "configId": "verbose", **value})
        asked = await pair.agent.expect(method="session/set_config_option")
        assert asked["params"]["value"] is True
        pair.agent.send(reply(asked, {"key": "verbose", "previousValue": False, "currentValue": True}))
        (option,) = (await pair.client.answer(id))["result"]["configOptions"]
        assert option["currentValue"] == (True if announces else "true")


@pytest.mark.parametrize("takes_text", [False, True])
async def test_an_option_without_a_known_value_can_be_set_by_text(takes_text: bool) -> None:
    async with relayed("v1", "draft") as pair:
        await pair.request("initialize", {"protocolVersion": 1, "clientCapabilities": {}}, INTRODUCTION)
        made = {"sessionId": "s", "createdAt": "2025-01-01T00:00:00Z"}
        await pair.request("session/new", {"cwd": CWD, "mcpServers": []}, made)
        params = {"sessionId": "s", "configId": "verbose", "value": "true"}
        id = pair.client.ask("session/set_config_option", params)
        asked = await pair.agent.expect(method="session/set_config_option")
        assert asked["params"]["value"] is True
        if takes_text:
            error = {"code": -32602, "message": "takes text"}
            pair.agent.send({"jsonrpc": "2.0", "id": asked["id"], "error": error})
            asked = await pair.agent.expect(method="session/set_config_option")
            assert asked["params"]["value"] == "true"
        result = {"key": "verbose", "previousValue": None, "currentValue": asked["params"]["value"]}
        pair.agent.send(reply(asked, result))
        (option,) = (await pair.client.answer(id))["result"]["configOptions"]
        assert option["currentValue"] == "true"


async def test_an_agent_that_starts_slowly_is_not_taken_for_one_of_another_dialect(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """docs/protocol/peers.md#slow-start: 81 s were measured, and 95 s under load."""
    timeouts: list[float] = []

    class RecordedDialer(Dialer):
        def __init__(self, *args: Any, initialize_timeout: float = 60.0, **options: Any) -> None:
            timeouts.append(initialize_timeout)
            super().__init__(*args, initialize_timeout=initialize_timeout, **options)

    monkeypatch.setattr("dragoman.roles.proxy.proxy.Dialer", RecordedDialer)
    front, left = memory_pair()
    running = asyncio.create_task(translate(["agent"], transport=front, report=lambda _: None))
    await left.close()
    await running
    assert timeouts[0] > 95
