"""The one function that turns an exception of a handler into an error for the peer."""

from __future__ import annotations

import asyncio

from dragoman.errors import ConnectionFailed, Kind, ProtocolError

_KIND_BY_EXCEPTION: tuple[tuple[type[BaseException], str], ...] = (
    (asyncio.CancelledError, Kind.CANCELLED),
    (TimeoutError, Kind.TIMEOUT),
    (FileNotFoundError, Kind.RESOURCE_NOT_FOUND),
    (PermissionError, Kind.ACCESS_DENIED),
    (ConnectionFailed, Kind.INTERNAL_ERROR),
)


def to_protocol_error(exception: BaseException) -> ProtocolError:
    """What the peer is told of this exception."""
    if isinstance(exception, ProtocolError):
        return exception
    for kind, meaning in _KIND_BY_EXCEPTION:
        if isinstance(exception, kind):
            return ProtocolError(meaning, str(exception) or meaning.replace("_", " "))
    return ProtocolError(
        Kind.INTERNAL_ERROR,
        f"{type(exception).__name__}: {exception}",
        {"exception": type(exception).__name__},
    )


def cancelled_error() -> ProtocolError:
    """The answer to a request whose sender no longer wants one."""
    return ProtocolError(Kind.CANCELLED, "the request was cancelled")


def is_expected(exception: BaseException) -> bool:
    """Whether the exception is one a handler may raise on purpose, so nobody needs its traceback."""
    return isinstance(exception, ProtocolError | asyncio.CancelledError | TimeoutError | OSError | ConnectionFailed)
