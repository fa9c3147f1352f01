"""A file change as lines of a unified diff."""

from __future__ import annotations

from dragoman.cli.ui.terminal import StyledLine

# The time to compare grows with the square of the difference; above this only the sizes are shown. Characters.
MAX_COMPARED = 400_000

_CONTEXT_LINES = 3  # lines shown around a change
_COLORS = {"+": "green", "-": "red", "@": "cyan"}


def diff_lines(old: str | None, new: str, limit: int) -> list[StyledLine]:
    """Return the change in at most `limit` lines, and one more that counts the rest."""
    if old is None:
        lines = [StyledLine(f"+ {text}", "green") for text in new.splitlines()] or [StyledLine("(empty file)", "dim")]
    elif len(old) + len(new) > MAX_COMPARED:
        lines = [StyledLine(f"(from {len(old)} to {len(new)} characters: too long to compare here)", "dim")]
    else:
        lines = _unified_diff(old, new) or [StyledLine("(no change)", "dim")]
    return truncate_lines(lines, limit)


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
