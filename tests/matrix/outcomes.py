"""Entries of a run, by hand, as `dragoman run --json` prints them."""

from __future__ import annotations

from typing import Any


def _said(text: str) -> dict[str, Any]:
    return {"sessionUpdate": "agent_message_chunk", "content": {"type": "text", "text": text}}


ENTRIES: list[dict[str, Any]] = [
    {"seq": 1, "kind": "opened", "body": {"cwd": "/"}},
    {"seq": 2, "kind": "update", "body": _said("one ")},
    {"seq": 3, "kind": "asked", "body": {"toolCall": {"toolCallId": "call"}}},
    {"seq": 4, "kind": "decided", "body": {"optionId": "yes"}},
    {"seq": 5, "kind": "update", "body": {"sessionUpdate": "plan", "entries": []}},
    {"seq": 6, "kind": "update", "body": {"update": _said("two")}},
    {"seq": 7, "kind": "turn_ended", "body": {"stopReason": "end_turn"}},
]
