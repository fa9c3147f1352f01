"""Encoding: absent, null, false and empty come out as they went in, and the bytes are always UTF-8."""

from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest

from dragoman.schema.auth import AuthMethod
from dragoman.schema.base import UNSET, Marker, Unknown, encode, to_json
from dragoman.schema.config import ConfigChoice, SessionConfigOption
from dragoman.schema.content import ResourceContents, TextContent
from dragoman.schema.elicitation import CreateElicitationParams, MultiSelectItems
from dragoman.schema.fs import FileToWrite
from dragoman.schema.initialize import ClientCapabilities
from dragoman.schema.mcp import McpServer, MessageMcpParams
from dragoman.schema.permission import RequestPermissionResult, SelectedOutcome
from dragoman.schema.session import NewSessionParams
from dragoman.schema.toolcall import Diff, ToolCallUpdate
from dragoman.schema.update import StateUpdate, UpdateParams

CASES: list[tuple[Any, dict[str, Any]]] = [
    (ToolCallUpdate, {"toolCallId": "t"}),
    (ToolCallUpdate, {"toolCallId": "t", "title": None, "content": None, "rawInput": None}),
    (ToolCallUpdate, {"toolCallId": "t", "title": "", "content": [], "rawInput": False, "rawOutput": 0}),
    (ClientCapabilities, {"terminal": False, "fs": {"readTextFile": False}, "plan": None}),
    (ClientCapabilities, {"plan": {}, "_meta": {}, "elicitation": {"form": {}}}),
    (Diff, {"type": "diff", "path": "/a", "newText": "x", "oldText": None}),
    (RequestPermissionResult, {"outcome": {"outcome": "selected", "optionId": "o"}}),
    (RequestPermissionResult, {"outcome": {"outcome": "cancelled"}}),
    (NewSessionParams, {"cwd": "/w", "mcpServers": [{"name": "m", "command": "/m", "args": [], "env": []}]}),
    (UpdateParams, {"sessionId": "s", "update": {"sessionUpdate": "session_info_update", "title": None}}),
]


@pytest.mark.parametrize(("kind", "value"), CASES)
def test_absent_null_and_false_stay_apart(kind: Any, value: dict[str, Any]) -> None:
    model = msgspec.json.Decoder(kind).decode(json.dumps(value))
    assert json.loads(encode(model)) == value
    assert to_json(model) == value


def test_an_unset_member_is_falsy_and_not_written() -> None:
    text = TextContent(text="hi")
    assert not text.annotations
    assert text.annotations is UNSET
    assert to_json(text) == {"type": "text", "text": "hi"}
    assert to_json(Marker()) == {}


def test_an_unknown_is_written_as_it_came() -> None:
    raw = {"type": "hologram", "beams": 3}
    result = ToolCallUpdate(tool_call_id="t", content=[Unknown("hologram", raw)])
    assert json.loads(encode(result)) == {"toolCallId": "t", "content": [raw]}
    assert to_json(result)["content"] == [raw]
    assert Unknown("hologram", raw) == Unknown("hologram", dict(raw))
    assert "hologram" in repr(Unknown("hologram", raw))


def test_what_is_encoded_never_contains_a_surrogate() -> None:
    assert json.loads(encode(TextContent(text="cut \ud83d"))) == {"type": "text", "text": "cut \ufffd"}
    assert json.loads(encode({"\udc00": ["\ud83d\ude00"]})) == {"\ufffd": ["\U0001f600"]}
    assert encode(Unknown("x", {"type": "\ud800"})).decode() == '{"type":"\ufffd"}'


def test_what_is_no_json_is_refused() -> None:
    with pytest.raises(NotImplementedError):
        encode({"x": object()})


@pytest.mark.parametrize(
    ("value", "form"),
    [
        (McpServer(name="m", command="/m"), "stdio"),
        (McpServer(name="m", type="http", url="http://x"), "http"),
        (AuthMethod(id="a", name="A"), "agent"),
        (AuthMethod(id="a", name="A", type="env_var"), "agent"),
        (AuthMethod(id="a", name="A", type="terminal"), "terminal"),
        (ResourceContents(uri="f", text="t"), "text"),
        (ResourceContents(uri="f", blob="aGk="), "blob"),
        (ConfigChoice(value="v", name="V"), "value"),
        (ConfigChoice(group="g", name="G", options=[]), "group"),
        (MultiSelectItems(enum=["a"]), "plain"),
        (MultiSelectItems(any_of=[]), "plain"),
        (MessageMcpParams(method="m", connection_id="c"), "connection"),
        (MessageMcpParams(method="m", server_id="s", request_id="r"), "server"),
        (FileToWrite(path="/a", data=""), "binary"),
        (FileToWrite(path="/a", content=""), "text"),
        (CreateElicitationParams(message="?", mode="url", url="https://x"), "url"),
        (StateUpdate(state="idle"), "idle"),
    ],
)
def test_a_merged_type_tells_its_form(value: Any, form: str) -> None:
    assert value.form == form


def test_the_values_of_an_option_are_found_in_groups_too() -> None:
    one, two = ConfigChoice(value="1", name="One"), ConfigChoice(value="2", name="Two")
    option = SessionConfigOption(id="m", name="M", type="select", current_value="1", options=[one, two])
    assert (option.form, option.values) == ("flat", [one, two])
    option.options = [ConfigChoice(group="g", name="G", options=[one]), two]
    assert (option.form, option.values) == ("grouped", [one, two])
    option.type = "boolean"
    assert option.form == "boolean"


def test_the_scope_of_a_question_is_a_session_or_a_request() -> None:
    assert CreateElicitationParams(message="?", mode="form", session_id="s").scope == "session"
    assert CreateElicitationParams(message="?", mode="form", request_id=None).scope == "request"


def test_an_outcome_is_decoded_by_its_tag() -> None:
    raw = b'{"outcome":{"outcome":"selected","optionId":"o"}}'
    assert msgspec.json.Decoder(RequestPermissionResult).decode(raw).outcome == SelectedOutcome(option_id="o")
