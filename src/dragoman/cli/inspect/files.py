"""What every action on a recording shares: following it through the observer, and saying what could not be read."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator

from dragoman.cli.ui.terminal import single
from dragoman.dialect.dialects import NAMES
from dragoman.inspect.analyze import Observer
from dragoman.inspect.event import Event
from dragoman.inspect.open_recording import lines_of, opened
from dragoman.inspect.reader import Reader

DIALECTS = ("auto", *NAMES)


def events(path: str, reader: Reader, observer: Observer, more: Callable[[], bool] | None = None) -> Iterator[Event]:
    """The events of a recording, as they are read."""
    with opened(path) as file:
        for recorded in reader.read(lines_of(file, reader, more)):
            yield observer.observe(recorded)


def tell(path: str, reader: Reader, is_live: bool = False) -> None:
    """Say on stderr what could not be read, where and why, and that the end is missing."""
    if not reader.is_understood:
        return  # it is no recording, and whoever read it says so
    for trouble in reader.troubles:
        print(single(f"dragoman inspect: {path}, line {trouble.line}: {trouble.why}"), file=sys.stderr)
    unsaid = reader.troubled - len(reader.troubles)
    if unsaid:
        print(f"dragoman inspect: {path}: and {unsaid} more lines like these", file=sys.stderr)
    if reader.lost:
        print(f"dragoman inspect: {path}: {reader.lost} bytes passed unrecorded (a slow disk)", file=sys.stderr)
    if reader.is_unended and not is_live:
        print(single(f"dragoman inspect: {path} has no end: it was cut, or is still being written"), file=sys.stderr)


def seconds(microseconds: int | None) -> str:
    """A duration for people."""
    if microseconds is None:
        return "-"
    if microseconds < 1000:
        return f"{microseconds} µs"
    if microseconds < 1_000_000:
        return f"{microseconds / 1000:.3g} ms"
    return f"{microseconds / 1e6:.3g} s" if microseconds < 100_000_000 else f"{microseconds // 1_000_000} s"


def octets(size: int | None) -> str:
    """A size for people."""
    if size is None:
        return "-"
    for unit in ("B", "KiB", "MiB"):
        if size < 1024 or unit == "MiB":
            break
        size /= 1024  # type: ignore[assignment]
    return f"{size:.3g} {unit}" if unit != "B" else f"{size} B"
