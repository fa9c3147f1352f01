"""ReconnectState and DialectFrames accept any frame."""

from __future__ import annotations

import json
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from dragoman.dialect.peek import rename_session
from dragoman.roles.client.reconnect.state import ReconnectState
from dragoman.roles.proxy.attach import AttachSession

INTRODUCTIONS: dict[str, dict[str, Any]] = {
    "v1": {"protocolVersion": 1, "clientCapabilities": {}},
    "2025.1": {"protocol_version": "2025.1", "capabilities": {}},
    "crow": {"protocol_version": 1, "client_capabilities": {}},
    "draft": {"protocolVersion": 1, "capabilities": {}},
}
METHODS = st.sampled_from(
    [
        "initialize",
        "session/new",
        "session/load",
        "session/resume",
        "session/list",
        "session/close",
        "session/prompt",
        "session/update",
        "session/request_permission",
        "permission_response",
        "cancel",
        "_dragoman/attach",
        "$/x",
    ]
)
IDS = st.sampled_from([0, 1, 2, "rejoin-1", None, 1.5])
NAMES = st.sampled_from(
    [
        "sessionId",
        "session_id",
        "_meta",
        "dragoman",
        "session",
        "seq",
        "cursor",
        "update",
        "@type",
        "toolCall",
        "capabilities",
        "agentCapabilities",
        "agent_capabilities",
        "attach",
        "loadSession",
        "sessions",
        "cwd",
        "type",
    ]
)
LEAVES = st.none() | st.booleans() | st.integers(-5, 5) | st.sampled_from(["s", "t", "permission_request", "x\u2028"])
VALUES = st.recursive(LEAVES, lambda inner: st.lists(inner, max_size=2) | st.dictionaries(NAMES, inner, max_size=4))
CALLS = st.fixed_dictionaries({"method": METHODS}, optional={"id": IDS, "params": VALUES})
ANSWERS = st.fixed_dictionaries({"id": IDS}, optional={"result": VALUES, "error": VALUES})
FRAMES = (CALLS | ANSWERS | VALUES).map(lambda said: json.dumps(said, separators=(",", ":")).encode()) | st.binary()
TALKS = st.lists(st.tuples(st.sampled_from(["went", "came", "part"]), FRAMES), max_size=8)


@given(dialect=st.sampled_from(sorted(INTRODUCTIONS)), talk=TALKS)
@settings(max_examples=25, deadline=None)
def test_no_frame_breaks_the_reconnect_state(dialect: str, talk: list[tuple[str, bytes]]) -> None:
    memory, landing = ReconnectState(), AttachSession("s", {"sessionId": "s"})
    first = json.dumps({"id": 0, "method": "initialize", "params": INTRODUCTIONS[dialect]}).encode()
    for frame in (memory.filter_outgoing(first), landing.route_editor_frame(first)):
        assert frame is not None
    for way, frame in talk:
        if way == "went":
            landing.route_editor_frame(frame)
            memory.filter_outgoing(frame)
        elif way == "came":
            received = landing.route_host_frame(frame)
            memory.filter_incoming([*received.to_editor, *received.to_host])
        else:
            memory.on_disconnect()
            memory.fail_open_requests()
            memory.initialize_frame("rejoin-1")
            for session in memory.sessions if memory.can_reconnect else ():
                json.loads(memory.attach_frame(session, "rejoin-2"))
                memory.is_update_of(frame, session)


def test_a_session_is_renamed_and_the_rest_of_the_frame_stays_as_it_was_written() -> None:
    frame = b'{"jsonrpc":"2.0","method":"m","params":{"a":1e400,"sessionId":"s","b":"\\u0041","c":{"sessionId":"s"}}}'
    assert rename_session(frame, {"s": 't"'}) == frame.replace(b'"sessionId":"s","b"', b'"sessionId":"t\\"","b"')
    half = b'{"params":{"session_id":"s","text":"\\ud83d"}}'  # of an emoji, as streams cut it
    assert json.loads(rename_session(half, {"s": "t"})) == {"params": {"session_id": "t", "text": "\ufffd"}}
    for other in (b"x", b"[]", b'{"params":[]}', b'{"params":{"sessionId":5}}', b'{"params":{"sessionId":"u"}}'):
        assert rename_session(other, {"s": "t"}) == other
