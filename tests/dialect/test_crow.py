"""crow beyond its examples: what plain v1 becomes there, questions as updates, what comes back, any JSON at all."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dragoman.dialect.crow import codec
from dragoman.dialect.crow.codec import lift_call, lift_result, lower_call, lower_result
from dragoman.errors import Kind, ProtocolError, Unsayable
from dragoman.schema.side import Side
from tests.dialect.any_json import METHODS, check_accepts_anything, check_round_trip, messages, shaped, texts

A, C = Side.AGENT, Side.CLIENT


def lower_update(update: dict[str, Any]) -> Any:
    """The update object with which crow says an update."""
    method, params = lower_call(C, "session/update", {"sessionId": "s", "update": update})
    assert method == "session/update"
    return params["update"]


def question(tool_call: dict[str, Any], options: list[Any]) -> Any:
    """The update with which crow asks for permission."""
    params = {"sessionId": "s", "toolCall": tool_call, "options": options}
    method, wire = lower_call(C, "session/request_permission", params)
    assert method == "session/update"
    return wire["update"]


# --- initialize and sessions -------------------------------------------------------------------------------


def test_client_capabilities_that_crow_lacks_are_side_data() -> None:
    capabilities = {"fs": {"readTextFile": True}, "terminal": True, "elicitation": {"form": {}}}
    _, wire = lower_call(A, "initialize", {"protocolVersion": 1, "clientCapabilities": capabilities})
    assert wire == {
        "protocol_version": 1,
        "client_capabilities": {
            "fs": {"read_text_file": True},
            "terminal": True,
            "_meta": {"dragoman": {"elicitation": {"form": {}}}},
        },
    }


def test_agent_capabilities_that_crow_lacks_are_side_data() -> None:
    result = {
        "protocolVersion": 1,
        "agentCapabilities": {
            "loadSession": False,
            "promptCapabilities": {"image": True, "audio": True, "embeddedContext": False},
            "mcpCapabilities": {"http": True, "acp": True},
            "sessionCapabilities": {"list": {}},
        },
        "authMethods": [],
    }
    assert lower_result(A, "initialize", result) == {
        "protocol_version": 1,
        "agent_capabilities": {
            "load_session": False,
            "prompt_capabilities": {
                "image": True,
                "resource": False,
                "_meta": {"dragoman": {"audio": True}},
            },
            "mcp_capabilities": {"http": True, "_meta": {"dragoman": {"acp": True}}},
            "_meta": {"dragoman": {"sessionCapabilities": {"list": {}}}},
        },
        "_meta": {"dragoman": {"authMethods": []}},
    }


def test_our_meta_key_is_read_in_capabilities() -> None:
    wire = {"protocol_version": 1, "client_capabilities": {"_meta": {"dragoman": {"fs": {"list": True}}}}}
    _, params = lift_call(A, "initialize", wire)
    assert params["clientCapabilities"] == {"_meta": {"dragoman": {"fs": {"list": True}}}}


def test_servers_of_a_loaded_session_are_side_data_and_inferred_ones_are_dropped() -> None:
    params = {"sessionId": "s", "cwd": "/w", "mcpServers": [{"name": "a"}]}
    assert lower_call(A, "session/load", params)[1] == {
        "session_id": "s",
        "cwd": "/w",
        "_meta": {"dragoman": {"mcpServers": [{"name": "a"}]}},
    }
    inferred = {**params, "mcpServers": [], "_meta": {"dragoman": {"inferred": ["mcpServers"]}}}
    assert lower_call(A, "session/load", inferred)[1] == {"session_id": "s", "cwd": "/w"}


def test_values_inferred_by_another_dialect_are_sent_if_crow_has_the_member() -> None:
    params = {"cwd": "/w", "mcpServers": [], "_meta": {"dragoman": {"inferred": ["mcpServers"]}}}
    assert lower_call(A, "session/new", params)[1] == {"cwd": "/w", "mcpServers": []}


@pytest.mark.parametrize(
    ("reason", "wire"),
    [("max_tokens", "end_turn"), ("refusal", "end_turn"), ("auth_required", "error"), ("novel", "end_turn")],
)
def test_a_stop_reason_that_crow_lacks_becomes_the_nearest(reason: str, wire: str) -> None:
    expected = {"stop_reason": wire, "_meta": {"dragoman": {"stopReason": reason}}}
    assert lower_result(A, "session/prompt", {"stopReason": reason}) == expected


def test_an_unknown_stop_reason_of_a_crow_agent_is_passed_on() -> None:
    assert lift_result(A, "session/prompt", {"stop_reason": "novel"}) == {"stopReason": "novel"}


def test_cancel_has_another_name() -> None:
    assert lift_call(A, "cancel", {"session_id": "s"}) == ("session/cancel", {"sessionId": "s"})
    assert lower_call(A, "session/cancel", {"sessionId": "s"}) == ("cancel", {"session_id": "s"})
    assert lower_result(A, "session/cancel", {}) == {}


@pytest.mark.parametrize("method", ["authenticate", "session/set_mode", "session/list", "session/resume"])
def test_methods_that_crow_lacks_are_refused_by_name(method: str) -> None:
    with pytest.raises(Unsayable, match=method):
        lower_call(A, method, {})
    with pytest.raises(Unsayable, match=method):
        lower_result(A, method, {})


# --- updates -----------------------------------------------------------------------------------------------


def test_members_of_a_tool_call_that_crow_lacks_are_side_data() -> None:
    update = {
        "sessionUpdate": "tool_call",
        "toolCallId": "c",
        "title": "List",
        "kind": "execute",
        "status": "pending",
        "rawInput": {"command": "ls"},
        "locations": [{"path": "/a"}],
    }
    assert lower_update(update) == {
        "@type": "tool_call_start",
        "tool_call_id": "c",
        "title": "List",
        "kind": "execute",
        "status": "pending",
        "_meta": {"dragoman": {"locations": [{"path": "/a"}], "rawInput": {"command": "ls"}}},
    }


def test_a_title_inferred_by_another_dialect_is_sent() -> None:
    update = {
        "sessionUpdate": "tool_call",
        "toolCallId": "c",
        "title": "read_file",
        "kind": "read",
        "_meta": {"dragoman": {"inferred": ["title", "kind"]}},
    }
    assert lower_update(update) == {
        "@type": "tool_call_start",
        "tool_call_id": "c",
        "title": "read_file",
        "kind": "read",
    }


def test_a_status_of_the_draft_becomes_the_nearest_status() -> None:
    assert lower_update({"sessionUpdate": "tool_call_update", "toolCallId": "c", "status": "denied"}) == {
        "@type": "tool_call_update",
        "tool_call_id": "c",
        "status": "failed",
        "_meta": {"dragoman": {"status": "denied"}},
    }


def test_a_plan_of_another_dialect_keeps_its_priorities() -> None:
    entry = {
        "content": "one",
        "priority": "medium",
        "status": "pending",
        "_meta": {"dragoman": {"id": 1, "inferred": ["priority"]}},
    }
    assert lower_update({"sessionUpdate": "plan", "entries": [entry]}) == {
        "@type": "plan_update",
        "entries": [
            {
                "content": "one",
                "priority": "medium",
                "status": "pending",
                "_meta": {"dragoman": {"id": 1}},
            }
        ],
    }


@pytest.mark.parametrize("kind", ["usage_update", "current_mode_update", "plan_update"])
def test_an_update_that_only_v1_has_is_refused_by_name(kind: str) -> None:
    with pytest.raises(Unsayable, match=kind):
        lower_update({"sessionUpdate": kind})


def test_an_update_in_v1_form_is_read() -> None:
    params = {"sessionId": "s", "update": {"sessionUpdate": "current_mode_update", "currentModeId": "plan"}}
    assert lift_call(C, "session/update", params) == ("session/update", params)


# --- questions ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("raw", "arguments"),
    [
        ("ls -la", "ls -la"),
        ({"command": "ls", "cwd": "/"}, "ls"),
        ({"path": "/ä", "n": 1}, '{"path":"/ä","n":1}'),
        ([1, None], "[1,null]"),
        (None, "null"),
    ],
)
def test_the_description_of_a_tool_call_is_one_text(raw: Any, arguments: str) -> None:
    update = question({"toolCallId": "c", "title": "t", "rawInput": raw}, [])
    assert update["arguments"] == arguments
    assert update.get("_meta") == (None if isinstance(raw, str) else {"dragoman": {"rawInput": raw}})


def test_a_permission_request_without_input_has_empty_arguments() -> None:
    assert question({"toolCallId": "c", "title": "t"}, [])["arguments"] == ""


def test_an_input_that_is_nested_too_deeply_is_refused() -> None:
    deep: Any = []
    for _ in range(100_000):
        deep = [deep]
    with pytest.raises(ProtocolError) as refused:
        question({"toolCallId": "c", "rawInput": deep}, [])
    assert refused.value.kind == Kind.INVALID_PARAMS


def test_the_kind_of_an_option_is_side_data() -> None:
    option = {"optionId": "a", "name": "Allow", "kind": "allow_once"}
    assert question({"toolCallId": "c", "title": "t", "status": "pending"}, [option]) == {
        "@type": "permission_request",
        "tool_call_id": "c",
        "title": "t",
        "arguments": "",
        "permission_options": [
            {"id": "a", "title": "Allow", "_meta": {"dragoman": {"kind": "allow_once"}}},
        ],
        "_meta": {"dragoman": {"status": "pending"}},
    }


def test_an_unknown_option_never_allows() -> None:
    update = {"@type": "permission_request", "tool_call_id": "c", "permission_options": [{"id": 7}, "odd", {}]}
    method, params = lift_call(C, "session/update", {"sessionId": "s", "update": update})
    assert method == "session/request_permission"
    assert [option["kind"] for option in params["options"] if isinstance(option, dict)] == ["reject_once"] * 2


def test_a_permission_request_of_crow_gets_no_result() -> None:
    with pytest.raises(Unsayable):
        lower_result(C, "session/request_permission", {"outcome": {"outcome": "cancelled"}})


# --- properties --------------------------------------------------------------------------------------------

OPTIONS = st.lists(shaped({"id": texts, "title": texts}, {"is_primary": st.booleans()}), max_size=3)
STATUS = {"status": st.sampled_from(["pending", "in_progress", "completed", "failed"])}
UPDATES = st.one_of(
    shaped({"@type": st.sampled_from(["agent_message_text", "agent_thought_text"]), "text": texts}),
    shaped({"@type": st.just("tool_call_start"), "tool_call_id": texts, "title": texts, "kind": texts, **STATUS}),
    shaped({"@type": st.just("tool_call_update"), "tool_call_id": texts}, {**STATUS, "title": texts}),
    shaped({"@type": st.just("plan_update"), "entries": st.lists(shaped({"content": texts}), max_size=2)}),
    shaped(
        {
            "@type": st.just("permission_request"),
            "tool_call_id": texts,
            "title": texts,
            "arguments": texts,
            "permission_options": OPTIONS,
        }
    ),
    shaped({"@type": st.just("weather"), "degrees": st.integers()}),
)


@given(shaped({"sessionId": texts, "update": UPDATES}))
def test_every_update_survives_a_round_trip(params: Any) -> None:
    check_round_trip(codec, C, "session/update", params)


@given(st.sampled_from(list(Side)), st.sampled_from(METHODS), messages)
def test_any_json_is_lowered_or_refused_by_name(side: Side, method: str, value: Any) -> None:
    check_accepts_anything(codec, side, method, value)
