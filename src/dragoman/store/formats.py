"""The formats of log entries: which this version reads, and how an entry gets from one to another. Pure.

Format 1 has no mark; a line of a later one begins with its number: {"seq":7,"format":2,... A process has entries in the
newest format that it knows. Nodes of a fleet write the one that all of them read (`fleet_format`).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec

from dragoman.errors import StoreFault
from dragoman.schema.base import encode

# The format of entries without a mark.
FIRST_FORMAT = 1


def _keep(entry: dict[str, Any]) -> dict[str, Any]:
    return entry


class EntryFormat(msgspec.Struct, frozen=True):
    """One format, by what it changed. Entries are JSON objects without `seq` and `format`."""

    number: int
    lift: Callable[[dict[str, Any]], dict[str, Any]] = _keep  # an entry of the format before
    lower: Callable[[dict[str, Any]], dict[str, Any]] = _keep  # an entry of this format, for readers of the one before


# All formats, by age. A version that changes entries adds a row, and reads all earlier ones.
FORMATS = [EntryFormat(FIRST_FORMAT)]


def newest_format() -> int:
    """Return the newest format that this version reads, in which it has entries in memory."""
    return FORMATS[-1].number


def unreadable_fault(format: int) -> StoreFault:
    """Return the error for entries of a version after this one."""
    return StoreFault(
        "newer",
        f"the entries have format {format}, and this Dragoman reads up to {newest_format()}; update Dragoman here",
    )


def lift_line(line: bytes | str) -> bytes:
    """Return a line of an older format in the newest one; raise StoreFault("newer") for one that is newer."""
    entry = msgspec.json.decode(line)
    number, seq = entry.pop("format", FIRST_FORMAT), entry.pop("seq")
    if number > newest_format():
        raise unreadable_fault(number)
    for format in FORMATS:
        if format.number > number:
            entry = format.lift(entry)
    return b'{"seq":%d,%b' % (seq, _mark(encode(entry), newest_format())[1:])


def lower_text(text: bytes, format: int) -> bytes:
    """Return an entry in memory, as JSON without its number, as it is written in a format."""
    if format == newest_format():
        return _mark(text, format)
    entry = msgspec.json.decode(text)
    entry.pop("format", None)
    for each in reversed(FORMATS):
        if each.number > format:
            entry = each.lower(entry)
    return _mark(encode(entry), format)


def _mark(text: bytes, format: int) -> bytes:
    return text if format == FIRST_FORMAT else b'{"format":%d,%b' % (format, text[1:])
