"""Objects that are used with `async with`, and say so."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

T = TypeVar("T")


def needs_async_with(call: str) -> Callable[[type[T]], type[T]]:
    """Decorator: objects of the class refuse `with` and `await`, and say how they are used."""

    def refuse(self: Any, *_: Any) -> Any:
        raise TypeError(f"use: async with {call}")

    def add_refusals(kind: type[T]) -> type[T]:
        for name in ("__enter__", "__exit__", "__await__"):
            setattr(kind, name, refuse)
        return kind

    return add_refusals
