"""The second pass: what can be understood is understood, what cannot is named, nothing else is raised."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dragoman.errors import Kind, ProtocolError
from dragoman.schema.base import UNSET, Unknown, encode
from dragoman.schema.config import SessionConfigOption
from dragoman.schema.content import TextContent
from dragoman.schema.initialize import InitializeParams, InitializeResult
from dragoman.schema.introspect import shape_of
from dragoman.schema.lenient import MAX_DEPTH, MAX_FAULTS, Fault, parse, read_leniently, replace_surrogates
from dragoman.schema.methods import METHODS
from dragoman.schema.prompt import PromptParams, PromptResult
from dragoman.schema.session import ListSessionsResult, NewSessionParams
from dragoman.schema.terminal import TerminalOutputResult, WaitForExitResult
from dragoman.schema.update import Plan, ToolCallStart, UpdateParams

TEXT = {"type": "text", "text": "hi"}


def _error(work: Callable[[], object]) -> ProtocolError | None:
    try:
        work()
    except ProtocolError as error:
        return error
    return None


def _faults(kind: Any, value: Any) -> list[tuple[str, str]]:
    with pytest.raises(ProtocolError) as caught:
        read_leniently(kind, value)
    assert caught.value.kind == Kind.INVALID_PARAMS
    assert caught.value.data
    return [(error["path"], error["message"]) for error in caught.value.data["errors"]]


# ---- parse


@pytest.mark.parametrize(
    ("raw", "value"),
    [
        (b'{"a":1}', {"a": 1}),
        (b'{"a":1,"a":2}', {"a": 2}),
        (rb'{"a":"\ud83d"}', {"a": "\ufffd"}),
        (rb'{"a":"\ud83d\ude00\ude00"}', {"a": "\U0001f600\ufffd"}),
        (b'{"a":"\xff"}', {"a": "\ufffd"}),
        (b'{"a":[NaN,Infinity,-Infinity]}', {"a": [None, None, None]}),
        (b'\xef\xbb\xbf{"a":1}', {"a": 1}),
        (b'{"a":"tab\tinside"}', {"a": "tab\tinside"}),
    ],
)
def test_parsing_understands_what_peers_get_wrong(raw: bytes, value: Any) -> None:
    assert parse(raw) == value


@pytest.mark.parametrize("raw", [b"", b"{", b"hello", b'{"a":}', b"\xff\xfe", b"1" * 5000 + b"\xff"])
def test_what_is_no_json_is_a_parse_error(raw: bytes) -> None:
    with pytest.raises(ProtocolError) as caught:
        parse(raw)
    assert caught.value.kind == Kind.PARSE_ERROR


@pytest.mark.parametrize("raw", [b"[" * 200_000, b'{"a":' * 200_000, b'["\xff",' + b"[" * 200_000])
def test_a_depth_bomb_is_a_parse_error(raw: bytes) -> None:
    with pytest.raises(ProtocolError) as caught:
        parse(raw)
    assert caught.value.kind == Kind.PARSE_ERROR


@given(st.binary(max_size=200))
def test_parsing_raises_nothing_else(raw: bytes) -> None:
    error = _error(lambda: encode(parse(raw)))
    assert error is None or error.kind == Kind.PARSE_ERROR


@given(st.text(st.characters(codec=None), max_size=20))
def test_scrubbed_text_can_always_be_encoded(text: str) -> None:
    clean = replace_surrogates(text)
    clean.encode()
    if not any("\ud800" <= char <= "\udfff" for char in text):
        assert clean == text


# ---- read


def test_integral_floats_are_integers() -> None:
    params, faults = read_leniently(InitializeParams, {"protocolVersion": 1.0})
    assert params == InitializeParams(protocol_version=1)
    assert type(params.protocol_version) is int
    assert faults == []
    assert _faults(InitializeParams, {"protocolVersion": 1.5}) == [
        ("protocolVersion", "must be an integer, not a number")
    ]
    assert _faults(InitializeParams, {"protocolVersion": True})


def test_an_unknown_variant_keeps_its_raw_object() -> None:
    raw = {"type": "hologram", "beams": 3}
    params, faults = read_leniently(PromptParams, {"sessionId": "s", "prompt": [TEXT, raw]})
    assert params.prompt == [TextContent(text="hi"), Unknown("hologram", raw)]
    assert faults == []


def test_every_fatal_fault_is_listed_with_its_path() -> None:
    value = {"prompt": [{"type": "text", "text": None}, 5, {"text": "x"}, {"type": 7}]}
    assert _faults(PromptParams, value) == [
        ("sessionId", "is missing"),
        ("prompt[0].text", "must not be null"),
        ("prompt[1]", "must be an object, not an integer"),
        ("prompt[2].type", "is missing"),
        ("prompt[3].type", "must be a string, not an integer"),
    ]


def test_the_message_names_the_first_fault_and_counts_the_rest() -> None:
    with pytest.raises(ProtocolError, match=r"^sessionId is missing \(and 1 more\)$"):
        read_leniently(PromptParams, {})
    with pytest.raises(ProtocolError, match=r"^the message must be an object, not a list$"):
        read_leniently(PromptParams, [])


def test_an_error_does_not_list_faults_without_end() -> None:
    with pytest.raises(ProtocolError) as caught:
        read_leniently(PromptParams, {"sessionId": "s", "prompt": [0] * (MAX_FAULTS + 5)})
    assert caught.value.data
    assert len(caught.value.data["errors"]) == MAX_FAULTS
    assert caught.value.data["omitted"] == 5


def test_an_invalid_optional_part_is_dropped_and_reported() -> None:
    value = {"stopReason": "end_turn", "usage": {"totalTokens": "many", "inputTokens": 1}}
    result, faults = read_leniently(PromptResult, value)
    assert result == PromptResult(stop_reason="end_turn")
    assert result.usage is UNSET
    assert faults == [
        Fault("usage.totalTokens", "must be an integer, not a string", False),
        Fault("usage.outputTokens", "is missing", False),
    ]


def test_invalid_items_of_an_optional_list_are_dropped_one_by_one() -> None:
    bad = {"type": "diff", "path": "/a"}
    update = {
        "sessionUpdate": "tool_call",
        "toolCallId": "t",
        "title": "T",
        "content": [bad, {"type": "content", "content": TEXT}, "loose"],
    }
    params, faults = read_leniently(UpdateParams, {"sessionId": "s", "update": update})
    assert isinstance(params.update, ToolCallStart)
    assert params.update.content
    assert len(params.update.content) == 1
    assert [(fault.path, fault.fatal) for fault in faults] == [
        ("update.content[0].newText", False),
        ("update.content[2]", False),
    ]


def test_invalid_values_of_an_optional_map_are_dropped_one_by_one() -> None:
    method = {"id": "a", "name": "A", "type": "terminal", "env": {"X": "1", "Y": 2}}
    result, faults = read_leniently(InitializeResult, {"protocolVersion": 1, "authMethods": [method]})
    assert result.auth_methods[0].env == {"X": "1"}
    assert [fault.path for fault in faults] == ["authMethods[0].env['Y']"]


def test_null_where_a_required_list_is_due_is_an_empty_list() -> None:
    params, faults = read_leniently(NewSessionParams, {"cwd": "/w", "mcpServers": None})
    assert params == NewSessionParams(cwd="/w", mcp_servers=[])
    assert read_leniently(ListSessionsResult, {"sessions": None})[0].sessions == []
    assert read_leniently(UpdateParams, {"sessionId": "s", "update": {"sessionUpdate": "plan", "entries": None}})[
        0
    ].update == Plan(entries=[])
    assert faults == []
    assert _faults(NewSessionParams, {"cwd": "/w"}) == [("mcpServers", "is missing")]


def test_a_null_result_counts_as_an_empty_object() -> None:
    assert read_leniently(WaitForExitResult, None) == (WaitForExitResult(), [])
    assert _faults(TerminalOutputResult, None) == [("output", "is missing"), ("truncated", "is missing")]


def test_null_in_an_optional_member_stays_null() -> None:
    result, _ = read_leniently(PromptResult, {"stopReason": "end_turn", "usage": None})
    assert result.usage is None


def test_numbers_are_read_where_numbers_are_due() -> None:
    cost = {"amount": 3, "currency": "EUR"}
    update = {"sessionUpdate": "usage_update", "used": 5.0, "size": 10, "cost": cost}
    params, faults = read_leniently(UpdateParams, {"sessionId": "s", "update": update})
    assert (params.update.used, params.update.cost.amount, faults) == (5, 3.0, [])
    update["cost"] = {"amount": 10**400, "currency": "EUR"}
    assert [fault.path for fault in read_leniently(UpdateParams, {"sessionId": "s", "update": update})[1]] == [
        "update.cost.amount"
    ]


def test_anything_is_read_as_it_is_but_scrubbed() -> None:
    assert read_leniently(Any, {"a": ["\ud800", None]}) == ({"a": ["\ufffd", None]}, [])
    assert read_leniently(Any, None) == (None, [])


def test_what_is_nested_too_deeply_is_an_error() -> None:
    deep: Any = 0
    for _ in range(MAX_DEPTH + 10):
        deep = {"a": deep}
    with pytest.raises(ProtocolError):
        read_leniently(Any, deep)
    choice: dict[str, Any] = {"value": "v"}
    for _ in range(MAX_DEPTH + 10):
        choice = {"group": "g", "options": [choice]}
    option = {"id": "o", "name": "O", "type": "select", "currentValue": "v", "options": [choice]}
    result, faults = read_leniently(SessionConfigOption, option)
    assert result.options
    assert any("too deeply" in fault.message for fault in faults)


# ---- properties

# A hundred types share one reader, so few examples of each are many of the reader.
EXAMPLES = 15

TYPES = sorted(
    {kind for row in METHODS.values() for kind in (row.params, row.result) if kind not in (None, Any)},
    key=lambda kind: kind.__name__,
)
KEYS = sorted({member.key for kind in TYPES for member in shape_of(kind).members})
LEAVES = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text(st.characters(codec=None), max_size=4)
    | st.sampled_from(["text", "plan", "tool_call", "selected", "stdio", "diff"])
)
WORDS = st.sampled_from([*KEYS, "type", "update", "sessionUpdate", "outcome"]) | st.text(max_size=3)
JSON = st.recursive(LEAVES, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(WORDS, inner, max_size=5))


def _near(kind: Any) -> st.SearchStrategy[Any]:
    """JSON that has the members of a type, each of them anything."""
    return st.fixed_dictionaries({}, optional={member.key: JSON for member in shape_of(kind).members})


@pytest.mark.parametrize("kind", TYPES, ids=lambda kind: kind.__name__)
def test_reading_raises_nothing_but_protocol_errors(kind: Any) -> None:
    @settings(max_examples=EXAMPLES)
    @given(JSON | _near(kind))
    def check(value: Any) -> None:
        error = _error(lambda: read_leniently(kind, value))
        if error is None:
            model, faults = read_leniently(kind, value)
            assert not any(fault.fatal for fault in faults)
            encode(model)
        else:
            assert error.kind == Kind.INVALID_PARAMS
            assert error.data
            assert error.data["errors"]

    check()


@pytest.mark.parametrize("kind", TYPES, ids=lambda kind: kind.__name__)
def test_what_is_valid_is_read_as_the_strict_decoder_reads_it(kind: Any) -> None:
    @settings(max_examples=EXAMPLES)
    @given(_near(kind))
    def check(value: Any) -> None:
        try:
            strict = msgspec.convert(value, kind)
        except (msgspec.ValidationError, UnicodeEncodeError):
            return
        assert encode(read_leniently(kind, value)[0]) == encode(strict)

    check()


def test_a_number_that_is_none_is_not_read_as_an_integer() -> None:
    assert _faults(InitializeParams, {"protocolVersion": math.inf})
