"""Bounded waiting for what other processes do in their own time."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")


def eventually(predicate: Callable[[], T | None], within: float = 5.0) -> T:
    """The first true value of the predicate; fails when there is none in time."""
    deadline = time.monotonic() + within
    while True:
        value = predicate()
        if value:
            return value
        assert time.monotonic() < deadline, f"not true within {within} s: {predicate}"
        time.sleep(0.01)


def alive(pid: int) -> bool:
    """Whether this process runs (a zombie does not)."""
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            return file.read().rpartition(b") ")[2][:1] not in (b"Z", b"X")
    except OSError:
        return False
