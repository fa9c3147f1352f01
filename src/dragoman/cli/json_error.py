"""How the running command prints an error as JSON. It imports no parser, because some commands start without one."""

from __future__ import annotations

from collections.abc import Callable
from contextvars import ContextVar

# Gets the message, the kind and the exit code; prints nothing if JSON is not wanted. None: the command has no options.
JsonErrorWriter = Callable[[str, str, int], object]
_writer: ContextVar[JsonErrorWriter | None] = ContextVar("writer", default=None)


def set_json_error_writer(writer: JsonErrorWriter | None) -> None:
    """Set what prints an error of the running command, or forget that of an earlier one."""
    _writer.set(writer)


def print_json_error(message: str, kind: str, code: int) -> None:
    """Print an error that ended the command as JSON, if JSON is wanted."""
    if (write := _writer.get()) is not None:
        write(message, kind, code)
