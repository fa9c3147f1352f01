"""The text of a log as passages to search in: what one speaker said in one go, a tool call, a plan.

Takes lines of JSON in order, gives passages; chunks that follow each other are joined, so a word that was streamed in
two pieces is one word. Pure; every store uses it. Looks at text only, never at images, files or settings.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import msgspec

from dragoman.store.contract import EntryKind

# A passage is cut where it grows longer than this, between two words. Characters.
LONGEST = 32 * 1024

_SPEAKERS = {"agent_message_chunk": "agent", "agent_thought_chunk": "thought", "user_message_chunk": "user"}

# What says nothing and interrupts nobody: text goes on after it.
_ASIDE = frozenset({"usage_update", "available_commands_update", "session_info_update", "current_mode_update"})


class Passage(msgspec.Struct, frozen=True):
    """Text of one speaker, from the entry where it begins to the one where it ends."""

    first: int
    last: int
    role: str
    text: str


class _Line(msgspec.Struct):
    seq: int
    kind: str
    body: Any = None


_decoder = msgspec.json.Decoder(_Line)


def passages(lines: Iterable[bytes]) -> Iterator[Passage]:
    """All passages of a stretch of a log."""
    role, first, last = "", 0, 0
    parts: list[str] = []
    size = 0
    for line in lines:
        entry = _decoder.decode(line)
        speaker, text = _said(entry.kind, entry.body)
        if not speaker:
            continue
        if parts and (speaker != role or speaker in ("tool", "plan") or entry.kind == EntryKind.PROMPT):
            yield Passage(first, last, role, "".join(parts))
            parts.clear()
            size = 0
        if not text:
            continue
        if not parts:
            first = entry.seq
        role, last = speaker, entry.seq
        parts.append(text)
        size += len(text)
        if size > LONGEST:
            *whole, rest = _cut("".join(parts))
            yield from (Passage(first, last, role, piece) for piece in whole)
            parts, size, first = [rest], len(rest), last
    if parts:
        yield Passage(first, last, role, "".join(parts))


def _cut(text: str) -> list[str]:
    """Pieces of at most LONGEST, ended by white space where there is some; the last one may go on."""
    pieces = []
    while len(text) > LONGEST:
        space = max(text.rfind(" ", 0, LONGEST), text.rfind("\n", 0, LONGEST)) + 1
        end = space or LONGEST
        pieces.append(text[:end])
        text = text[end:]
    return [*pieces, text]


def _said(kind: str, body: Any) -> tuple[str, str]:
    """Who says what in an entry; nobody ("") when nothing is said, and nothing ("") when somebody is interrupted."""
    if not isinstance(body, dict):
        return "", ""
    if kind == EntryKind.PROMPT:
        return "user", "\n".join(filter(None, map(_block, _listed(body.get("prompt")))))
    if kind != EntryKind.UPDATE:
        return "", ""
    update = body.get("sessionUpdate")
    if update in _SPEAKERS:
        return _SPEAKERS[update], _block(body.get("content"))
    if update in ("tool_call", "tool_call_update"):
        return "tool", "\n".join(filter(None, _of_call(body)))
    if update == "plan":
        entries = _listed(body.get("entries"))
        return "plan", "\n".join(str(entry.get("content", "")) for entry in entries if isinstance(entry, dict))
    return ("", "") if update in _ASIDE else ("other", "")


def _of_call(body: dict[str, Any]) -> Iterator[str]:
    title = body.get("title")
    if isinstance(title, str):
        yield title
    for place in _listed(body.get("locations")):
        if isinstance(place, dict) and isinstance(place.get("path"), str):
            yield place["path"]
    for part in _listed(body.get("content")):
        if isinstance(part, dict):
            yield _block(part.get("content"))
            for member in ("oldText", "newText"):
                if isinstance(part.get(member), str):
                    yield part[member]


def _block(block: Any) -> str:
    if not isinstance(block, dict):
        return ""
    if isinstance(block.get("text"), str):
        return str(block["text"])
    if block.get("type") == "resource_link":
        return f"{block.get('name', '')} {block.get('uri', '')}"
    resource = block.get("resource")
    return str(resource.get("text") or "") if isinstance(resource, dict) else ""


def _listed(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []
