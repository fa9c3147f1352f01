"""The analysis pairs requests and answers, assigns messages to turns and tool calls, and finds faults."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dragoman.cli.inspect.show import event_line, event_to_json, tree_lines
from dragoman.dialect.dialects import DIALECT_NAMES, load_dialect
from dragoman.inspect.analyze import Analyzer
from dragoman.inspect.page import render_page
from dragoman.inspect.reader import RecordingReader
from dragoman.inspect.redaction import RecordingRedactor
from dragoman.schema.methods import METHODS
from dragoman.schema.side import Side
from dragoman.transport.recording.format import Header
from tests.inspect.conversation import RECORDINGS, TALK, answer, call, news, observed, recorded


def faults(*talk: tuple[str, Any]) -> list[str]:
    _, events = observed(list(talk))
    return [str(each) for event in events for each in event.faults]


def test_answers_are_paired_with_their_requests_in_both_directions() -> None:
    observer, events = observed()
    paired = {event.line: event.request.line for event in events if event.request is not None}
    assert paired == {3: 2, 5: 4, 11: 10, 13: 6}
    assert [event.latency for event in events if event.request] == [1000, 1000, 1000, 7000]
    assert observer.pending == {}


def test_messages_are_assigned_to_turns_and_tool_calls() -> None:
    observer, events = observed()
    (turn,) = observer.turns
    assert (turn.stop_reason, turn.duration, turn.session, turn.prompt) == ("end_turn", 7000, "s1", "hello")
    (tool,) = turn.tool_calls.values()
    assert (tool.title, tool.status, tool.first_line, tool.last_line) == ("Read", "completed", 9, 12)
    assert [event.line for event in events if event.tool_call is tool] == [9, 10, 11, 12]
    assert [event.line for event in events if event.turn is turn] == [6, 7, 8, 9, 10, 11, 12, 13]


def test_a_valid_conversation_has_no_faults() -> None:
    assert faults(*TALK) == []


UNREADABLE = {"jsonrpc": "2.0", "id": None, "error": {"code": -32700, "message": "Parse error"}}


def test_an_error_without_an_id_answers_a_line_that_cannot_be_read() -> None:
    batch = {**UNREADABLE, "error": {"code": -32600, "message": "Invalid request"}}
    found = faults(("c2a", b"{broken"), ("a2c", UNREADABLE), ("c2a", b"[1,2]"), ("a2c", batch))
    assert [each for each in found if "id" in each.split()[0]] == []
    assert any("null is the id of no request" in each for each in faults(("a2c", UNREADABLE)))
    other = {**UNREADABLE, "error": {"code": -32603, "message": "Internal error"}}
    assert any("null is the id of no request" in each for each in faults(("c2a", b"{broken"), ("a2c", other)))


def test_a_null_result_is_a_slip() -> None:
    params = {"sessionId": "s", "path": "/a", "content": "b"}
    asked = call(1, "fs/write_text_file", params)
    _, [_, empty] = observed([("a2c", asked), ("c2a", answer(1, None))])
    assert [(str(each), each.fatal) for each in empty.faults] == [("result is null; an empty result is {}", False)]
    assert faults(("a2c", asked), ("c2a", answer(1, {}))) == []


def test_version_2_is_judged() -> None:
    info = {"name": "a", "version": "1"}
    update = {"sessionUpdate": "terminal_update", "terminalId": "t", "command": "make"}
    talk = [
        ("c2a", call(1, "initialize", {"protocolVersion": 2, "info": info, "capabilities": {}})),
        ("a2c", answer(1, {"protocolVersion": 2, "info": info, "capabilities": {"session": {}}})),
        ("c2a", call(2, "session/prompt", {"sessionId": "s", "prompt": [{"type": "text", "text": "hi"}]})),
        ("a2c", answer(2, {"messageId": "m"})),
        ("a2c", news(update)),
    ]
    assert faults(*talk) == []
    del update["terminalId"]
    assert len(faults(*talk)) == 1


def test_a_later_version_is_not_judged_as_the_known_one() -> None:
    begin = [("c2a", call(1, "initialize", {"protocolVersion": 2})), ("a2c", answer(1, {"protocolVersion": 2}))]
    prompt = {"sessionId": "s", "prompt": []}
    later = [
        *begin,
        ("c2a", call(2, "session/prompt", prompt)),
        ("a2c", answer(2, {})),
        ("a2c", call(3, "new/one", {})),
    ]
    assert faults(*later) == ["protocolVersion 2 is not known to Dragoman; the messages after this one are not judged"]


@pytest.mark.parametrize(
    ("talk", "fault"),
    [
        ([("a2c", {"id": 5, "result": {}})], "jsonrpc is missing"),
        ([("a2c", answer(5, {}))], "is the id of no request"),
        ([("c2a", call(None, "session/new", {"cwd": "/", "mcpServers": []}))], "id must be a number or a string"),
        ([("c2a", call(1, "session/new", {}))], "cwd is missing"),
        ([("c2a", call(1, "no/such", {}))], "not a known method"),
        ([("a2c", call(1, "session/update", {}))], "it has no id"),
        ([("a2c", b"Loading model...")], "not a message"),
        ([("a2c", b'{"jsonrpc":"2.0","method":"session/update","params":"\xff"}')], "parsed leniently"),
        ([*TALK[:2], TALK[1]], "was answered before, in line 3"),
        ([TALK[0], TALK[0]], "still in use by line 2"),
        ([TALK[0], ("a2c", {**TALK[1][1], "error": {"code": 1, "message": "x"}})], "a result and an error"),
        ([*TALK[:5], ("a2c", news({"sessionUpdate": "tool_call", "toolCallId": 7, "title": "x"}))], "toolCallId"),
        ([*TALK[:5], ("a2c", answer(2, {}))], "stopReason is missing"),
    ],
)
def test_each_fault_is_reported(talk: list[tuple[str, Any]], fault: str) -> None:
    assert [each for each in faults(*talk) if fault in each], faults(*talk)


@pytest.mark.parametrize("name", ["v1", "banjo", "2025.1", "crow", "draft"])
def test_every_dialect_is_detected_and_decoded(name: str) -> None:
    dialect = load_dialect(name)

    def lowered_call(id: Any, method: str, params: Any) -> tuple[str, Any]:
        spelled, lowered = dialect.lower_call(Side.AGENT, method, params)
        return "c2a", call(id, spelled, lowered)

    def result(id: Any, method: str, value: Any) -> tuple[str, Any]:
        return "a2c", answer(id, dialect.lower_result(Side.AGENT, method, value))

    info = {"name": "x", "version": "1"}
    observer, events = observed(
        [
            lowered_call(0, "initialize", {"protocolVersion": 1, "clientCapabilities": {}, "clientInfo": info}),
            result(
                0, "initialize", {"protocolVersion": 1, "agentCapabilities": {"loadSession": True}, "agentInfo": info}
            ),
            lowered_call(1, "session/prompt", {"sessionId": "s1", "prompt": [{"type": "text", "text": "hello"}]}),
            result(1, "session/prompt", {"stopReason": "end_turn"}),
        ]
    )
    expected = "v1" if name == "banjo" else name
    assert observer.decoder.dialect_names == (expected, expected)
    assert [(turn.prompt, turn.stop_reason) for turn in observer.turns] == [("hello", "end_turn")]
    assert [str(each) for event in events for each in event.faults if each.fatal] == []


def test_trace_context_is_shown_with_request_and_answer() -> None:
    parent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
    params = {"protocolVersion": 1, "clientCapabilities": {}, "_meta": {"traceparent": parent, "tracestate": "a=b"}}
    _, events = observed([("c2a", call(0, "initialize", params)), TALK[1]])
    assert [(event.traceparent, event.tracestate) for event in events] == [(parent, "a=b")] * 2


names = ["sessionUpdate", "content", "type", "text", "toolCallId", "title", "entries", "options", "availableCommands",
         "toolCall", "outcome", "prompt", "sessionId", "path", "args", "status", "_meta", "env"]  # fmt: skip
words = st.sampled_from(["", "x", "tool_call", "plan"])
leaves = st.none() | st.booleans() | st.integers(-5, 5) | st.floats() | words
anything = st.recursive(
    leaves, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(names), inner)
)
methods = st.sampled_from(sorted({name for _, name in METHODS} | {"cancel", "x"}))


@settings(max_examples=150, deadline=None)
@given(
    st.lists(st.tuples(st.sampled_from(["c2a", "a2c"]), methods, anything, anything), max_size=4),
    st.sampled_from(DIALECT_NAMES),
)
def test_no_input_makes_the_analysis_fail(lowered_call: list[tuple[str, str, Any, Any]], dialect: str) -> None:
    observer, cleaner, talk = Analyzer(dialect), RecordingRedactor(), []
    for number, (way, method, params, result) in enumerate(lowered_call):
        talk += [(way, call(number, method, params)), ("a2c" if way == "c2a" else "c2a", answer(number, result))]
    events = [observer.analyze_line(each) for each in recorded(talk)]
    for event in events:
        cleaner.learn_secrets(event.recorded)
        cleaner.redact(event.recorded)
    list(tree_lines(observer))
    assert [event_line(event) for event in events if not event_to_json(event)] == []
    assert "</script>" in render_page([(Header(), events)], "x")


@pytest.mark.parametrize("path", sorted(RECORDINGS.glob("*.ndjson")), ids=lambda path: path.stem)
def test_recordings_of_real_peers_are_read_completely(path: Any) -> None:
    reader, observer = RecordingReader(), Analyzer()
    events = [observer.analyze_line(each) for each in reader.read_file(str(path))]
    assert reader.problems == []
    assert events
    answered = [event for event in events if event.kind in ("answer", "failure") and event.id not in ("", "null")]
    assert all(event.request is not None for event in answered)
