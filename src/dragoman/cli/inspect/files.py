"""Shared by the actions on recordings: read events, report unreadable lines, format numbers."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator

from dragoman.cli.ui.terminal import sanitize_line
from dragoman.dialect.dialects import DIALECT_NAMES
from dragoman.inspect.analyze import Analyzer
from dragoman.inspect.event import RecordedEvent
from dragoman.inspect.reader import RecordingReader, open_recording, read_lines

DIALECTS = ("auto", *DIALECT_NAMES)


def read_events(
    path: str, reader: RecordingReader, observer: Analyzer, wait_for_more: Callable[[], bool] | None = None
) -> Iterator[RecordedEvent]:
    """Yield the events of a recording, as they are read."""
    with open_recording(path) as file:
        for recorded in reader.read(read_lines(file, reader, wait_for_more)):
            yield observer.analyze_line(recorded)


def report_problems(path: str, reader: RecordingReader, is_live: bool = False) -> None:
    """Report on stderr what could not be read, and whether the end is missing."""
    if not reader.is_recording:
        return  # not a recording; the caller reports it
    for problem in reader.problems:
        print(sanitize_line(f"dragoman inspect: {path}, line {problem.line}: {problem.reason}"), file=sys.stderr)
    omitted = reader.problem_count - len(reader.problems)
    if omitted:
        print(f"dragoman inspect: {path}: and {omitted} more lines like these", file=sys.stderr)
    if reader.lost_bytes:
        print(f"dragoman inspect: {path}: {reader.lost_bytes} bytes were not recorded (slow disk)", file=sys.stderr)
    if reader.is_incomplete and not is_live:
        print(
            sanitize_line(f"dragoman inspect: {path} has no end: it was truncated, or is still being written"),
            file=sys.stderr,
        )
