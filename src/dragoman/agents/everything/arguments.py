"""What stands behind a slash command of an everything agent: words, numbers, paths; Misuse where it is none."""

from __future__ import annotations

import os
import shlex

from dragoman import Turn


class Misuse(Exception):
    """The command was called in a way it does not understand."""


def split(text: str) -> list[str]:
    """The words behind a command, as a shell reads them."""
    try:
        return shlex.split(text)
    except ValueError as fault:
        raise Misuse from fault


def one(text: str) -> str:
    """The only word."""
    found = split(text)
    if len(found) != 1:
        raise Misuse
    return found[0]


def some(text: str) -> str:
    """All of it, which must be something."""
    if not text:
        raise Misuse
    return text


def numbers(text: str, least: int, most: int) -> list[float]:
    """Between `least` and `most` numbers, none negative; the missing ones are 0."""
    found = split(text)
    try:
        numbers = [float(word) for word in found]
    except ValueError:
        raise Misuse from None
    if not least <= len(numbers) <= most or not all(0 <= number < 1e9 for number in numbers):
        raise Misuse
    return numbers + [0.0] * (most - len(numbers))


def located(turn: Turn, path: str) -> str:
    """The protocol wants absolute paths; people type relative ones."""
    return os.path.normpath(os.path.join(turn.session.cwd, path))


def short(turn: Turn, path: str) -> str:
    """A path as people write it: from the folder of the session."""
    return path.removeprefix(turn.session.cwd.rstrip("/") + "/")
