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
from collections import deque
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any

from msgspec import UNSET, UnsetType

from dragoman.dialect import detect
from dragoman.dialect.ledger import Ask, Deliver, Ledger, Pass, Report, Send, Settings, Sleep
from dragoman.dialect.registry import Dialect, dialect
from dragoman.engine import eager
from dragoman.engine.capability import offers
from dragoman.engine.exchange import Done, Exchange, Exchanges
from dragoman.engine.fault import as_error, is_expected
from dragoman.engine.flow import Flows
from dragoman.engine.message import Incoming
from dragoman.engine.reading import carried, read, values
from dragoman.engine.speech import Speech
from dragoman.errors import ConnectionFailed, Kind, Overloaded, ProtocolError, TransportClosed, Unsayable
from dragoman.schema.methods import METHODS, Method
from dragoman.schema.side import Side
from dragoman.transport.contract import Transport
from dragoman.wire.envelope import (
    Envelope,
    Id,
    Malformed,
    outline,
    parse,
    read_error,
    say_call,
    say_error,
    say_result,
)
from dragoman.wire.frames import Frame, Oversize

logger = logging.getLogger("dragoman")

# Unhandled input past this stops the reader, so a slow handler slows the peer instead of filling memory.
INBOX_BYTES = 16 * 1024 * 1024

# A handler that waits for its own peer needs the reader to go on; past this the connection fails as overloaded.
INBOX_HARD_BYTES = 256 * 1024 * 1024

# Requests of the peer that may be under way at once; more are answered rate_limited, for each holds a task.
MAX_INBOUND = 4096

# When the peer's input has ended, requests it had made may still finish for this long. Seconds.
EOF_GRACE = 1.0

# A producer that never waits gives way to the reader after this many bytes, so that a cancel gets through.
TURN_BYTES = 64 * 1024

Handler = Callable[[Incoming, Done], Awaitable[None] | None]

# Sees calls before they are translated; says whether it took the call, and what must be awaited before the next.
Tap = Callable[[Envelope, bytes], tuple[bool, Awaitable[None] | None]]

_INITIALIZE = METHODS[Side.AGENT, "initialize"]

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
        lenient_gates: bool = False,
    ) -> None:
        self.transport = transport
        self.we = we
        self.handlers = handlers
        self.fallback = fallback
        self.settings = settings
        self.report = report or logger.info
        self.peer_capabilities: Any = None
        self.speech: Speech | None = None
        self.ledger: Ledger | None = None
        self.on_dialect: Callable[[Dialect], None] | None = None
        self.on_close: Callable[[BaseException], None] | None = None
        self.tap: Tap | None = None
        self._gates: dict[str, bool] = {}
        self._open_gates = lenient_gates
        self._said: set[str] = set()
        self._exchanges = Exchanges()
        self._flows = Flows(self._carry_out)
        self._inbound: dict[Id, asyncio.Task[Any]] = {}
        self._tasks: set[asyncio.Task[Any]] = set()
        self._inbox: deque[tuple[Envelope, bytes]] = deque()
        self._inbox_bytes = 0
        self._waiting: Awaitable[None] | None = None
        self._busy = False
        self._wake: asyncio.Event = asyncio.Event()
        self._room: asyncio.Event = asyncio.Event()
        self._nested = 0
        self._since_turn = 0
        self._ended: BaseException | None = None
        self.ended: asyncio.Event = asyncio.Event()
        self._main: asyncio.Task[None] | None = None
        if speaks is not None:
            self.speak(speaks)

    # --- life -------------------------------------------------------------------------------------------------

    def speak(self, peer_dialect: Dialect) -> None:
        """Pin the peer's dialect to this connection."""
        self.speech = Speech(peer_dialect, self.we)
        self.ledger = peer_dialect.ledger(self.we.other, self.settings)
        if self.on_dialect is not None:
            self.on_dialect(peer_dialect)

    def start(self) -> None:
        """Begin to read; needs a running event loop."""
        self._loop = asyncio.get_running_loop()
        self._task_context = contextvars.copy_context()
        self._main = self._loop.create_task(self._run(), name=f"dragoman {self.transport.peer}")

    async def close(self, reason: str = "") -> None:
        """End the connection: what is open fails, handlers are cancelled, the transport is let go."""
        self._fail(
            TransportClosed(f"the connection to {self.transport.peer} was closed" + (f": {reason}" if reason else ""))
        )
        if self._main is not None and self._main is not asyncio.current_task():
            self._main.cancel()
            await asyncio.gather(self._main, return_exceptions=True)
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await self.transport.close(reason)

    async def _run(self) -> None:
        dispatcher = self._loop.create_task(self._dispatch_inbox())
        try:
            await self._read()
        except ConnectionFailed as error:
            await self._drain_inbox()
            await self._finish_inbound(error)
            self._fail(error)
        finally:
            dispatcher.cancel()
            await asyncio.gather(dispatcher, return_exceptions=True)

    async def _drain_inbox(self) -> None:
        """What arrived before the end is still delivered, in order."""
        try:
            async with asyncio.timeout(EOF_GRACE):
                while self._busy:
                    self._room.clear()
                    await self._room.wait()
        except TimeoutError:
            pass

    async def _finish_inbound(self, error: ConnectionFailed) -> None:
        if type(error) is TransportClosed and self._tasks:
            await asyncio.wait(set(self._tasks), timeout=EOF_GRACE)

    def _fail(self, error: BaseException) -> None:
        if self._ended is not None:
            return
        self._ended = error
        for exchange in list(self._exchanges.open.values()):
            exchange.done(None, _closed(error))
        self._exchanges.open.clear()
        for task in list(self._tasks):
            task.cancel()
        self.ended.set()
        self._room.set()
        if self.on_close is not None:
            self.on_close(error)

    @property
    def failure(self) -> BaseException | None:
        """Why the connection ended; None while it lives."""
        return self._ended

    # --- reading ----------------------------------------------------------------------------------------------

    async def _read(self) -> None:
        receive, accept = self.transport.receive, self._accept
        while True:
            for frame in await receive():
                accept(frame)
            if self._inbox_bytes > INBOX_BYTES:
                await self._await_room()

    async def _await_room(self) -> None:
        while self._inbox_bytes > INBOX_BYTES and not self._nested:
            self._room.clear()
            await self._room.wait()
        if self._inbox_bytes > INBOX_HARD_BYTES:
            error = Overloaded(f"{self.transport.peer} sent {self._inbox_bytes} bytes that nobody has read yet")
            await self.transport.close(str(error))
            raise error

    def _accept(self, frame: Frame) -> None:
        """One frame, in wire order: dispatched now if nothing is under way, queued otherwise."""
        if type(frame) is not bytes:
            self._oversize(frame)  # type: ignore[arg-type]
            return
        try:
            envelope = parse(frame)
        except Malformed as error:
            self._malformed(frame, error)
            return
        if not self._busy:
            waiting = self._dispatch(envelope, frame)
            if waiting is not None:
                self._busy = True
                self._waiting = waiting
                self._wake.set()
        elif self._nested and envelope.method is UNSET and self._overtakes(envelope):
            self._dispatch(envelope, frame)
        else:
            self._inbox.append((envelope, frame))
            self._inbox_bytes += len(frame)

    def _overtakes(self, envelope: Envelope) -> bool:
        exchange = None if envelope.id is UNSET else self._exchanges.find(envelope.id)
        return exchange is not None and exchange.nested

    async def _dispatch_inbox(self) -> None:
        """Await the handlers that have to be awaited, and dispatch what queued behind them."""
        _inside.set(self)
        inbox = self._inbox
        while True:
            await self._wake.wait()
            self._wake.clear()
            waiting, self._waiting = self._waiting, None
            while True:
                if waiting is not None:
                    try:
                        await waiting
                    except Exception as error:
                        self._note_fault("a notification handler", error)
                if not inbox:
                    break
                envelope, frame = inbox.popleft()
                self._inbox_bytes -= len(frame)
                if self._inbox_bytes <= INBOX_BYTES:
                    self._room.set()
                waiting = self._dispatch(envelope, frame)
            self._busy = False
            self._room.set()

    # --- what cannot be read ----------------------------------------------------------------------------------

    def _malformed(self, frame: bytes, error: Malformed) -> None:
        """Noise on an agent's stdout is reported; a client that speaks broken JSON is told."""
        looks_like_json = frame.lstrip()[:1] in (b"{", b"[")
        excerpt = frame[:200].decode("utf-8", "backslashreplace")
        self.report(f"{self.transport.peer} sent a line that is no message ({error.message}): {excerpt!r}")
        if self.we is Side.AGENT or looks_like_json:
            self._answer_error(error.id, error)

    def _oversize(self, frame: Oversize) -> None:
        known = outline(frame)
        text = f"a message of {frame.size} bytes is over the limit"
        self.report(f"{self.transport.peer}: {text}; it was skipped")
        if known.method is UNSET and known.id is not UNSET:
            exchange = self._exchanges.end(known.id)
            if exchange is not None:
                exchange.done(None, ProtocolError(Kind.TOO_LARGE, f"{text}; the answer was skipped"))
                return
        found = None if known.id is UNSET else known.id
        kind = Kind.INVALID_REQUEST if found is None else Kind.TOO_LARGE
        self._answer_error(found, ProtocolError(kind, f"{text}; send it in parts", {"size": frame.size}))

    def _note_fault(self, where: str, error: BaseException) -> None:
        if is_expected(error):
            self.report(f"{where} failed: {error}")
        else:
            logger.error("%s failed", where, exc_info=error)

    # --- dispatching ------------------------------------------------------------------------------------------

    def _dispatch(self, envelope: Envelope, frame: bytes) -> Awaitable[None] | None:
        """One message of the peer; what it returns must be awaited before the next one is dispatched."""
        method = envelope.method
        if method is UNSET:
            self._dispatch_answer(envelope, frame)
            return None
        if self.tap is not None:
            taken, waiting = self.tap(envelope, frame)
            if taken:
                return waiting
        speech = self.speech or self._detect(envelope)
        try:
            name, row, source = speech.lift_call(method, envelope.params, _tainted(frame))
        except ProtocolError as error:
            if envelope.id is not UNSET:
                self._answer_error(envelope.id, error)
            return None
        incoming = Incoming(envelope.id, name, row, source, frame)
        ledger = self.ledger
        if ledger is not None:
            flow = ledger.incoming.get(name)
            if flow is not None:
                return self._run_incoming(incoming, flow)
        if incoming.id is UNSET:
            return self._handle(incoming, _nobody)
        return self._handle(incoming, self._answering(incoming.id, name))

    def _detect(self, envelope: Envelope) -> Speech:
        try:
            params = values(envelope.params)
        except ProtocolError:
            params = None
        name = detect.of_client(str(envelope.method), params) or "v1"
        self.speak(dialect(name))
        assert self.speech is not None
        return self.speech

    def _handle(self, incoming: Incoming, done: Done) -> Awaitable[None] | None:
        """Give a call to its handler; a request's coroutine becomes a task, a notification's is returned."""
        is_request = incoming.id is not UNSET
        if incoming.method == "initialize" and is_request:
            self.met(incoming.source)
        handler = self.handlers.get(incoming.method, self.fallback)
        try:
            work = handler(incoming, done)
        except Exception as error:
            self._note_fault(f"the handler of {incoming.method}", error)
            if is_request:
                done(None, as_error(error))
            return None
        if work is None:
            return None
        if not is_request:
            return work
        if len(self._tasks) >= MAX_INBOUND:
            if asyncio.iscoroutine(work):
                work.close()
            done(
                None,
                ProtocolError(Kind.RATE_LIMITED, f"over {MAX_INBOUND} requests are under way; wait for some"),
            )
            return None
        self._start_task(incoming, work, done)
        return None

    def _start_task(self, incoming: Incoming, work: Awaitable[None], done: Done) -> None:
        context = self._task_context.copy()
        task = eager.start(self._loop, self._attend(incoming, work, done), context)
        if not task.done():
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)
            if incoming.id is not UNSET:
                key = incoming.id
                self._inbound[key] = task
                task.add_done_callback(lambda _: self._inbound.pop(key, None))

    async def _attend(self, incoming: Incoming, work: Awaitable[None], done: Done) -> None:
        try:
            await work
        except asyncio.CancelledError as error:
            done(None, as_error(error))
            raise
        except Exception as error:
            self._note_fault(f"the handler of {incoming.method}", error)
            done(None, as_error(error))

    def cancel_inbound(self, id: Id) -> bool:
        """Cancel the handler of a request of the peer; whether there was one."""
        task = self._inbound.get(id)
        return task is not None and task.cancel()

    def _dispatch_answer(self, envelope: Envelope, frame: bytes) -> None:
        exchange = None if envelope.id is UNSET else self._exchanges.end(envelope.id)
        if exchange is None:
            self._unexpected(envelope)
            return
        if exchange.nested:
            self._nested -= 1
        if exchange.verbatim:
            exchange.done(envelope, None)
            return
        assert self.speech is not None
        if envelope.error is not UNSET and (envelope.result is UNSET or bytes(envelope.error) != b"null"):
            exchange.done(None, self.speech.lift_error(read_error(envelope.error)))
            return
        try:
            result: Any = self.speech.lift_result(exchange.method, envelope.result, _tainted(frame))
            if not exchange.raw:
                row = METHODS.get((self.we.other, exchange.method))
                result = read(row.result if row is not None else None, result)
        except ProtocolError as error:
            exchange.done(None, error)
            return
        if exchange.method == "initialize":
            self.introduced(result)
        exchange.done(result, None)

    # --- who we talk to ---------------------------------------------------------------------------------------

    def met(self, params: Any) -> None:
        """The client's initialize passed here, in either direction: remember what it offers."""
        try:
            params = read(_INITIALIZE.params, params)
        except ProtocolError:
            return
        if self.we is Side.AGENT:
            self.peer_capabilities = params.client_capabilities
            self._gates.clear()
        if self.ledger is not None:
            self.ledger.met(params)

    def introduced(self, result: Any) -> None:
        """The agent's answer to initialize passed here, in either direction."""
        try:
            result = read(_INITIALIZE.result, result)
        except ProtocolError:
            return
        if self.we is Side.CLIENT:
            self.peer_capabilities = result.agent_capabilities
            self._gates.clear()
        if self.ledger is not None:
            self.ledger.introduced(result)

    def _unexpected(self, envelope: Envelope) -> None:
        """Errors without id (peers.md 1) and replies nobody waits for are told, never fatal."""
        if envelope.id is not UNSET and self._exchanges.was_given_up(envelope.id):
            return
        if envelope.error is not UNSET:
            error = read_error(envelope.error)
            self.report(f"{self.transport.peer} reported an error outside any request: {error.code} {error.message}")
        else:
            self.report(f"{self.transport.peer} answered a request nobody made (id {envelope.id!r})")

    # --- answering --------------------------------------------------------------------------------------------

    def _answering(self, id: Id, method: str) -> Done:
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
            except ProtocolError as refusal:
                self._answer_error(id, refusal)
                return
            except (TypeError, ValueError, OverflowError) as fault:
                self._note_fault(f"the answer to {method}", fault)
                self._answer_error(id, as_error(fault))
                return
            self._write(say_result(id, said))

        return done

    def answer(self, id: Id, *, error: ProtocolError) -> None:
        """Refuse a request of the peer that a tap took."""
        self._answer_error(id, error)

    def leave(self, error: BaseException) -> None:
        """End the connection soon, for this reason, after what was said has been written."""
        self._loop.create_task(self._leave(error))

    async def _leave(self, error: BaseException) -> None:
        await self.transport.close(str(error))
        self._fail(error)

    def _answer_error(self, id: Id, error: ProtocolError) -> None:
        speech = self.speech or Speech(dialect("v1"), self.we)
        self._write(say_error(id, speech.lower_error(error)))

    def _write(self, frame: bytes, session: str | None = None) -> None:
        if self._ended is not None:
            return
        self._since_turn += len(frame)
        try:
            self.transport.send(frame, session)
        except ConnectionFailed:
            pass  # the reader hears of it and ends the connection with the reason

    # --- asking -----------------------------------------------------------------------------------------------

    def notify(self, method: str, params: Any, *, foreign: bool = False) -> None:
        """Send a notification; one the peer's dialect has no words for is reported, once."""
        ledger = self.ledger
        if ledger is not None and method in ledger.outgoing:
            self._run_outgoing(method, params, _nobody, foreign)
            return
        self._send_notification(method, params, foreign)

    def _send_notification(self, method: str, params: Any, foreign: bool = False) -> None:
        assert self.speech is not None
        try:
            if (foreign and not self.speech.plain) or (foreign and not isinstance(params, bytes)):
                params = values(params)
            name, body = self.speech.lower_call(method, params)
        except Unsayable as error:
            self.say_once(f"not passed on: {error.message}")
            return
        self._write(say_call(UNSET, name, body))

    def say_once(self, text: str) -> None:
        """Report something, but not again and again."""
        if text not in self._said and len(self._said) < 1000:
            self._said.add(text)
            self.report(text)

    def call(self, method: str, params: Any, done: Done, *, raw: bool = False) -> Id | UnsetType:
        """Send a request; `done` gets its answer in wire order. Gives the id, if one went out at once."""
        if self._ended is not None:
            done(None, _closed(self._ended))
            return UNSET
        row = METHODS.get((self.we.other, method))
        if row is not None and row.gate and not self._is_open(row.gate):
            what = row.gate.partition(".")[2]
            done(
                None,
                ProtocolError(
                    Kind.CAPABILITY_UNSUPPORTED,
                    f"{method} needs {what}, which the peer does not offer",
                    {"method": method, "capability": what},
                ),
            )
            return UNSET
        if method == "initialize":
            self.met(params)
        ledger = self.ledger
        if ledger is not None and method in ledger.outgoing:
            self._run_outgoing(method, params, done, raw)
            return UNSET
        return self._send_request(method, params, done, raw)

    def forward(self, method: str, params: Any, done: Done) -> Id | UnsetType:
        """Send a request whose params are spelled already; `done` gets the envelope that answers it."""
        if self._ended is not None:
            done(None, _closed(self._ended))
            return UNSET
        id = self._exchanges.begin(Exchange(method, done, verbatim=True))
        self._write(say_call(id, method, None if params is UNSET else params))
        return id

    def pass_frame(self, frame: bytes) -> None:
        """Send a frame as it is."""
        self._write(frame)

    def _send_request(self, method: str, params: Any, done: Done, raw: bool = False) -> Id | UnsetType:
        assert self.speech is not None
        try:
            name, body = self.speech.lower_call(method, params)
        except ProtocolError as error:
            done(None, error)
            return UNSET
        nested = _inside.get() is self
        if nested:
            self._nested += 1
            self._room.set()
        id = self._exchanges.begin(Exchange(method, done, nested=nested, raw=raw))
        self._write(say_call(id, name, body))
        return id

    def _is_open(self, gate: str) -> bool:
        if self._open_gates:
            return True
        known = self._gates.get(gate)
        if known is None:
            known = self._gates[gate] = offers(gate, self.peer_capabilities)
        return known

    def offers(self, gate: str) -> bool:
        """Whether the peer advertised the capability at this path."""
        return self._is_open(gate)

    async def request_raw(self, method: str, params: Any, *, timeout: float | None = None) -> Any:
        """Send a request and await its result as plain values of the vocabulary, unknown members included."""
        return values(await self.request(method, params, timeout=timeout, raw=True))

    async def request(self, method: str, params: Any, *, timeout: float | None = None, raw: bool = False) -> Any:
        """Send a request and await its typed result; cancelling it tells the peer."""
        future: asyncio.Future[Any] = self._loop.create_future()

        def done(result: Any, error: ProtocolError | None) -> None:
            if future.done():
                return
            if error is None:
                future.set_result(result)
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
            self._abandon(id)
            raise ProtocolError(Kind.TIMEOUT, f"{method} was not answered within {timeout:g} s") from None
        except asyncio.CancelledError:
            self._abandon(id)
            raise

    def _abandon(self, id: Id | UnsetType) -> None:
        if id is UNSET or id not in self._exchanges.open:
            return
        if self._exchanges.open[id].nested:
            self._nested -= 1
        self._exchanges.give_up(id)
        if self.speech is not None and self.speech.dialect.name in ("v1", "banjo"):
            self._send_notification("$/cancel_request", {"requestId": id})

    def has_open_requests(self, besides: str) -> bool:
        """Whether we wait for an answer to anything but this method."""
        return any(exchange.method != besides for exchange in self._exchanges.open.values())

    async def flow_control(self) -> None:
        """Give way: to the peer when it reads too slowly, to our own reader when we have said a lot."""
        if self.transport.congested():
            await self.transport.drain()
        if self._since_turn >= TURN_BYTES:
            self._since_turn = 0
            await asyncio.sleep(0)

    @property
    def should_wait(self) -> bool:
        """Whether `flow_control` would do anything; cheap, for the hot path."""
        return self._since_turn >= TURN_BYTES or self.transport.congested()

    # --- flows of the ledger ----------------------------------------------------------------------------------

    def _run_incoming(self, incoming: Incoming, make: Callable[[Any, Any], Any]) -> Awaitable[None] | None:
        is_request = incoming.id is not UNSET
        done = self._answering(incoming.id, incoming.method) if not isinstance(incoming.id, UnsetType) else _nobody
        try:
            flow = make(self.ledger, incoming.params)
        except ProtocolError as error:
            done(None, error)
            return None
        awaited: list[Awaitable[None]] = []
        source = incoming.source

        def execute(effect: Any, answer: Done) -> None:
            if isinstance(effect, Pass):
                incoming.params = effect.params
                incoming.source = carried(effect.params, source)
                target = incoming if is_request else _without_id(incoming)
                work = self._handle(target, _typed(incoming.row, answer))
                if work is not None:
                    awaited.append(work)
                if not is_request:
                    answer(None, None)
            else:
                self._carry_out(effect, answer)

        self._flows.start(flow, execute, done)
        return _all(awaited) if awaited else None

    def _run_outgoing(self, method: str, source: Any, done: Done, raw: bool) -> None:
        """A call of ours that the ledger has a flow for; `raw` asks for its result as plain values."""
        assert self.ledger is not None
        row = METHODS.get((self.we.other, method))
        try:
            params = read(row.params if row is not None else None, source)
        except ProtocolError as error:
            done(None, error)
            return
        is_request = row is not None and row.request

        def execute(effect: Any, answer: Done) -> None:
            if not isinstance(effect, Pass):
                self._carry_out(effect, answer)
            elif is_request:
                self._send_request(method, carried(effect.params, source), answer)
            else:
                self._send_notification(method, carried(effect.params, source), True)
                answer(None, None)

        self._flows.start(self.ledger.outgoing[method](self.ledger, params), execute, done)

    def _carry_out(self, effect: Any, answer: Done) -> None:
        """An effect of a flow that is the same whichever way its message goes."""
        if isinstance(effect, Send):
            self._send_notification(effect.method, effect.params, True)
            answer(None, None)
        elif isinstance(effect, Ask):
            self._send_request(effect.method, effect.params, answer)
        elif isinstance(effect, Deliver):
            self._deliver(effect, answer)
        elif isinstance(effect, Sleep):
            self._loop.call_later(effect.seconds, self._unless_ended, answer)
        elif isinstance(effect, Report):
            self.report(effect.text)
            answer(None, None)
        else:
            raise TypeError(f"not an effect: {effect!r}")

    def _deliver(self, effect: Deliver, answer: Done) -> None:
        row = METHODS.get((self.we, effect.method))
        incoming = Incoming(f"ledger:{effect.method}" if effect.request else UNSET, effect.method, row, effect.params)
        work = self._handle(incoming, _typed(row, answer))
        if work is not None:  # a notification made up by the ledger: attended like a request, nobody waits for it
            self._start_task(incoming, work, _nobody)
        if not effect.request:
            answer(None, None)

    def _unless_ended(self, answer: Done) -> None:
        if self._ended is None:
            answer(None, None)


def _tainted(frame: bytes) -> bool:
    """Whether the frame may name our side data, plainly or escaped."""
    return b"dragoman" in frame or b"\\u00" in frame


def _without_id(incoming: Incoming) -> Incoming:
    incoming.id = UNSET
    return incoming


def _closed(error: BaseException) -> ProtocolError:
    failure = ProtocolError(Kind.INTERNAL_ERROR, str(error), {"closed": True})
    failure.__cause__ = error
    return failure


def _typed(row: Method | None, answer: Done) -> Done:
    """Flows read results as Structs; a relay answers with plain values."""

    def done(result: Any, error: ProtocolError | None) -> None:
        if error is None and row is not None and row.result is not None:
            try:
                result = read(row.result, result)
            except ProtocolError as fault:
                result, error = None, fault
        answer(result, error)

    return done


async def _all(works: list[Awaitable[None]]) -> None:
    for work in works:
        await work


def _nobody(_: Any, __: ProtocolError | None) -> None:
    """Nobody waits for the answer."""


def answering(function: Callable[[Any], Any]) -> Handler:
    """A handler from a function of the params: what it returns, now or later, is the answer."""

    def handler(incoming: Incoming, done: Done) -> Awaitable[None] | None:
        result = function(incoming.params)
        if asyncio.iscoroutine(result):
            return _answer_later(result, done)
        done(result, None)
        return None

    return handler


async def _answer_later(work: Coroutine[Any, Any, Any], done: Done) -> None:
    done(await work, None)
