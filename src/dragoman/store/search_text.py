"""The text of a log as passages to search in: what one speaker said in one go, a tool call, a plan.

Takes lines of JSON in order, gives passages; chunks that follow each other are joined, so a word that was streamed in
two pieces is one word. A passage is made of whole entries, so reading can stop and go on at its first one. Pure; every
store uses it. Looks at text only, never at images, files or settings.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import msgspec

from dragoman.store.contract import EntryKind

# A passage is cut where it grows longer than this: between two entries, after white space if there is some; and inside
# an entry only if that one alone is longer. Characters.
MAX_PASSAGE = 32 * 1024

# As much of one entry as can be found; what stands behind it is kept and shown, but not indexed. A message of a person
# or an agent is shorter, and so is what a tool prints for somebody to read. The index of one entry is written in one
# transaction, and this bounds how long that takes (about 30 ms). Characters.
FINDABLE = 256 * 1024

_SPEAKERS = {"agent_message_chunk": "agent", "agent_thought_chunk": "thought", "user_message_chunk": "user"}

# What says nothing and interrupts nobody: text goes on after it.
_SILENT_UPDATES = frozenset({"usage_update", "available_commands_update", "session_info_update", "current_mode_update"})


class Passage(msgspec.Struct, frozen=True):
    """Text of one speaker, from the entry where it begins to the one where it ends."""

    first: int
    last: int
    role: str
    text: str


class _EntryLine(msgspec.Struct):
    seq: int
    kind: str
    body: Any = None


_entry_decoder = msgspec.json.Decoder(_EntryLine)

# These never go on in the next entry.
_WHOLE = frozenset({"tool", "plan"})


def split_passages(lines: Iterable[bytes]) -> Iterator[Passage]:
    """All passages of a stretch of a log."""
    joiner = Joiner()
    for line in lines:
        yield from joiner.add(line)
    yield from joiner.rest()


class Joiner:
    """Joins the text of entries that follow each other."""

    def __init__(self) -> None:
        self._role = ""
        self._parts: list[tuple[int, str]] = []  # the number of an entry, and its text
        self._cut_at = 0  # the last of the parts that can begin a passage: there is white space before it
        self.size = 0  # characters that wait for the end of their passage

    def add(self, line: bytes) -> list[Passage]:
        """One more entry; gives the passages that are finished by it."""
        try:
            entry = _entry_decoder.decode(line)
        except RecursionError:
            return []  # nested too deeply to look into
        speaker, said = _speaker_and_text(entry.kind, entry.body)
        if not speaker:
            return []
        text = said[:FINDABLE]
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
        """The passage that may go on, if there is one; it is finished then."""
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
    """Pieces of at most LONGEST, ended by white space where there is some."""
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
    """Who says what in an entry; nobody ("") when nothing is said, and nothing ("") when somebody is interrupted."""
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
