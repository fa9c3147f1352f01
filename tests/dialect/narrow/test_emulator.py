"""The flows of a connection to a client that knows less than its agent tells, for clients of every other dialect."""

from __future__ import annotations

import base64
from typing import Any

import pytest

from dragoman.dialect.dialects import DIALECT_NAMES, load_dialect
from dragoman.dialect.emulator import EmulatorSettings
from dragoman.dialect.narrow import emulator as narrow_emulator
from dragoman.dialect.narrow.emulator import NarrowingEmulator
from dragoman.dialect.text_chunk import Chunk
from dragoman.engine.codec import decode_as
from dragoman.errors import Kind, ProtocolError
from dragoman.schema.config import SetConfigOptionResult, SetModeResult
from dragoman.schema.content import TextContent
from dragoman.schema.prompt import PromptResult
from dragoman.schema.session import CloseSessionResult, LoadSessionResult, NewSessionResult
from dragoman.schema.side import Side
from dragoman.schema.update import AgentMessageChunk, UpdateParams
from tests.dialect.emulator_harness import EmulatedCall, EmulatorHarness
from tests.dialect.narrow.client import content, text
from tests.dialect.narrow.test_narrowing import MODE, SWITCH

PROMPT = {"sessionId": "s", "prompt": [text("hi")]}


def v1_client(**capabilities: Any) -> EmulatorHarness:
    """A client of official v1, connected."""
    harness = EmulatorHarness("v1", Side.CLIENT, narrows=True)
    harness.receive_call("initialize", {"protocolVersion": 1, "clientCapabilities": capabilities})
    harness.answer({"protocolVersion": 1})
    harness.ours.clear()
    return harness


def update(harness: EmulatorHarness, tag: str, /, **members: Any) -> list[Any]:
    """The agent sends an update; what the client has got since the last time."""
    harness.send_call("session/update", {"sessionId": "s", "update": {"sessionUpdate": tag, **members}})
    return got(harness)


def got(harness: EmulatorHarness) -> list[Any]:
    updates = [params["update"] for _, params in harness.wire]
    harness.wire.clear()
    return updates


def add_content(harness: EmulatorHarness, words: str) -> list[Any]:
    return update(harness, "tool_call_content_chunk", toolCallId="c", content=content(words))


def add_output(harness: EmulatorHarness, words: str) -> list[Any]:
    data = base64.b64encode(words.encode()).decode()
    return update(harness, "terminal_output_chunk", terminalId="t", data=data)


def begin(harness: EmulatorHarness) -> EmulatedCall:
    """The client prompts, and the agent starts a tool call."""
    prompt = harness.receive_call("session/prompt", PROMPT)
    update(harness, "tool_call_update", toolCallId="c", title="Read", status="in_progress")
    return prompt


@pytest.mark.item("V2-29")
def test_each_update_is_narrowed_and_every_loss_reported_once() -> None:
    harness = v1_client()
    for _ in range(2):
        assert update(harness, "_weather") == []
    assert update(harness, "agent_message", messageId="m", content=[text("a"), text("b")]) == [
        {"sessionUpdate": "agent_message_chunk", "messageId": "m", "content": text("a")},
        {"sessionUpdate": "agent_message_chunk", "messageId": "m", "content": text("b")},
    ]
    assert len(harness.reports) == 1
    assert harness.reports[0].startswith("not passed on (unknown_update _weather)")


def test_contents_are_collected_for_a_moment() -> None:
    harness = v1_client()
    begin(harness)
    for word in ("one", "two", "three"):
        assert add_content(harness, word) == []
    harness.wake_all()
    [sent] = got(harness)
    assert sent["content"] == [content("one"), content("two"), content("three")]
    harness.wake_all()
    assert got(harness) == []
    add_content(harness, "four")
    harness.wake_all()
    assert len(got(harness)[0]["content"]) == 4


def test_what_is_collected_is_sent_before_the_turn_ends() -> None:
    harness = v1_client()
    prompt = begin(harness)
    add_content(harness, "one")
    add_output(harness, "two\n")
    harness.answer(PromptResult(stop_reason="end_turn"))
    assert [sent["toolCallId"] for sent in got(harness)] == ["c", "terminal:t"]
    assert prompt.result == {"stopReason": "end_turn"}
    harness.wake_all()
    assert got(harness) == []


def test_what_is_collected_is_sent_before_an_error_too() -> None:
    harness = v1_client()
    prompt = begin(harness)
    add_content(harness, "one")
    harness.answer(ProtocolError(Kind.INTERNAL_ERROR, "broken"))
    assert got(harness)[0]["content"] == [content("one")]
    assert prompt.error.message == "broken"


def test_the_end_of_a_turn_has_a_stop_reason_that_clients_know() -> None:
    harness = v1_client()
    prompt = begin(harness)
    harness.answer(PromptResult(stop_reason="_bored"))
    assert prompt.result["stopReason"] == "end_turn"
    assert "stop_reason _bored" in harness.reports[-1]


def test_long_contents_wait_longer() -> None:
    emulator = v1_client().emulator
    assert isinstance(emulator, NarrowingEmulator)
    emulator._sizes["s", "content"] = 3 * narrow_emulator.MAX_RATE
    assert next(emulator._send_later("s", "content")).seconds == 3
    assert next(emulator._send_later("s", "terminals")).seconds == 0.25


def test_a_client_that_announced_it_gets_output_in_meta() -> None:
    harness = v1_client(_meta={"terminal_output": True})
    embed = {"type": "agent_terminal", "terminalId": "t"}
    [start] = update(harness, "tool_call_update", toolCallId="c", title="Make", content=[embed])
    assert start["_meta"] == {"terminal_info": {"terminal_id": "t"}}
    [sent] = add_output(harness, "one")
    assert sent["_meta"] == {"terminal_output": {"terminal_id": "t", "data": "one"}}


def test_a_question_is_asked_with_a_tool_call() -> None:
    harness = v1_client()
    options = [{"optionId": "y", "name": "Yes", "kind": "allow_once"}]
    asked = harness.send_call(
        "session/request_permission",
        {
            "sessionId": "s", "title": "Write?", "description": "To a.", "subject": {"type": "tool_call"},
            "toolCall": {"toolCallId": "c", "kind": "edit"}, "options": options,
        },
    )  # fmt: skip
    (_, start), (method, question) = harness.wire
    assert start["update"]["sessionUpdate"] == "tool_call"
    assert method == "session/request_permission"
    assert question == {
        "sessionId": "s", "options": options,
        "toolCall": {"toolCallId": "c", "title": "Write?", "kind": "edit", "content": [content("To a.")]},
    }  # fmt: skip
    harness.reply({"outcome": {"outcome": "selected", "optionId": "y"}})
    assert asked.result == {"outcome": {"outcome": "selected", "optionId": "y"}}


def test_members_of_an_update_that_no_type_knows_stay() -> None:
    """An update that every client knows passes as it is: `Pass` with the same params."""
    harness = v1_client()
    assert harness.emulator is not None
    params = UpdateParams(session_id="s", update=AgentMessageChunk(content=TextContent(text="x"), message_id="m"))
    assert next(harness.emulator.outgoing["session/update"](harness.emulator, params)).params is params


def test_text_chunks_with_ids_are_noted_on_the_fast_path() -> None:
    harness = v1_client()
    emulator: Any = harness.emulator
    chunk = Chunk("s", "agent_message_chunk", "hello", "m")
    assert emulator.pass_chunk(chunk) is chunk
    assert update(harness, "agent_message", messageId="m", content=[text("hello")]) == []
    assert update(harness, "agent_message", messageId="m", content=[text("bye")])[0]["messageId"] == "m~2"
    assert emulator.pass_chunk(chunk) is None


def test_sessions_have_modes_and_changes_are_told_once() -> None:
    harness = v1_client()
    opening = harness.receive_call("session/new", {"cwd": "/w", "mcpServers": []})
    harness.answer(decode_as(NewSessionResult, {"sessionId": "s", "configOptions": [MODE, SWITCH]}))
    assert opening.result["modes"]["currentModeId"] == "ask"
    assert opening.result["configOptions"] == [MODE]
    setting = harness.receive_call("session/set_config_option", {"sessionId": "s", "configId": "m", "value": "code"})
    code = {**MODE, "currentValue": "code"}
    kinds = [sent["sessionUpdate"] for sent in update(harness, "config_option_update", configOptions=[code])]
    assert kinds == ["config_option_update", "current_mode_update"]
    harness.answer(decode_as(SetConfigOptionResult, {"configOptions": [code, SWITCH]}))
    assert setting.result == {"configOptions": [code]}
    assert got(harness) == []
    harness.receive_call("session/set_mode", {"sessionId": "s", "modeId": "ask"})
    harness.answer(SetModeResult())
    assert len(update(harness, "config_option_update", configOptions=[MODE])) == 1


def test_a_mode_that_only_the_answer_tells_is_told_before_it() -> None:
    harness = v1_client()
    setting = harness.receive_call("session/set_config_option", {"sessionId": "s", "configId": "m", "value": "code"})
    harness.answer(decode_as(SetConfigOptionResult, {"configOptions": [{**MODE, "currentValue": "code"}]}))
    assert got(harness) == [{"sessionUpdate": "current_mode_update", "currentModeId": "code"}]
    assert setting.result["configOptions"][0]["currentValue"] == "code"


def test_a_load_says_everything_again() -> None:
    harness = v1_client()
    said = {"messageId": "m", "content": text("hello")}
    assert len(update(harness, "agent_message_chunk", **said)) == 1
    loading = harness.receive_call("session/load", {"sessionId": "s", "cwd": "/w", "mcpServers": []})
    assert update(harness, "agent_message", messageId="m", content=[]) == []
    assert len(update(harness, "agent_message_chunk", **said)) == 1
    update(harness, "tool_call_update", toolCallId="c", title="Read")
    add_content(harness, "one")
    harness.answer(LoadSessionResult())
    assert got(harness)[0]["content"] == [content("one")]
    assert loading.result == {}
    assert harness.reports == []


def test_a_closed_session_is_forgotten() -> None:
    harness = v1_client()
    update(harness, "tool_call_update", toolCallId="c", title="Read")
    add_content(harness, "one")
    closing = harness.receive_call("session/close", {"sessionId": "s"})
    harness.answer(CloseSessionResult())
    assert len(got(harness)) == 1
    assert closing.result == {}
    assert update(harness, "tool_call_update", toolCallId="c")[0]["sessionUpdate"] == "tool_call"


# --- clients of the other dialects --------------------------------------------------------------------------------

NARROW_DIALECTS = [name for name in DIALECT_NAMES if name != "v2"]


@pytest.mark.parametrize("name", NARROW_DIALECTS)
def test_the_flows_of_the_clients_own_emulator_run_too(name: str) -> None:
    settings = EmulatorSettings(cwd="/w", now=lambda: "", new_id=lambda: "x")
    inner = load_dialect(name).open_emulator(Side.CLIENT, settings)
    emulator = NarrowingEmulator(Side.CLIENT, settings, inner)
    if inner is not None:
        assert set(inner.incoming) <= set(emulator.incoming)
        assert set(inner.outgoing) <= set(emulator.outgoing)
        assert set(inner.result_observers) == set(emulator.result_observers)
        assert emulator.unannounced_capabilities == inner.unannounced_capabilities
    chunk = Chunk("s", "agent_message_chunk", "hi")
    assert emulator.pass_chunk(chunk) == chunk


@pytest.mark.parametrize("name", NARROW_DIALECTS)
def test_a_client_of_any_dialect_gets_text_tool_calls_and_plans(name: str) -> None:
    harness = EmulatorHarness(name, Side.CLIENT, narrows=True)
    story: list[tuple[str, dict[str, Any]]] = [
        ("agent_message", {"messageId": "m", "content": [text("hello")]}),
        ("tool_call_update", {"toolCallId": "c", "name": "read", "status": "paused"}),
        ("tool_call_content_chunk", {"toolCallId": "c", "content": content("found")}),
        ("terminal_update", {"terminalId": "t", "command": "make"}),
        ("plan_update", {"plan": {"type": "file", "planId": "p", "uri": "file:///p.md"}}),
        ("state_update", {"state": "requires_action"}),
        ("tool_call_update", {"toolCallId": "c", "status": "completed"}),
    ]
    for tag, members in story:
        harness.send_call("session/update", {"sessionId": "s", "update": {"sessionUpdate": tag, **members}})
    harness.wake_all()
    written = str(harness.wire)
    for words in ("hello", "found", "make", "file:///p.md"):
        assert words in written
    for kind in ("agent_message'", "terminal_update", "'p'", "state_update", "content_chunk"):
        assert kind not in written


def test_a_2025_client_gets_updates_under_its_own_session_id() -> None:
    harness = EmulatorHarness("2025.1", Side.CLIENT, narrows=True)
    harness.receive_call("session/new", {"session_id": "mine"})
    harness.answer(NewSessionResult(session_id="s"))
    prompt = harness.receive_call("session/prompt", {"session_id": "mine", "content": [text("hi")]})
    found = {"sessionUpdate": "tool_call_content_chunk", "toolCallId": "c", "content": content("found")}
    for change in ({"sessionUpdate": "tool_call_update", "toolCallId": "c", "title": "Read"}, found):
        harness.send_call("session/update", {"sessionId": "s", "update": change})
    assert "found" not in str(harness.wire)
    harness.answer(PromptResult(stop_reason="end_turn"))
    assert "found" in str(harness.wire)
    assert {params["session_id"] for _, params in harness.wire} == {"mine"}
    assert not prompt.is_open


def test_a_crow_client_is_asked_by_an_update() -> None:
    harness = EmulatorHarness("crow", Side.CLIENT, narrows=True)
    options = [{"optionId": "y", "name": "Yes", "kind": "allow_once"}]
    call = {"toolCallId": "c", "title": "Edit"}
    params = {"sessionId": "s", "title": "Sure?", "subject": {"type": "tool_call"}, "toolCall": call}
    asked = harness.send_call("session/request_permission", {**params, "options": options})
    assert asked.is_open
    assert "Sure?" in str(harness.wire[-1])
    harness.receive_call("permission_response", {"sessionId": "s", "toolCallId": "c", "optionId": "y"})
    assert asked.result == {"outcome": {"outcome": "selected", "optionId": "y"}}
