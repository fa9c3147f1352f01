"""The last bytes of a stream, as UTF-8 text cut between characters.

See docs/protocol/files-terminals.md#truncation.
"""

from __future__ import annotations

import codecs

# Bytes over the limit before the buffer is cut, so that not every chunk copies it.
_SLACK = 64 * 1024


class OutputTail:
    """Keeps the last `limit` bytes."""

    __slots__ = ("_data", "limit", "total")

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self.total = 0
        self._data = bytearray()

    def feed(self, chunk: bytes) -> None:
        """Append bytes."""
        self.total += len(chunk)
        self._data += chunk
        excess = len(self._data) - self.limit
        if excess > _SLACK:
            del self._data[:excess]

    def read(self, final: bool = True) -> tuple[str, bool]:
        """Return the kept text, and whether it is truncated; unless `final`, omit an incomplete character."""
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
    """Remove the rest of a character whose start was cut off (at most three bytes)."""
    start = 0
    while start < min(3, len(data)) and data[start] & 0xC0 == 0x80:
        start += 1
    return data[start:]
