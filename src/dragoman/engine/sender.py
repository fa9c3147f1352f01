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

from dragoman.dialect.dialects import dialect
from dragoman.dialect.emulator import Settings
from dragoman.engine import malformed
from dragoman.engine.codec import Speech, chunk_of, may_name_side
from dragoman.engine.decode import read, values
from dragoman.engine.emulation import Emulation, nobody
from dragoman.engine.errors import as_error, called_off, is_expected
from dragoman.engine.limits import MAX_SAID
from dragoman.engine.outbox import Form, Outbox, form
from dragoman.engine.peer_info import Acquaintance
from dragoman.engine.pending import Done, Exchange, Exchanges
from dragoman.errors import ConnectionFailed, Kind, ProtocolError, Unsayable
from dragoman.schema.methods import METHODS
from dragoman.schema.side import Side
from dragoman.transport.base import Transport
from dragoman.wire.envelope import Envelope, Id, read_error, say_call, say_error, say_result

logger = logging.getLogger("dragoman")

# Set while a notification handler runs: the reply to what it asks must overtake the inbox it is holding up.
inside: contextvars.ContextVar[Voice | None] = contextvars.ContextVar("dragoman_inside", default=None)


class Voice:
    """What we say to one peer."""

    def __init__(
        self, transport: Transport, we: Side, settings: Settings, report: Callable[[str], None] | None = None
    ) -> None:
        self.transport = transport
        self.we = we
        self.they = we.other
        self.settings = settings
        self.report = report or logger.info
        self.on_translated: Callable[[str], None] = lambda _: None  # hears what was lost or made up in translation
        self.peer = Acquaintance(we)
        self.speech: Speech | None = None
        self.emulation: Emulation | None = None
        self.outbox = Outbox(transport)
        self._said: set[str] = set()
        self._exchanges = Exchanges()
        self._nested = 0  # requests of notification handlers, whose replies overtake
        self.make_room: Callable[[], None] = lambda: None  # lets the reader go on past the inbox's bound
        self._ended: BaseException | None = None
        self._deaf: BaseException | None = None  # why nothing that we ask is answered any more

    def met(self, params: Any) -> None:
        """The client's initialize passed here, in either direction."""
        self.peer.met(params, self.emulation.ledger if self.emulation is not None else None)

    def introduced(self, result: Any) -> None:
        """The agent's answer to initialize passed here, in either direction."""
        self.peer.introduced(result, self.emulation.ledger if self.emulation is not None else None)

    def offers(self, gate: str) -> bool:
        """Whether the peer advertised the capability at this path."""
        return self.peer.offers(gate)

    # --- asking -----------------------------------------------------------------------------------------------

    def notify(self, method: str, params: Any, *, foreign: bool = False) -> None:
        """Send a notification; one the peer's dialect has no words for is reported, once."""
        if method == "session/update" and self._say_chunk(params):
            return
        if self.emulation is not None and method in self.emulation.ledger.outgoing:
            self.emulation.run_outgoing(method, params, nobody)
            return
        self.send_notification(method, params, foreign=foreign)

    def _say_chunk(self, params: Any) -> bool:
        """Send an update by the short way, if it is a bare piece of text and the dialect is not v1 anyway."""
        speech = self.speech
        if speech is None or speech.plain or (chunk := chunk_of(params)) is None:
            return False
        if self.emulation is not None and (chunk := self.emulation.ledger.pass_chunk(chunk)) is None:
            return False
        self.outbox.write(say_call(UNSET, "session/update", speech.dialect.chunk.say(chunk)))
        return True

    def form(self, method: str, params: Any, gap: str) -> Form | None:
        """A notification as a form with a gap where `gap` stands; None where frames are not that simple."""
        speech = self.speech
        if speech is None or not speech.plain or (self.emulation and method in self.emulation.ledger.outgoing):
            return None
        name, body = speech.lower_call(method, params)
        return form(say_call(UNSET, name, body), gap)

    def send_notification(self, method: str, params: Any, *, foreign: bool = False) -> None:
        """Lower and send a notification, past the ledger."""
        assert self.speech is not None
        try:
            if (foreign and not self.speech.plain) or (foreign and not isinstance(params, bytes)):
                params = values(params)
            name, body = self.speech.lower_call(method, params)
        except Unsayable as error:
            self.say_once(f"not passed on: {error.message}")
            return
        self.outbox.write(say_call(UNSET, name, body))

    def say_once(self, text: str) -> None:
        """Report something, but not again and again."""
        if text not in self._said and len(self._said) < MAX_SAID:
            self._said.add(text)
            self.translated(text)

    def translated(self, text: str) -> None:
        """Something was lost or made up in translation: reported, and told to whoever keeps a log."""
        self.report(text)
        self.on_translated(text)

    def call(self, method: str, params: Any, done: Done, *, raw: bool = False) -> Id | UnsetType:
        """Send a request; `done` gets its answer in wire order. Gives an id to call it off by, unless refused."""
        over = self._ended or self._deaf
        if over is not None:
            done(None, closed(over))
            return UNSET
        refusal = self.peer.refusal(METHODS.get((self.they, method)))
        if refusal is not None:
            done(None, refusal)
            return UNSET
        if method == "initialize":
            self.met(params)
        if self.emulation is not None and method in self.emulation.ledger.outgoing:
            return self.emulation.run_outgoing(method, params, done, raw=raw)
        return self.send_request(method, params, done, raw)

    def forward(self, method: str, params: Any, done: Done) -> Id | UnsetType:
        """Send a request whose params are spelled already; `done` gets the envelope that answers it."""
        over = self._ended or self._deaf
        if over is not None:
            done(None, closed(over))
            return UNSET
        id = self._exchanges.begin(Exchange(method, done, verbatim=True))
        self.outbox.write(say_call(id, method, None if params is UNSET else params))
        return id

    def send_request(self, method: str, params: Any, done: Done, raw: bool = False) -> Id | UnsetType:
        """Lower and send a request, past the gate and the ledger."""
        assert self.speech is not None
        try:
            name, body = self.speech.lower_call(method, params)
        except ProtocolError as error:
            done(None, error)
            return UNSET
        nested = inside.get() is self
        if nested:
            self._nested += 1
            self.make_room()
        id = self._exchanges.begin(Exchange(method, done, nested=nested, raw=raw))
        self.outbox.write(say_call(id, name, body))
        return id

    async def request_raw(self, method: str, params: Any, *, timeout: float | None = None) -> Any:
        """Send a request and await its result as plain values of the vocabulary, unknown members included."""
        return values(await self.request(method, params, timeout=timeout, raw=True))

    async def request(
        self,
        method: str,
        params: Any,
        *,
        timeout: float | None = None,
        raw: bool = False,
        first: Callable[[Any], None] | None = None,
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
                    if first is not None:
                        first(result)
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
            self.call_off(id, wait=False)
            raise ProtocolError(Kind.TIMEOUT, f"{method} was not answered within {timeout:g} s") from None
        except asyncio.CancelledError:
            self.call_off(id, wait=False)
            raise

    def call_off(self, id: Id | UnsetType, *, wait: bool) -> None:
        """Take back a request of ours, and tell the peer where its dialect has a word for that.

        Told to wait, `done` still gets an answer: the peer's, or ours where the peer cannot be told. Else whatever
        still comes is dropped.
        """
        if isinstance(id, UnsetType):
            return
        exchange = self._exchanges.open.get(id)
        if exchange is None:
            if self.emulation is not None:
                self.emulation.call_off(id, wait)
            return
        if exchange.nested:  # whoever took it back holds nothing up any more
            exchange.nested = False
            self._nested -= 1
        is_told = exchange.verbatim or (self.speech is not None and self.speech.dialect.cancels)
        if is_told:
            self.send_notification("$/cancel_request", {"requestId": id})
        if not (wait and is_told):
            self._exchanges.give_up(id)
        if wait and not is_told:
            exchange.done(None, called_off())

    def has_open_requests(self, besides: str) -> bool:
        """Whether we wait for an answer to anything but this method."""
        return any(exchange.method != besides for exchange in self._exchanges.open.values())

    # --- being answered ---------------------------------------------------------------------------------------

    def _answered(self, envelope: Envelope, frame: bytes) -> None:
        exchange = None if envelope.id is UNSET else self.end_exchange(envelope.id)
        if exchange is None:
            if envelope.id is UNSET or not self._exchanges.was_given_up(envelope.id):
                malformed.unexpected(self, envelope)
            return
        if exchange.verbatim:
            exchange.done(envelope, None)
            return
        assert self.speech is not None
        try:
            if envelope.error is not UNSET and (envelope.result is UNSET or bytes(envelope.error) != b"null"):
                raise self.speech.lift_error(read_error(envelope.error))
            result: Any = self.speech.lift_result(exchange.method, envelope.result, may_name_side(frame))
            if not exchange.raw:
                result = self._read_result(exchange.method, result)
            if self.emulation is not None:
                heed = self.emulation.ledger.heeded.get(exchange.method)
                if heed is not None:
                    heed(self.emulation.ledger, result)
        except Exception as error:
            if not isinstance(error, ProtocolError):
                self.note_fault(f"the answer to {exchange.method}", error)
            exchange.done(None, as_error(error))
            return
        if exchange.method == "initialize":
            self.introduced(result)
        exchange.done(result, None)

    def _read_result(self, method: str, result: Any) -> Any:
        """A result as its Struct; one that cannot be read is the peer's fault, not that of our params."""
        row = METHODS.get((self.they, method))
        try:
            return read(row.result if row is not None else None, result)
        except ProtocolError as error:
            what = f"the answer to {method} cannot be read: {error.message}"
            raise ProtocolError(Kind.INTERNAL_ERROR, what, error.data) from None

    def end_exchange(self, id: Id) -> Exchange | None:
        """The request of ours with this id, which is over; None when there is none."""
        exchange = self._exchanges.end(id)
        if exchange is not None and exchange.nested:
            self._nested -= 1
        return exchange

    # --- answering --------------------------------------------------------------------------------------------

    def answering(self, id: Id, method: str) -> Done:
        """A callback that answers this request, once."""
        open_ = True

        def done(result: Any, error: ProtocolError | None) -> None:
            nonlocal open_
            if not open_:
                return
            open_ = False
            if error is not None:
                self._answer_error(id, error)
                return
            assert self.speech is not None
            if method == "initialize":
                self.introduced(result)
            try:
                said = self.speech.lower_result(method, result)
            except Exception as fault:  # also a handler's result that is no JSON
                if not isinstance(fault, ProtocolError):
                    self.note_fault(f"the answer to {method}", fault)
                self._answer_error(id, as_error(fault))
                return
            self.outbox.write(say_result(id, said))

        return done

    def answer(self, id: Id, *, error: ProtocolError) -> None:
        """Refuse what the peer sent: a request that a tap took, or what cannot be read."""
        self._answer_error(id, error)

    def _answer_error(self, id: Id, error: ProtocolError) -> None:
        speech = self.speech or Speech(dialect("v1"), self.we)
        self.outbox.write(say_error(id, speech.lower_error(error)))

    def note_fault(self, where: str, error: BaseException) -> None:
        if is_expected(error):
            self.report(f"{where} failed: {error}")
        else:
            logger.error("%s failed", where, exc_info=error)


def closed(error: BaseException) -> ProtocolError:
    failure = ProtocolError(Kind.INTERNAL_ERROR, str(error), {"closed": True})
    failure.__cause__ = error
    return failure
