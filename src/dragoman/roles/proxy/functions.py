"""ProxyFunctions: a proxy of a chain in this process. Messages that it does not claim pass without any cost.

A handler gets each claimed call and answers it or forwards it. A rewrite sees every message in both directions.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from itertools import count
from typing import Any, NamedTuple, Protocol

import msgspec
from msgspec import UNSET, Raw

from dragoman.dialect.dialects import DEFAULT_DIALECT, load_dialect
from dragoman.engine.codec import PeerCodec, decode_as, json_values, may_have_side_data
from dragoman.engine.incoming import DoneCallback, Handler, Incoming, answer_notification, to_protocol_error
from dragoman.engine.requests import RunningRequests
from dragoman.errors import Kind, ProtocolError
from dragoman.roles.proxy.call import Call, PassedError
from dragoman.roles.proxy.link import Params
from dragoman.schema.base import encode
from dragoman.schema.methods import METHODS
from dragoman.schema.side import Side
from dragoman.wire.envelope import Envelope, read_error


class Passing(NamedTuple):
    """A message that passes a proxy: what it is, who receives it, its method, and its JSON: params, result or error."""

    kind: str  # request, notification, result, error
    receiver: Side
    method: str
    raw: Raw
    id: int | None = None  # the same for a request and its answer
    request: Raw | None = None  # the params of the request that a result or an error answers


# Gets each message that passes. Returns other JSON in its place, or None to leave it. Raising ProtocolError refuses a
# request with that error and drops anything else.
Rewrite = Callable[[Passing], bytes | None]


class PassOn(Protocol):
    """Sends a message on from a component of the chain towards its receiver."""

    def __call__(
        self, receiver: Side, method: str, params: Params, call: Call | None, frame: bytes | None = None
    ) -> Awaitable[None] | None:
        """Return what to await before the next message."""


class FunctionHost(Protocol):
    """Where the functions of a proxy run."""

    def claim(self, receiver: Side, method: str, handler: Handler) -> None:
        """Handle the calls of a method to `receiver` with this handler."""

    def notify(self, receiver: Side, method: str, params: Any) -> Awaitable[None] | None:
        """Send a notification."""

    def request(self, receiver: Side, method: str, params: Any, done: DoneCallback, parent: Call | None = None) -> Call:
        """Send a request."""


class _OtherEnd(NamedTuple):
    """One of the two neighbors, as an extension sees it."""

    functions: ProxyFunctions
    receiver: Side

    def notify(self, method: str, params: Any) -> None:
        self.functions.notify(self.receiver, method, params)


class ProxyFunctions:
    """The handlers and rewrites of one proxy, between its two neighbors in the chain."""

    def __init__(self, name: str, pass_on: PassOn, report: Callable[[str], None]) -> None:
        self.name = name
        self.report = report
        self.rewrites: list[Rewrite] = []
        self.client, self.agent = _OtherEnd(self, Side.CLIENT), _OtherEnd(self, Side.AGENT)
        self._pass_on = pass_on
        self._handlers: dict[tuple[Side, str], Handler] = {}
        self._running = RunningRequests(self._report_failure)
        self._numbers = count()
        dialect = load_dialect(DEFAULT_DIALECT)
        self._codecs = {side: PeerCodec(dialect, side) for side in Side}

    def claim(self, receiver: Side, method: str, handler: Handler) -> None:
        """Handle the calls of a method to `receiver` with this handler."""
        self._handlers[receiver, method] = handler

    def takes(self, receiver: Side, method: str) -> bool:
        """Whether a message must go through this proxy."""
        return bool(self.rewrites) or (receiver, method) in self._handlers

    async def close(self) -> None:
        """Cancel the functions that are running."""
        self._running.cancel_all()
        await self._running.wait_cancelled()

    # --- messages of the chain --------------------------------------------------------------------------------

    def send(
        self, receiver: Side, method: str, params: Params, call: Call | None, frame: bytes | None = None
    ) -> Awaitable[None] | None:
        """Take a message on its way to `receiver`."""
        if self.rewrites:
            kind = "notification" if call is None else "request"
            raw = Raw(b"{}") if params is UNSET else params
            id = None if call is None else next(self._numbers)
            changed = self._rewrite(Passing(kind, receiver, method, raw, id))
            if changed is not None:
                params, frame = changed, None
            if call is not None:
                call = self._with_rewritten_answer(receiver, method, raw, call, id)
        handler = self._handlers.get((receiver, method))
        if handler is None:
            return self._pass_on(receiver, method, params, call, frame)
        return self._handle(handler, receiver, method, params, call)

    def _handle(
        self, handler: Handler, receiver: Side, method: str, params: Params, call: Call | None
    ) -> Awaitable[None] | None:
        codec = self._codecs[receiver]
        row, source = METHODS.get((receiver, method)), Raw(b"{}") if params is UNSET else params
        reader = None if may_have_side_data(bytes(source)) else codec  # only one of our own ends sends side data here
        incoming = _PassingCall(UNSET if call is None else next(self._numbers), method, row, source, reader)
        incoming.call = call
        incoming.receiver = receiver
        done = _ignore_answer if call is None else self._answer_callback(codec, method, call)
        has_task = call is not None if row is None else row.request
        try:
            work = handler(incoming, done)
        except Exception as error:
            self._report_failure(f"the handler of {method}", error)
            if call is not None:
                call.finish(None, self._component_error(error))
            return None
        if has_task:
            if work is not None:
                if call is not None:
                    call.hold(_RunningFunction(self, incoming))
                self._running.start(incoming, work, done)
            return None
        return work if call is None else answer_notification(work, done)

    def _answer_callback(self, codec: PeerCodec, method: str, call: Call) -> DoneCallback:
        def done(result: Any, error: ProtocolError | None) -> None:
            if error is not None:
                if isinstance(error, PassedError):
                    call.finish(Envelope(error=error.raw), None)
                else:
                    call.finish(None, self._component_error(error))
                return
            try:
                raw = result if type(result) is Raw else Raw(codec.lower_result(method, result))
            except Exception as fault:
                self._report_failure(f"the answer to {method}", fault)
                call.finish(None, self._component_error(fault))
                return
            call.finish(Envelope(result=raw), None)

        return done

    def _component_error(self, error: BaseException) -> ProtocolError:
        """Return the error of a function; one that it did not raise on purpose names this proxy."""
        known = to_protocol_error(error)
        if known.kind != Kind.INTERNAL_ERROR or "component" in (known.data or {}):
            return known
        return ProtocolError(
            known.kind, f"{self.name}: {known.message}", {**(known.data or {}), "component": self.name}
        )

    def _report_failure(self, where: str, error: BaseException) -> None:
        self.report(f"{self.name}: {where} failed: {error}")

    # --- what handlers do -------------------------------------------------------------------------------------

    def notify(self, receiver: Side, method: str, params: Any) -> Awaitable[None] | None:
        """Send a notification to a neighbor."""
        return self._pass_on(receiver, method, self._encode(receiver, method, params), None)

    def request(self, receiver: Side, method: str, params: Any, done: DoneCallback, parent: Call | None = None) -> Call:
        """Send a request to a neighbor; `done` gets its result as raw JSON."""
        codec = self._codecs[receiver]

        def answer(envelope: Envelope | None, error: ProtocolError | None) -> None:
            if parent is not None:
                parent.give_back(before)
            if envelope is None:
                done(None, error)
            elif envelope.error is not UNSET and envelope.result is UNSET:
                lifted = codec.lift_error(read_error(envelope.error), method)
                done(None, PassedError(lifted, envelope.error))
            else:
                done(Raw(b"{}") if envelope.result is UNSET else envelope.result, None)

        call = Call(method, answer, parent=parent)
        before = None if parent is None else parent.hold(call)  # a cancel goes on to where the request is now
        try:
            self._pass_on(receiver, method, self._encode(receiver, method, params), call)
        except ProtocolError as error:
            call.finish(None, error)
        return call

    def _encode(self, receiver: Side, method: str, params: Any) -> Raw:
        return params if type(params) is Raw else Raw(self._codecs[receiver.other].lower_call(method, params)[1])

    def forward_to_agent(self, incoming: Incoming, done: DoneCallback) -> Awaitable[None] | None:
        """Forward a call of the client; a handler for `claim`."""
        return self._forward(incoming, done, Side.AGENT)

    def forward_to_client(self, incoming: Incoming, done: DoneCallback) -> Awaitable[None] | None:
        """Forward a call of the agent; a handler for `claim`."""
        return self._forward(incoming, done, Side.CLIENT)

    def _forward(self, incoming: Incoming, done: DoneCallback, receiver: Side) -> Awaitable[None] | None:
        params = incoming.source if type(incoming.source) is Raw else incoming.values
        if not incoming.is_request:
            return self.notify(receiver, incoming.method, params)
        self.request(receiver, incoming.method, params, done, getattr(incoming, "call", None))
        return None

    # --- rewrites ---------------------------------------------------------------------------------------------

    def _rewrite(self, passing: Passing) -> Raw | None:
        """Return the changed JSON, or None if nothing changes it."""
        changed: Raw | None = None
        for rewrite in self.rewrites:
            replaced = rewrite(passing)
            if replaced is not None:
                changed = Raw(replaced)
                passing = passing._replace(raw=changed)
        return changed

    def _with_rewritten_answer(self, receiver: Side, method: str, params: Raw, call: Call, id: int | None) -> Call:
        def answer(envelope: Envelope | None, error: ProtocolError | None) -> None:
            if envelope is None:
                call.finish(None, error)
                return
            is_error = envelope.error is not UNSET and envelope.result is UNSET
            raw = envelope.error if is_error else envelope.result
            assert not isinstance(raw, msgspec.UnsetType)
            try:
                kind = "error" if is_error else "result"
                changed = self._rewrite(Passing(kind, receiver.other, method, raw, id, params))
            except ProtocolError as refusal:
                call.finish(None, refusal)
                return
            if changed is not None:
                envelope = Envelope(error=changed) if is_error else Envelope(result=changed)
            call.finish(envelope, None)

        inner = Call(method, answer, id=call.id, parent=call)
        call.hold(inner)
        return inner


class _PassingCall(Incoming):
    """A call as a handler of a chain gets it, with the request that it answers."""

    __slots__ = ("call", "receiver")

    call: Call | None
    receiver: Side


class _RunningFunction(NamedTuple):
    """A call that a function handles, while it has forwarded nothing."""

    functions: ProxyFunctions
    incoming: Incoming

    def cancel(self) -> None:
        assert self.incoming.id is not UNSET
        self.functions._running.cancel(self.incoming.id)


def _ignore_answer(result: Any, error: ProtocolError | None) -> None:
    pass


def typed_result(receiver: Side, method: str, result: Any) -> Any:
    """Return a result as a function of a proxy gets it."""
    row = METHODS.get((receiver, method))
    return decode_as(row.result if row is not None else None, result)


def encode_json(values: Any) -> bytes:
    """Encode the values of a message for a Rewrite."""
    return bytes(encode(json_values(values)))
