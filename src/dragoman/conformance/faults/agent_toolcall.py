"""Faults in an agent's tool calls."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from dragoman.conformance.seeding import calls, updates, with_, without
from dragoman.conformance.twin import Json, Tape, seeded


def _stranger(tape: Tape, message: Json) -> Iterable[Json]:
    """Now and then something is told of a call nobody knows."""
    yield message
    update = message["params"]["update"]
    if update.get("sessionUpdate") == "tool_call_update" and update.get("status") == "completed":
        other = {"sessionUpdate": "tool_call_update", "toolCallId": "stranger", "rawInput": {}}
        yield {**message, "params": {**message["params"], "update": other}}


def _same_id(tape: Tape, message: Json) -> Iterable[Json]:
    """Every call that reads is the same one."""
    update = message["params"]["update"]
    reads = tape.notes.setdefault("reads", [])
    if update.get("sessionUpdate") == "tool_call" and update.get("kind") == "read":
        reads.append(update["toolCallId"])
    if update.get("toolCallId") in reads:
        message = {**message, "params": {**message["params"], "update": {**update, "toolCallId": "call-1"}}}
    yield message


def _unfinished(_: Tape, message: Json) -> Iterable[Json]:
    if message["params"]["update"].get("status") != "completed":
        yield message


def _again(status: str, then: str) -> Any:
    def whole(_: Tape, message: Json) -> Iterable[Json]:
        yield message
        update = message["params"]["update"]
        if update.get("status") == status and "toolCallId" in update:  # compactions have one too
            more = {"sessionUpdate": "tool_call_update", "toolCallId": update["toolCallId"], "status": then}
            yield {**message, "params": {**message["params"], "update": more}}

    return whole


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


seeded("agent.toolcall.01", updates("tool_call", without("title")))
seeded("agent.toolcall.02", updates("tool_call", with_(kind="reading")))
seeded(
    "agent.toolcall.03",
    updates("tool_call_update", lambda u: {**u, "status": "running"} if u.get("status") == "in_progress" else u),
)
seeded("agent.toolcall.04", calls("session/update", _stranger))
seeded("agent.toolcall.05", calls("session/update", _same_id))
seeded("agent.toolcall.06", calls("session/update", _unfinished))
seeded("agent.toolcall.07", calls("session/update", _again("completed", "failed")))
seeded("agent.toolcall.08", updates("", _bare))
seeded("agent.toolcall.09", updates("tool_call", _locations(path="notes.txt")))
seeded("agent.toolcall.10", updates("", _entries("diff", "newText")))
seeded("agent.toolcall.11", updates("", _entries("terminal", terminalId="call-7")))
seeded("agent.toolcall.12", calls("session/update", _again("in_progress", "pending")))
seeded("agent.toolcall.13", updates("tool_call", _locations(line="first")))
seeded("agent.toolcall.14", updates("tool_call", without("kind")))
seeded("agent.toolcall.15", updates("", without("rawInput")))
