"""How deep a frame nests, without building what it says.

Takes one frame, gives yes or no: is it nested past the limit? Whatever walks values later may then recurse without
counting. Nearly every frame is told by its length or its number of brackets; only the rest is looked at closely.
"""

from __future__ import annotations

import re
from itertools import accumulate

# Deeper than any real message (the deepest recorded one has 14 levels) and far from the interpreter's own limit.
MAX_DEPTH = 200

# Looked at in parts, so that a large message is not held twice.
_PART = 1024 * 1024

_NO_STRUCTURE = bytes(byte for byte in range(256) if byte not in b'{}[]"')
_STEPS = [1 if byte in b"{[" else -1 for byte in range(256)]
_strings = re.compile(rb'"[^"]*"?')
_backslashes = re.compile(rb"\\*")


def too_deep(frame: bytes) -> bool:
    """Whether the frame nests deeper than MAX_DEPTH."""
    if len(frame) <= 2 * MAX_DEPTH or frame.count(b"{") + frame.count(b"[") <= MAX_DEPTH:
        return False
    brackets = _strings.sub(b"", b"".join(_structure(frame)))
    return max(accumulate(map(_STEPS.__getitem__, brackets)), default=0) > MAX_DEPTH


def _structure(frame: bytes) -> list[bytes]:
    """Brackets and the quotes that open or close strings, nothing else."""
    found: list[bytes] = []
    start = 0
    while start < len(frame):
        end = min(start + _PART, len(frame))
        if frame[end - 1 : end] == b"\\":  # an escape must not be cut in two
            run = _backslashes.match(frame, end)
            end = (run.end() if run else end) + 1
        part = frame[start:end]
        if b"\\" in part:
            part = part.replace(b"\\\\", b"").replace(b'\\"', b"")
        found.append(part.translate(None, _NO_STRUCTURE))
        start = end
    return found
