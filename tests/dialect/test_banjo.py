"""banjo beyond its examples: models from any option of the model, numbered plans, what it has no word for."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dragoman.dialect.banjo import DIALECT
from dragoman.dialect.banjo.codec import lower_call, lower_result
from dragoman.dialect.v1.codec import lift_result
from dragoman.errors import Kind, Unsayable
from dragoman.schema.side import Side
from tests.dialect.any_json import METHODS, check_accepts_anything, check_round_trip, messages, shaped, texts

A, C = Side.AGENT, Side.CLIENT


def noted(**side: Any) -> dict[str, Any]:
    """Side data as it stands on an object."""
    return {"_meta": {"dragoman": side}}


def test_an_unmarked_model_option_stays_and_is_also_sent_as_models() -> None:
    option = {
        "id": "llm",
        "name": "Language model",
        "category": "model",
        "type": "select",
        "currentValue": "b",
        "options": [
            {"group": "g", "name": "G", "options": [{"value": "a", "name": "A"}]},
            {"value": "b", "name": "B", "description": "Slow"},
        ],
    }
    assert lower_result(A, "session/load", {"configOptions": [option]}) == {
        "configOptions": [option],
        "models": {
            "availableModels": [{"id": "a", "name": "A"}, {"id": "b", "name": "B", "description": "Slow"}],
            "currentModelId": "b",
        },
    }


def test_a_boolean_option_is_not_a_model_option() -> None:
    option = {"id": "m", "name": "M", "category": "model", "type": "boolean", "currentValue": True}
    assert lower_result(A, "session/new", {"configOptions": [option]}) == {"configOptions": [option]}


def test_an_empty_option_list_stays_next_to_models() -> None:
    wire = {"configOptions": [], "models": {"availableModels": [{"id": "a", "name": "A"}], "currentModelId": "a"}}
    assert lower_result(A, "session/new", lift_result(A, "session/new", wire)) == wire


def test_set_config_option_becomes_set_model_only_for_the_model_option() -> None:
    params = {"sessionId": "s", "configId": "model", "value": "a"}
    assert lower_call(A, "session/set_config_option", params) == ("session/set_config_option", params)
    marked = {**params, **noted(form="set_model")}
    assert lower_call(A, "session/set_config_option", marked) == (
        "session/set_model",
        {"sessionId": "s", "modelId": "a"},
    )


def test_plan_entries_are_numbered_and_priorities_are_side_data() -> None:
    entries = [
        {"content": "one", "priority": "high", "status": "pending"},
        {"content": "two", "priority": "medium", "status": "pending", **noted(id=7, inferred=["priority"])},
    ]
    update = {"sessionUpdate": "plan", "entries": entries}
    _, params = lower_call(C, "session/update", {"sessionId": "s", "update": update})
    assert params["update"]["entries"] == [
        {"id": "1", "content": "one", "status": "pending", **noted(priority="high")},
        {"id": 7, "content": "two", "status": "pending"},
    ]


def test_an_option_change_is_not_sent_as_a_model_change() -> None:
    update = {"sessionUpdate": "config_option_update", "configOptions": [], **noted(currentModelId="a")}
    params = {"sessionId": "s", "update": update}
    assert lower_call(C, "session/update", params)[1] == params


def test_a_status_of_the_draft_becomes_the_v1_status() -> None:
    update = {"sessionUpdate": "tool_call_update", "toolCallId": "c", "status": "denied"}
    _, params = lower_call(C, "session/update", {"sessionId": "s", "update": update})
    assert params["update"] == {**update, "status": "failed", **noted(status="denied")}


def test_error_is_not_a_stop_reason_but_auth_required_is() -> None:
    result = {"stopReason": "auth_required"}
    assert lower_result(A, "session/prompt", result) == result
    with pytest.raises(Unsayable) as refused:
        lower_result(A, "session/prompt", {"stopReason": "error"})
    assert refused.value.kind == Kind.INTERNAL_ERROR


def test_a_session_is_resumed_under_banjos_name() -> None:
    params = {"sessionId": "s", "cwd": "/w"}
    assert lower_call(A, "session/resume", params) == ("unstable_resumeSession", params)


# --- properties --------------------------------------------------------------------------------------------

MODELS = shaped(
    {
        "availableModels": st.lists(shaped({"id": texts, "name": texts}, {"description": texts}), max_size=3),
        "currentModelId": texts,
    }
)
UPDATES = st.one_of(
    shaped(
        {
            "sessionUpdate": st.just("plan"),
            "entries": st.lists(shaped({"id": texts, "content": texts, "status": texts}), max_size=3),
        }
    ),
    shaped({"sessionUpdate": st.just("current_model_update"), "currentModelId": texts}),
    shaped({"sessionUpdate": st.just("agent_message_chunk"), "content": shaped({"type": st.just("text")})}),
)


@given(shaped({"sessionId": texts}, {"models": MODELS, "configOptions": st.just([])}))
def test_every_session_setup_survives_a_round_trip(result: Any) -> None:
    assert lower_result(A, "session/new", lift_result(A, "session/new", result)) == result


@given(shaped({"sessionId": texts, "update": UPDATES}))
def test_every_update_survives_a_round_trip(params: Any) -> None:
    check_round_trip(DIALECT, C, "session/update", params)


@given(shaped({"sessionId": texts}, {"modelId": texts}))
def test_every_model_choice_survives_a_round_trip(params: Any) -> None:
    check_round_trip(DIALECT, A, "session/set_model", params)


@given(st.sampled_from(list(Side)), st.sampled_from(METHODS), messages)
def test_any_json_is_lowered_or_refused_by_name(side: Side, method: str, value: Any) -> None:
    check_accepts_anything(DIALECT, side, method, value)
