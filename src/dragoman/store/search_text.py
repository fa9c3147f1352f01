"""Split a log into passages to search: consecutive text of one speaker, a tool call, a plan.

Takes JSON lines in order. Consecutive chunks are joined, so a word that was streamed in two chunks is found. A passage
consists of whole entries, so reading can resume at its first one. Only text is indexed. Pure; every store uses it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import msgspec

from dragoman.store.contract import EntryKind

# A passage that grows longer than this is split: between two entries, at white space if possible, or inside an entry
# that alone is longer. Characters.
MAX_PASSAGE = 32 * 1024

# How much of one entry is indexed; the rest is stored and shown, but not found. Messages and readable tool output are
# shorter. One entry is indexed in one transaction, and this bounds its duration (about 30 ms). Characters.
FINDABLE = 256 * 1024

_SPEAKERS = {"agent_message_chunk": "agent", "agent_thought_chunk": "thought", "user_message_chunk": "user"}

# Entries without text that do not end a passage.
_SILENT_UPDATES = frozenset({"usage_update", "available_commands_update", "session_info_update", "current_mode_update"})


class Passage(msgspec.Struct, frozen=True):
    """Text of one speaker, with its first and last entry."""

    first: int
    last: int
    role: str
    text: str


class _EntryLine(msgspec.Struct):
    seq: int
    kind: str
    body: Any = None


_entry_decoder = msgspec.json.Decoder(_EntryLine)

# These never continue in the next entry.
_WHOLE = frozenset({"tool", "plan"})


def split_passages(lines: Iterable[bytes]) -> Iterator[Passage]:
    """Return all passages of a range of a log."""
    joiner = Joiner()
    for line in lines:
        yield from joiner.add(line)
    yield from joiner.rest()


class Joiner:
    """Joins the text of consecutive entries."""

    def __init__(self) -> None:
        self._role = ""
        self._parts: list[tuple[int, str]] = []  # number and text of each entry
        self._cut_at = 0  # the last part that can start a passage: there is white space before it
        self.size = 0  # characters of the unfinished passage

    def add(self, line: bytes) -> list[Passage]:
        """Add an entry; return the passages that it finishes."""
        try:
            entry = _entry_decoder.decode(line)
        except RecursionError:
            return []  # nested too deeply to decode
        speaker, text = _speaker_and_text(entry.kind, entry.body)
        if not speaker:
            return []
        text = text[:FINDABLE]
        is_alone = speaker in _WHOLE or len(text) > MAX_PASSAGE
        finished = self.rest() if is_alone or speaker != self._role or entry.kind == EntryKind.PROMPT else []
        if is_alone:
            return finished + [Passage(entry.seq, entry.seq, speaker, piece) for piece in _split_text(text)]
        if text:
            self._role = speaker
            self._put(entry.seq, text)
        while self.size > MAX_PASSAGE:
            finished.append(self._take(self._cut_at or len(self._parts) - 1))
        return finished

    def rest(self) -> list[Passage]:
        """Finish and return the last passage, if there is one."""
        return [self._take(len(self._parts))] if self._parts else []

    def _put(self, seq: int, text: str) -> None:
        if self._parts and (text[0].isspace() or self._parts[-1][1][-1].isspace()):
            self._cut_at = len(self._parts)
        self._parts.append((seq, text))
        self.size += len(text)

    def _take(self, count: int) -> Passage:
        taken, self._parts, self._cut_at = self._parts[:count], self._parts[count:], 0
        text = "".join(part for _, part in taken)
        self.size -= len(text)
        return Passage(taken[0][0], taken[-1][0], self._role, text)


def _split_text(text: str) -> Iterator[str]:
    """Split text into pieces of at most LONGEST, at white space if possible."""
    start = 0
    while len(text) - start > MAX_PASSAGE:
        limit = start + MAX_PASSAGE
        space = max(text.rfind(" ", start, limit), text.rfind("\n", start, limit)) + 1
        end = space or limit
        yield text[start:end]
        start = end
    if start < len(text):
        yield text[start:]


def _speaker_and_text(kind: str, body: Any) -> tuple[str, str]:
    """Return speaker and text of an entry: no speaker if it has no text, no text if it only ends a passage."""
    if not isinstance(body, dict):
        return "", ""
    if kind == EntryKind.PROMPT:
        return "user", "\n".join(filter(None, map(_block_text, _as_list(body.get("prompt")))))
    if kind != EntryKind.UPDATE:
        return "", ""
    update = body.get("sessionUpdate")
    if update in _SPEAKERS:
        return _SPEAKERS[update], _block_text(body.get("content"))
    if update in ("tool_call", "tool_call_update"):
        return "tool", "\n".join(filter(None, _tool_call_texts(body)))
    if update == "plan":
        entries = _as_list(body.get("entries"))
        return "plan", "\n".join(str(entry.get("content", "")) for entry in entries if isinstance(entry, dict))
    return ("", "") if update in _SILENT_UPDATES else ("other", "")


def _tool_call_texts(body: dict[str, Any]) -> Iterator[str]:
    title = body.get("title")
    if isinstance(title, str):
        yield title
    for place in _as_list(body.get("locations")):
        if isinstance(place, dict) and isinstance(place.get("path"), str):
            yield place["path"]
    for part in _as_list(body.get("content")):
        if isinstance(part, dict):
            yield _block_text(part.get("content"))
            for member in ("oldText", "newText"):
                if isinstance(part.get(member), str):
                    yield part[member]


def _block_text(block: Any) -> str:
    if not isinstance(block, dict):
        return ""
    if isinstance(block.get("text"), str):
        return str(block["text"])
    if block.get("type") == "resource_link":
        return f"{block.get('name', '')} {block.get('uri', '')}"
    resource = block.get("resource")
    return str(resource.get("text") or "") if isinstance(resource, dict) else ""


def _as_list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []
