"""The changes that a tool call showed when the user was asked about it.

An answer covers the write that follows, but only of what was shown: an agent that shows one text and writes another has
to ask again.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from dragoman.schema.toolcall import Diff

if TYPE_CHECKING:
    from dragoman.roles.client.permission.questions import PermissionPrompt


# The longest text that is compared. Characters. A change of one letter to many, at every place, would fill the memory.
MAX_TEXT = 16 * 1024 * 1024


class ShownChange(NamedTuple):
    """A change of a file, as the tool call shows it: of the whole text, or of a part."""

    path: str
    old: str  # "" for a new file
    new: str


def shown_changes(call: Any, resolve: Callable[[str], str]) -> tuple[ShownChange, ...]:
    """Return the changes that a tool call shows."""
    return tuple(
        ShownChange(resolve(block.path), block.old_text if isinstance(block.old_text, str) else "", block.new_text)
        for block in call.content
        if isinstance(block, Diff)
    )


def is_as_shown(changes: Sequence[ShownChange], use: PermissionPrompt) -> bool:
    """Return whether a use writes what was shown, or nothing was shown. Reads the file."""
    if not changes:
        return True
    shown = [change for change in changes if change.path == use.questions[0].resource]
    if not shown or use.new_text is None:
        return False
    current = (use.read_current() if use.read_current is not None else None) or ""
    # A part that occurs several times may be replaced once, or everywhere: agents show both in the same way.
    results = (_apply(shown, current, count) for count in (1, -1))
    return any(result is not None and _is_same(result, use.new_text) for result in results)


def _apply(changes: Sequence[ShownChange], text: str, count: int) -> str | None:
    """Return the text with these changes, each at one place or (-1) at all.

    None if a change is of another text, or if the result is too long.
    """
    for change in changes:
        if not change.old or _is_same(change.old, text):
            text = change.new
        else:
            places = text.count(change.old) if count < 0 else int(change.old in text)
            if not places or len(text) + places * (len(change.new) - len(change.old)) > MAX_TEXT:
                return None
            text = text.replace(change.old, change.new, count)
    return text


def _is_same(text: str, other: str) -> bool:
    """Return whether two texts differ at most in the line end of the last line, which many agents do not show."""
    return text.rstrip("\r\n") == other.rstrip("\r\n")
