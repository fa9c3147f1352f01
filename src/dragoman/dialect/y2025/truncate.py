"""Cutting what a 2025.1 client gives whole: a file by lines, a terminal's output by bytes.

The same rules as a workspace has, for agents must not see a difference (reference 1.12, peers.md 23, 28 and 30).
"""

from __future__ import annotations

from msgspec import UnsetType

from dragoman.errors import Kind, ProtocolError

OptionalCount = int | UnsetType | None


def select_lines(text: str, line: OptionalCount, limit: OptionalCount) -> str:
    """`limit` lines from the 1-based `line` on; where lines follow, the newline of the last one falls away."""
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
        if not end:  # past the last line: the end of the file stays as it is
            return text[start:]
    return text[start : max(end - 1, start)].removesuffix("\r")


def last_bytes(text: str, limit: int) -> tuple[str, bool]:
    """The last `limit` bytes as text, cut between characters, and whether anything was cut."""
    data = text.encode("utf-8", "replace")
    if len(data) <= limit:
        return text, False
    kept = data[len(data) - limit :]
    start = 0
    while start < min(3, len(kept)) and kept[start] & 0xC0 == 0x80:
        start += 1
    return kept[start:].decode("utf-8", "replace"), True
