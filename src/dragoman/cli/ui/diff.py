"""A change of a file as lines a person reads: what goes and what comes, with a little around it."""

from __future__ import annotations

from dragoman.cli.ui.terminal import Line

# Comparing takes time that grows with the square of what differs; beyond this the sizes must do. Characters.
COMPARED = 400_000

_AROUND = 3  # lines shown around a change
_COLOURS = {"+": "green", "-": "red", "@": "cyan"}


def changed(old: str | None, new: str, limit: int) -> list[Line]:
    """The change, in at most `limit` lines and one that says how many more there are."""
    if old is None:
        lines = [Line(f"+ {text}", "green") for text in new.splitlines()] or [Line("(an empty file)", "dim")]
    elif len(old) + len(new) > COMPARED:
        lines = [Line(f"(from {len(old)} to {len(new)} characters: too long to compare here)", "dim")]
    else:
        lines = _compared(old, new) or [Line("(nothing changes)", "dim")]
    return shortened(lines, limit)


def _compared(old: str, new: str) -> list[Line]:
    import difflib

    differ = old.endswith("\n") != new.endswith("\n")
    found = list(difflib.unified_diff(_lines(old, differ), _lines(new, differ), n=_AROUND, lineterm=""))[2:]
    return [
        Line(text if text.startswith("@") else f"{text[:1]} {text[1:]}", _COLOURS.get(text[:1], "dim"))
        for text in found
    ]


def _lines(text: str, tell_the_end: bool) -> list[str]:
    """The lines; one that lacks its newline says so where that is a part of the change."""
    lines = text.split("\n")
    if not lines[-1]:
        lines.pop()
    elif tell_the_end:
        lines[-1] += " (no newline at the end)"
    return lines


def shortened(lines: list[Line], limit: int) -> list[Line]:
    """The first lines, and how many more there are."""
    if len(lines) <= limit:
        return lines
    more = len(lines) - limit
    return [*lines[:limit], Line(f"… {more} more line{'' if more == 1 else 's'}", "dim")]
