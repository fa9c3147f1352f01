"""The bounded end of a byte stream, read as UTF-8 text cut between characters.

Takes chunks, gives text of at most so many bytes and whether anything was dropped from the start (reference
1.12). Terminals are above; knows nothing of processes.
"""

from __future__ import annotations

import codecs

# Bytes over the limit are cut off only when this many are too many: no chunk may cost a copy of the whole.
_SLACK = 64 * 1024


class OutputTail:
    """Keeps the last `limit` bytes of what it is fed."""

    __slots__ = ("_data", "limit", "total")

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self.total = 0
        self._data = bytearray()

    def feed(self, chunk: bytes) -> None:
        """Take the next bytes."""
        self.total += len(chunk)
        self._data += chunk
        excess = len(self._data) - self.limit
        if excess > _SLACK:
            del self._data[:excess]

    def read(self, final: bool = True) -> tuple[str, bool]:
        """What is kept, and whether more came before; until `final` an unfinished character is held back."""
        excess = len(self._data) - self.limit
        data = bytes(self._data[excess:] if excess > 0 else self._data)
        truncated = self.total > self.limit
        if truncated:
            data = _from_character_start(data)
        text = codecs.getincrementaldecoder("utf-8")("replace").decode(data, final)
        # An undecodable byte becomes the three bytes of U+FFFD, so the text may be over the limit once more.
        if "\ufffd" in text and len(data := text.encode()) > self.limit:
            return _from_character_start(data[-self.limit :]).decode(), True
        return text, truncated


def _from_character_start(data: bytes) -> bytes:
    """Without the rest of a character whose beginning was cut off (at most three bytes)."""
    start = 0
    while start < min(3, len(data)) and data[start] & 0xC0 == 0x80:
        start += 1
    return data[start:]
