"""The lines of a run, by hand, as `dragoman run --json` prints them."""

from __future__ import annotations

from typing import Any


def _line(kind: str, body: dict[str, Any], seq: int | None = None) -> dict[str, Any]:
    number = {"seq": seq, "actor": "agent", "turn": None} if seq is not None else {}
    return {"session": "s", "kind": kind, "time": "2026-01-02T03:04:05.000Z", **number, "body": body}


def _text_update(text: str) -> dict[str, Any]:
    return {"sessionUpdate": "agent_message_chunk", "content": {"type": "text", "text": text}}


OPTIONS = [
    {"optionId": "yes", "name": "Yes", "kind": "allow_once"},
    {"optionId": "no", "name": "No", "kind": "reject_once"},
]

ENTRIES: list[dict[str, Any]] = [
    _line("opened", {"sessionId": "s", "by": "session/new", "cwd": "/"}, 1),
    _line("update", _text_update("one "), 2),
    _line("asked", {"sessionId": "s", "toolCall": {"toolCallId": "call"}, "options": OPTIONS}, 3),
    _line("decided", {"toolCallId": "call", "outcome": {"outcome": "selected", "optionId": "yes"}}, 4),
    _line("update", {"sessionUpdate": "plan", "entries": []}, 5),
    _line("update", _text_update("two"), 6),
    _line("turn_ended", {"stopReason": "end_turn"}, 7),
    _line("result", {"exitCode": 0, "stopReason": "end_turn", "text": "one two"}),
]
