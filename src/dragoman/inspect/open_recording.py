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
from dragoman.inspect.reader import NotARecording, RecordingReader

# One read for so many bytes: large enough that Python does little per line, small enough to hold.
BLOCK_SIZE = 1024 * 1024

# A line of a recording may hold the largest message, escaped or in base64, and its frame. Bytes.
MAX_FILE_LINE = 2 * MAX_LINE + 1024 * 1024

# How often `tail -f` looks for more. Seconds; a person takes it for at once.
POLL_INTERVAL = 0.1


@contextmanager
def open_recording(path: str) -> Iterator[BinaryIO]:
    """The file to read; faults say what to do."""
    if path == "-":
        with _prefix_errors("standard input"):
            yield sys.stdin.buffer
        return
    try:
        file = open(path, "rb", buffering=0)  # noqa: SIM115  (closed below; errors of the caller are not ours)
    except OSError as error:
        raise NotARecording(f"{path}: {(error.strerror or str(error)).lower()}; name a recording") from None
    with file, _prefix_errors(path):
        if os.path.isdir(path):
            raise NotARecording("this is a folder; name a recording")
        yield file


def wait_for_file(path: str, on_wait: Callable[[], None]) -> None:
    """Wait for a file that somebody is about to write, which is said once; one without a folder never comes."""
    if path == "-" or os.path.exists(path) or not os.path.isdir(os.path.dirname(path) or "."):
        return
    on_wait()
    while not os.path.exists(path):  # until Ctrl-C: whoever follows a file waits for what comes
        time.sleep(POLL_INTERVAL)


@contextmanager
def _prefix_errors(path: str) -> Iterator[None]:
    """Say which file is no recording: there may be two."""
    try:
        yield
    except NotARecording as error:
        raise NotARecording(f"{path}: {error}") from None


def read_lines(
    file: BinaryIO, reader: RecordingReader, keep_waiting: Callable[[], bool] | None = None
) -> Iterator[bytes]:
    """The lines of a file with their line ends, the last one as it is; with `more`, waits at the end for others."""
    for lines in read_blocks(file, reader, keep_waiting):
        yield from lines


def read_blocks(
    file: BinaryIO, reader: RecordingReader, keep_waiting: Callable[[], bool] | None = None
) -> Iterator[list[bytes]]:
    """Many lines at once, for whoever is in a hurry."""
    rest = b""
    while True:
        try:
            block = file.read(max(BLOCK_SIZE, len(rest)))  # a giant is read in ever larger steps
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
    """Split at newlines alone: a CR inside a line of another recorder is no line end."""
    lines = [line + b"\n" for line in data.split(b"\n")]
    lines[-1] = lines[-1][:-1]
    if not lines[-1]:
        lines.pop()
    return lines
