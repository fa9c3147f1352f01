"""An editor that is attached to a session opens that one, in every dialect."""

from __future__ import annotations

import json
from typing import Any

import pytest

from dragoman.roles.proxy.attach import AttachSession

S = "the-session"
LISTED = {"sessionId": S, "cwd": "/w", "title": "Roof"}
SETTINGS = {"modes": {"currentModeId": "ask", "availableModes": [{"id": "ask", "name": "Ask"}]}}
GONE = {"code": -32002, "message": "there is no such session", "data": {"kind": "session_not_found"}}

# How an editor of each dialect sends initialize and opens a session, and what the host then gets; written by hand.
SPOKEN: dict[str, tuple[dict[str, Any], dict[str, Any], dict[str, Any]]] = {
    "v1": (
        {"protocolVersion": 1, "clientCapabilities": {}},
        {"cwd": "/w", "mcpServers": []},
        {"sessionId": S, "cwd": "/w", "mcpServers": []},
    ),
    "2025.1": (
        {"protocol_version": "2025.1", "capabilities": {}, "working_directory": "/w"},
        {"session_id": "mine"},
        {"session_id": S},
    ),
    "crow": (
        {"protocol_version": 1, "client_capabilities": {}},
        {"cwd": "/w", "mcpServers": []},
        {"session_id": S, "cwd": "/w"},
    ),
    "draft": ({"protocolVersion": 1, "capabilities": {}}, {"workingDirectory": "/w"}, {"sessionId": S}),
}


def encode(**members: Any) -> bytes:
    return json.dumps({"jsonrpc": "2.0", **members}).encode()


class Editor:
    """What both sides get through an AttachSession."""

    def __init__(self, dialect: str = "v1") -> None:
        self.landing = AttachSession(S, LISTED, "2026-01-01T00:00:00Z")
        self.introduction, self.new, self.load = SPOKEN[dialect]
        self.goes(id=0, method="initialize", params=self.introduction)

    def goes(self, **members: Any) -> dict[str, Any]:
        frame = self.landing.route_editor_frame(encode(**members))
        assert isinstance(frame, bytes)
        said: dict[str, Any] = json.loads(frame)
        return said

    def comes(self, **members: Any) -> list[dict[str, Any]]:
        received = self.landing.route_host_frame(encode(**members))
        self.again = [json.loads(frame) for frame in received.to_host]
        return [json.loads(frame) for frame in received.to_editor if isinstance(frame, bytes)]


@pytest.mark.parametrize("dialect", SPOKEN)
def test_session_new_opens_the_attached_session_and_its_history_follows_the_answer(dialect: str) -> None:
    editor = Editor(dialect)
    name = "session_id" if dialect == "2025.1" else "sessionId"
    chosen = editor.new.get("session_id", S)
    asked = editor.goes(id=1, method="session/new", params=editor.new)
    assert asked["method"] == "session/load"
    assert {key: value for key, value in asked["params"].items() if key != "_meta"} == editor.load
    assert editor.comes(method="session/update", params={name: S, "text": "before"}) == []
    answer, history = editor.comes(id=1, result={"_meta": {"theirs": 1}})
    assert (answer["id"], answer["result"][name], answer["result"]["_meta"]) == (1, chosen, {"theirs": 1})
    assert history["params"] == {name: chosen, "text": "before"}
    assert ("createdAt" in answer["result"]) == (dialect == "draft")
    assert editor.comes(method="session/update", params={name: S})[0]["params"] == {name: chosen}
    assert editor.goes(method="session/cancel", params={name: chosen})["params"] == {name: S}


def test_a_second_session_new_opens_another_session() -> None:
    editor = Editor()
    editor.goes(id=1, method="session/new", params=editor.new)
    assert editor.comes(id=1, result=SETTINGS)[0]["result"] == {"sessionId": S, **SETTINGS}
    assert editor.goes(id=2, method="session/new", params=editor.new)["method"] == "session/new"
    editor.goes(id=3, method="session/close", params={"sessionId": S})
    editor.comes(id=3, result={})
    assert editor.goes(id=4, method="session/new", params=editor.new)["method"] == "session/load"


def test_a_failed_attach_is_reported_and_retried_with_the_next_session_new() -> None:
    editor = Editor()
    editor.goes(id=1, method="session/new", params=editor.new)
    lost = {"code": -32603, "message": "the connection was lost", "data": {"kind": "connection_lost"}}
    assert editor.comes(id=1, error=lost)[0]["error"] == lost
    assert editor.goes(id=2, method="session/new", params=editor.new)["method"] == "session/load"


@pytest.mark.parametrize("method", ["session/load", "session/resume"])
def test_an_id_that_the_host_does_not_know_stands_for_the_session(method: str) -> None:
    editor = Editor()
    params = {"sessionId": "of last year", "cwd": "/w", "mcpServers": []}
    assert editor.goes(id=1, method=method, params=params)["params"] == params
    assert editor.comes(id=1, error=GONE) == []
    assert editor.again == [{"jsonrpc": "2.0", "id": 1, "method": method, "params": {**params, "sessionId": S}}]
    assert editor.comes(method="session/update", params={"sessionId": S})[0]["params"] == {"sessionId": "of last year"}
    assert editor.comes(id=1, result={}) == [{"jsonrpc": "2.0", "id": 1, "result": {}}]
    prompted = editor.goes(id=2, method="session/prompt", params={"sessionId": "of last year", "prompt": []})
    assert prompted["params"]["sessionId"] == S
    editor.goes(id=3, method=method, params={**params, "sessionId": "older still"})
    assert editor.comes(id=3, error=GONE)[0]["error"] == GONE  # one editor is not in it twice


def test_another_existing_session_is_opened_as_asked() -> None:
    editor = Editor()
    asked = editor.goes(id=1, method="session/load", params={"sessionId": "other", "cwd": "/w", "mcpServers": []})
    assert asked["params"]["sessionId"] == "other"
    assert editor.comes(method="session/update", params={"sessionId": "other"})[0]["params"] == {"sessionId": "other"}
    assert editor.comes(id=1, result={})[0]["result"] == {}
    assert editor.goes(id=2, method="session/new", params=editor.new)["method"] == "session/load"


@pytest.mark.parametrize(
    ("asked", "reported", "shown"),
    [
        ({}, ["a", S, "b"], [S, "a", "b"]),
        ({"cwd": "/elsewhere"}, ["a"], [S, "a"]),
        ({"cursor": "100"}, ["c", S], ["c"]),
    ],
)
def test_the_session_list_begins_with_the_attached_session(
    asked: dict[str, Any], reported: list[str], shown: list[str]
) -> None:
    editor = Editor()
    editor.goes(id=1, method="session/list", params=asked)
    (answer,) = editor.comes(id=1, result={"sessions": [{"sessionId": each} for each in reported], "nextCursor": "200"})
    assert [each["sessionId"] for each in answer["result"]["sessions"]] == shown
    assert answer["result"]["nextCursor"] == "200"


def test_a_frame_that_is_no_message_is_forwarded_unchanged() -> None:
    landing = AttachSession(S, LISTED)
    for frame in (b"garbage", b"[1]", b'{"id":{}}', b'{"jsonrpc":"2.0","id":9,"result":{}}'):
        assert landing.route_editor_frame(frame) == frame
        assert landing.route_host_frame(frame).to_editor == [frame]
