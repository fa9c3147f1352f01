"""Search in logs, the same for every store: a log is split into passages, a query into terms, and terms match passages.

Case and accents are ignored; anything but letters and digits separates words. Pure.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

import msgspec

from dragoman.errors import Kind, ProtocolError
from dragoman.store.contract import EntryKind, decode_raw_entry

# A passage that grows longer than this is split: between two entries, at white space if possible, or inside an entry
# that alone is longer. Characters.
MAX_PASSAGE = 32 * 1024

# How much of one entry is indexed; the rest is stored and shown, but not found. Messages and readable tool output are
# shorter. One entry is indexed in one transaction, and this bounds its duration (about 30 ms). Characters.
FINDABLE = 256 * 1024

_SPEAKERS = {"agent_message_chunk": "agent", "agent_thought_chunk": "thought", "user_message_chunk": "user"}

# The kinds of entries that have text, and the updates without text that do not end a passage.
_WITH_TEXT = frozenset({EntryKind.PROMPT, EntryKind.UPDATE})
_SILENT_UPDATES = frozenset({"usage_update", "available_commands_update", "session_info_update", "current_mode_update"})


class Passage(msgspec.Struct, frozen=True):
    """Text of one speaker, with its first and last entry."""

    first: int
    last: int
    role: str
    text: str


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
            entry = decode_raw_entry(line)
            speaker, text = _speaker_and_text(entry.kind, entry.value) if entry.kind in _WITH_TEXT else ("", "")
        except RecursionError:
            return []  # nested too deeply to decode
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
    """Split text into pieces of at most MAX_PASSAGE, at white space if possible."""
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


# --- queries --------------------------------------------------------------------------------------------------

# How much text is shown around the first match, in characters.
SNIPPET_CONTEXT = 60

_TERM = re.compile(r'"([^"]*)"(\*?)|(\S+)')
_WORD = re.compile(r"[^\W_]+")


class Term(NamedTuple):
    """Consecutive words; the last one may be a prefix."""

    words: tuple[str, ...]
    is_prefix: bool

    def __str__(self) -> str:
        return f'"{" ".join(self.words)}"{"*" if self.is_prefix else ""}'


def parse_query(query: str) -> list[Term]:
    """Parse a query; raise invalid_params if it has no words."""
    found = []
    for phrase, star, word in _TERM.findall(query):
        text = phrase or word
        words = tuple(fold_words(text))
        if words:
            found.append(Term(words, bool(star) or (not phrase and text.endswith("*"))))
    if not found:
        raise ProtocolError(Kind.INVALID_PARAMS, "the query has no words; give at least one word, such as: parse error")
    return found


def matches(terms: list[Term], text: str) -> bool:
    """Return whether a text contains all terms."""
    words = _split_words(text)
    return all(_find_spans(term, words) for term in terms)


def snippet(terms: list[Term], text: str) -> tuple[str, list[tuple[int, int]]]:
    """Return one line of text around the first match, and the positions of the matches in it."""
    spans = sorted(span for term in terms for span in _find_spans(term, _split_words(text)))
    first = spans[0] if spans else (0, 0)
    start = _word_start(text, first[0] - SNIPPET_CONTEXT) if first[0] > SNIPPET_CONTEXT else 0
    end = min(len(text), first[1] + SNIPPET_CONTEXT)
    before, after = ("…" if start else ""), ("…" if end < len(text) else "")
    # Replace character by character, so that the positions stay valid.
    shown = "".join(" " if char.isspace() else char for char in text[start:end])
    shift = len(before) - start
    marks = [(low + shift, high + shift) for low, high in spans if start <= low and high <= end]
    return f"{before}{shown}{after}", marks


def _word_start(text: str, near: int) -> int:
    space = text.find(" ", near, near + 20)
    return space + 1 if space >= 0 else near


def fold_words(text: str) -> list[str]:
    """Return the words of a text as they are compared."""
    return [_fold_word(word) for word in _WORD.findall(text)]


def _split_words(text: str) -> list[tuple[str, int, int]]:
    return [(_fold_word(match[0]), match.start(), match.end()) for match in _WORD.finditer(text)]


def _find_spans(term: Term, words: list[tuple[str, int, int]]) -> list[tuple[int, int]]:
    *whole, last = term.words
    length = len(term.words)
    return [
        (words[place][1], words[place + length - 1][2])
        for place in range(len(words) - length + 1)
        if _word_matches(last, words[place + length - 1][0], term.is_prefix)
        and all(word == words[place + offset][0] for offset, word in enumerate(whole))
    ]


def _word_matches(wanted: str, word: str, is_prefix: bool) -> bool:
    return word.startswith(wanted) if is_prefix else word == wanted


def _fold_word(word: str) -> str:
    if word.isascii():
        return word.lower()
    plain = unicodedata.normalize("NFD", word)
    return unicodedata.normalize("NFC", "".join(char for char in plain if not unicodedata.combining(char))).lower()
