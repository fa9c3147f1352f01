"""Check how deep a frame nests without decoding it, so that later code may recurse safely.

The length or the number of brackets is enough for nearly every frame; only the rest is scanned.
"""

from __future__ import annotations

import re
from itertools import accumulate

# Deeper than any real message (the deepest recorded one has 14 levels) and far below the interpreter's own limit.
MAX_DEPTH = 200

# Scanned in parts, so that a large message is not held twice.
_PART_SIZE = 1024 * 1024

_NO_STRUCTURE = bytes(byte for byte in range(256) if byte not in b'{}[]"')
_DEPTH_CHANGE = [1 if byte in b"{[" else -1 for byte in range(256)]
_STRING_PATTERN = re.compile(rb'"[^"]*"?')
_BACKSLASHES_PATTERN = re.compile(rb"\\*")


def is_too_deep(frame: bytes) -> bool:
    """Whether the frame nests deeper than MAX_DEPTH."""
    if len(frame) <= 2 * MAX_DEPTH or frame.count(b"{") + frame.count(b"[") <= MAX_DEPTH:
        return False
    brackets = _STRING_PATTERN.sub(b"", b"".join(_structural_bytes(frame)))
    return max(accumulate(map(_DEPTH_CHANGE.__getitem__, brackets)), default=0) > MAX_DEPTH


def _structural_bytes(frame: bytes) -> list[bytes]:
    """Return only the brackets and the quotes that open or close strings."""
    found: list[bytes] = []
    start = 0
    while start < len(frame):
        end = min(start + _PART_SIZE, len(frame))
        if frame[end - 1 : end] == b"\\":  # do not split an escape
            run = _BACKSLASHES_PATTERN.match(frame, end)
            end = (run.end() if run else end) + 1
        part = frame[start:end]
        if b"\\" in part:
            part = part.replace(b"\\\\", b"").replace(b'\\"', b"")
        found.append(part.translate(None, _NO_STRUCTURE))
        start = end
    return found
