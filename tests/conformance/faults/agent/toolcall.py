"""Faults in an agent's tool calls."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from tests.conformance.faults.edits import edit_calls, edit_updates, with_, without
from tests.conformance.faults.fault import FaultContext, Json, seed


def _update_unknown_call(context: FaultContext, message: Json) -> Iterable[Json]:
    """Now and then send an update of an unknown call."""
    yield message
    update = message["params"]["update"]
    if update.get("sessionUpdate") == "tool_call_update" and update.get("status") == "completed":
        other = {"sessionUpdate": "tool_call_update", "toolCallId": "stranger", "rawInput": {}}
        yield {**message, "params": {**message["params"], "update": other}}


def _same_id(context: FaultContext, message: Json) -> Iterable[Json]:
    """Every call that reads has the same id."""
    update = message["params"]["update"]
    reads = context.notes.setdefault("reads", [])
    if update.get("sessionUpdate") == "tool_call" and update.get("kind") == "read":
        reads.append(update["toolCallId"])
    if update.get("toolCallId") in reads:
        message = {**message, "params": {**message["params"], "update": {**update, "toolCallId": "call-1"}}}
    yield message


def _unfinished(_: FaultContext, message: Json) -> Iterable[Json]:
    if message["params"]["update"].get("status") != "completed":
        yield message


def _again(status: str, then: str) -> Any:
    def edit_message(_: FaultContext, message: Json) -> Iterable[Json]:
        yield message
        update = message["params"]["update"]
        if update.get("status") == status and "toolCallId" in update:  # compactions have one too
            more = {"sessionUpdate": "tool_call_update", "toolCallId": update["toolCallId"], "status": then}
            yield {**message, "params": {**message["params"], "update": more}}

    return edit_message


def _bare(update: Json) -> None:
    held = update.get("content")
    if isinstance(held, list):
        update["content"] = [entry.get("content", entry) for entry in held]


def _locations(**members: Json) -> Any:
    def edit(update: Json) -> None:
        for location in update.get("locations") or []:
            location.update(members)

    return edit


def _entries(kind: str, *lacking: str, **members: Json) -> Any:
    def edit(update: Json) -> None:
        for entry in update.get("content") or []:
            if isinstance(entry, dict) and entry.get("type") == kind:
                entry.update(members)
                for name in lacking:
                    del entry[name]

    return edit


seed("agent.toolcall.01", edit_updates("tool_call", without("title")))
seed("agent.toolcall.02", edit_updates("tool_call", with_(kind="reading")))
seed(
    "agent.toolcall.03",
    edit_updates("tool_call_update", lambda u: {**u, "status": "running"} if u.get("status") == "in_progress" else u),
)
seed("agent.toolcall.04", edit_calls("session/update", _update_unknown_call))
seed("agent.toolcall.05", edit_calls("session/update", _same_id))
seed("agent.toolcall.06", edit_calls("session/update", _unfinished))
seed("agent.toolcall.07", edit_calls("session/update", _again("completed", "failed")))
seed("agent.toolcall.08", edit_updates("", _bare))
seed("agent.toolcall.09", edit_updates("tool_call", _locations(path="notes.txt")))
seed("agent.toolcall.10", edit_updates("", _entries("diff", "newText")))
seed("agent.toolcall.11", edit_updates("", _entries("terminal", terminalId="call-7")))
seed("agent.toolcall.12", edit_calls("session/update", _again("in_progress", "pending")))
seed("agent.toolcall.13", edit_updates("tool_call", _locations(line="first")))
seed("agent.toolcall.14", edit_updates("tool_call", without("kind")))
seed("agent.toolcall.15", edit_updates("", without("rawInput")))
