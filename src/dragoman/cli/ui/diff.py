"""A change of a file as lines a person reads: what goes and what comes, with a little around it."""

from __future__ import annotations

from dragoman.cli.ui.terminal import StyledLine

# Comparing takes time that grows with the square of what differs; beyond this the sizes must do. Characters.
MAX_COMPARED = 400_000

_CONTEXT_LINES = 3  # lines shown around a change
_COLOURS = {"+": "green", "-": "red", "@": "cyan"}


def diff_lines(old: str | None, new: str, limit: int) -> list[StyledLine]:
    """The change, in at most `limit` lines and one that says how many more there are."""
    if old is None:
        lines = [StyledLine(f"+ {text}", "green") for text in new.splitlines()] or [
            StyledLine("(an empty file)", "dim")
        ]
    elif len(old) + len(new) > MAX_COMPARED:
        lines = [StyledLine(f"(from {len(old)} to {len(new)} characters: too long to compare here)", "dim")]
    else:
        lines = _unified_diff(old, new) or [StyledLine("(nothing changes)", "dim")]
    return truncate_lines(lines, limit)


def _unified_diff(old: str, new: str) -> list[StyledLine]:
    import difflib

    differ = old.endswith("\n") != new.endswith("\n")
    found = list(
        difflib.unified_diff(_split_lines(old, differ), _split_lines(new, differ), n=_CONTEXT_LINES, lineterm="")
    )[2:]
    return [
        StyledLine(text if text.startswith("@") else f"{text[:1]} {text[1:]}", _COLOURS.get(text[:1], "dim"))
        for text in found
    ]


def _split_lines(text: str, mark_missing_newline: bool) -> list[str]:
    """The lines; one that lacks its newline says so where that is a part of the change."""
    lines = text.split("\n")
    if not lines[-1]:
        lines.pop()
    elif mark_missing_newline:
        lines[-1] += " (no newline at the end)"
    return lines


def truncate_lines(lines: list[StyledLine], limit: int) -> list[StyledLine]:
    """The first lines, and how many more there are."""
    if len(lines) <= limit:
        return lines
    more = len(lines) - limit
    return [*lines[:limit], StyledLine(f"… {more} more line{'' if more == 1 else 's'}", "dim")]
