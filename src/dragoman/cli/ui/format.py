"""Numbers, times, file changes and results as text or JSON."""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterable
from datetime import UTC, datetime
from typing import Any

from dragoman.cli.ui.terminal import StyledLine, escape_json, sanitize_line

# Below this many seconds, count in units of that many seconds, with this name.
_AGE_UNITS = ((3600, 60, "minute"), (86400, 3600, "hour"), (30 * 86400, 86400, "day"))


def format_age(time: str, now: datetime | None = None) -> str:
    """Return how long ago a time was."""
    try:
        then = datetime.fromisoformat(time)
    except ValueError:
        return "at some time"
    then = then if then.tzinfo else then.replace(tzinfo=UTC)
    seconds = ((now or datetime.now(UTC)) - then).total_seconds()
    if seconds < 60:
        return "just now"
    for below, unit, word in _AGE_UNITS:
        if seconds < below:
            return format_count(int(seconds // unit), word) + " ago"
    return f"{then:%Y-%m-%d}"


def format_expiry(time: float | None) -> str:
    """Return how long something is valid."""
    return "forever" if time is None else f"until {datetime.fromtimestamp(time, UTC):%Y-%m-%d %H:%M} UTC"


def format_count(number: int, noun: str) -> str:
    """Return a number with its noun."""
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def format_duration(microseconds: int | None) -> str:
    """Return a duration as text."""
    if microseconds is None:
        return "-"
    if microseconds < 1000:
        return f"{microseconds} µs"
    if microseconds < 1_000_000:
        return f"{microseconds / 1000:.3g} ms"
    return f"{microseconds / 1e6:.3g} s" if microseconds < 100_000_000 else f"{microseconds // 1_000_000} s"


def format_size(size: int | None) -> str:
    """Return a size as text."""
    if size is None:
        return "-"
    for unit in ("B", "KiB", "MiB"):
        if size < 1024 or unit == "MiB":
            break
        size /= 1024  # type: ignore[assignment]
    return f"{size:.3g} {unit}" if unit != "B" else f"{size} B"


def print_json(value: Any) -> None:
    """Print a value as JSON."""
    # Also a lone surrogate (from a file name that is not UTF-8) becomes its JSON escape.
    print(escape_json(json.dumps(value, indent=1, ensure_ascii=False).encode("utf-8", "surrogatepass")).decode())


def report(options: argparse.Namespace, json_value: Any, lines: str | Iterable[str], code: int = 0) -> int:
    """Print the result of an action: JSON with --json, else lines; return the exit code."""
    if options.json:
        print_json(json_value)
    else:
        for line in [lines] if isinstance(lines, str) else lines:
            print(sanitize_line(line))
    return code


# The time to compare grows with the square of the difference; above this only the sizes are shown. Characters.
MAX_COMPARED = 400_000

_CONTEXT_LINES = 3  # lines shown around a change
_COLORS = {"+": "green", "-": "red", "@": "cyan"}


def diff_lines(old: str | None, new: str, limit: int | None = None) -> list[StyledLine]:
    """Return the change; with a limit, in at most so many lines and one more that counts the rest."""
    if old is None:
        lines = [StyledLine(f"+ {text}", "green") for text in new.splitlines()] or [StyledLine("(empty file)", "dim")]
    elif len(old) + len(new) > MAX_COMPARED:
        lines = [StyledLine(f"(from {len(old)} to {len(new)} characters: too long to compare here)", "dim")]
    else:
        lines = _unified_diff(old, new) or [StyledLine("(no change)", "dim")]
    return lines if limit is None else truncate_lines(lines, limit)


def _unified_diff(old: str, new: str) -> list[StyledLine]:
    import difflib

    differ = old.endswith("\n") != new.endswith("\n")
    changed = list(
        difflib.unified_diff(_split_lines(old, differ), _split_lines(new, differ), n=_CONTEXT_LINES, lineterm="")
    )[2:]
    return [
        StyledLine(text if text.startswith("@") else f"{text[:1]} {text[1:]}", _COLORS.get(text[:1], "dim"))
        for text in changed
    ]


def _split_lines(text: str, mark_missing_newline: bool) -> list[str]:
    """Return the lines; a note marks a missing newline at the end where that is part of the change."""
    lines = text.split("\n")
    if not lines[-1]:
        lines.pop()
    elif mark_missing_newline:
        lines[-1] += " (no newline at the end)"
    return lines


def truncate_lines(lines: list[StyledLine], limit: int) -> list[StyledLine]:
    """Return the first lines, and one more that counts the rest."""
    if len(lines) <= limit:
        return lines
    more = len(lines) - limit
    return [*lines[:limit], StyledLine(f"… {more} more line{'' if more == 1 else 's'}", "dim")]
