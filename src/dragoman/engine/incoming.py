"""A call as a handler gets it, the handlers, and the error that an exception of a handler becomes.

Params are decoded when they are first read, so a relay that only forwards a message never decodes it. What a handler
returns must be awaited: before the next message for a notification, as a task for a request.
"""

from __future__ import annotations

import asyncio
import os
import traceback
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any

from msgspec import UNSET, Raw, UnsetType

from dragoman.engine.codec import STRICT_ERRORS, PeerCodec, decode_as, decode_strict, json_values
from dragoman.errors import ConnectionFailed, Kind, ProtocolError
from dragoman.schema.methods import Method
from dragoman.wire.envelope import Id

# Where code lies that no author of an agent wrote: Dragoman and the standard library.
_LIBRARY_FOLDERS = tuple(os.path.dirname(file) + os.sep for file in (os.path.dirname(__file__), os.__file__))

# Gets the answer to a request, once: a result or an error.
DoneCallback = Callable[[Any, ProtocolError | None], None]

# The params in one of three forms: raw vocabulary JSON, JSON values, or a Struct.
Source = Raw | Any


class Incoming:
    """One call of the peer; `id` is UNSET for a notification."""

    __slots__ = ("_codec", "_params", "id", "method", "row", "source")

    def __init__(
        self, id: Id | UnsetType, method: str, row: Method | None, source: Source, codec: PeerCodec | None = None
    ) -> None:
        self.id = id
        self.method = method
        self.row = row
        self.source = source
        self._codec = codec  # reads the source again when strict decoding fails
        self._params: Any = UNSET

    @property
    def is_request(self) -> bool:
        """Whether the peer waits for an answer."""
        return self.id is not UNSET

    @property
    def params(self) -> Any:
        """The params as a Struct, or plain JSON for an extension; raises ProtocolError with every fault when they are
        invalid.
        """
        if self._params is UNSET:
            kind = self.row.params if self.row is not None else None
            if type(self.source) is Raw and kind is not None:
                try:
                    self._params = decode_strict(kind, self.source)
                    return self._params
                except STRICT_ERRORS:
                    self.source = self.values
            self._params = decode_as(kind, self.source)
        return self._params

    @params.setter
    def params(self, value: Any) -> None:
        self._params = value
        self.source = value

    @property
    def values(self) -> Any:
        """The params as plain values of the vocabulary, with unknown members."""
        if type(self.source) is Raw and self._codec is not None and self.row is not None:
            self.source = self._codec.lift_raw_params(self.method, self.source)
        return json_values(self.source)

    @values.setter
    def values(self, value: Any) -> None:
        self.source = value
        self._params = UNSET  # decoded again when they are read


Handler = Callable[[Incoming, DoneCallback], Awaitable[None] | None]

# The id of a call that did not come from the peer.
_OWN_ID = "own"


def make_handler(function: Callable[[Any], Any]) -> Handler:
    """Make a handler from a function of the params; its return value, or that of its coroutine, is the answer."""

    def handler(incoming: Incoming, done: DoneCallback) -> Awaitable[None] | None:
        result = function(incoming.params)
        if asyncio.iscoroutine(result):
            return _answer_later(result, done)
        done(result, None)
        return None

    return handler


async def _answer_later(work: Coroutine[Any, Any, Any], done: DoneCallback) -> None:
    done(await work, None)


async def call_handler(handler: Handler, method: str, row: Method | None, values: Any) -> Any:
    """Call a handler from this process as if the peer had sent a request; return the answer, or raise its error."""
    answer: asyncio.Future[tuple[Any, ProtocolError | None]] = asyncio.get_running_loop().create_future()
    incoming = Incoming(_OWN_ID, method, row, values)
    work = handler(incoming, lambda *result: None if answer.done() else answer.set_result(result))
    if work is not None:
        await work
    result, error = await answer
    if error is not None:
        raise error
    return result


def answer_notification(work: Awaitable[None] | None, done: DoneCallback) -> Awaitable[None] | None:
    """Answer a notification that came with an id, since the peer may wait for it."""
    if work is None:
        done({}, None)
        return None

    async def await_and_answer() -> None:
        try:
            await work
        except Exception as error:
            done(None, to_protocol_error(error))
            raise
        done({}, None)

    return await_and_answer()


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
    while isinstance(exception, BaseExceptionGroup) and len(exception.exceptions) == 1:
        exception = exception.exceptions[0]  # as a TaskGroup raises the error of one of its tasks
    if isinstance(exception, ProtocolError):
        return exception
    place = code_place(exception)
    where = f" ({place})" if place else ""
    for exception_type, kind in _KIND_BY_EXCEPTION:
        if isinstance(exception, exception_type):
            said = str(exception) or kind.replace("_", " ")
            return ProtocolError(kind, said + (where if isinstance(exception, OSError) else ""))
    text = f"{type(exception).__name__}: {exception}" if str(exception) else type(exception).__name__
    return ProtocolError(Kind.INTERNAL_ERROR, text + where, {"exception": type(exception).__name__})


def code_place(exception: BaseException) -> str:
    """Return the line of the author's code that led to an exception, such as "agent.py:12"; empty if there is none."""
    frames = [(frame.f_code.co_filename, line) for frame, line in traceback.walk_tb(exception.__traceback__)]
    places = [f"{os.path.basename(file)}:{line}" for file, line in frames if not _is_library(file)]
    return places[-1] if places else ""


def _is_library(file: str) -> bool:
    return file.startswith(_LIBRARY_FOLDERS) or "-packages" + os.sep in file or file.startswith("<")


def refuse_unknown(incoming: Incoming, done: DoneCallback) -> None:
    """Answer a method that nobody handles here."""
    done(None, ProtocolError(Kind.METHOD_NOT_FOUND, f"{incoming.method} is unknown here", {"method": incoming.method}))


def cancelled_error() -> ProtocolError:
    """Return the error that answers a cancelled request."""
    return ProtocolError(Kind.CANCELLED, "the request was cancelled")


def is_expected(exception: BaseException) -> bool:
    """Whether a handler may raise this exception on purpose, so that no traceback is needed."""
    return isinstance(exception, ProtocolError | asyncio.CancelledError | TimeoutError | OSError | ConnectionFailed)
