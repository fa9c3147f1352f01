"""The draft beyond its examples: its schemas, hunks, what plain v1 becomes, and any JSON at all."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from jsonschema import Draft202012Validator

from dragoman.dialect.draft.codec import lift_call, lift_result, lower_call, lower_result
from dragoman.dialect.draft.tool_output import MAX_DIFF_LINES, diff_hunks
from dragoman.errors import Kind, ProtocolError, Unsayable
from dragoman.schema.methods import METHODS
from dragoman.schema.side import Side

DATA = Path(__file__).parents[1] / "data" / "dialects"
SCHEMAS = json.loads((DATA / "draft_schemas.json").read_text(encoding="utf-8"))
BLOCK = Draft202012Validator(SCHEMAS["ContentBlock"])
UPDATE = Draft202012Validator(SCHEMAS["SessionUpdate"])
EXAMPLES = json.loads((DATA / "draft.json").read_text(encoding="utf-8"))


def lower_update(update: dict[str, Any]) -> dict[str, Any]:
    """The frame in which the draft says an update of v1."""
    _, params = lower_call(Side.CLIENT, "session/update", {"sessionId": "s", "update": update})
    UPDATE.validate(params)
    assert isinstance(params, dict)
    return params


def lift_update(kind: str, data: dict[str, Any]) -> dict[str, Any]:
    """The update of v1 that a frame of the draft stands for."""
    _, params = lift_call(Side.CLIENT, "session/update", {"sessionId": "s", "type": kind, "data": data})
    update = params["update"]
    assert isinstance(update, dict)
    return update


# --- the draft's own schemas ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "case",
    [case for case in EXAMPLES if case["wire"]["method"] == "session/update"],
    ids=lambda case: case["id"],
)
def test_every_update_that_we_send_is_valid_in_the_draft(case: dict[str, Any]) -> None:
    _, params = lower_call(Side.CLIENT, "session/update", case["vocabulary"]["params"])
    assert UPDATE.is_valid(params) == (case["id"] != "draft.rule.unknown-update")


def texts() -> st.SearchStrategy[str]:
    return st.text(max_size=12)


META = st.fixed_dictionaries({}, optional={"_meta": st.dictionaries(texts(), st.integers(), max_size=2)})


def _object(required: dict[str, Any], optional: dict[str, Any]) -> st.SearchStrategy[dict[str, Any]]:
    return st.builds(lambda one, two: {**one, **two}, st.fixed_dictionaries(required, optional=optional), META)


V1_BLOCKS = st.one_of(
    _object({"type": st.just("text"), "text": texts()}, {"annotations": st.just({"priority": 1})}),
    _object({"type": st.just("image"), "mimeType": texts(), "data": texts()}, {"uri": texts()}),
    _object(
        {"type": st.just("resource_link"), "uri": texts(), "name": texts()},
        {"title": texts(), "mimeType": texts(), "size": st.integers(), "description": texts()},
    ),
    _object(
        {
            "type": st.just("resource"),
            "resource": st.one_of(
                _object({"uri": texts(), "text": texts()}, {"mimeType": texts()}),
                _object({"uri": texts(), "blob": texts()}, {"mimeType": texts()}),
            ),
        },
        {},
    ),
)
V1_CONTENT = st.one_of(
    _object({"type": st.just("content"), "content": V1_BLOCKS}, {}),
    _object(
        {"type": st.just("diff"), "path": texts(), "newText": texts()},
        {"oldText": st.one_of(st.none(), texts())},
    ),
    _object({"type": st.just("terminal"), "terminalId": texts()}, {}),
)
STATUSES = st.sampled_from(["pending", "in_progress", "completed", "failed", "denied", "cancelled"])
V1_UPDATES = st.one_of(
    _object(
        {
            "sessionUpdate": st.sampled_from(["agent_message_chunk", "user_message_chunk", "agent_thought_chunk"]),
            "content": V1_BLOCKS,
        },
        {"messageId": texts()},
    ),
    _object(
        {"sessionUpdate": st.just("tool_call"), "toolCallId": texts(), "title": texts()},
        {
            "name": texts(),
            "kind": texts(),
            "status": STATUSES,
            "rawInput": st.dictionaries(texts(), st.integers(), max_size=2),
            "locations": st.lists(_object({"path": texts()}, {"line": st.integers()}), max_size=3),
            "content": st.lists(V1_CONTENT, max_size=2),
        },
    ),
    _object(
        {"sessionUpdate": st.just("tool_call_update"), "toolCallId": texts()},
        {"status": STATUSES, "content": st.lists(V1_CONTENT, max_size=4), "title": texts()},
    ),
    _object(
        {
            "sessionUpdate": st.just("plan"),
            "entries": st.lists(_object({"content": texts(), "priority": texts(), "status": texts()}, {}), max_size=3),
        },
        {},
    ),
)


@given(st.lists(V1_BLOCKS, max_size=4))
def test_every_block_of_v1_is_a_block_of_the_draft(blocks: list[dict[str, Any]]) -> None:
    _, params = lower_call(Side.AGENT, "session/prompt", {"sessionId": "s", "prompt": blocks})
    assert len(params["content"]) == len(blocks)
    for block in params["content"]:
        BLOCK.validate(block)


@given(V1_UPDATES)
def test_every_v1_update_that_the_draft_supports_is_valid_in_the_draft(update: dict[str, Any]) -> None:
    data = lower_update(update)["data"]
    output = data.get("output")
    if output is not None:
        assert output["type"] in ("text", "diff", "terminal")
    assert isinstance(data.get("content", ""), str)


# --- diffs ------------------------------------------------------------------------------------------------


def applied(old: str, pieces: list[dict[str, Any]]) -> str:
    """The old text with the hunks applied: a patch program in a few lines."""
    lines, out, at = old.split("\n"), [], 0
    for piece in pieces:
        start = piece["oldStart"] - bool(piece["oldLines"])
        out += lines[at:start]
        at = start
        for line in piece["content"].split("\n")[1:]:
            if line[:1] in ("-", " "):
                assert lines[at] == line[1:]
                at += 1
            if line[:1] in ("+", " "):
                out.append(line[1:])
    return "\n".join(out + lines[at:])


LINES = st.lists(st.sampled_from(["a", "b", "c", "-", "+ d", "@@", ""]), max_size=30).map(
    lambda lines: "".join(f"{line}\n" for line in lines)
)


@given(LINES, LINES)
def test_hunks_turn_the_old_text_into_the_new(old: str, new: str) -> None:
    assert applied(old, diff_hunks(old, new)) == new


def test_a_hunk_has_three_lines_of_context_and_a_header_with_counts() -> None:
    old = "".join(f"line {n}\n" for n in range(1, 21))
    pieces = diff_hunks(old, old.replace("line 10\n", "line ten\nand a half\n"))
    assert pieces == [
        {
            "oldStart": 7,
            "oldLines": 7,
            "newStart": 7,
            "newLines": 8,
            "content": "@@ -7,7 +7,8 @@\n line 7\n line 8\n line 9\n-line 10\n+line ten\n+and a half\n"
            " line 11\n line 12\n line 13",
        }
    ]


def test_changes_far_apart_are_two_hunks() -> None:
    old = "".join(f"line {n}\n" for n in range(40))
    pieces = diff_hunks(old, old.replace("line 3\n", "x\n").replace("line 33\n", "y\n"))
    assert [(piece["oldStart"], piece["newStart"]) for piece in pieces] == [(1, 1), (31, 31)]


def test_a_new_file_is_one_hunk_of_added_lines() -> None:
    frame = lower_update(
        {
            "sessionUpdate": "tool_call_update",
            "toolCallId": "t",
            "content": [{"type": "diff", "path": "/a", "oldText": None, "newText": "one\ntwo\n"}],
        }
    )
    (piece,) = frame["data"]["output"]["hunks"]
    assert piece == {
        "oldStart": 0,
        "oldLines": 0,
        "newStart": 1,
        "newLines": 2,
        "content": "@@ -0,0 +1,2 @@\n+one\n+two",
    }


def test_a_missing_last_newline_shows_in_the_hunk() -> None:
    (piece,) = diff_hunks("one\ntwo", "one\ntwo\n")
    assert piece["content"] == "@@ -1,2 +1,2 @@\n one\n-two\n\\ No newline at end of file\n+two"
    assert diff_hunks("same", "same") == []


def test_very_long_texts_are_compared_by_their_first_and_last_lines_only() -> None:
    head = "".join(f"{n}\n" for n in range(MAX_DIFF_LINES))
    (piece,) = diff_hunks(f"{head}old\ntail\n", f"{head}new\nnewer\ntail\n")
    start = MAX_DIFF_LINES - 2
    assert (piece["oldStart"], piece["oldLines"], piece["newLines"]) == (start, 5, 6)
    assert piece["content"].endswith("-old\n+new\n+newer\n tail")


def test_hunks_become_an_old_and_a_new_text() -> None:
    content = "@@ -1,3 +1,3 @@ def f\n same\n-old\n+new\n\\ No newline at end of file\n\nunmarked"
    update = lift_update(
        "tool_call_update",
        {
            "id": "t",
            "status": "completed",
            "output": {"type": "diff", "path": "/a", "hunks": [{"content": content}]},
        },
    )
    (entry,) = update["content"]
    assert entry["oldText"] == "same\nold\n\nunmarked"
    assert entry["newText"] == "same\nnew\n\nunmarked"


# --- what plain v1 becomes --------------------------------------------------------------------------------


def text(words: str, **side: Any) -> dict[str, Any]:
    entry: dict[str, Any] = {"type": "content", "content": {"type": "text", "text": words}}
    return {**entry, "_meta": {"dragoman": side}} if side else entry


def progress(status: str, *content: dict[str, Any]) -> dict[str, Any]:
    update = {"sessionUpdate": "tool_call_update", "toolCallId": "t", "status": status}
    data = lower_update({**update, "content": list(content)})["data"]
    assert isinstance(data, dict)
    return data


def test_several_texts_become_one_output() -> None:
    data = progress("completed", text("one"), text("two"))
    assert data["output"] == {"type": "text", "text": "one\ntwo"}
    assert "_meta" not in data


def test_content_that_does_not_fit_into_one_output_is_side_data() -> None:
    terminal = {"type": "terminal", "terminalId": "x"}
    data = progress("completed", text("one"), terminal, text("two"))
    assert data["output"] == {"type": "text", "text": "one\ntwo"}
    assert data["_meta"]["dragoman"]["content"] == [terminal]
    data = progress("completed", terminal, text("one"))
    assert data["output"] == terminal
    assert data["_meta"]["dragoman"]["content"] == [text("one")]


def test_an_image_output_becomes_a_placeholder_and_side_data() -> None:
    image = {"type": "content", "content": {"type": "image", "mimeType": "image/png", "data": "AA=="}}
    data = progress("completed", image)
    assert data["output"] == {"type": "text", "text": "[image image/png]"}
    assert data["_meta"]["dragoman"]["content"] == [image]


def test_the_text_of_a_failed_v1_call_becomes_an_error() -> None:
    data = progress("failed", text("disk"), text("full"))
    assert data["error"] == "disk\nfull"
    assert "output" not in data


def test_a_failed_draft_output_stays_an_output() -> None:
    data = {"id": "t", "status": "failed", "output": {"type": "text", "text": "half"}}
    assert lower_update(lift_update("tool_call_update", data))["data"] == data


def test_a_message_without_text_becomes_a_placeholder() -> None:
    block = {"type": "image", "mimeType": "image/png", "data": "AA=="}
    frame = lower_update({"sessionUpdate": "agent_message_chunk", "content": block, "messageId": "m1"})
    assert frame["data"] == {
        "content": "[image image/png]",
        "_meta": {"dragoman": {"content": block, "messageId": "m1"}},
    }


def test_plan_entries_of_v1_get_the_ids_that_the_draft_requires() -> None:
    entry = {"content": "look", "priority": "high", "status": "pending"}
    data = lower_update({"sessionUpdate": "plan", "entries": [entry, entry]})["data"]
    assert data["planId"] == "plan"
    assert [step["id"] for step in data["steps"]] == ["step_1", "step_2"]
    assert data["steps"][0]["_meta"] == {"dragoman": {"priority": "high"}}


@pytest.mark.parametrize("kind", ["usage_update", "session_info_update", "notice", "plan_removed"])
def test_an_update_that_the_draft_lacks_is_refused_by_name(kind: str) -> None:
    with pytest.raises(Unsayable, match=kind):
        lower_update({"sessionUpdate": kind})


@pytest.mark.parametrize(
    ("side", "method"),
    [(side, name) for side, name in METHODS if name in ("session/list", "elicitation/create", "session/fork")],
)
def test_a_method_that_the_draft_lacks_is_refused_by_name(side: Side, method: str) -> None:
    with pytest.raises(Unsayable, match=method):
        lower_call(side, method, {})


def test_extensions_and_shared_file_methods_pass_unchanged() -> None:
    for side, method in (
        (Side.AGENT, "_vendor/thing"),
        (Side.CLIENT, "$/cancel_request"),
        (Side.CLIENT, "fs/list_directory"),
        (Side.AGENT, "fs/changed"),
    ):
        assert lower_call(side, method, {"a": 1}) == (method, {"a": 1})
        assert lift_call(side, method, {"a": 1}) == (method, {"a": 1})


def test_initialize_of_a_plain_v1_agent_gets_the_members_that_draft_clients_need() -> None:
    result = {
        "protocolVersion": 1,
        "agentCapabilities": {
            "loadSession": True,
            "promptCapabilities": {"image": True},
            "mcpCapabilities": {"http": True, "sse": False},
            "sessionCapabilities": {"list": {}},
            "auth": {"logout": {}},
        },
        "authMethods": [{"id": "key", "name": "Key"}],
    }
    assert lower_result(Side.AGENT, "initialize", result) == {
        "protocolVersion": 1,
        "capabilities": {
            "loadSession": True,
            "promptCapabilities": {
                "streaming": True,
                "cancellation": True,
                "attachments": True,
                "_meta": {"dragoman": {"image": True}},
            },
            "mcpCapabilities": {"servers": True, "transport": ["stdio", "http"]},
            "sessionCapabilities": {"persistence": True, "_meta": {"dragoman": {"list": {}}}},
            "_meta": {"dragoman": {"auth": {"logout": {}}}},
        },
        "_meta": {"dragoman": {"authMethods": [{"id": "key", "name": "Key"}]}},
    }


@pytest.mark.parametrize(
    "tree",
    [
        {},
        {"loadSession": True},
        {"mcpCapabilities": {}},
        {"promptCapabilities": {}, "_custom": {"a": 1}},
        {"mcpCapabilities": {"servers": True}},
        {"sessionCapabilities": {"persistence": True}},
    ],
)
def test_members_that_a_draft_agent_omits_are_not_invented(tree: dict[str, Any]) -> None:
    result = {"protocolVersion": 1, "capabilities": tree}
    assert lower_result(Side.AGENT, "initialize", lift_result(Side.AGENT, "initialize", result)) == result


def test_a_client_can_announce_extra_capabilities_under_our_meta_key() -> None:
    tree = {"fs": {"read": True}, "_meta": {"dragoman": {"attach": True, "inferred": ["fs"]}}}
    _, params = lift_call(Side.AGENT, "initialize", {"protocolVersion": 1, "capabilities": tree})
    assert params["clientCapabilities"] == {
        "fs": {"readTextFile": True},
        "_meta": {"dragoman": {"attach": True}},
    }


def test_a_refused_authentication_is_an_error() -> None:
    with pytest.raises(ProtocolError, match="wrong key") as caught:
        lift_result(Side.AGENT, "authenticate", {"success": False, "error": "wrong key"})
    assert caught.value.kind == Kind.AUTH_REQUIRED


def test_credentials_are_sent_only_in_the_drafts_credential_members() -> None:
    result = {"_meta": {"dragoman": {"credentials": {"apiKey": "k"}}}}
    _, params = lower_call(Side.AGENT, "authenticate", {"methodId": "api_key", **result})
    assert params == {"method": "api_key", "credentials": {"apiKey": "k"}}
    _, params = lower_call(Side.AGENT, "session/set_mode", {"sessionId": "s", "modeId": "m", **result})
    assert params == {"sessionId": "s", "mode": "m"}


@pytest.mark.parametrize(
    ("call", "asked"),
    [
        ({"kind": "edit", "locations": [{"path": "/a"}]}, ("file_write", "/a")),
        ({"kind": "search", "rawInput": {"path": "/b"}}, ("file_read", "/b")),
        ({"kind": "execute", "rawInput": {"command": "ls"}}, ("terminal_execute", "ls")),
        ({"kind": "fetch", "rawInput": {"url": "https://e"}}, ("network_access", "https://e")),
        ({"kind": "think"}, ("mcp_tool", "Do it")),
        ({}, ("mcp_tool", "Do it")),
    ],
)
def test_a_v1_permission_request_becomes_an_operation_on_a_resource(
    call: dict[str, Any], asked: tuple[str, str]
) -> None:
    tool_call = {"toolCallId": "t", "title": "Do it", **call}
    _, params = lower_call(
        Side.CLIENT, "session/request_permission", {"sessionId": "s", "toolCall": tool_call, "options": []}
    )
    assert (params["operation"], params["resource"]) == asked
    assert (params["reason"], params["toolCallId"]) == ("Do it", "t")


@pytest.mark.parametrize(
    ("outcome", "answer"),
    [
        ({"outcome": "selected", "optionId": "once"}, {"granted": True, "scope": "once"}),
        (
            {"outcome": "selected", "optionId": "always"},
            {"granted": True, "remember": True, "scope": "always"},
        ),
        ({"outcome": "selected", "optionId": "deny"}, {"granted": False}),
    ],
)
def test_an_option_with_a_scope_is_the_answer(outcome: dict[str, Any], answer: dict[str, Any]) -> None:
    assert lower_result(Side.CLIENT, "session/request_permission", {"outcome": outcome}) == answer


def test_a_cancelled_permission_request_is_denied() -> None:
    answer = lower_result(Side.CLIENT, "session/request_permission", {"outcome": {"outcome": "cancelled"}})
    assert answer["granted"] is False


def test_an_option_of_unknown_kind_never_allows() -> None:
    outcome = {"outcome": "selected", "optionId": "allow-everything"}
    answer = lower_result(Side.CLIENT, "session/request_permission", {"outcome": outcome})
    assert answer["granted"] is False
    values = {"granted": True, "remember": True, "scope": "session"}
    side = {"outcome": outcome, "_meta": {"dragoman": values}}
    assert lower_result(Side.CLIENT, "session/request_permission", side) == values


@pytest.mark.parametrize(
    ("said", "expected"),
    [
        ({"line": 3, "limit": 2}, {"startLine": 3, "endLine": 4}),
        ({"limit": 5}, {"endLine": 5}),
        ({"line": 7}, {"startLine": 7}),
        ({"line": None, "limit": None}, {"startLine": None, "endLine": None}),
    ],
)
def test_a_line_range_has_a_first_and_a_last_line(said: dict[str, Any], expected: dict[str, Any]) -> None:
    _, params = lower_call(Side.CLIENT, "fs/read_text_file", {"path": "/a", **said})
    assert params == {"path": "/a", **expected}


@pytest.mark.parametrize(
    ("ended", "code"),
    [
        ({"exitCode": 3}, 3),
        ({"exitCode": None, "signal": "SIGKILL"}, 137),
        ({"signal": "SIGODD"}, -1),
        ({}, -1),
    ],
)
def test_the_draft_always_has_an_exit_code(ended: dict[str, Any], code: int) -> None:
    assert lower_result(Side.CLIENT, "terminal/wait_for_exit", ended)["exitCode"] == code


def test_an_unsupported_stop_reason_becomes_the_nearest_and_side_data() -> None:
    answer = lower_result(Side.AGENT, "session/prompt", {"stopReason": "refusal"})
    assert answer == {"stopReason": "end_turn", "_meta": {"dragoman": {"stopReason": "refusal"}}}
    with pytest.raises(ProtocolError) as caught:
        lower_result(Side.AGENT, "session/prompt", {"stopReason": "auth_required"})
    assert caught.value.kind == Kind.AUTH_REQUIRED


def test_values_inferred_by_another_dialect_are_sent() -> None:
    noted = {"stopReason": "end_turn", "_meta": {"dragoman": {"inferred": ["stopReason"]}}}
    assert lower_result(Side.AGENT, "session/prompt", noted) == {"stopReason": "end_turn"}
    new = {"cwd": "/w", "mcpServers": [], "_meta": {"dragoman": {"inferred": ["cwd", "mcpServers"]}}}
    assert lower_call(Side.AGENT, "session/new", new) == ("session/new", {"workingDirectory": "/w"})


def test_a_replacing_system_prompt_is_side_data() -> None:
    prompt = {"mode": "override", "content": [{"type": "text", "text": "Be brief."}]}
    _, params = lower_call(Side.AGENT, "session/new", {"cwd": "/w", "mcpServers": [], "systemPrompt": prompt})
    assert "systemPrompt" not in params
    assert params["_meta"] == {"dragoman": {"systemPrompt": prompt}}


def test_invalid_attachments_stay_unchanged() -> None:
    wire = {"sessionId": "s", "content": [], "attachments": [{"name": "x"}]}
    _, params = lift_call(Side.AGENT, "session/prompt", wire)
    assert params == {"sessionId": "s", "prompt": [], "attachments": [{"name": "x"}]}
    assert lower_call(Side.AGENT, "session/prompt", params) == ("session/prompt", wire)


def test_unknown_members_of_a_transport_survive_a_round_trip() -> None:
    server = {
        "name": "n",
        "transport": {"type": "stdio", "command": "c", "nice": 5, "_meta": {"a": 1}},
        "b": 2,
    }
    wire = {"workingDirectory": "/w", "mcpServers": [server]}
    _, params = lift_call(Side.AGENT, "session/new", wire)
    assert params["mcpServers"][0]["b"] == 2
    assert lower_call(Side.AGENT, "session/new", params) == ("session/new", wire)


# --- any JSON at all --------------------------------------------------------------------------------------

WORDS = sorted(
    {
        name
        for case in EXAMPLES
        for end in ("wire", "vocabulary")
        for name in json.dumps(case[end]).replace("{", " ").replace(":", " ").split('"')[1::2]
        # The list of what was inferred is made by us alone, never by a peer: it is not damaged here.
        if name.isidentifier() and name != "inferred"
    }
)
SCALARS = st.none() | st.booleans() | st.integers(-(2**53), 2**53) | st.floats(allow_nan=False) | texts()
ANY_JSON = st.recursive(
    SCALARS | st.sampled_from(WORDS),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.sampled_from(WORDS) | texts(), inner, max_size=6),
    max_leaves=25,
)
CALLS = sorted({(case["side"], case["vocabulary"]["method"]) for case in EXAMPLES if case["kind"] == "call"})
RESULTS = sorted({(case["side"], case["vocabulary"]["method"]) for case in EXAMPLES if case["kind"] == "result"})


def mutated(value: Any, data: st.DataObject) -> Any:
    """An example with one of its values replaced by any JSON, or a member gone."""
    if isinstance(value, dict) and value and data.draw(st.integers(0, 4)):
        name = data.draw(st.sampled_from(sorted(value)))
        if name == "inferred":
            return value
        if not data.draw(st.integers(0, 6)):
            return {key: item for key, item in value.items() if key != name}
        return {**value, name: mutated(value[name], data)}
    if isinstance(value, list) and value and data.draw(st.integers(0, 4)):
        at = data.draw(st.integers(0, len(value) - 1))
        return [*value[:at], mutated(value[at], data), *value[at + 1 :]]
    return data.draw(ANY_JSON)


def is_translated_or_refused(translate: Any, side: Side, method: str, value: Any) -> bool:
    """Tell whether a value has a JSON form in the other dialect, or an error that says why not."""
    try:
        return bool(json.dumps(translate(side, method, value)))
    except ProtocolError as error:
        return bool(error.message)


@given(st.sampled_from(CALLS), ANY_JSON)
def test_any_params_are_lowered_or_refused_with_a_protocol_error(call: tuple[str, str], params: Any) -> None:
    assert is_translated_or_refused(lift_call, Side(call[0]), call[1], params)
    assert is_translated_or_refused(lower_call, Side(call[0]), call[1], params)


@given(st.sampled_from(RESULTS), ANY_JSON)
def test_any_result_is_lowered_or_refused_with_a_protocol_error(call: tuple[str, str], result: Any) -> None:
    assert is_translated_or_refused(lift_result, Side(call[0]), call[1], result)
    assert is_translated_or_refused(lower_result, Side(call[0]), call[1], result)


@given(st.sampled_from(EXAMPLES), st.data())
def test_a_damaged_example_is_lifted_or_refused_with_a_protocol_error(
    case: dict[str, Any], data: st.DataObject
) -> None:
    side, method = Side(case["side"]), case["vocabulary"]["method"]
    part = "params" if case["kind"] == "call" else "result"
    lift: Any = lift_call if part == "params" else lift_result
    lower: Any = lower_call if part == "params" else lower_result
    assert is_translated_or_refused(lift, side, method, mutated(case["wire"][part], data))
    assert is_translated_or_refused(lower, side, method, mutated(case["vocabulary"][part], data))


CHUNK = st.fixed_dictionaries(
    {"content": texts()},
    optional={"index": st.integers(), "final": st.booleans(), "visible": st.booleans() | texts(), "other": texts()},
)


@given(st.sampled_from(["agent_message_chunk", "thought_message_chunk"]), CHUNK, st.booleans())
def test_a_chunk_survives_a_round_trip_on_both_paths(kind: str, data: dict[str, Any], timed: bool) -> None:
    wire = {"sessionId": "s", "type": kind, "data": data, **({"timestamp": "now"} if timed else {})}
    _, params = lift_call(Side.CLIENT, "session/update", wire)
    assert params["update"]["content"] == {"type": "text", "text": data["content"]}
    assert lower_call(Side.CLIENT, "session/update", params) == ("session/update", wire)


def test_an_exit_without_a_code_is_null_in_the_vocabulary() -> None:
    """docs/protocol/files-terminals.md#terminal-wait: a v1 exit code is never negative."""
    ended = lower_result(Side.CLIENT, "terminal/wait_for_exit", {"exitCode": None, "signal": None})
    assert lift_result(Side.CLIENT, "terminal/wait_for_exit", ended)["exitCode"] is None
