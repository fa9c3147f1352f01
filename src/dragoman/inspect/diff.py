"""Compare two recordings, or two messages, by structure; ids and times are ignored.

`compare` lists where two JSON values differ; `diff` aligns the messages of two recordings. Consecutive text chunks
count as one message, because where a model splits its text is random.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from difflib import SequenceMatcher
from typing import Any, NamedTuple

import msgspec

from dragoman.inspect.event import RecordedEvent
from dragoman.inspect.one_line import CHUNK_UPDATES
from dragoman.transport.recording.format import parse_json

# Members with generated ids, which differ in every run.
ID_MEMBERS = frozenset({
    "sessionId", "session_id", "terminalId", "terminal_id", "toolCallId", "tool_call_id", "messageId", "message_id",
    "requestId", "elicitationId", "planId", "connectionId", "senderSessionId", "recipientSessionId",
})  # fmt: skip
# Members with times, places and the like.
VOLATILE_MEMBERS = frozenset({
    "cwd", "workingDirectory", "working_directory", "timestamp", "createdAt", "updatedAt", "lastUpdate", "expiresAt",
    "pid", "traceparent", "tracestate", "duration",
})  # fmt: skip
IGNORED_MEMBERS = ID_MEMBERS | VOLATILE_MEMBERS

# Characters of each value shown in a difference.
_MAX_QUOTE = 60


def compare(expected: Any, actual: Any, ignored: frozenset[str] = IGNORED_MEMBERS, path: str = "") -> Iterator[str]:
    """Yield the differences of two values, one line each."""
    if isinstance(expected, dict) and isinstance(actual, dict):
        for name in sorted(expected.keys() | actual.keys(), key=str):
            at = f"{path}.{name}" if path else str(name)
            if name in ignored or at in ignored:
                continue
            if name not in actual:
                yield f"{at}: {_quote(expected[name])} is missing"
            elif name not in expected:
                yield f"{at}: {_quote(actual[name])} is new"
            else:
                yield from compare(expected[name], actual[name], ignored, at)
    elif isinstance(expected, list) and isinstance(actual, list):
        if len(expected) != len(actual):
            yield f"{path}: {len(actual)} items instead of {len(expected)}"
        for index, (one, other) in enumerate(zip(expected, actual, strict=False)):
            yield from compare(one, other, ignored, f"{path}[{index}]")
    elif expected != actual or isinstance(expected, bool) is not isinstance(actual, bool):
        yield f"{path or 'the value'}: {_quote(actual)} instead of {_quote(expected)}"


class Difference(NamedTuple):
    """One difference between two recordings: `-` only in the first, `+` only in the second, `~` in both."""

    sign: str
    first: int | None  # lines
    second: int | None
    name: str
    details: list[str]


class _ComparedMessage(NamedTuple):
    key: tuple[str, str, str]
    line: int
    value: Any


def diff(
    first: Iterable[RecordedEvent], second: Iterable[RecordedEvent], ignored: frozenset[str] = IGNORED_MEMBERS
) -> Iterator[Difference]:
    """Yield the differences of two recordings."""
    ones, others = list(_compared_messages(first)), list(_compared_messages(second))
    matcher = SequenceMatcher(None, [each.key for each in ones], [each.key for each in others], autojunk=False)
    for tag, a, b, c, d in matcher.get_opcodes():
        if tag == "equal":
            for one, other in zip(ones[a:b], others[c:d], strict=True):
                details = list(compare(one.value, other.value, ignored))
                if details:
                    yield Difference("~", one.line, other.line, _display_name(one), details)
            continue
        yield from (Difference("-", each.line, None, _display_name(each), []) for each in ones[a:b])
        yield from (Difference("+", None, each.line, _display_name(each), []) for each in others[c:d])


def _display_name(message: _ComparedMessage) -> str:
    return " ".join(part for part in message.key if part)


def _compared_messages(events: Iterable[RecordedEvent]) -> Iterator[_ComparedMessage]:
    """Yield the messages, with text chunks joined, without request ids and stderr."""
    held: _ComparedMessage | None = None
    for event in events:
        if event.kind in ("stderr", "blank"):
            continue
        key = (event.direction, event.kind, event.name)
        is_chunk = event.update in CHUNK_UPDATES
        if is_chunk and held is not None and held.key == key:
            held = held._replace(value=held.value + event.text)
            continue
        if held is not None:
            yield held
        held = _ComparedMessage(key, event.line, event.text if is_chunk else _content(event))
    if held is not None:
        yield held


def _content(event: RecordedEvent) -> Any:
    message = parse_json(event.recorded.data)
    if isinstance(message, dict):
        message.pop("id", None)
    return event.text if message is None else message


def _quote(value: Any) -> str:
    text = msgspec.json.encode(value).decode()
    return text if len(text) <= _MAX_QUOTE else f"{text[: _MAX_QUOTE - 1]}…"
