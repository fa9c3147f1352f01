"""Open recordings: a file, or stdin as `-`, read in blocks and returned line by line.

A line over the limit ends the reading, because the next line break could be anywhere.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import BinaryIO

from dragoman.inspect.format import MAX_LINE
from dragoman.inspect.reader import NotARecording, RecordingReader

# Bytes per read: large enough for little work per line, small enough for memory.
BLOCK_SIZE = 1024 * 1024

# Bytes of one line: the largest message, escaped or in base64, with its frame.
MAX_FILE_LINE = 2 * MAX_LINE + 1024 * 1024

# Seconds between two reads when following a file.
POLL_INTERVAL = 0.1


@contextmanager
def open_recording(path: str) -> Iterator[BinaryIO]:
    """Open the file; errors name it and say what to do."""
    if path == "-":
        with _prefix_errors("standard input"):
            yield sys.stdin.buffer
        return
    try:
        file = open(path, "rb", buffering=0)  # noqa: SIM115  (closed below; errors of the caller are not ours)
    except OSError as error:
        raise NotARecording(f"{path}: {(error.strerror or str(error)).lower()}; give the path of a recording") from None
    with file, _prefix_errors(path):
        if os.path.isdir(path):
            raise NotARecording("this is a folder; name a recording")
        yield file


def wait_for_file(path: str, on_wait: Callable[[], None]) -> None:
    """Wait until a file exists, after calling `on_wait`; do not wait if its directory does not exist."""
    if path == "-" or os.path.exists(path) or not os.path.isdir(os.path.dirname(path) or "."):
        return
    on_wait()
    while not os.path.exists(path):  # until Ctrl-C
        time.sleep(POLL_INTERVAL)


@contextmanager
def _prefix_errors(path: str) -> Iterator[None]:
    """Put the path before the message: a command may read two files."""
    try:
        yield
    except NotARecording as error:
        raise NotARecording(f"{path}: {error}") from None


def read_lines(
    file: BinaryIO, reader: RecordingReader, keep_waiting: Callable[[], bool] | None = None
) -> Iterator[bytes]:
    """Yield the lines with their line ends; at the end, wait for more while `keep_waiting` returns true."""
    for lines in read_blocks(file, reader, keep_waiting):
        yield from lines


def read_blocks(
    file: BinaryIO, reader: RecordingReader, keep_waiting: Callable[[], bool] | None = None
) -> Iterator[list[bytes]]:
    """Yield many lines at once, which is faster."""
    rest = b""
    while True:
        try:
            block = file.read(max(BLOCK_SIZE, len(rest)))  # read a very long line in growing steps
        except IsADirectoryError:
            raise NotARecording("this is a folder; name a recording") from None
        if not block:
            if keep_waiting is None or not keep_waiting():
                break
            time.sleep(POLL_INTERVAL)
            continue
        data = rest + block
        lines = data.splitlines(keepends=True) if b"\r" not in data else _split_lines(data)
        rest = lines.pop() if lines and not lines[-1].endswith(b"\n") else b""
        if lines:
            yield lines
        if len(rest) > MAX_FILE_LINE:
            reader.add_problem(reader.line_count + 1, f"longer than {MAX_FILE_LINE} bytes; reading stopped here")
            return
    if rest:
        yield [rest]


def _split_lines(data: bytes) -> list[bytes]:
    """Split at newlines alone: a CR inside a line of another recorder is not a line end."""
    lines = [line + b"\n" for line in data.split(b"\n")]
    lines[-1] = lines[-1][:-1]
    if not lines[-1]:
        lines.pop()
    return lines
