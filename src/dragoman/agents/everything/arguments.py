"""Parse the arguments of slash commands: words, numbers, paths. Raises Misuse."""

from __future__ import annotations

import os
import shlex

from dragoman import Turn


class Misuse(Exception):
    """The arguments of a command are invalid."""


def split(text: str) -> list[str]:
    """Split the arguments like a shell."""
    try:
        return shlex.split(text)
    except ValueError as fault:
        raise Misuse from fault


def one(text: str) -> str:
    """Return the only argument."""
    found = split(text)
    if len(found) != 1:
        raise Misuse
    return found[0]


def some(text: str) -> str:
    """Return the whole text, which must not be empty."""
    if not text:
        raise Misuse
    return text


def numbers(text: str, least: int, most: int) -> list[float]:
    """Return `least` to `most` numbers, none negative; missing ones are 0."""
    found = split(text)
    try:
        numbers = [float(word) for word in found]
    except ValueError:
        raise Misuse from None
    if not least <= len(numbers) <= most or not all(0 <= number < 1e9 for number in numbers):
        raise Misuse
    return numbers + [0.0] * (most - len(numbers))


def located(turn: Turn, path: str) -> str:
    """Return the absolute path, which the protocol requires."""
    return os.path.normpath(os.path.join(turn.session.cwd, path))


def short(turn: Turn, path: str) -> str:
    """Return a path relative to the folder of the session."""
    return path.removeprefix(turn.session.cwd.rstrip("/") + "/")
