"""v2 next to an agent or client of the vocabulary: when a prompt ends, what is told in which order, what is held."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from dragoman.errors import Kind, ProtocolError
from dragoman.schema.side import Side
from tests.dialect.emulator_harness import EmulatedCall, EmulatorHarness

S = "s"


def text(words: str) -> list[dict[str, Any]]:
    return [{"type": "text", "text": words}]


# --- an agent at the other end --------------------------------------------------------------------------------------


class Agent(EmulatorHarness):
    """A v2 agent, and our side as its client."""

    def __init__(self) -> None:
        super().__init__("v2", Side.AGENT)

    def prompt(self, words: str = "hello") -> EmulatedCall:
        return self.send_call("session/prompt", {"sessionId": S, "prompt": text(words)})

    def receipt(self, id: str = "m1") -> None:
        self.reply({"messageId": id})

    def update(self, kind: str, **members: Any) -> None:
        self.receive_call("session/update", {"sessionId": S, "update": {"sessionUpdate": kind, **members}})

    def state(self, state: str, **members: Any) -> None:
        self.update("state_update", state=state, **members)

    def user_message(self, id: str = "m1", words: str = "hello") -> None:
        self.update("user_message", messageId=id, content=text(words))

    def kinds(self) -> list[str]:
        return [params["update"]["sessionUpdate"] for method, params in self.ours if method == "session/update"]


def reason(call: EmulatedCall) -> str:
    return str(call.result["stopReason"])


@pytest.mark.item("V2-11", "V2-12")
@pytest.mark.parametrize(
    "order",
    [
        "message answer running say idle",
        "answer message running say idle",
        "running message answer say idle",
        "answer running message say idle",
        "message running say idle answer",
        "running say message idle answer",
    ],
)
def test_a_prompt_ends_once_with_its_idle_in_every_order(order: str) -> None:
    agent = Agent()
    call = agent.prompt()
    steps: dict[str, Callable[[], None]] = {
        "message": agent.user_message,
        "answer": agent.receipt,
        "running": lambda: agent.state("running"),
        "say": lambda: agent.update("agent_message_chunk", messageId="a", content=text("hi")[0]),
        "idle": lambda: agent.state("idle", stopReason="max_tokens"),
    }
    for step in order.split():
        assert call.is_open
        steps[step]()
    assert reason(call) == "max_tokens"
    assert "user_message" not in agent.kinds()


@pytest.mark.item("V2-13")
@pytest.mark.parametrize("is_answered", [True, False])
def test_an_idle_of_session_setup_ends_nothing(is_answered: bool) -> None:
    agent = Agent()
    call = agent.prompt()
    if is_answered:
        agent.receipt()
    agent.state("idle")
    if not is_answered:
        agent.receipt()
    assert call.is_open
    agent.state("running")
    agent.state("idle")
    assert reason(call) == "end_turn"


def test_repeated_idles_complete_a_prompt_once() -> None:
    agent = Agent()
    call = agent.prompt()
    agent.receipt()
    agent.state("running")
    for _ in range(3):
        agent.state("idle", stopReason="end_turn")
    assert reason(call) == "end_turn"
    later = agent.prompt("again")
    agent.receipt("m2")
    assert later.is_open


@pytest.mark.item("V2-14")
def test_two_prompts_that_run_one_after_the_other_end_with_their_own_idle() -> None:
    agent = Agent()
    one = agent.prompt("one")
    two = agent.prompt("two")
    agent.receipt("m1")
    agent.state("running")
    agent.state("idle", stopReason="end_turn")
    assert reason(one) == "end_turn"
    agent.receipt("m2")
    agent.state("running")
    agent.state("idle", stopReason="refusal")
    assert reason(two) == "refusal"


@pytest.mark.item("V2-14")
def test_a_prompt_that_was_steered_into_running_work_ends_with_it() -> None:
    agent = Agent()
    one = agent.prompt("one")
    agent.receipt("m1")
    agent.state("running")
    two = agent.prompt("two")
    agent.receipt("m2")
    agent.state("idle", stopReason="end_turn")
    assert reason(one) == "end_turn"
    assert two.is_open
    agent.wake_all()
    assert reason(two) == "end_turn"


def test_a_steered_prompt_waits_for_work_that_begins_meanwhile() -> None:
    agent = Agent()
    one = agent.prompt("one")
    agent.receipt("m1")
    agent.state("running")
    two = agent.prompt("two")
    agent.receipt("m2")
    agent.state("idle", stopReason="end_turn")
    agent.state("running")
    agent.wake_all()
    assert reason(one) == "end_turn"
    assert two.is_open
    agent.state("idle", stopReason="max_tokens")
    assert reason(two) == "max_tokens"


@pytest.mark.item("V2-15")
def test_a_cancel_ends_all_open_prompts_at_the_next_idle() -> None:
    agent = Agent()
    one, two = agent.prompt("one"), agent.prompt("two")
    agent.receipt("m1")
    agent.receipt("m2")
    agent.state("running")
    agent.send_call("session/cancel", {"sessionId": S})
    agent.state("idle", stopReason="cancelled")
    assert [reason(one), reason(two)] == ["cancelled", "cancelled"]


def test_an_idle_without_reason_after_a_cancel_means_cancelled() -> None:
    agent = Agent()
    call = agent.prompt()
    agent.receipt()
    agent.state("running")
    agent.send_call("session/cancel", {"sessionId": S})
    agent.state("idle")
    assert reason(call) == "cancelled"


def test_a_prompt_that_was_cancelled_before_insertion_is_a_cancelled_turn() -> None:
    agent = Agent()
    call = agent.prompt()
    agent.reply(ProtocolError(Kind.CANCELLED, "never inserted"))
    assert reason(call) == "cancelled"


def test_a_refused_prompt_is_an_error() -> None:
    agent = Agent()
    call = agent.prompt()
    agent.reply(ProtocolError(Kind.INVALID_PARAMS, "too long"))
    assert call.error.kind == Kind.INVALID_PARAMS


def test_an_idle_with_an_error_fails_the_prompt_with_its_details() -> None:
    agent = Agent()
    call = agent.prompt()
    agent.receipt()
    agent.state("running")
    agent.state("idle", stopReason="error", error={"code": -32011, "message": "no credit", "data": {"left": 0}})
    assert (call.error.message, call.error.code, call.error.data) == ("no credit", -32011, {"left": 0})


def test_an_unknown_stop_reason_is_the_end_of_the_turn_and_kept() -> None:
    agent = Agent()
    call = agent.prompt()
    agent.receipt()
    agent.state("idle", stopReason="_bored")
    assert call.result == {"stopReason": "end_turn", "_meta": {"dragoman": {"stopReason": "_bored"}}}


@pytest.mark.parametrize("state", ["requires_action", "_dreaming"])
def test_other_states_are_not_idle(state: str) -> None:
    agent = Agent()
    call = agent.prompt()
    agent.receipt()
    agent.state(state)
    assert call.is_open
    agent.state("idle")
    assert reason(call) == "end_turn"


def test_a_silent_agent_does_not_keep_a_prompt_open_for_ever() -> None:
    agent = Agent()
    call = agent.prompt()
    agent.receipt()
    agent.wake_all()
    assert reason(call) == "end_turn"
    assert len(agent.reports) == 1


def test_an_agent_that_still_works_is_not_silent() -> None:
    agent = Agent()
    call = agent.prompt()
    agent.receipt()
    agent.update("agent_message_chunk", messageId="a", content=text("hi")[0])
    agent.wake_all()
    assert call.is_open


def test_closing_a_session_cancels_its_prompts() -> None:
    agent = Agent()
    call = agent.prompt()
    agent.receipt()
    agent.state("running")
    closed = agent.send_call("session/close", {"sessionId": S})
    agent.reply({})
    assert closed.result == {}
    assert reason(call) == "cancelled"


def test_user_messages_of_others_pass_and_our_own_do_not() -> None:
    agent = Agent()
    agent.prompt("mine")
    agent.user_message("x", "theirs")
    agent.user_message("m1", "mine")
    assert agent.kinds() == []
    agent.receipt("m1")
    assert [params["update"]["messageId"] for _, params in agent.ours] == ["x"]
    agent.user_message("m1", "mine")
    assert agent.kinds() == ["user_message"]


@pytest.mark.item("V2-07")
def test_an_option_of_the_category_mode_is_shown_as_modes_and_changes_are_told_once() -> None:
    agent = Agent()
    call = agent.send_call("session/new", {"cwd": "/work", "mcpServers": []})
    option = {
        "configId": "style",
        "name": "Style",
        "category": "mode",
        "type": "select",
        "currentValue": "ask",
        "options": [{"value": "ask", "name": "Ask"}, {"value": "code", "name": "Code"}],
    }
    agent.reply({"sessionId": S, "configOptions": [option]})
    assert call.result["modes"]["currentModeId"] == "ask"
    set_mode = agent.send_call("session/set_mode", {"sessionId": S, "modeId": "code"})
    assert agent.wire[-1] == (
        "session/set_config_option",
        {"sessionId": S, "configId": "style", "type": "id", "value": "code"},
    )
    agent.update("config_option_update", configOptions=[{**option, "currentValue": "code"}])
    agent.reply({"configOptions": [{**option, "currentValue": "code"}]})
    assert set_mode.result == {}
    assert agent.kinds() == ["config_option_update", "current_mode_update"]


def test_commands_of_a_new_session_come_as_an_update_after_the_answer() -> None:
    agent = Agent()
    call = agent.send_call("session/new", {"cwd": "/work", "mcpServers": []})
    agent.reply({"sessionId": S, "availableCommands": [{"type": "command", "name": "x", "description": "Do x"}]})
    assert call.result == {"sessionId": S}
    assert agent.kinds() == []
    agent.wake_all()
    assert agent.kinds() == ["available_commands_update"]


# --- a client at the other end --------------------------------------------------------------------------------------


class Client(EmulatorHarness):
    """A v2 client, and our side as its agent."""

    def __init__(self) -> None:
        super().__init__("v2", Side.CLIENT)

    def prompt(self, words: str = "hello") -> EmulatedCall:
        return self.receive_call("session/prompt", {"sessionId": S, "prompt": text(words)})

    def say(self, update: str, /, **members: Any) -> None:
        self.send_call("session/update", {"sessionId": S, "update": {"sessionUpdate": update, **members}})

    def chunk(self, words: str) -> None:
        self.say("agent_message_chunk", content=text(words)[0])

    def events(self) -> list[str]:
        """What the client was told, in order."""
        out = []
        for method, params in self.wire:
            update = params.get("update", {}) if isinstance(params, dict) else {}
            kind = update.get("sessionUpdate", method)
            out.append(f"{update['state']} {update.get('stopReason', '')}".strip() if kind == "state_update" else kind)
        return out


@pytest.mark.item("V2-09")
def test_a_prompt_is_told_answered_running_and_idle_in_this_order() -> None:
    client = Client()
    call = client.prompt()
    assert call.is_open
    client.chunk("hi")
    client.answer({"stopReason": "max_tokens"})
    assert client.events() == ["user_message", "answer", "running", "agent_message_chunk", "idle max_tokens"]
    user_message = client.wire[0][1]["update"]
    assert call.result == {"messageId": user_message["messageId"]}


@pytest.mark.item("V2-10")
def test_an_error_before_any_work_refuses_the_prompt_and_tells_nothing() -> None:
    client = Client()
    call = client.prompt()
    client.answer(ProtocolError(Kind.AUTH_REQUIRED, "log in"))
    assert call.error.kind == Kind.AUTH_REQUIRED
    assert client.events() == []


@pytest.mark.item("V2-10")
def test_an_error_after_output_is_an_idle_with_the_error() -> None:
    client = Client()
    call = client.prompt()
    client.chunk("hi")
    client.answer(ProtocolError(Kind.INTERNAL_ERROR, "broke"))
    assert call.result["messageId"]
    assert client.events()[-1] == "idle error"
    assert client.wire[-1][1]["update"]["error"] == {"code": -32603, "message": "broke"}


def test_a_prompt_of_a_quiet_agent_is_inserted_after_a_short_time() -> None:
    client = Client()
    call = client.prompt()
    client.wake_all()
    assert call.result["messageId"]
    assert client.events() == ["user_message", "answer", "running"]


@pytest.mark.item("V2-14")
def test_a_second_prompt_is_held_until_the_first_one_ends() -> None:
    client = Client()
    client.prompt("one")
    two = client.prompt("two")
    client.chunk("1")
    assert len(client.ours) == 1
    client.answer({"stopReason": "end_turn"})
    assert two.is_open
    client.chunk("2")
    client.answer({"stopReason": "end_turn"})
    turn = ["user_message", "answer", "running", "agent_message_chunk", "idle end_turn"]
    assert client.events() == [*turn, *turn]


@pytest.mark.item("V2-15")
def test_a_cancel_refuses_held_prompts_and_ends_the_running_one() -> None:
    client = Client()
    client.prompt("one")
    two = client.prompt("two")
    client.chunk("1")
    client.receive_call("session/cancel", {"sessionId": S})
    assert two.error.kind == Kind.CANCELLED
    client.answer({"stopReason": "cancelled"})
    assert client.events()[-1] == "idle cancelled"
    later = client.prompt("three")
    client.chunk("3")
    assert later.result["messageId"]


@pytest.mark.item("V2-16")
def test_a_held_prompt_can_be_withdrawn() -> None:
    client = Client()
    client.prompt("one")
    two = client.prompt("two")
    client.runs[-1].cancel(True)
    assert two.error.kind == Kind.CANCELLED
    client.answer({"stopReason": "end_turn"})
    assert [method for method, _ in client.ours] == ["session/prompt"]


OPTIONS = [{"optionId": "yes", "name": "Yes", "kind": "allow_once"}]


def ask(client: Client) -> EmulatedCall:
    call = {"toolCallId": "t", "title": "Write"}
    return client.send_call("session/request_permission", {"sessionId": S, "toolCall": call, "options": OPTIONS})


@pytest.mark.item("V2-19")
def test_a_question_tells_that_the_turn_waits_and_goes_on() -> None:
    client = Client()
    client.prompt()
    asked = ask(client)
    assert client.events()[-2:] == ["requires_action", "session/request_permission"]
    assert client.wire[-1][1]["title"] == "Write"
    client.reply({"outcome": {"outcome": "selected", "optionId": "yes"}})
    assert asked.result == {"outcome": {"outcome": "selected", "optionId": "yes"}}
    assert client.events()[-1] == "running"


@pytest.mark.item("V2-18")
@pytest.mark.parametrize("outcome", [{"outcome": "selected", "optionId": "other"}, {"outcome": "_maybe"}])
def test_an_unknown_answer_is_never_an_approval(outcome: dict[str, str]) -> None:
    client = Client()
    client.prompt()
    asked = ask(client)
    client.reply({"outcome": outcome})
    assert asked.result == {"outcome": {"outcome": "cancelled"}}


@pytest.mark.item("V2-17")
def test_a_cancel_answers_open_questions_itself() -> None:
    client = Client()
    client.prompt()
    asked = ask(client)
    client.receive_call("session/cancel", {"sessionId": S})
    assert asked.result == {"outcome": {"outcome": "cancelled"}}


@pytest.mark.item("V2-21")
def test_chunks_without_an_id_get_one_id_a_message() -> None:
    client = Client()
    client.prompt()
    client.chunk("a")
    client.chunk("b")
    client.say("tool_call", toolCallId="t", title="Read")
    client.chunk("c")
    client.say("agent_thought_chunk", content=text("d")[0], messageId="given")
    ids = [params["update"]["messageId"] for _, params in client.wire if "content" in params.get("update", {})][1:]
    assert ids == ["s/agent_message/1", "s/agent_message/1", "s/agent_message/2", "given"]


@pytest.mark.item("V2-22")
def test_a_tool_call_id_that_is_used_again_clears_what_was_there() -> None:
    client = Client()
    client.prompt()
    client.say("tool_call", toolCallId="t", title="Read", kind="read", rawInput={"a": 1})
    client.say("tool_call_update", toolCallId="t", title=None, status="completed")
    assert client.wire[-1][1]["update"] == {
        "sessionUpdate": "tool_call_update",
        "toolCallId": "t",
        "status": "completed",
    }
    client.say("tool_call", toolCallId="t", title="Write", status="pending")
    update = client.wire[-1][1]["update"]
    cleared = sorted(name for name, value in update.items() if value is None)
    assert cleared == ["content", "kind", "locations", "name", "rawInput", "rawOutput"]


def test_an_echo_of_the_prompt_is_told_once() -> None:
    client = Client()
    client.prompt("hello there")
    client.say("user_message_chunk", content=text("hello ")[0])
    client.say("user_message_chunk", content=text("there")[0])
    client.say("user_message_chunk", content=text("more")[0])
    assert client.events() == ["user_message", "answer", "running", "user_message_chunk"]


@pytest.mark.item("V2-25")
def test_a_replay_empties_each_message_first_and_ends_with_a_state() -> None:
    client = Client()
    call = client.receive_call("session/resume", {"sessionId": S, "cwd": "/work", "replayFrom": {"type": "start"}})
    client.say("user_message_chunk", content=text("q")[0])
    client.chunk("a")
    client.chunk("b")
    client.answer({})
    assert call.result == {}
    assert client.events() == [
        "user_message",
        "user_message_chunk",
        "agent_message",
        "agent_message_chunk",
        "agent_message_chunk",
        "idle",
    ]
    assert client.wire[0][1]["update"]["content"] == []


@pytest.mark.item("V2-26")
def test_closing_waits_for_the_end_of_the_turn_and_tells_nothing_afterwards() -> None:
    client = Client()
    client.prompt()
    client.chunk("a")
    call = client.receive_call("session/close", {"sessionId": S})
    client.answer({}, which=1)
    assert call.is_open
    client.answer({"stopReason": "cancelled"})
    assert call.result == {}
    assert client.events()[-1] == "idle cancelled"
    client.chunk("late")
    assert client.events()[-1] == "idle cancelled"


def test_modes_of_an_agent_are_an_option_that_sets_them() -> None:
    client = Client()
    call = client.receive_call("session/new", {"cwd": "/work"})
    modes = {"currentModeId": "ask", "availableModes": [{"id": "ask", "name": "Ask"}, {"id": "code", "name": "Code"}]}
    client.answer({"sessionId": S, "modes": modes})
    (option,) = call.result["configOptions"]
    assert (option["configId"], option["category"], option["currentValue"]) == ("mode", "mode", "ask")
    change = client.receive_call(
        "session/set_config_option", {"sessionId": S, "configId": "mode", "type": "id", "value": "code"}
    )
    assert client.ours[-1] == ("session/set_mode", {"sessionId": S, "modeId": "code"})
    client.answer({})
    assert change.result["configOptions"][0]["currentValue"] == "code"
    assert client.events() == ["config_option_update"]


def test_commands_before_the_answer_become_part_of_it() -> None:
    client = Client()
    call = client.receive_call("session/new", {"cwd": "/work"})
    client.say("available_commands_update", availableCommands=[{"name": "x", "description": "Do x"}])
    client.answer({"sessionId": S})
    assert call.result["availableCommands"] == [{"type": "command", "name": "x", "description": "Do x"}]
    assert client.events() == []


def test_one_tool_call_of_an_agent_that_cannot_is_not_cancelled_alone() -> None:
    client = Client()
    call = client.receive_call("tool_call/cancel", {"sessionId": S, "toolCallId": "t"})
    client.answer(ProtocolError(Kind.CAPABILITY_UNSUPPORTED, "no"))
    assert call.error.kind == Kind.INVALID_PARAMS
