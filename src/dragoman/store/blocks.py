"""Blocks of a log: some of its lines in one piece, with their numbers, a checksum and the epoch of their owner. Pure.

Engines keep a log as blocks, the newest entries in small ones, older ones joined to pages.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from zlib import crc32

import msgspec

from dragoman.errors import Kind, ProtocolError
from dragoman.ids import now
from dragoman.schema.base import encode
from dragoman.store.contract import Draft, EntryKind, LogReport
from dragoman.store.formats import FIRST_FORMAT, lower_text, newest_format

# The most of one block: enough to be read at little cost, little enough for a message of an engine. Bytes and entries.
MAX_BLOCK_BYTES = 512 * 1024
MAX_BLOCK_ENTRIES = 256

# A page joins blocks of one or more turns; the same bytes, more entries.
MAX_PAGE_ENTRIES = 4096

# Blocks of one session that wait to be joined: more would make a read dear.
MAX_TAIL = 256


class Block(msgspec.Struct, frozen=True):
    """Lines of a log from a number on."""

    first: int
    count: int
    epoch: int
    sum: int  # CRC-32 of the body
    body: bytes  # the lines, with a newline between two

    @property
    def last(self) -> int:
        """The number of the last line."""
        return self.first + self.count - 1

    def lines(self) -> list[bytes] | None:
        """Return the lines; None if the block is damaged."""
        if crc32(self.body) != self.sum:
            return None
        lines = self.body.split(b"\n")
        if len(lines) != self.count:
            return None
        is_numbered = all(line.startswith(b'{"seq":%d,' % seq) for seq, line in enumerate(lines, self.first))
        return lines if is_numbered else None


def make_block(first: int, epoch: int, lines: Sequence[bytes]) -> Block:
    """Return a block of lines."""
    body = b"\n".join(lines)
    return Block(first, len(lines), epoch, crc32(body), body)


def draft_texts(drafts: Iterable[Draft], format: int | None = None) -> list[bytes]:
    """Return drafts as JSON objects, each on one line, in a format; by default the newest."""
    texts = [encode(draft) for draft in drafts]
    if newest_format() != FIRST_FORMAT:
        texts = [lower_text(text, format or newest_format()) for text in texts]
    # JSON in a body may contain line breaks; an entry is one line.
    return [text if b"\n" not in text else encode(msgspec.json.decode(text)) for text in texts]


def number_texts(texts: Sequence[bytes], first: int) -> list[bytes]:
    """Return the lines of drafts that are stored from a number on."""
    return [b'{"seq":%d,%b' % (seq, text[1:]) for seq, text in enumerate(texts, first)]


def split_blocks(
    first: int,
    epoch: int,
    lines: Sequence[bytes],
    *,
    entries: int = MAX_BLOCK_ENTRIES,
    size: int = MAX_BLOCK_BYTES,
) -> list[Block]:
    """Return lines as blocks of at most this size, or of one line that is longer."""
    blocks: list[Block] = []
    start = length = 0
    for index, line in enumerate(lines):
        if index > start and (index - start >= entries or length + len(line) > size):
            blocks.append(make_block(first + start, epoch, lines[start:index]))
            start, length = index, 0
        length += len(line) + 1
    if start < len(lines):
        blocks.append(make_block(first + start, epoch, lines[start:]))
    return blocks


class LogRange(msgspec.Struct):
    """The readable lines of a range in order, and the ranges that cannot be read."""

    lines: list[bytes]
    lost: list[tuple[int, int]]


def join_blocks(blocks: Iterable[Block], first: int, last: int) -> LogRange:
    """Return the lines from one number to another. Blocks may overlap: a page and the blocks that it replaces.

    What is missing, damaged or of an epoch before that of an earlier line is lost.
    """
    lines: list[bytes] = []
    lost: list[tuple[int, int]] = []
    wanted, epoch = first, 0
    # Of two blocks that have the next line, the longer one is the page.
    for block in sorted(blocks, key=lambda block: (block.first, -block.count)):
        if block.last < wanted or block.first > last:
            continue
        found = block.lines() if block.epoch >= epoch else None
        if found is None:
            continue
        epoch = block.epoch
        if block.first > wanted:
            lost.append((wanted, block.first - 1))
            wanted = block.first
        lines += found[wanted - block.first : last - block.first + 1]
        wanted = min(block.last, last) + 1
    if wanted <= last:
        lost.append((wanted, last))
    return LogRange(lines, lost)


def describe_ranges(ranges: Sequence[tuple[int, int]]) -> str:
    """Return ranges of numbers as text, the first few."""
    which = ", ".join(str(first) if first == last else f"{first}-{last}" for first, last in ranges[:5])
    return which + (f" and {len(ranges) - 5} more ranges" if len(ranges) > 5 else "")


def corrupted_error(session_id: str, lost: list[tuple[int, int]]) -> ProtocolError:
    """Return the error for a log in an engine with entries that cannot be read."""
    return ProtocolError(
        Kind.SESSION_CORRUPTED,
        f"entries {describe_ranges(lost)} of session {session_id!r} cannot be read; restore them from a back-up or a "
        "replica, or give them up with `dragoman store verify --repair`",
        {"sessionId": session_id, "lost": lost},
    )


def fill_gaps(lines: list[bytes], lost: list[tuple[int, int]]) -> list[bytes]:
    """Return all lines of a log, with a `lost` entry in place of each lost one."""
    whole = list(lines)
    text = encode(Draft(kind=EntryKind.LOST, actor="store", time=now(), body={}))[1:]
    for low, high in lost:
        whole[low - 1 : low - 1] = [b'{"seq":%d,%s' % (seq, text) for seq in range(low, high + 1)]
    return whole


def build_report(session_id: str, last: int, lost: list[tuple[int, int]]) -> LogReport:
    """Return the report for a log with these lost ranges."""
    whole: list[tuple[int, int]] = []
    first = 1
    for low, high in [*lost, (last + 1, last + 1)]:
        if low > first:
            whole.append((first, low - 1))
        first = high + 1
    return LogReport(session_id=session_id, kept=whole, lost=lost)
