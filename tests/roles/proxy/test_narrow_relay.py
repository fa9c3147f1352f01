"""A relay between an agent that sends the whole vocabulary and clients that know less."""

from __future__ import annotations

from typing import Any

import pytest

from dragoman.dialect.dialects import PACKAGES
from tests.pairs.words import WORDS
from tests.roles.agent.test_end_of_input import reply
from tests.roles.proxy.test_relay import CWD, Pair, relayed

INTRODUCTION = {"protocolVersion": 1, "agentCapabilities": {}, "authMethods": []}


@pytest.fixture(autouse=True)
def _wide_dialect(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(PACKAGES, "wide", "tests.roles.proxy.wide_dialect")


def say(pair: Pair, tag: str, /, **members: Any) -> None:
    update = {"sessionUpdate": tag, **members}
    pair.agent.send({"jsonrpc": "2.0", "method": "session/update", "params": {"sessionId": "s", "update": update}})


async def test_a_client_gets_a_narrowed_turn_and_its_answer_last() -> None:
    async with relayed("v1", "wide") as pair:
        await pair.request("initialize", WORDS["v1"].initialize(True, True, CWD), INTRODUCTION)
        id = pair.client.ask("session/prompt", {"sessionId": "s", "prompt": [{"type": "text", "text": "hi"}]})
        prompt = await pair.agent.expect(method="session/prompt")
        say(pair, "state_update", state="running")
        say(pair, "agent_message_chunk", messageId="m", content={"type": "text", "text": "hel"})
        say(pair, "agent_message", messageId="m", content=[{"type": "text", "text": "hello"}])
        say(pair, "tool_call_update", toolCallId="c", name="read")
        item = {"type": "content", "content": {"type": "text", "text": "found"}}
        say(pair, "tool_call_content_chunk", toolCallId="c", content=item)
        say(pair, "state_update", state="idle")
        pair.agent.send({"jsonrpc": "2.0", "id": prompt["id"], "result": {"stopReason": "end_turn"}})
        assert (await pair.client.answer(id))["result"] == {"stopReason": "end_turn"}
        updates = [each["params"]["update"] for each in pair.client.received if each.get("method")]
        assert [each["sessionUpdate"] for each in updates] == [
            "agent_message_chunk", "agent_message_chunk", "tool_call", "tool_call_update",
        ]  # fmt: skip
        assert "".join(each["content"]["text"] for each in updates[:2]) == "hello"
        assert updates[-1]["content"] == [item]
        assert not [each for each in pair.reports if "cannot carry" in each or "not passed on" in each]


@pytest.mark.parametrize("client", ["draft", "crow", "2025.1", "banjo"])
async def test_losses_are_those_of_the_client_and_have_names(client: str) -> None:
    async with relayed(client, "wide") as pair:
        await pair.request("initialize", WORDS[client].initialize(True, True, CWD), INTRODUCTION)
        say(pair, "agent_message", messageId="m", content=[{"type": "text", "text": "hello"}])
        say(pair, "agent_message", messageId="m", content=[{"type": "text", "text": "bye"}])
        say(pair, "terminal_update", terminalId="t", command="make", capabilities={"cancel": {}})
        say(pair, "tool_call_update", toolCallId="c", title="Read", capabilities={"cancel": {}}, clear=["rawInput"])
        say(pair, "_weather", sky="blue")
        say(pair, "agent_message_chunk", content={"type": "text", "text": "end"})
        while "end" not in str(await pair.client.receive()):
            pass
        lost = [each.partition("(")[2].partition(")")[0] for each in pair.reports if each.startswith("not passed on")]
        assert lost == [
            "replaced_message",
            "cancel_terminal",
            "cleared_member",
            "cancel_tool_call",
            "unknown_update _weather",
        ]
        of_dialect = [each for each in pair.reports if each.startswith("session/update") and "cannot carry" in each]
        assert all(each.endswith("update.messageId") for each in of_dialect)


@pytest.mark.item("V2-20", "V2-22", "V2-24")
@pytest.mark.parametrize("client", ["v1", "banjo", "draft", "2025.1"])
async def test_a_v2_agents_turn_reaches_clients_of_other_dialects(client: str) -> None:
    introduction = {"protocolVersion": 2, "info": {"name": "a", "version": "1"}, "capabilities": {"session": {}}}
    texts = [{"type": "text", "text": "hi"}]
    prompts: dict[str, Any] = {"2025.1": {"session_id": "s", "content": texts}}
    async with relayed(client, "v2") as pair:
        await pair.request("initialize", WORDS[client].initialize(True, True, CWD), introduction)
        id = pair.client.ask("session/prompt", prompts.get(client, {"sessionId": "s", "prompt": texts}))
        prompt = await pair.agent.expect(method="session/prompt")
        say(pair, "user_message", messageId="u", content=texts)
        pair.agent.send(reply(prompt, {"messageId": "u"}))
        say(pair, "state_update", state="running")
        for words in ("hel", "lo"):
            say(pair, "agent_message_chunk", messageId="m", content={"type": "text", "text": words})
        say(pair, "agent_message", messageId="m", content=[{"type": "text", "text": "hello."}])
        say(pair, "tool_call_update", toolCallId="c", title="Make", status="in_progress")
        say(pair, "tool_call_content_chunk", toolCallId="c", content={"type": "terminal", "terminalId": "t"})
        say(pair, "terminal_output_chunk", terminalId="t", data="YnVpbHQK")
        say(pair, "state_update", state="idle", stopReason="end_turn")
        assert "result" in await pair.client.answer(id)
        received = str([each for each in pair.client.received if each.get("method") == "session/update"])
        assert received.count("'hel'") == received.count("'lo'") == received.count("'.'") == 1
        assert "hello" not in received
        assert "```\\nbuilt\\n```" in received
