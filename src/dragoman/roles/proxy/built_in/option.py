"""The options of built-in proxies, written as --name value."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

# Python reserves memory for as many bytes as it is asked to read: a greater number of them fails at the first file.
MAX_COUNT = 2**31


class ProxyOption(NamedTuple):
    """One option: its flag, how its value is read, what it means."""

    flag: str
    read: Callable[[str], Any]
    help: str
    repeated: bool = False

    @property
    def member(self) -> str:
        """The name of its value."""
        return self.flag.lstrip("-").replace("-", "_")


def above_zero(text: str) -> float:
    """Read a number above zero."""
    value = float(text)
    if not 0 < value < 1e15:
        raise ValueError(text)
    return value


def count_above_zero(text: str) -> int:
    """Read a whole number above zero."""
    value = int(text)
    if not 0 < value < MAX_COUNT:
        raise ValueError(text)
    return value
