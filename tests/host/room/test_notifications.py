"""What members are sent for an entry: the shared frame equals the one that each would get alone."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import msgspec
import pytest

from dragoman.dialect.dialects import load_dialect
from dragoman.engine.codec import PeerCodec
from dragoman.host.room.notifications import UPDATE, Notification, add_seq, live_notifications, replay_notifications
from dragoman.schema.base import encode
from dragoman.schema.content import TextContent
from dragoman.schema.side import Side
from dragoman.schema.update import (
    AgentMessageChunk,
    CurrentModeUpdate,
    ToolCallProgress,
    ToolCallStart,
    UpdateParams,
    UsageUpdate,
)
from dragoman.store.contract import RawEntry


def line(kind: str, body: Any, seq: int = 7, actor: str = "agent") -> RawEntry:
    return RawEntry(seq, kind, msgspec.Raw(encode(body)), actor, "t1")


def for_all(notifications: list[Notification]) -> list[Notification]:
    """Leave out what only clients of wide dialects get."""
    return [notification for notification in notifications if not notification.only_wide]


def to_v1(update: Any) -> Any:
    """Return an update in official v1."""
    body = PeerCodec(load_dialect("v1"), Side.AGENT).lower_call(UPDATE, UpdateParams(session_id="s", update=update))[1]
    return json.loads(body)


@pytest.mark.parametrize(
    ("update", "is_shared"),
    [
        (AgentMessageChunk(content=TextContent(text="hello")), True),
        (AgentMessageChunk(content=TextContent(text='{"_meta": "denied"}')), True),
        (ToolCallStart(tool_call_id="1", title="x", status="pending"), True),
        (ToolCallProgress(tool_call_id="1", status="denied"), False),
        (AgentMessageChunk(content=TextContent(text="x"), meta={"a": 1, "dragoman": {"secret": 1}}), False),
        (CurrentModeUpdate(current_mode_id="code"), False),
        (UsageUpdate(used=1, size=2), False),
    ],
)
def test_a_shared_frame_is_the_v1_update_plus_its_number(update: Any, is_shared: bool) -> None:
    (notifications,) = live_notifications("s", line("update", update))
    assert (notifications.frame is not None) is is_shared
    assert encode(notifications.update) == encode(update)
    if notifications.frame is not None:
        frame = json.loads(notifications.frame)
        assert frame["params"].pop("_meta") == {"dragoman": {"seq": 7}}
        assert frame == {"jsonrpc": "2.0", "method": UPDATE, "params": to_v1(update)}


def test_a_prompt_is_sent_to_all_but_its_sender_and_replayed_to_all() -> None:
    body = {"prompt": [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}], "connection": "c1"}
    received = for_all(live_notifications("s", line("prompt", body, actor="ann")))
    yours, *others = received
    assert (yours.only_client, yours.params["state"]) == ("c1", "yours")
    assert [(notifications.update.content.text, notifications.except_client) for notifications in others] == [
        ("a", "c1"),
        ("b", "c1"),
    ]
    meta = json.loads(others[0].frame or b"")["params"]["_meta"]
    assert meta == {"dragoman": {"seq": 7, "user": "ann"}}
    assert [
        notifications.except_client for notifications in for_all(replay_notifications("s", line("prompt", body)))
    ] == [
        "",
        "",
    ]


@pytest.mark.parametrize(
    ("kind", "body", "method", "told_of"),
    [
        ("turn_started", {}, "_dragoman/turn", {"state": "started", "by": "ann"}),
        ("turn_ended", {"stopReason": "end_turn"}, "_dragoman/turn", {"state": "ended", "stopReason": "end_turn"}),
        ("decided", {"toolCallId": "1"}, "_dragoman/permission_resolved", {"toolCallId": "1", "by": "ann"}),
        ("agent_exited", {"message": "it died"}, "_dragoman/agent", {"state": "exited", "message": "it died"}),
    ],
)
def test_topics_are_sent_only_to_subscribers(kind: str, body: Any, method: str, told_of: dict[str, Any]) -> None:
    notifications: Notification = live_notifications("s", line(kind, body, actor="ann"))[0]
    assert notifications.method == method
    assert notifications.topic
    assert told_of.items() <= notifications.params.items()
    assert for_all(replay_notifications("s", line(kind, body))) == []


def test_a_failed_turn_is_replayed_to_new_members() -> None:
    failed = {"error": {"kind": "interrupted", "message": "its host ended"}}
    (notifications,) = for_all(replay_notifications("s", line("turn_ended", failed)))
    assert (notifications.method, notifications.params["error"]) == ("_dragoman/turn", failed["error"])


@pytest.mark.parametrize(
    ("ended", "expected"),
    [
        ({"stopReason": "end_turn"}, ("end_turn", "")),
        ({"error": {"kind": "interrupted", "message": "its host ended"}}, ("error", "its host ended")),
        ({"stopReason": "cancelled", "error": {"kind": "x", "message": "y"}}, ("cancelled", "")),
    ],
)
def test_clients_that_are_told_states_are_told_each_turn(ended: dict[str, Any], expected: tuple[str, str]) -> None:
    prompt = line("prompt", {"prompt": [{"type": "text", "text": "a"}], "connection": "c1"})
    own, others = [it for it in live_notifications("s", prompt) if it.only_wide]
    assert (own.update.state, own.only_client) == (others.update.state, others.except_client) == ("running", "c1")
    assert [it.update.state for it in replay_notifications("s", prompt) if it.only_wide] == ["running"]
    (idle,) = [it.update for it in replay_notifications("s", line("turn_ended", ended)) if it.only_wide]
    assert idle.state == "idle"
    assert (idle.stop_reason, idle.error["message"] if idle.error else "") == expected


@pytest.mark.parametrize("kind", ["file", "terminal", "asked", "opened", "member", "lost", "from the future"])
def test_entries_without_notifications(kind: str) -> None:
    assert live_notifications("s", line(kind, {})) == []


def test_the_docs_for_client_authors_name_every_method() -> None:
    root = Path(__file__).parents[3]
    sources = "".join(file.read_text() for file in (root / "src" / "dragoman" / "host").glob("*.py"))
    spoken = set(re.findall(r'"(_dragoman/\w+)"', sources))
    page = (root / "docs" / "rooms.md").read_text()
    assert spoken
    assert sorted(name for name in spoken if name not in page) == []


@pytest.mark.parametrize(
    ("params", "meta"),
    [
        ({"sessionId": "s"}, {"dragoman": {"seq": 7}}),
        ({"sessionId": "s", "_meta": {"traceparent": "00-1"}}, {"dragoman": {"seq": 7}, "traceparent": "00-1"}),
        ({"_meta": {"dragoman": {"kept": 1}}, "sessionId": "s"}, {"dragoman": {"seq": 7, "kept": 1}}),
        ({"sessionId": "s", "_meta": None}, {"dragoman": {"seq": 7}}),
        ({"sessionId": "s", "update": {"_meta": {"a": 1}}}, {"dragoman": {"seq": 7}}),
    ],
)
def test_a_number_is_added_to_existing_meta(params: dict[str, Any], meta: dict[str, Any]) -> None:
    frame = add_seq(encode({"jsonrpc": "2.0", "method": UPDATE, "params": params}), 7)
    assert frame.count(b'"_meta":{"dragoman":{"seq":7') == 1
    assert json.loads(frame)["params"] == {**params, "_meta": meta}
