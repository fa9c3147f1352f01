"""v1 beyond its examples: banjo's extras are read, only what is official is written, and any JSON is borne."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dragoman.dialect.side_data import strip_private, strip_side_data
from dragoman.dialect.v1 import codec
from dragoman.dialect.v1.codec import (
    lift_call,
    lift_result,
    lower_call,
    lower_result,
)
from dragoman.dialect.v1.tables import V2_METHODS
from dragoman.errors import Kind, Unsayable
from dragoman.schema.base import to_json
from dragoman.schema.methods import METHODS as TABLE
from dragoman.schema.side import Side
from dragoman.testing.samples import samples
from tests.dialect.any_json import METHODS, check_accepts_anything, messages, objects, updates

A, C = Side.AGENT, Side.CLIENT


def noted(**side: Any) -> dict[str, Any]:
    """Side data as it stands on an object."""
    return {"_meta": {"dragoman": side}}


# --- banjo's extras are read -------------------------------------------------------------------------------


def test_models_of_real_peers_become_an_option() -> None:
    models = {"availableModels": [{"modelId": "m", "name": "M"}], "currentModelId": "m"}
    option = {
        "id": "model",
        "name": "Model",
        "category": "model",
        "type": "select",
        "currentValue": "m",
        "options": [{"value": "m", "name": "M"}],
        **noted(form="models", modelKey="modelId"),
    }
    for method in ("session/new", "session/load", "session/resume", "session/fork"):
        result = lift_result(A, method, {"models": models, "configOptions": None})
        assert result == {"configOptions": [option], **noted(inferred=["configOptions"])}


def test_models_next_to_a_model_option_add_no_second_option() -> None:
    result = {"configOptions": [{"id": "llm", "category": "model"}], "models": {"currentModelId": "m"}}
    assert lift_result(A, "session/new", result) == {
        "configOptions": [{"id": "llm", "category": "model"}],
        **noted(models={"currentModelId": "m"}),
    }


def test_a_model_is_set_as_an_option_and_resume_has_one_name() -> None:
    assert lift_call(A, "session/set_model", {"sessionId": "s", "modelId": "m"}) == (
        "session/set_config_option",
        {"sessionId": "s", "configId": "model", "value": "m", **noted(form="set_model")},
    )
    assert lift_call(A, "unstable_resumeSession", {"sessionId": "s"}) == ("session/resume", {"sessionId": "s"})


def test_the_older_mode_member_is_read_only_without_the_newer_one() -> None:
    _, params = lift_call(A, "session/set_mode", {"sessionId": "s", "mode": "plan"})
    assert params == {"sessionId": "s", "modeId": "plan", **noted(legacy=True)}
    both = {"sessionId": "s", "modeId": "plan", "mode": "code"}
    assert lift_call(A, "session/set_mode", both) == ("session/set_mode", both)


def test_a_plan_entry_without_priority_gets_one_and_keeps_its_id() -> None:
    update = {"sessionUpdate": "plan", "entries": [{"id": "t", "content": "one", "status": "pending"}]}
    _, params = lift_call(C, "session/update", {"sessionId": "s", "update": update})
    assert params["update"]["entries"] == [
        {"content": "one", "status": "pending", "priority": "medium", **noted(id="t", inferred=["priority"])}
    ]


def test_official_messages_pass_unchanged() -> None:
    entries = [{"content": "one", "status": "pending", "priority": "low"}]
    params = {"sessionId": "s", "update": {"sessionUpdate": "plan", "entries": entries}}
    assert lift_call(C, "session/update", params)[1] is params
    assert lower_call(C, "session/update", params)[1] is params


# --- only what is official is written ----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("status", "official"),
    [("awaiting_permission", "pending"), ("denied", "failed"), ("cancelled", "failed")],
)
def test_a_status_of_the_draft_becomes_the_nearest_status(status: str, official: str) -> None:
    call = {"toolCallId": "c", "status": status}
    expected = {"toolCallId": "c", "status": official, **noted(status=status)}
    for kind in ("tool_call", "tool_call_update"):
        update = {"sessionUpdate": kind, **call}
        _, params = lower_call(C, "session/update", {"sessionId": "s", "update": update})
        assert params["update"] == {"sessionUpdate": kind, **expected}
    _, params = lower_call(C, "session/request_permission", {"sessionId": "s", "toolCall": call, "options": []})
    assert params["toolCall"] == expected


def test_a_cancelled_compaction_is_not_a_tool_call() -> None:
    update = {"sessionUpdate": "compaction_update", "compactionId": "c", "status": "cancelled"}
    params = {"sessionId": "s", "update": update}
    assert lower_call(C, "session/update", params)[1] == params


@pytest.mark.parametrize(("reason", "kind"), [("error", Kind.INTERNAL_ERROR), ("auth_required", Kind.AUTH_REQUIRED)])
def test_a_stop_reason_that_v1_lacks_is_an_error_of_its_kind(reason: str, kind: str) -> None:
    with pytest.raises(Unsayable, match=reason) as refused:
        lower_result(A, "session/prompt", {"stopReason": reason})
    assert (refused.value.kind, refused.value.data) == (kind, {"stopReason": reason})


def test_inferred_values_are_sent_without_the_note() -> None:
    params = {"cwd": "/w", "mcpServers": [], **noted(inferred=["mcpServers"], mode="ask")}
    assert lower_call(A, "session/new", params)[1] == {"cwd": "/w", "mcpServers": [], **noted(mode="ask")}


def test_credentials_are_not_sent_as_side_data() -> None:
    params = {"methodId": "token", **noted(credentials={"token": "t"})}
    assert lower_call(A, "authenticate", params)[1] == {"methodId": "token"}


@pytest.mark.parametrize("method", sorted(V2_METHODS))
def test_v1_agents_do_not_get_the_methods_of_v2(method: str) -> None:
    with pytest.raises(Unsayable, match=method):
        lower_call(A, method, {"sessionId": "s"})


def test_an_extension_method_passes_unchanged() -> None:
    params = noted(inferred=["x"])
    assert lift_call(A, "_dragoman/x", params)[1] is params
    assert lower_call(A, "_dragoman/x", params)[1] is params


# --- which messages need no look ---------------------------------------------------------------------------


@given(st.sampled_from(sorted(TABLE)), objects | updates)
def test_a_message_without_extras_is_equal_in_v1_and_the_vocabulary(key: Any, value: Any) -> None:
    side, method = key
    value = strip_side_data(value)
    if (side, method) not in codec.LIFT and (side, method) not in codec.LIFTED_METHODS:
        assert lift_call(side, method, value) == (method, value)
    if (side, method) not in codec.LOWER and method not in V2_METHODS:
        assert lower_call(side, method, value) == (method, value)
    if (side, method) not in codec.LIFT_RESULT:
        assert lift_result(side, method, value) == value
    if (side, method) != (A, "session/prompt"):
        assert lower_result(side, method, value) == value


@pytest.mark.parametrize("key", sorted(TABLE))
def test_a_call_that_passes_as_it_is_is_the_same_in_v1(key: Any) -> None:
    side, method = key
    for value in samples(TABLE[key].params):
        params = msgspec.convert(value, TABLE[key].params)
        if codec.is_plain_call(method, params):
            assert lower_call(side, method, to_json(params)) == (method, to_json(params))


# --- what never crosses a wire -----------------------------------------------------------------------------


def test_our_meta_key_is_removed_from_input_and_other_metadata_stays() -> None:
    value = {"a": [{"_meta": {"dragoman": {"x": 1}}}, {"_meta": {"dragoman": {}, "trace": 1}}], "_meta": None}
    assert strip_side_data(value) == {"a": [{}, {"_meta": {"trace": 1}}], "_meta": None}


def test_notes_are_dropped_inside_carried_objects_too() -> None:
    value = noted(content=[{"name": "a", **noted(inferred=["name"])}], inferred=["b"])
    assert strip_private(value) == noted(content=[{"name": "a"}])


def test_the_json_of_a_tool_may_be_nested_deeply() -> None:
    deep: Any = {}
    for _ in range(100_000):
        deep = {"a": deep}
    assert strip_private(deep) is deep
    assert strip_side_data(deep) is deep


@given(messages)
def test_removing_side_data_twice_changes_nothing(value: Any) -> None:
    once = strip_side_data(value)
    assert strip_side_data(once) is once


@given(st.sampled_from(list(Side)), st.sampled_from(METHODS), messages)
def test_any_json_is_lowered_or_refused_by_name(side: Side, method: str, value: Any) -> None:
    check_accepts_anything(codec, side, method, value)


@pytest.mark.parametrize(("said", "meant"), [("1", 1), ("2024-11-05", 1), ("2", 2), ("", 1)])
def test_a_version_sent_as_a_string_is_read(said: str, meant: int) -> None:
    """docs/protocol/dialect-matrix.md#string-versions: some clients send `"1"`, or the date of another protocol."""
    _, params = codec.lift_call(Side.AGENT, "initialize", {"protocolVersion": said})
    assert params["protocolVersion"] == meant
