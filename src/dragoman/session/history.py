"""The history of an agent's session in memory: the updates that `session/load` replays.

Consecutive text chunks of one message are joined. Notices and setting changes are left out.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from msgspec import UNSET

from dragoman.schema import update as updates
from dragoman.schema.content import TextContent

# session/load returns the current mode and options, so their changes are not replayed.
# States are not either: they are about the present.
_NO_HISTORY = frozenset(
    {updates.Notice, updates.CurrentModeUpdate, updates.ConfigOptionUpdate, updates.SessionStateUpdate}
)

# Text chunks kept separately before they are joined.
JOIN_AFTER = 1024

_CHUNKS = (updates.AgentMessageChunk, updates.AgentThoughtChunk, updates.UserMessageChunk)


class _TextRun:
    """The text chunks of one message."""

    __slots__ = ("_texts", "kind", "message_id", "parts")

    def __init__(self, kind: type, message_id: Any, text: str) -> None:
        self.kind = kind
        self.message_id = message_id
        self._texts: list[str] = []
        self.parts = [text]

    def write(self, text: str) -> None:
        self.parts.append(text)
        if len(self.parts) >= JOIN_AFTER:
            self.join()

    def join(self) -> None:
        self._texts.append("".join(self.parts))
        self.parts.clear()

    def build_update(self) -> Any:
        text = "".join([*self._texts, *self.parts])
        return self.kind(content=TextContent(text=text), message_id=self.message_id)


class History:
    """The updates of a session, in order."""

    __slots__ = ("_entries", "_run")

    def __init__(self) -> None:
        self._entries: list[Any] = []
        self._run: _TextRun | None = None

    def add_text(self, kind: type, text: str) -> None:
        """Add a text chunk. This is the hot path of every stream."""
        run = self._run
        if run is not None and run.kind is kind and run.message_id is UNSET:
            parts = run.parts
            parts.append(text)
            if len(parts) >= JOIN_AFTER:
                run.join()
            return
        self._run = run = _TextRun(kind, UNSET, text)
        self._entries.append(run)

    def add(self, update: Any) -> None:
        """Add any update."""
        kind = type(update)
        if kind in _CHUNKS and type(update.content) is TextContent and not update.meta and not update.content.meta:
            run = self._run
            if run is not None and run.kind is kind and run.message_id == update.message_id:
                run.write(update.content.text)
            else:
                self._run = run = _TextRun(kind, update.message_id, update.content.text)
                self._entries.append(run)
        elif kind not in _NO_HISTORY:
            self._run = None
            self._entries.append(update)

    def end_message(self) -> None:
        """Start a new message with the next chunk."""
        self._run = None

    def copy(self) -> History:
        """Return an independent copy, for a fork."""
        other = History()
        other._entries = list(self)
        return other

    def __iter__(self) -> Iterator[Any]:
        for entry in self._entries:
            yield entry.build_update() if type(entry) is _TextRun else entry

    def __len__(self) -> int:
        return len(self._entries)
