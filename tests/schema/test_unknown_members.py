"""What the types do not know is found at its place and put back there."""

from __future__ import annotations

from typing import Any

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from dragoman.schema.base import to_json
from dragoman.schema.initialize import InitializeParams
from dragoman.schema.prompt import CancelParams, PromptParams
from dragoman.schema.session import NewSessionParams
from dragoman.schema.unknown_members import find_unknown_members, merge_unknown_members
from dragoman.schema.update import UpdateParams


def _update(**members: Any) -> dict[str, Any]:
    return {
        "sessionId": "s",
        "update": {"sessionUpdate": "tool_call", "toolCallId": "t", "title": "T", **members},
    }


def test_a_message_without_extras_has_none() -> None:
    assert find_unknown_members(_update(rawInput={"any": "thing"}, _meta={"x": 1}), UpdateParams) is None
    assert find_unknown_members({"update": {"sessionUpdate": "dance", "x": 1}}, UpdateParams) is None
    assert find_unknown_members(5, UpdateParams) is None


def test_extras_are_found_in_objects_variants_and_lists() -> None:
    value = {
        "sessionId": "s",
        "shade": 1,
        "prompt": [{"type": "text", "text": "a"}, {"type": "text", "text": "b", "font": {"size": 3}}],
    }
    found = find_unknown_members(value, PromptParams)
    assert found == {"shade": 1, "prompt": {1: {"font": {"size": 3}}}}
    plain = to_json(msgspec.json.Decoder(PromptParams).decode(_bytes(value)))
    assert merge_unknown_members(plain, found) == value
    assert plain["prompt"][1] == {"type": "text", "text": "b"}  # the input is not changed


def _bytes(value: Any) -> bytes:
    import msgspec

    return msgspec.json.encode(value)


def test_what_a_message_says_itself_is_never_replaced() -> None:
    found = find_unknown_members(_update(color="red"), UpdateParams)
    changed = _update(color="blue")
    assert merge_unknown_members(changed, found) == changed


def test_extras_of_a_part_that_is_gone_are_left_out() -> None:
    found = find_unknown_members({"protocolVersion": 1, "clientCapabilities": {"fs": {"beam": True}}}, InitializeParams)
    assert merge_unknown_members({"protocolVersion": 1}, found) == {"protocolVersion": 1}
    assert merge_unknown_members({"clientCapabilities": {"fs": {}}}, found) == {
        "clientCapabilities": {"fs": {"beam": True}}
    }
    assert merge_unknown_members({"clientCapabilities": None}, found) == {"clientCapabilities": None}


def test_items_of_a_list_that_was_rewritten_get_nothing() -> None:
    server = {"name": "m", "command": "/m", "args": [], "env": [{"name": "A", "value": "1", "secret": True}]}
    value = {"cwd": "/w", "mcpServers": [server]}
    found = find_unknown_members(value, NewSessionParams)
    assert found == {"mcpServers": {0: {"env": {0: {"secret": True}}}}}
    assert merge_unknown_members({"cwd": "/w", "mcpServers": []}, found) == {"cwd": "/w", "mcpServers": []}


NAMES = st.text("xyz", min_size=4, max_size=6)


@given(st.dictionaries(NAMES, st.integers()), st.dictionaries(NAMES, st.lists(st.none())))
def test_lifting_and_lowering_again_loses_nothing(outer: dict[str, Any], inner: dict[str, Any]) -> None:
    value = {**_update(locations=[{"path": "/a", **inner}], **outer), **outer}
    again = to_json(msgspec.json.Decoder(UpdateParams).decode(_bytes(value)))
    assert merge_unknown_members(again, find_unknown_members(value, UpdateParams)) == value


def test_a_member_with_an_empty_name_is_found() -> None:
    assert find_unknown_members({"sessionId": "s", "": None}, CancelParams) == {"": None}
