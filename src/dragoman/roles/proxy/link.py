"""Link: the connection to one component of a chain, in the wire form of the conductor.

A message to or from the successor of a proxy is wrapped in `proxy/successor`; all others are plain
(docs/protocol/proxy-chains.md#messages). Answers are never wrapped. Each link has its own ids.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from typing import Any, NamedTuple, Protocol

import msgspec
from msgspec import UNSET, Raw, UnsetType

from dragoman.engine.codec import json_values, may_have_side_data, strip_side_data
from dragoman.engine.connection import Connection
from dragoman.engine.incoming import cancelled_error
from dragoman.errors import ConnectionFailed, Kind, ProtocolError
from dragoman.roles.proxy.call import Call, wait_for_functions
from dragoman.schema.base import encode
from dragoman.schema.side import Side
from dragoman.wire.envelope import Envelope, Id, encode_call, encode_error, encode_result

# How long a component that was told to cancel a request may take to answer it; then the conductor answers. Longer than
# any agent takes to stop a command it runs. Seconds.
CANCEL_TIMEOUT = 60.0

Params = Raw | UnsetType


class Spelling(NamedTuple):
    """The names of the methods between a conductor and a proxy."""

    initialize: str
    successor: str


OFFICIAL = Spelling("proxy/initialize", "proxy/successor")

# Up to version 3.6 of the Rust SDK (docs/protocol/proxy-chains.md#spellings).
UNDERSCORED = Spelling("_proxy/initialize", "_proxy/successor")

INITIALIZE_METHODS = {spelling.initialize: spelling for spelling in (OFFICIAL, UNDERSCORED)}
SUCCESSOR_METHODS = {spelling.successor: spelling for spelling in (OFFICIAL, UNDERSCORED)}

CANCEL = "$/cancel_request"

# Calls with the id of a request of the other side; ids differ on each link.
_NAMES_REQUEST = frozenset({"elicitation/create"})


class _Successor(msgspec.Struct):
    """The params of `proxy/successor`."""

    method: str
    params: Raw | UnsetType = UNSET


_decode_successor = msgspec.json.Decoder(_Successor).decode
_NULL = Raw(b"null")


class Route(Protocol):
    """Takes what a component sends: whether it was wrapped, the message, its call if it is a request, and its frame
    if that can be forwarded as it is."""

    def __call__(
        self, is_wrapped: bool, method: str, params: Params, call: Call | None, frame: bytes | None
    ) -> Awaitable[None] | None:
        """Forward the message; return what to await before the next one."""


class Link:
    """One component: its connection, its name, and the requests that are open in both directions."""

    def __init__(
        self, connection: Connection, name: str, route: Route, *, spelling: Spelling | None = None, may_wrap: bool
    ) -> None:
        """`may_wrap` says whether the component may send messages of or to a successor."""
        self.connection = connection
        self.name = name
        self.spelling = spelling or OFFICIAL
        self._route = route
        self._may_wrap = may_wrap
        self._sent: dict[Id, Call] = {}  # requests to the component, by our id
        self.received: dict[Id, Call] = {}  # its requests, by its id
        self.is_proxy = False  # whether what it takes should come out again
        self._to_client, self._to_agent = _InFlight(), _InFlight()
        self.completes_updates = connection.side is Side.CLIENT
        connection.tap = self.tap

    # --- to the component -------------------------------------------------------------------------------------

    def send(
        self, is_wrapped: bool, method: str, params: Params, call: Call | None, frame: bytes | None = None
    ) -> Awaitable[None] | None:
        """Send a message; return what its sender should await before the next one."""
        if is_wrapped:
            method, params, frame = self.spelling.successor, _wrap(method, params), None
        connection = self.connection
        if call is None:
            (self._to_client if is_wrapped else self._to_agent).taken += 1
            if frame is None:
                frame = encode_call(UNSET, method, None if params is UNSET else params)
            connection.sender.outbox.write(frame)
        else:
            self._request(method, params, call)
        return connection.transport.drain() if connection.transport.congested() else None

    def _request(self, method: str, params: Params, call: Call) -> None:
        sender = self.connection.sender
        sent_id: Id | UnsetType = UNSET

        def done(envelope: Envelope | None, error: ProtocolError | None) -> None:
            if not isinstance(sent_id, UnsetType):
                self._sent.pop(sent_id, None)
            if envelope is not None:
                self._to_client.note_answer_passed()
            call.finish(envelope, None if error is None else self.named_error(error))
            if envelope is not None and call.parent is not None and call.root.is_open:
                sender.hold = wait_for_functions(call.root)

        sent_id = sender.forward(method, params, done)
        if not isinstance(sent_id, UnsetType):
            self._sent[sent_id] = call
            call.hold(_SentRequest(self, sent_id, call))

    @property
    def loss(self) -> str:
        """What a component that has ended took with it, as the end of a message; empty if that is nothing."""
        lost = self._to_client.count + self._to_agent.count if self.is_proxy else 0
        return f"; up to {lost} notifications in it are lost" if lost else ""

    def named_error(self, error: ProtocolError) -> ProtocolError:
        """Return the error with the name of this component, and with what is lost if it has ended."""
        data = {**(error.data or {}), "component": self.name}
        message = error.message if self.name in error.message else f"{self.name}: {error.message}"
        if isinstance(error.__cause__, ConnectionFailed):
            message += self.loss
        named = ProtocolError(error.kind, message, data)
        named.__cause__ = error.__cause__
        return named

    # --- from the component -----------------------------------------------------------------------------------

    def tap(self, envelope: Envelope, frame: bytes) -> tuple[bool, Awaitable[None] | None]:
        """Take each call of the component."""
        method, params, unchanged = str(envelope.method), envelope.params, frame
        call = None if isinstance(envelope.id, UnsetType) else self._open_call(envelope.id, method)
        try:
            is_wrapped = method in SUCCESSOR_METHODS
            if is_wrapped:
                method, params = self._unwrap(method, params)
                unchanged = b""
            if method == CANCEL:
                self._cancel(params)
                return True, None
            if call is None:
                (self._to_agent if is_wrapped else self._to_client).passed += 1
            if not self.connection.sender.trusts_side_data and may_have_side_data(frame):
                params, unchanged = _strip(method, params), b""
            elif self.completes_updates and method == "session/update":
                params, unchanged = self._complete(method, params, unchanged)
            if method in _NAMES_REQUEST:
                params = self._map_request_id(params)
            return True, self._route(is_wrapped, method, params, call, unchanged or None)
        except ProtocolError as error:
            if call is None:
                self.connection.sender.report(f"{self.name}: {method} was dropped: {error.message}")
            else:
                call.finish(None, error)
            return True, None

    def _open_call(self, id: Id, method: str) -> Call:
        def answer(envelope: Envelope | None, error: ProtocolError | None) -> None:
            if self.received.get(id) is call:
                del self.received[id]
            sender = self.connection.sender
            self._to_client.note_answer_taken()
            if envelope is None:
                sender.send_error(id, error or cancelled_error())
            elif envelope.error is not UNSET and envelope.result is UNSET:
                sender.outbox.write(encode_error(id, envelope.error))
            else:
                sender.outbox.write(encode_result(id, Raw(b"{}") if envelope.result is UNSET else envelope.result))

        call = Call(method, answer, id=id)
        self.received[id] = call
        return call

    def _unwrap(self, outer: str, params: Params) -> tuple[str, Params]:
        if not self._may_wrap:
            raise ProtocolError(
                Kind.INVALID_REQUEST, f"{outer} came from {self.name}, which has no successor; only a proxy may send it"
            )
        try:
            inner = _decode_successor(b"{}" if params is UNSET else params)
        except (msgspec.MsgspecError, UnicodeDecodeError):
            values = json_values(params)
            if not isinstance(values, dict) or not isinstance(values.get("method"), str):
                raise ProtocolError(Kind.INVALID_PARAMS, f"{outer} needs the method of the inner message") from None
            given = values.get("params")
            inner = _Successor(values["method"], UNSET if given is None else Raw(encode(given)))
        if inner.method in SUCCESSOR_METHODS or inner.method in INITIALIZE_METHODS:
            raise ProtocolError(Kind.INVALID_REQUEST, f"{inner.method} cannot be sent inside {outer}")
        return inner.method, UNSET if inner.params is UNSET or inner.params == _NULL else inner.params

    def _cancel(self, params: Params) -> None:
        """Cancel a request of the component, by its own id; older proxies wrap this message."""
        values = json_values(params)
        id = values.get("requestId") if isinstance(values, dict) else None
        call = self.received.get(id) if isinstance(id, int | str | float) else None
        if call is not None:
            call.cancel()

    def _complete(self, method: str, params: Params, frame: bytes) -> tuple[Params, bytes]:
        """Return an update with the members that clients require."""
        codec = self.connection.sender.codec
        native = None if codec is None else codec.dialect.native
        if codec is None or native is None or not native.is_incomplete(frame):
            return params, frame
        return Raw(encode(codec.lift_raw_params(method, params))), b""

    def _map_request_id(self, params: Params) -> Params:
        """Replace the id of the request that a question is about by the id that the request's sender has for it."""
        values = json_values(params)
        call = self._sent.get(values.get("requestId")) if isinstance(values, dict) else None
        return params if call is None else Raw(encode({**values, "requestId": call.root.id}))


class _InFlight:
    """Notifications in one direction that a component has taken and not passed on.

    It may drop some and add others, so this is an upper bound. Each answer that it passes on settles what came before.
    """

    __slots__ = ("_mark", "passed", "taken")

    def __init__(self) -> None:
        self.taken = 0
        self.passed = 0
        self._mark = 0

    def note_answer_taken(self) -> None:
        """Note that the component gets an answer now, behind everything that it has taken."""
        self._mark = self.taken

    def note_answer_passed(self) -> None:
        """Note that it passed an answer on: what it took before that answer is settled."""
        self.taken -= self._mark
        self.passed = self._mark = 0

    @property
    def count(self) -> int:
        """How many are inside, at most."""
        return max(0, self.taken - self.passed)


class _SentRequest(NamedTuple):
    """A call that a component outside this process has."""

    link: Link
    id: Id
    call: Call

    def cancel(self) -> None:
        self.link.connection.cancel_request(self.id, wait=True)
        asyncio.get_running_loop().call_later(CANCEL_TIMEOUT, self._give_up)

    def _give_up(self) -> None:
        if self.call.is_open and self.link._sent.get(self.id) is self.call:
            self.link.connection.sender.pending.abandon(self.id)
            del self.link._sent[self.id]
            text = f"{self.call.method} was cancelled, but not answered within {CANCEL_TIMEOUT:g} s"
            self.call.finish(None, self.link.named_error(ProtocolError(Kind.CANCELLED, text)))


def _wrap(method: str, params: Any) -> Raw:
    if params is UNSET:
        return Raw(b'{"method":%b}' % encode(method))
    return Raw(b'{"method":%b,"params":%b}' % (encode(method), params))


def _strip(method: str, params: Params) -> Params:
    """Return params without what the component put under our own key."""
    return params if params is UNSET else Raw(encode(strip_side_data(json_values(params), method)))
