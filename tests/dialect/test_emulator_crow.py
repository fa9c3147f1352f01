"""The memory of a crow connection: questions without ids are matched to their answers, and cancel gets its answer."""

from __future__ import annotations

from typing import Any

import pytest

from dragoman.errors import Kind, ProtocolError
from dragoman.schema.side import Side
from tests.dialect.emulator_harness import EmulatedCall, EmulatorHarness

OPTIONS = [
    {"optionId": "yes", "name": "Allow", "kind": "allow_once"},
    {"optionId": "no", "name": "Reject", "kind": "reject_once"},
]


def question(call: str = "t", session: str = "s") -> dict[str, Any]:
    return {"sessionId": session, "toolCall": {"toolCallId": call, "title": "Write"}, "options": OPTIONS}


def response(option: str, call: str = "t", session: str = "s") -> dict[str, Any]:
    return {"session_id": session, "tool_call_id": call, "option_id": option}


# --- a client at the other end ------------------------------------------------------------------------------------


def client() -> EmulatorHarness:
    return EmulatorHarness("crow", Side.CLIENT)


def outcome(asked: EmulatedCall) -> Any:
    return asked.result["outcome"]


def test_a_permission_request_is_sent_as_an_update_and_waits_for_its_answer() -> None:
    """docs/protocol/dialect-matrix.md#crow-questions, docs/protocol/extensions.md#crow-permission."""
    harness = client()
    asked = harness.send_call("session/request_permission", question())
    method, params = harness.wire[0]
    assert method == "session/update"
    assert params["update"]["@type"] == "permission_request"
    assert asked.is_open
    answered = harness.receive_call("permission_response", response("yes"))
    assert outcome(asked) == {"outcome": "selected", "optionId": "yes"}
    assert answered.result == {}


def test_an_answer_may_use_id_for_option_id() -> None:
    harness = client()
    asked = harness.send_call("session/request_permission", question())
    harness.receive_call("permission_response", {"session_id": "s", "tool_call_id": "t", "id": "no"})
    assert outcome(asked)["optionId"] == "no"


def test_answers_are_matched_to_tool_calls_in_any_order() -> None:
    harness = client()
    one = harness.send_call("session/request_permission", question("one"))
    two = harness.send_call("session/request_permission", question("two"))
    other = harness.send_call("session/request_permission", question("one", "other"))
    harness.receive_call("permission_response", response("no", "two"))
    harness.receive_call("permission_response", response("yes", "one"))
    assert outcome(one)["optionId"] == "yes"
    assert outcome(two)["optionId"] == "no"
    assert other.is_open


def test_a_second_permission_request_for_a_tool_call_waits_for_the_first() -> None:
    harness = client()
    first = harness.send_call("session/request_permission", question())
    second = harness.send_call("session/request_permission", question())
    third = harness.send_call("session/request_permission", question())
    assert len(harness.wire) == 1
    harness.receive_call("permission_response", response("yes"))
    assert outcome(first)["optionId"] == "yes"
    assert len(harness.wire) == 2
    harness.receive_call("permission_response", response("no"))
    assert outcome(second)["optionId"] == "no"
    assert third.is_open
    harness.receive_call("permission_response", response("yes"))
    assert outcome(third)["optionId"] == "yes"


def test_an_option_that_was_not_offered_counts_as_cancelled() -> None:
    harness = client()
    asked = harness.send_call("session/request_permission", question())
    harness.receive_call("permission_response", response("perhaps"))
    assert outcome(asked) == {"outcome": "cancelled"}
    assert "'perhaps'" in harness.reports[0]


def test_an_answer_without_a_request_is_reported_and_answered() -> None:
    harness = client()
    assert harness.receive_call("permission_response", response("yes")).result == {}
    assert "not open" in harness.reports[0]


def test_cancel_is_answered_and_lifted_to_a_notification() -> None:
    """docs/protocol/dialect-matrix.md#cancel-as-request."""
    harness = client()
    assert harness.receive_call("cancel", {"session_id": "s"}).result == {}
    assert harness.ours == [("session/cancel", {"sessionId": "s"})]


def test_cancel_closes_the_permission_requests_of_its_session() -> None:
    harness = client()
    first = harness.send_call("session/request_permission", question())
    waiting = harness.send_call("session/request_permission", question())
    other = harness.send_call("session/request_permission", question("t", "other"))
    harness.receive_call("cancel", {"session_id": "s"})
    assert outcome(first) == outcome(waiting) == {"outcome": "cancelled"}
    assert other.is_open
    assert len(harness.wire) == 2
    again = harness.send_call("session/request_permission", question())
    assert len(harness.wire) == 3
    harness.receive_call("permission_response", response("yes"))
    assert outcome(again)["optionId"] == "yes"


@pytest.mark.parametrize("end", [{"stopReason": "end_turn"}, ProtocolError(Kind.INTERNAL_ERROR, "broken")])
def test_the_end_of_a_turn_closes_its_permission_requests(end: Any) -> None:
    harness = client()
    turn = harness.receive_call("session/prompt", {"session_id": "s", "prompt": []})
    asked = harness.send_call("session/request_permission", question())
    harness.answer(end)
    assert not turn.is_open
    assert outcome(asked) == {"outcome": "cancelled"}


# --- an agent at the other end ------------------------------------------------------------------------------------


def agent() -> EmulatorHarness:
    return EmulatorHarness("crow", Side.AGENT)


def asks(harness: EmulatorHarness, *options: tuple[str, str]) -> None:
    listed = [{"id": id, "title": title} for id, title in options or (("yes", "Allow"), ("no", "Reject"))]
    update = {"@type": "permission_request", "tool_call_id": "t", "title": "Write", "permission_options": listed}
    harness.receive_call("session/update", {"sessionId": "s", "update": update})


def test_an_agents_permission_update_becomes_a_request_and_our_choice_is_sent() -> None:
    harness = agent()
    asks(harness)
    method, params = harness.ours[0]
    assert method == "session/request_permission"
    assert [option["kind"] for option in params["options"]] == ["allow_once", "reject_once"]
    assert harness.wire == []
    harness.answer({"outcome": {"outcome": "selected", "optionId": "yes"}})
    assert harness.wire == [("permission_response", response("yes"))]


@pytest.mark.parametrize(
    "answer",
    [
        {"outcome": {"outcome": "cancelled"}},
        {"outcome": {"outcome": "selected", "optionId": "made up"}},
        ProtocolError(Kind.INTERNAL_ERROR, "nobody there"),
    ],
)
def test_an_invalid_choice_is_sent_as_a_rejection(answer: Any) -> None:
    """docs/protocol/extensions.md#crow-permission: crow has no cancelled outcome."""
    harness = agent()
    asks(harness)
    harness.answer(answer)
    assert harness.wire == [("permission_response", response("no"))]


def test_an_unknown_option_counts_as_reject() -> None:
    harness = agent()
    asks(harness, ("ok", "Allow always"), ("hm", "Later"))
    harness.answer({"outcome": {"outcome": "cancelled"}})
    assert harness.wire[0][1]["option_id"] == "hm"


def test_a_rejection_is_sent_even_if_only_allow_options_are_offered() -> None:
    harness = agent()
    asks(harness, ("yes", "Allow"))
    harness.answer({"outcome": {"outcome": "cancelled"}})
    assert harness.wire[0][1]["option_id"] == "reject"


def test_an_agents_second_permission_request_for_a_tool_call_waits() -> None:
    harness = agent()
    asks(harness)
    asks(harness)
    assert len(harness.ours) == 1
    harness.answer({"outcome": {"outcome": "selected", "optionId": "no"}})
    assert len(harness.ours) == 2
    harness.answer({"outcome": {"outcome": "selected", "optionId": "yes"}})
    assert [params["option_id"] for _, params in harness.wire] == ["no", "yes"]


def test_our_cancel_is_a_request_and_its_answer_is_not_awaited() -> None:
    """docs/protocol/dialect-matrix.md#cancel-as-request."""
    harness = agent()
    frames = harness.send_call("session/cancel", {"sessionId": "s"})
    assert harness.wire == [("cancel", {"session_id": "s"})]
    harness.reply({})
    assert frames.result is None
    assert harness.reports == []


def test_an_error_in_answer_to_cancel_is_reported() -> None:
    harness = agent()
    frames = harness.send_call("session/cancel", {"sessionId": "s"})
    harness.reply(ProtocolError(Kind.METHOD_NOT_FOUND, "what cancel"))
    assert frames.result is None
    assert "what cancel" in harness.reports[0]


def test_other_updates_pass_unchanged() -> None:
    harness = agent()
    harness.receive_call("session/update", {"sessionId": "s", "update": {"@type": "agent_message_text", "text": "hi"}})
    assert harness.ours[0][1]["update"]["content"]["text"] == "hi"
