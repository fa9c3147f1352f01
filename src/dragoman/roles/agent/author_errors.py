"""Mistakes of an agent's author, reported at once with the line: no async def, a missing await, an unknown word."""

from __future__ import annotations

import asyncio
import inspect
import os
import re
import warnings
from collections.abc import Callable
from functools import cache
from typing import Any, TextIO
from weakref import WeakKeyDictionary

from dragoman.errors import Kind, ProtocolError
from dragoman.schema.prompt import StopReason

_UNAWAITED = re.compile(r"coroutine '(?:Turn|Tool|TurnPlan|TurnCompaction|MessageStream|Session)\.(\w+)' was never")

# What the code of a turn called without await, by its task. Empty unless an author made the mistake.
_calls_without_await: WeakKeyDictionary[asyncio.Task[Any], list[str]] = WeakKeyDictionary()
_show_other_warning: Callable[..., None] = warnings.showwarning


@cache
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


def watch_awaits() -> None:
    """Note calls without await from now on."""
    global _show_other_warning
    if warnings.showwarning is not _show_warning:  # a test runner may have reset it
        _show_other_warning, warnings.showwarning = warnings.showwarning, _show_warning
        warnings.filterwarnings("always", message=_UNAWAITED.pattern, category=RuntimeWarning)


def check_awaits(task: asyncio.Task[Any]) -> None:
    """Raise if the code of a turn, which runs in this task, called something without await."""
    if _calls_without_await and (calls := _calls_without_await.pop(task, None)):
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
    task = _current_task() if found else None
    if found and task is not None:
        _calls_without_await.setdefault(task, []).append(
            f"await ….{found[1]}(...) ({os.path.basename(filename)}:{lineno})"
        )
    else:
        _show_other_warning(message, category, filename, lineno, file, line)


def _current_task() -> asyncio.Task[Any] | None:
    try:
        return asyncio.current_task()
    except RuntimeError:  # no event loop in this thread
        return None
