"""The tool calls of a session as far as diagnostics need them: which one wrote a file, and what it shows. Pure.

Takes updates as plain JSON of the vocabulary. A list of contents replaces the one before, so ours is added each time.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Collection
from typing import Any

from dragoman.schema.toolcall import ToolCallStatus, ToolKind
from dragoman.session.toolcall import FINAL_STATUSES

# Tool calls of a session that are remembered: an agent has few open at once, and late diagnostics come soon.
MAX_CALLS = 100


class TrackedCall:
    """One tool call."""

    def __init__(self, id: str) -> None:
        self.id = id
        self.status: str = ToolCallStatus.PENDING
        self.kind = ""
        self.content: list[Any] = []  # of the agent
        self.paths: dict[str, None] = {}  # all that it names
        self.diffs: dict[str, None] = {}  # those that it says to have changed
        self.diagnosed: set[str] = set()  # written through us
        self.note: dict[str, Any] | None = None  # our own item

    @property
    def is_open(self) -> bool:
        """Whether the agent still works on it."""
        return self.status not in FINAL_STATUSES

    def apply(self, update: dict[str, Any]) -> None:
        """Take an update."""
        for name in ("status", "kind"):
            if isinstance(update.get(name), str):
                setattr(self, name, update[name])
        if isinstance(update.get("content"), list):
            self.content = update["content"]
            self.diffs |= dict.fromkeys(_changed_paths(self.content))
            self.paths |= self.diffs
        if isinstance(update.get("locations"), list):
            self.paths |= dict.fromkeys(_paths(update["locations"]))

    def note_update(self) -> dict[str, Any]:
        """Return the update that shows our item after the agent's contents."""
        content = [*self.content, *([self.note] if self.note else [])]
        return {"sessionUpdate": "tool_call_update", "toolCallId": self.id, "content": content}


def _paths(items: Any) -> list[str]:
    listed = items if isinstance(items, list) else []
    return [item["path"] for item in listed if isinstance(item, dict) and isinstance(item.get("path"), str)]


def _changed_paths(content: list[Any]) -> list[str]:
    """Return the files of diffs, and of patches that change several."""
    items = [item for item in content if isinstance(item, dict)]
    patches = [path for item in items if item.get("type") == "patch" for path in _paths(item.get("changes"))]
    return [*_paths([item for item in items if item.get("type") == "diff"]), *patches]


class TrackedCalls:
    """The tool calls of one session."""

    def __init__(self) -> None:
        self._calls: OrderedDict[str, TrackedCall] = OrderedDict()

    def apply(self, update: dict[str, Any]) -> TrackedCall | None:
        """Take an update of the agent; return its tool call, or None if it is about something else."""
        kind, id = update.get("sessionUpdate"), update.get("toolCallId")
        if kind not in ("tool_call", "tool_call_update") or not isinstance(id, str):
            return None
        call = self._calls.get(id)
        if call is None or (kind == "tool_call" and not call.is_open):
            call = self._calls[id] = TrackedCall(id)
        call.apply(update)
        self._calls.move_to_end(id)
        while len(self._calls) > MAX_CALLS:
            self._calls.popitem(last=False)
        return call

    def find_writer(self, paths: Collection[str]) -> TrackedCall | None:
        """Return the open tool call that writes these files: one that names them, else the only one that edits."""
        still_open = [call for call in reversed(self._calls.values()) if call.is_open]
        for call in still_open:
            if any(path in call.paths for path in paths):
                return call
        edits = [call for call in still_open if call.kind == ToolKind.EDIT and not call.paths]
        return edits[0] if len(edits) == 1 else None
