"""Turn an exception of a handler into an error for the peer."""

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
    """Return the error that the peer gets for this exception."""
    if isinstance(exception, ProtocolError):
        return exception
    for exception_type, kind in _KIND_BY_EXCEPTION:
        if isinstance(exception, exception_type):
            return ProtocolError(kind, str(exception) or kind.replace("_", " "))
    return ProtocolError(
        Kind.INTERNAL_ERROR,
        f"{type(exception).__name__}: {exception}",
        {"exception": type(exception).__name__},
    )


def cancelled_error() -> ProtocolError:
    """Return the error that answers a cancelled request."""
    return ProtocolError(Kind.CANCELLED, "the request was cancelled")


def is_expected(exception: BaseException) -> bool:
    """Whether a handler may raise this exception on purpose, so that no traceback is needed."""
    return isinstance(exception, ProtocolError | asyncio.CancelledError | TimeoutError | OSError | ConnectionFailed)
