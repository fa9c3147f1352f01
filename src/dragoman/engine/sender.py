"""Our half of a connection: what we tell, what we ask and who waits for it, what we answer.

Takes messages of the vocabulary, lowers them into the peer's dialect and writes them; gives the peer's answers to those
who wait, in the order the connection hands them over. Above is the connection, which reads and dispatches; below are
the outbox, the peer's speech and its ledger.
"""

from __future__ import annotations

import asyncio
import contextvars
import logging
from collections.abc import Callable
from typing import Any

from msgspec import UNSET, UnsetType

from dragoman.dialect.dialects import load_dialect
from dragoman.dialect.emulator import EmulatorSettings
from dragoman.engine import malformed
from dragoman.engine.codec import PeerCodec, chunk_of, may_have_side_data
from dragoman.engine.decode import decode_as, json_values
from dragoman.engine.emulation import Emulation, ignore_answer
from dragoman.engine.errors import cancelled_error, is_expected, to_protocol_error
from dragoman.engine.limits import MAX_REPORTS
from dragoman.engine.outbox import FrameTemplate, Outbox, build_template
from dragoman.engine.peer_info import PeerInfo
from dragoman.engine.pending import DoneCallback, PendingRequest, PendingRequests
from dragoman.errors import ConnectionFailed, Kind, ProtocolError, Unsayable
from dragoman.schema.methods import METHODS
from dragoman.schema.side import Side
from dragoman.transport.base import Transport
from dragoman.wire.envelope import Envelope, Id, encode_call, encode_error, encode_result, read_error

logger = logging.getLogger("dragoman")

# Set while a notification handler runs: the reply to what it asks must overtake the inbox it is holding up.
handler_connection: contextvars.ContextVar[Sender | None] = contextvars.ContextVar("dragoman_inside", default=None)


class Sender:
    """What we say to one peer."""

    def __init__(
        self, transport: Transport, side: Side, settings: EmulatorSettings, report: Callable[[str], None] | None = None
    ) -> None:
        self.transport = transport
        self.side = side
        self.peer_side = side.other
        self.settings = settings
        self.report = report or logger.info
        self.on_translation_note: Callable[[str], None] = lambda _: (
            None
        )  # hears what was lost or made up in translation
        self.peer = PeerInfo(side)
        self.codec: PeerCodec | None = None
        self.emulation: Emulation | None = None
        self.outbox = Outbox(transport)
        self._reported: set[str] = set()
        self._pending = PendingRequests()
        self._nested_count = 0  # requests of notification handlers, whose replies overtake
        self.resume_reading: Callable[[], None] = lambda: None  # lets the reader go on past the inbox's bound
        self._failure: BaseException | None = None
        self._peer_eof: BaseException | None = None  # why nothing that we ask is answered any more

    def note_initialize(self, params: Any) -> None:
        """The client's initialize passed here, in either direction."""
        self.peer.note_initialize(params, self.emulation.emulator if self.emulation is not None else None)

    def note_initialize_result(self, result: Any) -> None:
        """The agent's answer to initialize passed here, in either direction."""
        self.peer.note_initialize_result(result, self.emulation.emulator if self.emulation is not None else None)

    def offers(self, gate: str) -> bool:
        """Whether the peer advertised the capability at this path."""
        return self.peer.offers(gate)

    # --- asking -----------------------------------------------------------------------------------------------

    def notify(self, method: str, params: Any, *, foreign: bool = False) -> None:
        """Send a notification; one the peer's dialect has no words for is reported, once."""
        if method == "session/update" and self._send_chunk(params):
            return
        if self.emulation is not None and method in self.emulation.emulator.outgoing:
            self.emulation.run_outgoing(method, params, ignore_answer)
            return
        self.send_notification(method, params, foreign=foreign)

    def _send_chunk(self, params: Any) -> bool:
        """Send an update by the short way, if it is a bare piece of text and the dialect is not v1 anyway."""
        speech = self.codec
        if speech is None or speech.is_native or (chunk := chunk_of(params)) is None:
            return False
        if self.emulation is not None and (chunk := self.emulation.emulator.pass_chunk(chunk)) is None:
            return False
        self.outbox.write(encode_call(UNSET, "session/update", speech.dialect.chunk_form.render_params(chunk)))
        return True

    def notification_template(self, method: str, params: Any, placeholder: str) -> FrameTemplate | None:
        """A notification as a form with a gap where `gap` stands; None where frames are not that simple."""
        speech = self.codec
        if speech is None or not speech.is_native or (self.emulation and method in self.emulation.emulator.outgoing):
            return None
        name, body = speech.lower_call(method, params)
        return build_template(encode_call(UNSET, name, body), placeholder)

    def send_notification(self, method: str, params: Any, *, foreign: bool = False) -> None:
        """Lower and send a notification, past the ledger."""
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
        """Report something, but not again and again."""
        if text not in self._reported and len(self._reported) < MAX_REPORTS:
            self._reported.add(text)
            self.report_translation(text)

    def report_translation(self, text: str) -> None:
        """Something was lost or made up in translation: reported, and told to whoever keeps a log."""
        self.report(text)
        self.on_translation_note(text)

    def call(self, method: str, params: Any, done: DoneCallback, *, raw: bool = False) -> Id | UnsetType:
        """Send a request; `done` gets its answer in wire order. Gives an id to call it off by, unless refused."""
        over = self._failure or self._peer_eof
        if over is not None:
            done(None, closed_error(over))
            return UNSET
        refusal = self.peer.refusal(METHODS.get((self.peer_side, method)))
        if refusal is not None:
            done(None, refusal)
            return UNSET
        if method == "initialize":
            self.note_initialize(params)
        if self.emulation is not None and method in self.emulation.emulator.outgoing:
            return self.emulation.run_outgoing(method, params, done, raw=raw)
        return self.send_request(method, params, done, raw)

    def forward(self, method: str, params: Any, done: DoneCallback) -> Id | UnsetType:
        """Send a request whose params are spelled already; `done` gets the envelope that answers it."""
        over = self._failure or self._peer_eof
        if over is not None:
            done(None, closed_error(over))
            return UNSET
        id = self._pending.add(PendingRequest(method, done, is_verbatim=True))
        self.outbox.write(encode_call(id, method, None if params is UNSET else params))
        return id

    def send_request(self, method: str, params: Any, done: DoneCallback, raw: bool = False) -> Id | UnsetType:
        """Lower and send a request, past the gate and the ledger."""
        assert self.codec is not None
        try:
            name, body = self.codec.lower_call(method, params)
        except ProtocolError as error:
            done(None, error)
            return UNSET
        nested = handler_connection.get() is self
        if nested:
            self._nested_count += 1
            self.resume_reading()
        id = self._pending.add(PendingRequest(method, done, is_nested=nested, is_raw=raw))
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

        `first` gets the result before anything that the peer says after it is dispatched.
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
                except Exception as fault:  # of `first`: for who waits, not for the reader
                    future.set_exception(fault)
            else:  # who waits is told that the connection failed, not that the peer answered an error
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
        """Take back a request of ours, and tell the peer where its dialect has a word for that.

        Told to wait, `done` still gets an answer: the peer's, or ours where the peer cannot be told. Else whatever
        still comes is dropped.
        """
        if isinstance(id, UnsetType):
            return
        exchange = self._pending.by_id.get(id)
        if exchange is None:
            if self.emulation is not None:
                self.emulation.cancel_request(id, wait)
            return
        if exchange.is_nested:  # whoever took it back holds nothing up any more
            exchange.is_nested = False
            self._nested_count -= 1
        is_told = exchange.is_verbatim or (self.codec is not None and self.codec.dialect.cancels)
        if is_told:
            self.send_notification("$/cancel_request", {"requestId": id})
        if not (wait and is_told):
            self._pending.abandon(id)
        if wait and not is_told:
            exchange.done(None, cancelled_error())

    def has_pending_requests(self, excluding: str) -> bool:
        """Whether we wait for an answer to anything but this method."""
        return any(exchange.method != excluding for exchange in self._pending.by_id.values())

    # --- being answered ---------------------------------------------------------------------------------------

    def _process_answer(self, envelope: Envelope, frame: bytes) -> None:
        exchange = None if envelope.id is UNSET else self.pop_pending(envelope.id)
        if exchange is None:
            if envelope.id is UNSET or not self._pending.was_abandoned(envelope.id):
                malformed.report_unexpected_answer(self, envelope)
            return
        if exchange.is_verbatim:
            exchange.done(envelope, None)
            return
        assert self.codec is not None
        try:
            if envelope.error is not UNSET and (envelope.result is UNSET or bytes(envelope.error) != b"null"):
                raise self.codec.lift_error(read_error(envelope.error))
            result: Any = self.codec.lift_result(exchange.method, envelope.result, may_have_side_data(frame))
            if not exchange.is_raw:
                result = self._read_result(exchange.method, result)
            if self.emulation is not None:
                heed = self.emulation.emulator.result_observers.get(exchange.method)
                if heed is not None:
                    heed(self.emulation.emulator, result)
        except Exception as error:
            if not isinstance(error, ProtocolError):
                self.log_failure(f"the answer to {exchange.method}", error)
            exchange.done(None, to_protocol_error(error))
            return
        if exchange.method == "initialize":
            self.note_initialize_result(result)
        exchange.done(result, None)

    def _read_result(self, method: str, result: Any) -> Any:
        """A result as its Struct; one that cannot be read is the peer's fault, not that of our params."""
        row = METHODS.get((self.peer_side, method))
        try:
            return decode_as(row.result if row is not None else None, result)
        except ProtocolError as error:
            what = f"the answer to {method} cannot be read: {error.message}"
            raise ProtocolError(Kind.INTERNAL_ERROR, what, error.data) from None

    def pop_pending(self, id: Id) -> PendingRequest | None:
        """The request of ours with this id, which is over; None when there is none."""
        exchange = self._pending.pop(id)
        if exchange is not None and exchange.is_nested:
            self._nested_count -= 1
        return exchange

    # --- answering --------------------------------------------------------------------------------------------

    def answer_callback(self, id: Id, method: str) -> DoneCallback:
        """A callback that answers this request, once."""
        open_ = True

        def done(result: Any, error: ProtocolError | None) -> None:
            nonlocal open_
            if not open_:
                return
            open_ = False
            if error is not None:
                self._send_error(id, error)
                return
            assert self.codec is not None
            if method == "initialize":
                self.note_initialize_result(result)
            try:
                said = self.codec.lower_result(method, result)
            except Exception as fault:  # also a handler's result that is no JSON
                if not isinstance(fault, ProtocolError):
                    self.log_failure(f"the answer to {method}", fault)
                self._send_error(id, to_protocol_error(fault))
                return
            self.outbox.write(encode_result(id, said))

        return done

    def send_error(self, id: Id, *, error: ProtocolError) -> None:
        """Refuse what the peer sent: a request that a tap took, or what cannot be read."""
        self._send_error(id, error)

    def _send_error(self, id: Id, error: ProtocolError) -> None:
        speech = self.codec or PeerCodec(load_dialect("v1"), self.side)
        self.outbox.write(encode_error(id, speech.lower_error(error)))

    def log_failure(self, where: str, error: BaseException) -> None:
        if is_expected(error):
            self.report(f"{where} failed: {error}")
        else:
            logger.error("%s failed", where, exc_info=error)


def closed_error(error: BaseException) -> ProtocolError:
    failure = ProtocolError(Kind.INTERNAL_ERROR, str(error), {"closed": True})
    failure.__cause__ = error
    return failure
