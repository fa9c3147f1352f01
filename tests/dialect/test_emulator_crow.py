"""The memory of a crow connection: questions without ids are matched to their answers, and cancel gets its answer."""

from __future__ import annotations

from typing import Any

import pytest

from dragoman.errors import Kind, ProtocolError
from dragoman.schema.side import Side
from tests.dialect.emulator_harness import EmulatedCall, Rehearsal

OPTIONS = [
    {"optionId": "yes", "name": "Allow", "kind": "allow_once"},
    {"optionId": "no", "name": "Reject", "kind": "reject_once"},
]


def question(call: str = "t", session: str = "s") -> dict[str, Any]:
    return {"sessionId": session, "toolCall": {"toolCallId": call, "title": "Write"}, "options": OPTIONS}


def response(option: str, call: str = "t", session: str = "s") -> dict[str, Any]:
    return {"session_id": session, "tool_call_id": call, "option_id": option}


# --- a client at the other end ------------------------------------------------------------------------------------


def client() -> Rehearsal:
    return Rehearsal("crow", Side.CLIENT)


def outcome(asked: EmulatedCall) -> Any:
    return asked.result["outcome"]


def test_a_permission_request_is_sent_as_an_update_and_waits_for_its_answer() -> None:
    """docs/protocol/dialect-matrix.md#crow-questions, docs/protocol/extensions.md#crow-permission."""
    stage = client()
    asked = stage.tell("session/request_permission", question())
    method, params = stage.wire[0]
    assert method == "session/update"
    assert params["update"]["@type"] == "permission_request"
    assert asked.is_open
    answered = stage.hear("permission_response", response("yes"))
    assert outcome(asked) == {"outcome": "selected", "optionId": "yes"}
    assert answered.result == {}


def test_an_answer_may_use_id_for_option_id() -> None:
    stage = client()
    asked = stage.tell("session/request_permission", question())
    stage.hear("permission_response", {"session_id": "s", "tool_call_id": "t", "id": "no"})
    assert outcome(asked)["optionId"] == "no"


def test_answers_are_matched_to_tool_calls_in_any_order() -> None:
    stage = client()
    one = stage.tell("session/request_permission", question("one"))
    two = stage.tell("session/request_permission", question("two"))
    other = stage.tell("session/request_permission", question("one", "other"))
    stage.hear("permission_response", response("no", "two"))
    stage.hear("permission_response", response("yes", "one"))
    assert outcome(one)["optionId"] == "yes"
    assert outcome(two)["optionId"] == "no"
    assert other.is_open


def test_a_second_permission_request_for_a_tool_call_waits_for_the_first() -> None:
    stage = client()
    first = stage.tell("session/request_permission", question())
    second = stage.tell("session/request_permission", question())
    third = stage.tell("session/request_permission", question())
    assert len(stage.wire) == 1
    stage.hear("permission_response", response("yes"))
    assert outcome(first)["optionId"] == "yes"
    assert len(stage.wire) == 2
    stage.hear("permission_response", response("no"))
    assert outcome(second)["optionId"] == "no"
    assert third.is_open
    stage.hear("permission_response", response("yes"))
    assert outcome(third)["optionId"] == "yes"


def test_an_option_that_was_not_offered_counts_as_cancelled() -> None:
    stage = client()
    asked = stage.tell("session/request_permission", question())
    stage.hear("permission_response", response("perhaps"))
    assert outcome(asked) == {"outcome": "cancelled"}
    assert "'perhaps'" in stage.reports[0]


def test_an_answer_without_a_request_is_reported_and_answered() -> None:
    stage = client()
    assert stage.hear("permission_response", response("yes")).result == {}
    assert "not open" in stage.reports[0]


def test_cancel_is_answered_and_lifted_to_a_notification() -> None:
    """docs/protocol/dialect-matrix.md#cancel-as-request."""
    stage = client()
    assert stage.hear("cancel", {"session_id": "s"}).result == {}
    assert stage.ours == [("session/cancel", {"sessionId": "s"})]


def test_cancel_closes_the_permission_requests_of_its_session() -> None:
    stage = client()
    first = stage.tell("session/request_permission", question())
    waiting = stage.tell("session/request_permission", question())
    other = stage.tell("session/request_permission", question("t", "other"))
    stage.hear("cancel", {"session_id": "s"})
    assert outcome(first) == outcome(waiting) == {"outcome": "cancelled"}
    assert other.is_open
    assert len(stage.wire) == 2
    again = stage.tell("session/request_permission", question())
    assert len(stage.wire) == 3
    stage.hear("permission_response", response("yes"))
    assert outcome(again)["optionId"] == "yes"


@pytest.mark.parametrize("end", [{"stopReason": "end_turn"}, ProtocolError(Kind.INTERNAL_ERROR, "broken")])
def test_the_end_of_a_turn_closes_its_permission_requests(end: Any) -> None:
    stage = client()
    turn = stage.hear("session/prompt", {"session_id": "s", "prompt": []})
    asked = stage.tell("session/request_permission", question())
    stage.answer(end)
    assert not turn.is_open
    assert outcome(asked) == {"outcome": "cancelled"}


# --- an agent at the other end ------------------------------------------------------------------------------------


def agent() -> Rehearsal:
    return Rehearsal("crow", Side.AGENT)


def asks(stage: Rehearsal, *options: tuple[str, str]) -> None:
    listed = [{"id": id, "title": title} for id, title in options or (("yes", "Allow"), ("no", "Reject"))]
    update = {"@type": "permission_request", "tool_call_id": "t", "title": "Write", "permission_options": listed}
    stage.hear("session/update", {"sessionId": "s", "update": update})


def test_an_agents_permission_update_becomes_a_request_and_our_choice_is_sent() -> None:
    stage = agent()
    asks(stage)
    method, params = stage.ours[0]
    assert method == "session/request_permission"
    assert [option["kind"] for option in params["options"]] == ["allow_once", "reject_once"]
    assert stage.wire == []
    stage.answer({"outcome": {"outcome": "selected", "optionId": "yes"}})
    assert stage.wire == [("permission_response", response("yes"))]


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
    stage = agent()
    asks(stage)
    stage.answer(answer)
    assert stage.wire == [("permission_response", response("no"))]


def test_an_unknown_option_counts_as_reject() -> None:
    stage = agent()
    asks(stage, ("ok", "Allow always"), ("hm", "Later"))
    stage.answer({"outcome": {"outcome": "cancelled"}})
    assert stage.wire[0][1]["option_id"] == "hm"


def test_a_rejection_is_sent_even_if_only_allow_options_are_offered() -> None:
    stage = agent()
    asks(stage, ("yes", "Allow"))
    stage.answer({"outcome": {"outcome": "cancelled"}})
    assert stage.wire[0][1]["option_id"] == "reject"


def test_an_agents_second_permission_request_for_a_tool_call_waits() -> None:
    stage = agent()
    asks(stage)
    asks(stage)
    assert len(stage.ours) == 1
    stage.answer({"outcome": {"outcome": "selected", "optionId": "no"}})
    assert len(stage.ours) == 2
    stage.answer({"outcome": {"outcome": "selected", "optionId": "yes"}})
    assert [params["option_id"] for _, params in stage.wire] == ["no", "yes"]


def test_our_cancel_is_a_request_and_its_answer_is_not_awaited() -> None:
    """docs/protocol/dialect-matrix.md#cancel-as-request."""
    stage = agent()
    shown = stage.tell("session/cancel", {"sessionId": "s"})
    assert stage.wire == [("cancel", {"session_id": "s"})]
    stage.reply({})
    assert shown.result is None
    assert stage.reports == []


def test_an_error_in_answer_to_cancel_is_reported() -> None:
    stage = agent()
    shown = stage.tell("session/cancel", {"sessionId": "s"})
    stage.reply(ProtocolError(Kind.METHOD_NOT_FOUND, "what cancel"))
    assert shown.result is None
    assert "what cancel" in stage.reports[0]


def test_other_updates_pass_unchanged() -> None:
    stage = agent()
    stage.hear("session/update", {"sessionId": "s", "update": {"@type": "agent_message_text", "text": "hi"}})
    assert stage.ours[0][1]["update"]["content"]["text"] == "hi"
