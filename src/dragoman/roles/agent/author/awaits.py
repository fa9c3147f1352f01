"""Forgotten awaits and wrong calls of the library in an author's code, with what to write."""

from __future__ import annotations

import asyncio
import inspect
import os
import re
import sys
import warnings
from collections.abc import Callable
from typing import Any, TextIO
from weakref import WeakKeyDictionary

from dragoman.errors import Kind, ProtocolError

# The classes whose calls an author may forget to await, or call with other arguments.
_AUTHOR_CLASSES = (
    "Turn|Tool|TurnPlan|TurnCompaction|TurnTerminal|MessageStream|Session|SessionTools"
    "|ClientFiles|ClientTerminals|ClientTerminal"
)
_UNAWAITED = re.compile(rf"coroutine '(?:{_AUTHOR_CLASSES})\.(\w+)' was never")
_WRONG_CALL = re.compile(rf"({_AUTHOR_CLASSES})\.(\w+)\(\) (?:takes|missing|got) ")
_LIBRARY_FOLDER = os.path.abspath(__file__).rpartition("roles")[0]

# What the code of a turn called without await, by its task. Empty unless an author made the mistake.
_calls_without_await: WeakKeyDictionary[asyncio.Task[Any], list[str]] = WeakKeyDictionary()
_show_other_warning: Callable[..., None] = warnings.showwarning


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


def add_advice(error: Exception, task: asyncio.Task[Any]) -> None:
    """Add what to write to an error of Python about a call of ours: a missing await, or other arguments."""
    calls = _calls_without_await.pop(task, None) if _calls_without_await else None
    if len(error.args) != 1 or not isinstance(error, TypeError | AttributeError):
        return
    text = str(error)
    if calls:
        error.args = (f"{text}; await is missing: {', '.join(calls)}",)
    elif "'coroutine' object" in text:
        error.args = (f"{text}; await is missing where this value comes from",)
    elif call := _WRONG_CALL.match(text):
        error.args = (f"{text}; write: {call[2]}({_parameters_of(call[1], call[2])})",)


def _parameters_of(class_name: str, method: str) -> str:
    """Return the parameters of a method as they are written in a call."""
    modules = [module for name, module in list(sys.modules.items()) if name.startswith("dragoman.roles.agent.")]
    owner = next((vars(module)[class_name] for module in modules if class_name in vars(module)), None)
    words: list[str] = []
    for parameter in list(inspect.signature(getattr(owner, method)).parameters.values())[1:]:
        is_optional = parameter.default is not parameter.empty or parameter.kind is parameter.KEYWORD_ONLY
        words.append(f"{parameter.name}=..." if is_optional else str(parameter).partition(":")[0])
    return ", ".join(words)


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
        # The coroutine may have been in a variable until the author's code had ended: then the line is one of ours.
        where = "" if filename.startswith(_LIBRARY_FOLDER) else f" ({os.path.basename(filename)}:{lineno})"
        _calls_without_await.setdefault(task, []).append(f"await ….{found[1]}(...){where}")
    else:
        _show_other_warning(message, category, filename, lineno, file, line)


def _current_task() -> asyncio.Task[Any] | None:
    try:
        return asyncio.current_task()
    except RuntimeError:  # no event loop in this thread
        return None
