"""Functions that a program offers as tools: refused where they are offered if they cannot be tools."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any


def check_tools(functions: Any, example: str = "tools=[NAME]") -> None:
    """Raise if the tools of one server are no functions, or if two have one name; `example` shows how to offer one."""
    if isinstance(functions, str) or not isinstance(functions, Sequence):
        raise TypeError(f"tools is a list of functions, not {functions!r:.80}; write: tools=[function, ...]")
    names: set[str] = set()
    for function in functions:
        name = getattr(function, "__name__", "")
        if not callable(function) or name in ("", "<lambda>"):
            raise TypeError(f"a tool is a function with a name, not {function!r:.80}; write: def NAME(...), {example}")
        if name in names:
            raise ValueError(f"two functions named {name} are offered; only one could be called; rename one")
        names.add(name)
