"""Opening recordings: a file, or standard input as `-`, read in blocks and given line by line.

The one place of this folder that reads recordings from disk. A line beyond the limit ends the reading, for nothing
that follows could be trusted to begin where a line begins.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import BinaryIO

from dragoman.inspect.format import MAX_LINE
from dragoman.inspect.reader import NotRecorded, Reader

# One read for so many bytes: large enough that Python does little per line, small enough to hold.
BLOCK = 1024 * 1024

# A line of a recording may hold the largest message, escaped or in base64, and its frame. Bytes.
LONGEST = 2 * MAX_LINE + 1024 * 1024

# How often `tail -f` looks for more. Seconds; a person takes it for at once.
LOOK_AGAIN = 0.1


@contextmanager
def opened(path: str) -> Iterator[BinaryIO]:
    """The file to read; faults say what to do."""
    if path == "-":
        with _named("standard input"):
            yield sys.stdin.buffer
        return
    try:
        file = open(path, "rb", buffering=0)  # noqa: SIM115  (closed below; errors of the caller are not ours)
    except OSError as error:
        raise NotRecorded(f"{path}: {(error.strerror or str(error)).lower()}; name a recording") from None
    with file, _named(path):
        if os.path.isdir(path):
            raise NotRecorded("this is a folder; name a recording")
        yield file


def appeared(path: str, say: Callable[[], None]) -> None:
    """Wait for a file that somebody is about to write, which is said once; one without a folder never comes."""
    if path == "-" or os.path.exists(path) or not os.path.isdir(os.path.dirname(path) or "."):
        return
    say()
    while not os.path.exists(path):  # until Ctrl-C: whoever follows a file waits for what comes
        time.sleep(LOOK_AGAIN)


@contextmanager
def _named(path: str) -> Iterator[None]:
    """Say which file is no recording: there may be two."""
    try:
        yield
    except NotRecorded as error:
        raise NotRecorded(f"{path}: {error}") from None


def lines_of(file: BinaryIO, reader: Reader, more: Callable[[], bool] | None = None) -> Iterator[bytes]:
    """The lines of a file with their line ends, the last one as it is; with `more`, waits at the end for others."""
    for lines in blocks_of(file, reader, more):
        yield from lines


def blocks_of(file: BinaryIO, reader: Reader, more: Callable[[], bool] | None = None) -> Iterator[list[bytes]]:
    """Many lines at once, for whoever is in a hurry."""
    rest = b""
    while True:
        try:
            block = file.read(max(BLOCK, len(rest)))  # a giant is read in ever larger steps
        except IsADirectoryError:
            raise NotRecorded("this is a folder; name a recording") from None
        if not block:
            if more is None or not more():
                break
            time.sleep(LOOK_AGAIN)
            continue
        data = rest + block
        lines = data.splitlines(keepends=True) if b"\r" not in data else _lines(data)
        rest = lines.pop() if lines and not lines[-1].endswith(b"\n") else b""
        if lines:
            yield lines
        if len(rest) > LONGEST:
            reader.trouble(reader.lines + 1, f"longer than {LONGEST} bytes; reading stopped here")
            return
    if rest:
        yield [rest]


def _lines(data: bytes) -> list[bytes]:
    """Split at newlines alone: a CR inside a line of another recorder is no line end."""
    lines = [line + b"\n" for line in data.split(b"\n")]
    lines[-1] = lines[-1][:-1]
    if not lines[-1]:
        lines.pop()
    return lines
