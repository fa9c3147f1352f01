"""What every action on a recording shares: following it through the observer, and saying what could not be read."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator

from dragoman.cli.ui.terminal import sanitize_line
from dragoman.dialect.dialects import DIALECT_NAMES
from dragoman.inspect.analyze import Analyzer
from dragoman.inspect.event import RecordedEvent
from dragoman.inspect.open_recording import open_recording, read_lines
from dragoman.inspect.reader import RecordingReader

DIALECTS = ("auto", *DIALECT_NAMES)


def read_events(
    path: str, reader: RecordingReader, observer: Analyzer, wait_for_more: Callable[[], bool] | None = None
) -> Iterator[RecordedEvent]:
    """The events of a recording, as they are read."""
    with open_recording(path) as file:
        for recorded in reader.read(read_lines(file, reader, wait_for_more)):
            yield observer.analyze_line(recorded)


def report_problems(path: str, reader: RecordingReader, is_live: bool = False) -> None:
    """Say on stderr what could not be read, where and why, and that the end is missing."""
    if not reader.is_recording:
        return  # it is no recording, and whoever read it says so
    for trouble in reader.problems:
        print(sanitize_line(f"dragoman inspect: {path}, line {trouble.line}: {trouble.reason}"), file=sys.stderr)
    unsaid = reader.problem_count - len(reader.problems)
    if unsaid:
        print(f"dragoman inspect: {path}: and {unsaid} more lines like these", file=sys.stderr)
    if reader.lost_bytes:
        print(f"dragoman inspect: {path}: {reader.lost_bytes} bytes passed unrecorded (a slow disk)", file=sys.stderr)
    if reader.is_incomplete and not is_live:
        print(
            sanitize_line(f"dragoman inspect: {path} has no end: it was cut, or is still being written"),
            file=sys.stderr,
        )


def format_duration(microseconds: int | None) -> str:
    """A duration for people."""
    if microseconds is None:
        return "-"
    if microseconds < 1000:
        return f"{microseconds} µs"
    if microseconds < 1_000_000:
        return f"{microseconds / 1000:.3g} ms"
    return f"{microseconds / 1e6:.3g} s" if microseconds < 100_000_000 else f"{microseconds // 1_000_000} s"


def format_size(size: int | None) -> str:
    """A size for people."""
    if size is None:
        return "-"
    for unit in ("B", "KiB", "MiB"):
        if size < 1024 or unit == "MiB":
            break
        size /= 1024  # type: ignore[assignment]
    return f"{size:.3g} {unit}" if unit != "B" else f"{size} B"
