"""Truncate what a 2025.1 client returns whole: a file by lines, terminal output by bytes.

The rules are those of a workspace, so agents see no difference (docs/protocol/files-terminals.md,
docs/protocol/peers.md#nulls, docs/protocol/peers.md#missing-files, docs/protocol/peers.md#line-slices).
"""

from __future__ import annotations

from msgspec import UnsetType

from dragoman.errors import Kind, ProtocolError

OptionalCount = int | UnsetType | None


def select_lines(text: str, line: OptionalCount, limit: OptionalCount) -> str:
    """Return `limit` lines from the 1-based `line` on; if more lines follow, without the last newline."""
    for name, value in (("line", line), ("limit", limit)):
        if isinstance(value, int) and value < 0:
            raise ProtocolError(Kind.INVALID_PARAMS, f"{name} is {value}; it counts from 1", {name: value})
    start = 0
    for _ in range(max(line or 1, 1) - 1):
        start = text.find("\n", start) + 1
        if not start:
            return ""
    if not isinstance(limit, int):
        return text[start:]
    end = start
    for _ in range(limit):
        end = text.find("\n", end) + 1
        if not end:  # past the last line: the end of the file is unchanged
            return text[start:]
    return text[start : max(end - 1, start)].removesuffix("\r")


def last_bytes(text: str, limit: int) -> tuple[str, bool]:
    """Return the last `limit` bytes as text, cut between characters, and whether it was cut."""
    data = text.encode("utf-8", "replace")
    if len(data) <= limit:
        return text, False
    kept = data[len(data) - limit :]
    start = 0
    while start < min(3, len(kept)) and kept[start] & 0xC0 == 0x80:
        start += 1
    return kept[start:].decode("utf-8", "replace"), True
