"""The connection: the one async driver of the engine. Frames of a transport become calls of handlers, in order.

The reader never awaits a handler. While nothing is under way, messages are dispatched as they are read; as soon as a
notification handler has to be awaited, the rest queue in the inbox and one dispatcher takes them in wire order.
Requests run as tasks of their own, begun at once; replies are delivered when their turn comes. Below is a transport,
beside it the peer's dialect (Speech, Ledger), above are the roles. `we` is the side we play: the same code serves an
agent, a client and both halves of a proxy.
"""

from __future__ import annotations

import asyncio
import contextvars
import logging
from collections.abc import Awaitable, Callable
from typing import Any

from msgspec import UNSET, Raw, UnsetType

from dragoman.dialect import detect
from dragoman.dialect.ledger import Settings
from dragoman.dialect.registry import Dialect, dialect
from dragoman.engine import unreadable
from dragoman.engine.acquaintance import Acquaintance
from dragoman.engine.emulation import Emulation, nobody
from dragoman.engine.exchange import Done, Exchange, Exchanges
from dragoman.engine.fault import as_error, called_off, is_expected
from dragoman.engine.handler import Handler, acknowledged
from dragoman.engine.inbound import Inbound
from dragoman.engine.inbox import Inbox
from dragoman.engine.limits import EOF_GRACE, INBOX_HARD_BYTES, MAX_SAID
from dragoman.engine.message import Incoming
from dragoman.engine.outbox import Form, Outbox, form
from dragoman.engine.reading import NOT_STRICT, read, strictly, values
from dragoman.engine.speech import Speech, chunk_of, is_bare, may_name_side, update_of
from dragoman.errors import ConnectionFailed, Kind, Overloaded, ProtocolError, TransportClosed, Unsayable
from dragoman.schema.methods import METHODS
from dragoman.schema.side import Side
from dragoman.transport.contract import Transport
from dragoman.wire.envelope import (
    Envelope,
    Id,
    Malformed,
    parse,
    read_error,
    say_call,
    say_error,
    say_result,
)
from dragoman.wire.frames import Frame

logger = logging.getLogger("dragoman")

# Sees calls before they are translated; says whether it took the call, and what must be awaited before the next.
Tap = Callable[[Envelope, bytes], tuple[bool, Awaitable[None] | None]]

# Takes the typed params of a notification, without anything around them: the hot path of every stream.
Sink = Callable[[Any], Awaitable[None] | None]

_NONE = Raw(b"{}")

# Set while a notification handler runs: the reply to what it asks must overtake the inbox it is holding up.
_inside: contextvars.ContextVar[Connection | None] = contextvars.ContextVar("dragoman_inside", default=None)


class Connection:
    """One peer, being talked to. Handlers get its calls; `request` and `notify` make ours."""

    def __init__(
        self,
        transport: Transport,
        we: Side,
        handlers: dict[str, Handler],
        *,
        fallback: Handler,
        settings: Settings,
        speaks: Dialect | None = None,
        report: Callable[[str], None] | None = None,
    ) -> None:
        self.transport = transport
        self.we = we
        self.handlers = handlers
        self.fallback = fallback
        self.settings = settings
        self.report = report or logger.info
        self.peer = Acquaintance(we)
        self.speech: Speech | None = None
        self.emulation: Emulation | None = None
        self.on_close: Callable[[BaseException], None] | None = None
        self.tap: Tap | None = None
        self.sinks: dict[str, Sink] = {}
        self._said: set[str] = set()
        self._exchanges = Exchanges()
        self._inbox = Inbox(self._dispatch, lambda error: self._note_fault("a notification handler", error))
        self._nested = 0
        self.outbox = Outbox(transport)
        self._ended: BaseException | None = None
        self.ended: asyncio.Event = asyncio.Event()
        self._main: asyncio.Task[None] | None = None
        self._dispatcher: asyncio.Task[None] | None = None
        if speaks is not None:
            self.speak(speaks)

    # --- life -------------------------------------------------------------------------------------------------

    def speak(self, peer_dialect: Dialect) -> None:
        """Pin the peer's dialect to this connection."""
        self.speech = Speech(peer_dialect, self.we)
        ledger = peer_dialect.ledger(self.we.other, self.settings)
        self.emulation = None if ledger is None else Emulation(self, ledger)

    def start(self) -> None:
        """Begin to read; needs a running event loop."""
        self._loop = asyncio.get_running_loop()
        self.inbound = Inbound(self._note_fault)
        self._main = self._loop.create_task(self._run(), name=f"dragoman {self.transport.peer}")

    async def close(self, reason: str = "") -> None:
        """End the connection: what is open fails, handlers are cancelled, the transport is let go."""
        self._fail(
            TransportClosed(f"the connection to {self.transport.peer} was closed" + (f": {reason}" if reason else ""))
        )
        if asyncio.current_task() not in (self._main, self._dispatcher) and self._main is not None:
            self._main.cancel()
            await asyncio.gather(self._main, return_exceptions=True)
        self.inbound.cancel_all()
        await self.inbound.gone()
        await self.transport.close(reason)

    async def _run(self) -> None:
        self._dispatcher = dispatcher = self._loop.create_task(self._attend_inbox())
        try:
            await self._read()
        except ConnectionFailed as error:
            try:
                async with asyncio.timeout(EOF_GRACE):
                    await self._inbox.idle()  # what arrived before the end is still delivered, in order
            except TimeoutError:
                pass
            if type(error) is TransportClosed:
                await self.inbound.finish(EOF_GRACE)
            self._fail(error)
        except Exception as fault:  # ours; whoever waits is told rather than left waiting
            self._note_fault(f"reading from {self.transport.peer}", fault)
            self._fail(ConnectionFailed(f"reading from {self.transport.peer} failed: {fault}"))
        finally:
            dispatcher.cancel()
            await asyncio.gather(dispatcher, return_exceptions=True)

    async def _attend_inbox(self) -> None:
        _inside.set(self)
        await self._inbox.run()

    def _fail(self, error: BaseException) -> None:
        if self._ended is not None:
            return
        self._ended = error
        self.outbox.closed = True
        for exchange in list(self._exchanges.open.values()):
            exchange.done(None, _closed(error))
        self._exchanges.open.clear()
        if self.emulation is not None:
            self.emulation.end(_closed(error))
        self.inbound.cancel_all()
        self.ended.set()
        self._inbox.room.set()
        if self.on_close is not None:
            self.on_close(error)

    @property
    def failure(self) -> BaseException | None:
        """Why the connection ended; None while it lives."""
        return self._ended

    # --- reading ----------------------------------------------------------------------------------------------

    async def _read(self) -> None:
        receive, accept = self.transport.receive, self._accept
        self.transport.listen(self._take)
        while True:
            for frame in await receive():
                accept(frame)
            if self._inbox.is_full:
                await self._await_room()

    def _take(self, frames: list[Frame]) -> bool:
        """Frames straight from the transport; refused when the reader has to wait before it reads on."""
        if self._inbox.is_full or self._ended is not None:
            return False
        for frame in frames:
            self._accept(frame)
        return True

    async def _await_room(self) -> None:
        inbox = self._inbox
        while inbox.is_full and not self._nested:
            inbox.room.clear()
            await inbox.room.wait()
        if inbox.size > INBOX_HARD_BYTES:
            error = Overloaded(f"{self.transport.peer} sent {inbox.size} bytes that nobody has read yet")
            await self.transport.close(str(error))
            raise error

    def _accept(self, frame: Frame) -> None:
        """One frame, in wire order: dispatched now if nothing is under way, queued otherwise."""
        if type(frame) is not bytes:
            unreadable.oversize(self, frame)  # type: ignore[arg-type]
            return
        try:
            envelope = parse(frame)
        except Malformed as error:
            unreadable.malformed(self, frame, error)
            return
        if not self._inbox.busy:
            waiting = self._dispatch(envelope, frame)
            if waiting is not None:
                self._inbox.attend(waiting)
        elif self._nested and envelope.method is UNSET and self._overtakes(envelope):
            self._dispatch(envelope, frame)
        else:
            self._inbox.push(envelope, frame)

    def _overtakes(self, envelope: Envelope) -> bool:
        exchange = None if envelope.id is UNSET else self._exchanges.find(envelope.id)
        return exchange is not None and exchange.nested

    def _note_fault(self, where: str, error: BaseException) -> None:
        if is_expected(error):
            self.report(f"{where} failed: {error}")
        else:
            logger.error("%s failed", where, exc_info=error)

    # --- dispatching ------------------------------------------------------------------------------------------

    def _dispatch(self, envelope: Envelope, frame: bytes) -> Awaitable[None] | None:
        """One message of the peer; what it returns must be awaited before the next one is dispatched."""
        method = envelope.method
        try:
            if method is UNSET:
                self._dispatch_answer(envelope, frame)
                return None
            if self.tap is not None:
                taken, waiting = self.tap(envelope, frame)
                if taken:
                    return waiting
            speech = self.speech or self._detect(envelope)
            sink = self.sinks.get(method)
            if sink is not None and speech.plain and envelope.id is UNSET and not self._has_flow(method):
                try:
                    params = strictly(METHODS[self.we, method].params, envelope.params or _NONE)
                except NOT_STRICT:
                    pass  # odd: read it the long way
                else:
                    if is_bare(params):
                        return sink(params)
            elif sink is not None and not speech.plain and envelope.id is UNSET:
                bare = self._hear_chunk(speech, envelope)
                if bare is not None:
                    return sink(bare)
            name, row, source = speech.lift_call(method, envelope.params, may_name_side(frame))
            incoming = Incoming(envelope.id, name, row, source, speech)
            if self.emulation is not None:
                flow = self.emulation.ledger.incoming.get(name)
                if flow is not None:
                    return self.emulation.run_incoming(incoming, flow)
                if name == "$/cancel_request" and self.emulation.call_off_theirs(incoming.params.request_id):
                    return None
            if incoming.id is UNSET:
                return self.handle(incoming, nobody)
            return self.handle(incoming, self.answering(incoming.id, name))
        except Exception as error:  # one message, whatever is wrong with it, never ends the connection
            self._note_fault("an answer" if method is UNSET else str(method), error)
            if method is not UNSET and envelope.id is not UNSET:
                self._answer_error(envelope.id, as_error(error))
            return None

    def _hear_chunk(self, speech: Speech, envelope: Envelope) -> Any:
        """The update that a bare piece of text is, by the short way; None when it has to take the long one."""
        chunk = None if envelope.params is UNSET else speech.dialect.chunk.read(envelope.params)
        if chunk is not None and self.emulation is not None:
            chunk = self.emulation.ledger.pass_chunk(chunk)
        return None if chunk is None else update_of(chunk)

    def _has_flow(self, method: str) -> bool:
        return self.emulation is not None and method in self.emulation.ledger.incoming

    def _detect(self, envelope: Envelope) -> Speech:
        try:
            params = values(envelope.params)
        except ProtocolError:
            params = None
        name = detect.of_client(str(envelope.method), params) or "v1"
        self.speak(dialect(name))
        assert self.speech is not None
        return self.speech

    def handle(self, incoming: Incoming, done: Done) -> Awaitable[None] | None:
        """Give a call to its handler; a request's coroutine becomes a task, a notification's is returned.

        Which of the two a method is its row says: a prompt without an id must not hold up its own cancel.
        """
        is_request = incoming.id is not UNSET
        has_task = is_request if incoming.row is None else incoming.row.request
        if incoming.method == "initialize" and is_request and self.we is Side.AGENT and not self.peer.is_made:
            self.met(incoming.values)
        handler = self.handlers.get(incoming.method) or self._unlisted(incoming.method)
        if has_task and self.inbound.is_full:
            done(None, ProtocolError(Kind.RATE_LIMITED, "too many requests are under way; wait for some to end"))
            return None
        try:
            work = handler(incoming, done)
        except Exception as error:
            self._note_fault(f"the handler of {incoming.method}", error)
            if is_request:
                done(None, as_error(error))
            return None
        if has_task:
            if work is not None:
                self.inbound.start(incoming, work, done)
            return None
        return acknowledged(work, done) if is_request else work

    def _unlisted(self, method: str) -> Handler:
        """The handler of a method that nobody put into the table: cancelling needs nothing but the connection."""
        return self._cancel_request if method == "$/cancel_request" else self.fallback

    def _cancel_request(self, incoming: Incoming, _: Done) -> None:
        self.inbound.cancel(incoming.params.request_id)

    def _dispatch_answer(self, envelope: Envelope, frame: bytes) -> None:
        exchange = None if envelope.id is UNSET else self.end_exchange(envelope.id)
        if exchange is None:
            if envelope.id is UNSET or not self._exchanges.was_given_up(envelope.id):
                unreadable.unexpected(self, envelope)
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
                self._note_fault(f"the answer to {exchange.method}", error)
            exchange.done(None, as_error(error))
            return
        if exchange.method == "initialize":
            self.introduced(result)
        exchange.done(result, None)

    def _read_result(self, method: str, result: Any) -> Any:
        """A result as its Struct; one that cannot be read is the peer's fault, not that of our params."""
        row = METHODS.get((self.we.other, method))
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

    def met(self, params: Any) -> None:
        """The client's initialize passed here, in either direction."""
        self.peer.met(params, self.emulation.ledger if self.emulation is not None else None)

    def introduced(self, result: Any) -> None:
        """The agent's answer to initialize passed here, in either direction."""
        self.peer.introduced(result, self.emulation.ledger if self.emulation is not None else None)

    def offers(self, gate: str) -> bool:
        """Whether the peer advertised the capability at this path."""
        return self.peer.offers(gate)

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
                    self._note_fault(f"the answer to {method}", fault)
                self._answer_error(id, as_error(fault))
                return
            self.outbox.write(say_result(id, said))

        return done

    def answer(self, id: Id, *, error: ProtocolError) -> None:
        """Refuse what the peer sent: a request that a tap took, or what cannot be read."""
        self._answer_error(id, error)

    def leave(self, error: BaseException) -> None:
        """End the connection soon, for this reason, after what was said has been written."""
        self._loop.create_task(self._leave(error))

    async def _leave(self, error: BaseException) -> None:
        await self.transport.close(str(error))
        self._fail(error)

    def _answer_error(self, id: Id, error: ProtocolError) -> None:
        speech = self.speech or Speech(dialect("v1"), self.we)
        self.outbox.write(say_error(id, speech.lower_error(error)))

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
            self.report(text)

    def call(self, method: str, params: Any, done: Done, *, raw: bool = False) -> Id | UnsetType:
        """Send a request; `done` gets its answer in wire order. Gives an id to call it off by, unless refused."""
        if self._ended is not None:
            done(None, _closed(self._ended))
            return UNSET
        refusal = self.peer.refusal(METHODS.get((self.we.other, method)))
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
        if self._ended is not None:
            done(None, _closed(self._ended))
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
        nested = _inside.get() is self
        if nested:
            self._nested += 1
            self._inbox.room.set()
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
        future: asyncio.Future[Any] = self._loop.create_future()

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


def _closed(error: BaseException) -> ProtocolError:
    failure = ProtocolError(Kind.INTERNAL_ERROR, str(error), {"closed": True})
    failure.__cause__ = error
    return failure
