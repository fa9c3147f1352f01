"""The sending half of a connection: notifications, requests and their answers, and answers to the peer.

Lowers messages into the peer's dialect and writes them; gives the peer's answers to the callbacks, in wire order.
Producers wait for a peer that reads slowly, and for our own reader, so that a cancel gets through.
"""

from __future__ import annotations

import asyncio
import contextvars
import logging
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, NamedTuple

from msgspec import UNSET, UnsetType

from dragoman.dialect.dialects import DEFAULT_DIALECT, load_dialect
from dragoman.dialect.text_chunk import render_chunk
from dragoman.engine import malformed
from dragoman.engine.codec import PeerCodec, decode_as, json_values, may_have_side_data
from dragoman.engine.emulation import Emulation, ignore_answer
from dragoman.engine.incoming import DoneCallback, cancelled_error, is_expected, to_protocol_error
from dragoman.engine.peer_info import PeerInfo
from dragoman.engine.requests import PendingRequest, PendingRequests
from dragoman.engine.text_run import chunk_of
from dragoman.errors import ConnectionFailed, Kind, ProtocolError, Unsayable
from dragoman.schema.base import encode, encode_plain
from dragoman.schema.methods import METHODS
from dragoman.schema.side import Side
from dragoman.transport.base import Transport
from dragoman.wire.envelope import Envelope, Id, encode_call, encode_error, encode_result, read_error

logger = logging.getLogger("dragoman")

# A producer that never waits lets the reader run after this many bytes, so that a cancel gets through.
YIELD_BYTES = 64 * 1024

# Distinct messages reported to the user once (losses, decisions); a peer that causes more must not fill memory.
MAX_REPORTS = 1000

# Set while a notification handler runs: the answer to its own request must not queue behind that handler.
handler_sender: contextvars.ContextVar[Sender | None] = contextvars.ContextVar("dragoman_inside", default=None)


class FrameTemplate(NamedTuple):
    """A frame with a gap for one text, since the chunks of a stream differ in nothing else."""

    head: bytes
    tail: bytes


class Outbox:
    """The outgoing frames of one connection."""

    __slots__ = ("_send", "_transport", "_unyielded_bytes", "is_closed", "should_throttle")

    def __init__(self, transport: Transport) -> None:
        self._transport = transport
        self._send = transport.send
        self._unyielded_bytes = 0  # bytes since the producer last waited
        self.should_throttle = False  # whether a producer should await `throttle`
        self.is_closed = False

    def write(self, frame: bytes) -> None:
        """Send a frame; do nothing once the connection has ended."""
        if self.is_closed:
            return
        # Counted like the transport does, so that a turn ends with a full block, not just after it.
        self._unyielded_bytes += len(frame) + 1
        if self._unyielded_bytes >= YIELD_BYTES:
            self.should_throttle = True
        try:
            self._send(frame)
        except ConnectionFailed:
            pass  # the reader gets the same error and ends the connection with it

    def write_all(self, frames: Sequence[bytes], size: int) -> None:
        """Send frames of this many bytes; do nothing once the connection has ended."""
        if self.is_closed:
            return
        self._unyielded_bytes += size + len(frames)
        if self._unyielded_bytes >= YIELD_BYTES:
            self.should_throttle = True
        send = self._send
        try:
            for frame in frames:
                send(frame)
        except ConnectionFailed:
            pass  # the reader gets the same error and ends the connection with it

    def send_template(self, template: FrameTemplate, text: str) -> bool:
        """Send a template with this text in its gap; return whether the sender should await `throttle`."""
        head, tail = template
        try:  # the joined text has no name, so that a large one is not kept longer
            frame = head + encode_plain(text) + tail
        except UnicodeEncodeError:
            frame = head + encode(text) + tail
        self.write(frame)
        return self.should_throttle

    async def throttle(self) -> None:
        """Wait for a peer that reads too slowly, or let our own reader run after much output."""
        self._unyielded_bytes = 0
        self.should_throttle = False
        if self._transport.congested():
            await self._transport.drain()
        else:
            await asyncio.sleep(0)


def build_template(frame: bytes, placeholder: str) -> FrameTemplate | None:
    """Make a template from a frame, with a gap in place of the placeholder; None when the frame does not contain it."""
    head, separator, tail = frame.partition(encode(placeholder))
    return FrameTemplate(head, tail) if separator else None


class Sender:
    """Sends messages to one peer."""

    def __init__(self, transport: Transport, side: Side, report: Callable[[str], None] | None = None) -> None:
        self.transport = transport
        self.side = side
        self.peer_side = side.other
        self.report = report or logger.info
        self.on_translation_note: Callable[[str], None] = lambda _: None  # gets what was lost or made up in translation
        self.peer = PeerInfo(side)
        self.codec: PeerCodec | None = None
        self.emulation: Emulation | None = None
        self.outbox = Outbox(transport)
        self._reported: set[str] = set()
        self.pending = PendingRequests()
        self.resume_reading: Callable[[], None] = lambda: None  # lets the reader go on past the inbox's limit
        # Whether the peer is a part of this program, so that what stands under our own key is from us.
        self.trusts_side_data: bool = getattr(transport, "is_internal", False)
        self.hold: Awaitable[None] | None = None  # set by a callback: await it before the next message
        self.noise = ""  # the beginning of the first line that is no message, before the peer's initialize
        self._failure: BaseException | None = None  # why no request can be answered any more

    def fail(self, error: BaseException) -> None:
        """Fail the pending requests and all later ones: the peer cannot answer any more."""
        self._failure = error
        for request in list(self.pending.by_id.values()):
            request.done(None, closed_error(error))
        self.pending.by_id.clear()

    def notify(self, method: str, params: Any, *, foreign: bool = False) -> None:
        """Send a notification; report it once if the peer's dialect cannot express it."""
        if method == "session/update" and self._send_chunk(params):
            return
        if self.emulation is not None and method in self.emulation.emulator.outgoing:
            self.emulation.run_outgoing(method, params, ignore_answer)
            return
        self.send_notification(method, params, foreign=foreign)

    def _send_chunk(self, params: Any) -> bool:
        """Send an update by the fast path if it is a text chunk and the dialect is not v1."""
        codec = self.codec
        if codec is None or codec.is_native or (chunk := chunk_of(params)) is None:
            return False
        if chunk.message_id and not codec.dialect.has_message_ids:
            return False
        if self.emulation is not None and (chunk := self.emulation.emulator.pass_chunk(chunk)) is None:
            return False
        chunk_params = render_chunk(codec.dialect.chunk_forms, chunk)
        if chunk_params is None:
            return False
        self.outbox.write(encode_call(UNSET, "session/update", chunk_params))
        return True

    def notification_template(self, method: str, params: Any, placeholder: str) -> FrameTemplate | None:
        """Make a template of a notification with a gap at `placeholder`; None where frames are not that simple."""
        codec = self.codec
        if codec is None or not codec.is_native or (self.emulation and method in self.emulation.emulator.outgoing):
            return None
        name, body = codec.lower_call(method, params)
        return build_template(encode_call(UNSET, name, body), placeholder)

    def send_notification(self, method: str, params: Any, *, foreign: bool = False) -> None:
        """Lower and send a notification, bypassing the emulator."""
        assert self.codec is not None
        try:
            if (foreign and not self.codec.is_native) or (foreign and not isinstance(params, bytes)):
                params = json_values(params)
            name, body = self.codec.lower_call(method, params)
        except Unsayable as error:
            self.report_once(f"not passed on: {error.message}")
            return
        self.outbox.write(encode_call(UNSET, name, body))

    def report_once(self, text: str) -> None:
        """Report this text, but only once."""
        if text not in self._reported and len(self._reported) < MAX_REPORTS:
            self._reported.add(text)
            self.report_translation(text)

    def report_translation(self, text: str) -> None:
        """Report what was lost or made up in translation, also to the log."""
        self.report(text)
        self.on_translation_note(text)

    def call(self, method: str, params: Any, done: DoneCallback, *, raw: bool = False) -> Id | UnsetType:
        """Send a request; `done` gets its answer in wire order. Return an id to cancel it by, unless refused."""
        if self._failure is not None:
            done(None, closed_error(self._failure))
            return UNSET
        refusal = self.peer.refusal(METHODS.get((self.peer_side, method)))
        if refusal is not None:
            done(None, refusal)
            return UNSET
        if method == "initialize":
            self.peer.note_initialize(params)
        if self.emulation is not None and method in self.emulation.emulator.outgoing:
            return self.emulation.run_outgoing(method, params, done, raw=raw)
        return self.send_request(method, params, done, raw)

    def forward(self, method: str, params: Any, done: DoneCallback) -> Id | UnsetType:
        """Send a request whose params are in the peer's dialect; `done` gets the answer's envelope."""
        if self._failure is not None:
            done(None, closed_error(self._failure))
            return UNSET
        id = self.pending.add(PendingRequest(method, done, is_verbatim=True))
        self.outbox.write(encode_call(id, method, None if params is UNSET else params))
        return id

    def send_request(self, method: str, params: Any, done: DoneCallback, raw: bool = False) -> Id | UnsetType:
        """Lower and send a request, bypassing capability check and emulator."""
        assert self.codec is not None
        try:
            name, body = self.codec.lower_call(method, params)
        except ProtocolError as error:
            done(None, error)
            return UNSET
        is_nested = handler_sender.get() is self
        if is_nested:
            self.resume_reading()
        id = self.pending.add(PendingRequest(method, done, is_nested=is_nested, is_raw=raw))
        self.outbox.write(encode_call(id, name, body))
        return id

    async def request_raw(self, method: str, params: Any, *, timeout: float | None = None) -> Any:
        """Send a request and await its result as plain values of the vocabulary, unknown members included."""
        return json_values(await self.request(method, params, timeout=timeout, raw=True))

    async def request(
        self,
        method: str,
        params: Any,
        *,
        timeout: float | None = None,
        raw: bool = False,
        on_result: Callable[[Any], None] | None = None,
    ) -> Any:
        """Send a request and await its typed result; cancelling it tells the peer.

        `on_result` gets the result before any later message of the peer is dispatched.
        """
        future: asyncio.Future[Any] = asyncio.get_running_loop().create_future()

        def done(result: Any, error: ProtocolError | None) -> None:
            if future.done():
                return
            if error is None:
                try:
                    if on_result is not None:
                        on_result(result)
                    future.set_result(result)
                except Exception as fault:  # raised by `on_result`: for the caller, not for the reader
                    future.set_exception(fault)
            else:  # the caller gets the connection's failure, not an error of the peer
                failed = isinstance(error.__cause__, ConnectionFailed)
                future.set_exception(error.__cause__ if failed and error.__cause__ else error)

        id = self.call(method, params, done, raw=raw)
        try:
            if timeout is None:
                return await future
            async with asyncio.timeout(timeout):
                return await future
        except TimeoutError:
            self.cancel_request(id, wait=False)
            raise ProtocolError(Kind.TIMEOUT, f"{method} was not answered within {timeout:g} s") from None
        except asyncio.CancelledError:
            self.cancel_request(id, wait=False)
            raise

    def cancel_request(self, id: Id | UnsetType, *, wait: bool) -> None:
        """Cancel a request of ours, and tell the peer if its dialect can.

        With `wait`, `done` still gets an answer: the peer's, or ours if the peer cannot be told. Otherwise a late
        answer is dropped.
        """
        if isinstance(id, UnsetType):
            return
        request = self.pending.by_id.get(id)
        if request is None:
            if self.emulation is not None:
                self.emulation.cancel_request(id, wait)
            return
        if request.is_nested:  # the cancelled request no longer blocks the inbox
            request.is_nested = False
            self.pending.nested_count -= 1
        tells_peer = request.is_verbatim or (self.codec is not None and self.codec.dialect.cancels)
        if tells_peer:
            self.send_notification("$/cancel_request", {"requestId": id})
        if not (wait and tells_peer):
            self.pending.abandon(id)
        if wait and not tells_peer:
            request.done(None, cancelled_error())

    def has_pending_requests(self, excluding: str) -> bool:
        """Whether a request other than this method is pending."""
        return any(request.method != excluding for request in self.pending.by_id.values())

    def process_answer(self, envelope: Envelope, frame: bytes) -> None:
        """Give an answer of the peer to the callback of its request."""
        request = None if envelope.id is UNSET else self.pending.pop(envelope.id)
        if request is None:
            if envelope.id is UNSET or not self.pending.was_abandoned(envelope.id):
                malformed.report_unexpected_answer(self, envelope)
            return
        if request.is_verbatim:
            request.done(envelope, None)
            return
        assert self.codec is not None
        try:
            if envelope.error is not UNSET and (envelope.result is UNSET or bytes(envelope.error) != b"null"):
                raise self.codec.lift_error(read_error(envelope.error), request.method)
            result: Any = self.codec.lift_result(request.method, envelope.result, may_have_side_data(frame))
            if not request.is_raw:
                result = self._read_result(request.method, result)
            if self.emulation is not None:
                observe = self.emulation.emulator.result_observers.get(request.method)
                if observe is not None:
                    observe(self.emulation.emulator, result)
        except Exception as error:
            if not isinstance(error, ProtocolError):
                self.log_failure(f"the answer to {request.method}", error)
            request.done(None, to_protocol_error(error))
            return
        if request.method == "initialize":
            self.peer.note_initialize_result(result)
        request.done(result, None)

    def _read_result(self, method: str, result: Any) -> Any:
        """Decode a result; an unreadable one is an error of the peer, not of our params."""
        row = METHODS.get((self.peer_side, method))
        try:
            return decode_as(row.result if row is not None else None, result)
        except ProtocolError as error:
            message = f"the answer to {method} cannot be read: {error.message}"
            raise ProtocolError(Kind.INTERNAL_ERROR, message, error.data) from None

    def answer_callback(self, id: Id, method: str) -> DoneCallback:
        """Return a callback that answers this request, once."""
        is_open = True

        def done(result: Any, error: ProtocolError | None) -> None:
            nonlocal is_open
            if not is_open:
                return
            is_open = False
            if error is not None:
                self.send_error(id, error)
                return
            assert self.codec is not None
            if method == "initialize":
                self.peer.note_initialize_result(result)
            try:
                encoded = self.codec.lower_result(method, result)
            except Exception as fault:  # also when the handler's result cannot be encoded
                if not isinstance(fault, ProtocolError):
                    self.log_failure(f"the answer to {method}", fault)
                self.send_error(id, to_protocol_error(fault))
                return
            self.outbox.write(encode_result(id, encoded))

        return done

    def send_error(self, id: Id, error: ProtocolError) -> None:
        """Answer a request with an error."""
        codec = self.codec or PeerCodec(load_dialect(DEFAULT_DIALECT), self.side)
        self.outbox.write(encode_error(id, codec.lower_error(error)))

    def log_failure(self, where: str, error: BaseException) -> None:
        """Report a failure of a handler; log one that is not expected with its traceback."""
        if is_expected(error):
            self.report(f"{where} failed: {error}")
        else:
            logger.error("%s failed", where, exc_info=error)


def closed_error(error: BaseException) -> ProtocolError:
    """Return the error of a request that the connection's failure leaves without an answer."""
    failure = ProtocolError(Kind.INTERNAL_ERROR, str(error), {"closed": True})
    failure.__cause__ = error
    return failure
