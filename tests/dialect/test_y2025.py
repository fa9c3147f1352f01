"""2025.1 beyond its examples: what plain v1 becomes there, what comes back, and any JSON at all."""

from __future__ import annotations

import shlex
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dragoman.dialect.y2025 import codec
from dragoman.dialect.y2025.codec import lift_call, lift_result, lower_call, lower_result
from dragoman.errors import Unsayable
from dragoman.schema.side import Side
from tests.dialect.any_json import METHODS, check_accepts_anything, check_round_trip, messages, shaped, texts

A, C = Side.AGENT, Side.CLIENT


def lower_update(update: dict[str, Any]) -> Any:
    """The `data` with which 2025.1 says an update."""
    return lower_call(C, "session/update", {"sessionId": "s", "update": update})[1]["data"]


def lower_block(block: dict[str, Any]) -> Any:
    """A content block as 2025.1 says it in a prompt."""
    return lower_call(A, "session/prompt", {"sessionId": "s", "prompt": [block]})[1]["content"][0]


def command_line(**params: Any) -> Any:
    """The shell line with which 2025.1 says terminal/create."""
    return lower_call(C, "terminal/create", {"sessionId": "s", **params})[1]["command"]


# --- initialize and authenticate ---------------------------------------------------------------------------


def test_a_plain_v1_client_sends_version_2025_1() -> None:
    _, wire = lower_call(A, "initialize", {"protocolVersion": 1, "clientInfo": {"name": "e", "version": "1"}})
    assert wire == {"protocol_version": "2025.1", "client_info": {"name": "e", "version": "1"}}


def test_another_version_of_the_dialect_is_side_data_of_the_v1_version() -> None:
    _, params = lift_call(A, "initialize", {"protocol_version": "2026.2"})
    assert params["protocolVersion"] == 1
    assert lower_call(A, "initialize", params)[1] == {"protocol_version": "2026.2"}


@pytest.mark.parametrize(
    ("files", "wire"),
    [
        ({"readTextFile": True, "writeTextFile": True}, {"text_files": True}),
        ({"readTextFile": False, "writeTextFile": False}, {"text_files": False}),
        (
            {"readTextFile": True, "writeTextFile": False},
            {
                "text_files": False,
                "_meta": {"dragoman": {"fs": {"readTextFile": True, "writeTextFile": False}}},
            },
        ),
        (
            {"readTextFile": True},
            {"text_files": False, "_meta": {"dragoman": {"fs": {"readTextFile": True}}}},
        ),
    ],
)
def test_the_files_capability_needs_both_reading_and_writing(files: Any, wire: Any) -> None:
    _, params = lower_call(A, "initialize", {"protocolVersion": 1, "clientCapabilities": {"fs": files}})
    assert params["capabilities"] == wire


def test_our_meta_key_is_read_in_capabilities_but_not_in_notes() -> None:
    wire = {"capabilities": {"_meta": {"dragoman": {"fs": {"list": True}, "inferred": ["fs"]}}, "image": True}}
    _, params = lift_call(A, "initialize", wire)
    assert params["clientCapabilities"] == {"_meta": {"dragoman": {"fs": {"list": True}, "image": True}}}


def test_a_plain_v1_agent_streams_and_its_other_capabilities_are_side_data() -> None:
    result = lower_result(
        A,
        "initialize",
        {
            "protocolVersion": 1,
            "agentCapabilities": {
                "loadSession": True,
                "promptCapabilities": {"image": True, "audio": True},
                "mcpCapabilities": {"http": True},
            },
            "authMethods": [{"id": "login", "name": "Log in"}],
        },
    )
    assert result == {
        "capabilities": {
            "streaming": True,
            "audio": True,
            "image": True,
            "_meta": {
                "dragoman": {
                    "loadSession": True,
                    "promptCapabilities": {"audio": True},
                    "mcpCapabilities": {"http": True},
                }
            },
        },
        "_meta": {"dragoman": {"authMethods": [{"id": "login", "name": "Log in"}]}},
    }


@pytest.mark.parametrize("wire", [{}, {"capabilities": {}}, {"capabilities": {"image": True}}])
def test_members_that_an_agent_omits_stay_omitted(wire: Any) -> None:
    assert lower_result(A, "initialize", lift_result(A, "initialize", wire)) == wire


def test_a_server_without_credentials_survives_a_round_trip() -> None:
    wire = {"mcp_servers": [{"name": "a", "url": "stdio:///a"}, {"name": "b", "url": "https://b"}]}
    assert lower_call(A, "initialize", lift_call(A, "initialize", wire)[1]) == ("initialize", wire)


def test_arguments_of_a_server_are_side_data_of_its_url() -> None:
    server = {"name": "a", "command": "/a", "args": ["-v"], "env": [{"name": "K", "value": "1"}]}
    _, wire = lower_call(A, "initialize", {"_meta": {"dragoman": {"mcpServers": [server]}}})
    assert wire["mcp_servers"] == [
        {"name": "a", "url": "stdio:///a", "credentials": {"K": "1"}, "_meta": {"dragoman": {"args": ["-v"]}}}
    ]


def test_credentials_are_never_left_in_side_data() -> None:
    params = {"methodId": "token", "_meta": {"dragoman": {"credentials": {"type": "odd", "token": "t"}}}}
    assert lower_call(A, "authenticate", params)[1] == {"token": "t", "type": "token"}


# --- sessions ----------------------------------------------------------------------------------------------


def test_the_directory_of_a_v1_session_is_side_data() -> None:
    _, wire = lower_call(A, "session/new", {"cwd": "/w", "mcpServers": []})
    assert wire == {"_meta": {"dragoman": {"cwd": "/w", "mcpServers": []}}}


def test_modes_and_options_of_a_new_session_are_side_data_of_its_id() -> None:
    result = lower_result(A, "session/new", {"sessionId": "s", "modes": {"currentModeId": "a"}})
    expected = {"status": "ok", "session_id": "s", "_meta": {"dragoman": {"modes": {"currentModeId": "a"}}}}
    assert result == expected


def test_an_empty_result_is_sent_as_ok() -> None:
    assert lower_result(A, "session/load", None) == {"status": "ok"}


def test_a_status_other_than_ok_is_kept() -> None:
    assert lift_result(C, "terminal/kill", {"status": "gone"}) == {"status": "gone"}


@pytest.mark.parametrize(
    ("side", "method"),
    [
        (A, "session/set_mode"),
        (A, "session/set_config_option"),
        (A, "session/list"),
        (A, "session/resume"),
        (C, "session/request_permission"),
        (C, "elicitation/create"),
    ],
)
def test_methods_that_2025_1_lacks_are_refused_by_name(side: Side, method: str) -> None:
    with pytest.raises(Unsayable, match=method):
        lower_call(side, method, {})
    with pytest.raises(Unsayable, match=method):
        lower_result(side, method, {})


# --- updates -----------------------------------------------------------------------------------------------


def test_a_chunk_with_more_than_text_is_side_data_of_its_text() -> None:
    block = {"type": "text", "text": "hi", "annotations": {"priority": 1}}
    data = lower_update({"sessionUpdate": "agent_message_chunk", "content": block, "messageId": "m"})
    assert data == {"text": "hi", "_meta": {"dragoman": {"content": block, "messageId": "m"}}}


def test_a_tool_call_without_a_name_uses_its_title() -> None:
    data = lower_update({"sessionUpdate": "tool_call", "toolCallId": "c", "title": "Read a file", "kind": "read"})
    assert data == {"id": "c", "name": "Read a file", "_meta": {"dragoman": {"kind": "read"}}}


def test_a_title_that_differs_from_the_name_is_kept() -> None:
    data = lower_update({"sessionUpdate": "tool_call", "toolCallId": "c", "title": "Read a.py", "name": "read_file"})
    assert data == {"id": "c", "name": "read_file", "_meta": {"dragoman": {"title": "Read a.py"}}}


@pytest.mark.parametrize(
    ("status", "wire"),
    [("awaiting_permission", "pending"), ("denied", "failed"), ("cancelled", "failed")],
)
def test_a_status_of_the_draft_becomes_the_nearest_status(status: str, wire: str) -> None:
    data = lower_update({"sessionUpdate": "tool_call_update", "toolCallId": "c", "status": status})
    assert data == {"id": "c", "status": wire, "_meta": {"dragoman": {"status": status}}}


def test_an_output_next_to_texts_is_side_data_of_the_result() -> None:
    text = {"type": "content", "content": {"type": "text", "text": "done"}}
    data = lower_update({"sessionUpdate": "tool_call_update", "toolCallId": "c", "content": [text], "rawOutput": 7})
    assert data == {"id": "c", "result": {"content": "done"}, "_meta": {"dragoman": {"rawOutput": 7}}}


def test_plan_steps_without_ids_are_numbered_and_priorities_are_side_data() -> None:
    entries = [
        {"content": "one", "priority": "high", "status": "pending"},
        {"content": "two", "priority": "medium", "status": "pending", "_meta": {"dragoman": {"id": "b"}}},
    ]
    assert lower_update({"sessionUpdate": "plan", "entries": entries})["steps"] == [
        {"id": 1, "description": "one", "status": "pending", "_meta": {"dragoman": {"priority": "high"}}},
        {"id": "b", "description": "two", "status": "pending", "_meta": {"dragoman": {"priority": "medium"}}},
    ]


@pytest.mark.parametrize("kind", ["usage_update", "current_mode_update", "notice", "config_option_update"])
def test_an_update_that_only_v1_has_is_refused_by_name(kind: str) -> None:
    with pytest.raises(Unsayable, match=kind):
        lower_update({"sessionUpdate": kind})


def test_side_data_of_peers_is_removed_from_carried_content() -> None:
    block = {"type": "resource_link", "uri": "u", "name": "u", "_meta": {"dragoman": {"inferred": ["name"]}}}
    data = lower_update({"sessionUpdate": "agent_message_chunk", "content": block})
    assert data["_meta"]["dragoman"]["content"] == {"type": "resource_link", "uri": "u", "name": "u"}


@pytest.mark.parametrize("data", [None, "text", [], 7])
def test_data_that_is_not_an_object_is_left_to_validation(data: Any) -> None:
    _, params = lift_call(C, "session/update", {"session_id": "s", "type": "plan", "data": data})
    assert params == {"sessionId": "s", "update": {"sessionUpdate": "plan"}, "data": data}


# --- files, terminals, content -----------------------------------------------------------------------------


def test_a_line_range_cannot_be_requested() -> None:
    _, wire = lower_call(C, "fs/read_text_file", {"sessionId": "s", "path": "/a", "line": 2, "limit": 3})
    assert wire == {"path": "/a", "_meta": {"dragoman": {"sessionId": "s", "line": 2, "limit": 3}}}


@pytest.mark.parametrize(
    ("params", "line"),
    [
        ({"command": "ls"}, "ls"),
        ({"command": "grep", "args": ["a b", "it's"]}, "grep 'a b' 'it'\"'\"'s'"),
        ({"command": "/bin/sh", "args": ["-c", "a && b"]}, "a && b"),
        ({"command": "bash", "args": ["-c", "a && b"]}, "bash -c 'a && b'"),
        ({"command": "make", "env": [{"name": "CC", "value": "my cc"}]}, "CC='my cc' make"),
        (
            {"command": "sh", "args": ["-c", "a && b"], "env": [{"name": "K", "value": "1"}]},
            "K=1 sh -c 'a && b'",
        ),
        ({"command": "make", "env": [{"name": "A-B", "value": "1"}]}, "env A-B=1 make"),
    ],
)
def test_a_command_becomes_a_correctly_quoted_shell_line(params: Any, line: str) -> None:
    assert command_line(**params) == line


@given(st.lists(st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0")), max_size=4))
def test_no_argument_can_inject_shell_syntax(args: list[str]) -> None:
    assert shlex.split(command_line(command="echo", args=args)) == ["echo", *args]


def test_a_malformed_environment_is_side_data_of_the_command() -> None:
    _, wire = lower_call(C, "terminal/create", {"sessionId": "s", "command": "ls", "env": {"K": "1"}})
    assert wire == {"command": "ls", "_meta": {"dragoman": {"sessionId": "s", "env": {"K": "1"}}}}


@pytest.mark.parametrize(
    ("mime", "wire"),
    [
        ("image/png", {"format": "png"}),
        ("image/svg+xml", {"format": "svg"}),
        ("application/pdf", {"format": "pdf", "_meta": {"dragoman": {"mimeType": "application/pdf"}}}),
    ],
)
def test_a_mime_type_is_shortened_only_if_it_survives_a_round_trip(mime: str, wire: Any) -> None:
    assert lower_block({"type": "image", "mimeType": mime, "data": "AA"}) == {
        "type": "image",
        "data": "AA",
        **wire,
    }


def test_the_name_of_a_link_is_side_data() -> None:
    block = {"type": "resource_link", "uri": "file:///a", "name": "A", "size": 3}
    expected = {"type": "resource_link", "uri": "file:///a", "_meta": {"dragoman": {"name": "A", "size": 3}}}
    assert lower_block(block) == expected


# --- properties --------------------------------------------------------------------------------------------

BLOCKS = st.one_of(
    shaped({"type": st.just("text"), "text": texts}),
    shaped({"type": st.sampled_from(["image", "audio"]), "format": texts, "data": texts}),
    shaped({"type": st.just("resource"), "uri": texts, "mime_type": texts, "content": texts}),
    shaped({"type": st.just("resource_link"), "uri": texts}, {"mime_type": texts}),
)
STEPS = st.lists(shaped({"id": st.integers(), "description": texts, "status": texts}), max_size=3)
DATA = st.one_of(
    st.tuples(st.sampled_from(["agent_message_chunk", "agent_thought_chunk"]), shaped({"text": texts})),
    st.tuples(st.just("tool_call"), shaped({"id": texts, "name": texts}, {"arguments": shaped({"path": texts})})),
    st.tuples(
        st.just("tool_call_update"),
        shaped(
            {"id": texts, "status": st.sampled_from(["pending", "completed"])},
            {"result": st.fixed_dictionaries({"content": texts}) | st.integers()},
        ),
    ),
    st.tuples(st.just("plan"), shaped({"steps": STEPS})),
    st.tuples(st.just("weather"), shaped({"degrees": st.integers()})),
)


@given(shaped({"session_id": texts, "content": st.lists(BLOCKS, max_size=3)}))
def test_every_prompt_survives_a_round_trip(params: Any) -> None:
    check_round_trip(codec, A, "session/prompt", params)


@given(DATA, shaped({"session_id": texts}))
def test_every_update_survives_a_round_trip(data: tuple[str, Any], frame: Any) -> None:
    check_round_trip(codec, C, "session/update", {**frame, "type": data[0], "data": data[1]})


@given(st.sampled_from(list(Side)), st.sampled_from(METHODS), messages)
def test_any_json_is_lowered_or_refused_by_name(side: Side, method: str, value: Any) -> None:
    check_accepts_anything(codec, side, method, value)
