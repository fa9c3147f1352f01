"""Mistakes of an agent's author, reported at once with the line: no async def, a missing await, an unknown word."""

from __future__ import annotations

import inspect
import os
import re
import warnings
from collections.abc import Callable
from contextvars import ContextVar
from typing import Any, TextIO

from dragoman.errors import Kind, ProtocolError
from dragoman.schema.prompt import StopReason

_UNAWAITED = re.compile(r"coroutine '(?:Turn|Tool|TurnPlan|TurnCompaction|MessageStream|Session)\.(\w+)' was never")

# What the code of the current turn called without await.
_calls_without_await: ContextVar[list[str]] = ContextVar("calls_without_await")
_show_other_warning: Callable[..., None] = warnings.showwarning


def words_of(enum: type) -> list[str]:
    """Return the words of an open enum."""
    return [value for name, value in vars(enum).items() if name.isupper()]


def check_word(noun: str, word: str, enum: type) -> None:
    """Raise if the protocol does not know a word; one that begins with "_" is an extension."""
    known = words_of(enum)
    if word not in known and not word.startswith("_"):
        raise ValueError(f"there is no {noun} {word!r}; choose one of: {', '.join(known)}")


def check_handler(decorator: str, function: Any) -> None:
    """Raise if a function that answers prompts is not asynchronous."""
    plain = inspect.unwrap(function) if inspect.isfunction(function) else None
    # A lambda cannot be asynchronous, but it can return a coroutine.
    if plain is not None and plain.__name__ != "<lambda>" and not inspect.iscoroutinefunction(plain):
        where = f"{os.path.basename(plain.__code__.co_filename)}:{plain.__code__.co_firstlineno}"
        raise TypeError(f"{decorator} needs an async function; write: async def {plain.__name__}(...) ({where})")


def check_stop_reason(reason: Any) -> str:
    """Return what the function returned, if it is a stop reason."""
    known = words_of(StopReason)
    if not isinstance(reason, str) or (reason not in known and not reason.startswith("_")):
        text = f"the prompt function returned {reason!r:.80}, which is no stop reason ({', '.join(known)})"
        raise ProtocolError(Kind.INTERNAL_ERROR, f"{text}; to send text, use: await turn.say(...)")
    return reason


def watch_awaits() -> list[str]:
    """Collect the calls without await in the code that runs from here on; return their list."""
    global _show_other_warning
    if warnings.showwarning is not _show_warning:  # a test runner may have reset it
        _show_other_warning, warnings.showwarning = warnings.showwarning, _show_warning
        warnings.filterwarnings("always", message=_UNAWAITED.pattern, category=RuntimeWarning)
    calls: list[str] = []
    _calls_without_await.set(calls)
    return calls


def check_awaits(calls: list[str]) -> None:
    """Raise if there were calls without await."""
    if calls:
        raise ProtocolError(Kind.INTERNAL_ERROR, f"await is missing: {', '.join(calls)}")


def _show_warning(
    message: Warning | str,
    category: type[Warning],
    filename: str,
    lineno: int,
    file: TextIO | None = None,
    line: str | None = None,
) -> None:
    found = _UNAWAITED.match(str(message))
    calls = _calls_without_await.get(None)
    if found and calls is not None:
        calls.append(f"await ….{found[1]}(...) ({os.path.basename(filename)}:{lineno})")
    else:
        _show_other_warning(message, category, filename, lineno, file, line)
