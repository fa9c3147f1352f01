"""The connection: the one async driver of the engine. Frames of a transport become calls of handlers, in order.

The reader never awaits a handler. While nothing is under way, messages are dispatched as they are read; as soon as a
notification handler has to be awaited, the rest queue in the inbox and one dispatcher takes them in wire order.
Requests run as tasks of their own, begun at once; replies are delivered when their turn comes. Below is a transport,
beside it the peer's dialect (Speech, Ledger), above are the roles. `we` is the side we play: the same code serves an
agent, a client and both halves of a proxy.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

from msgspec import UNSET, Raw

from dragoman.dialect import detect
from dragoman.dialect.dialects import Dialect, dialect
from dragoman.dialect.emulator import Settings
from dragoman.engine import malformed
from dragoman.engine.codec import Speech, is_bare, may_name_side, update_of
from dragoman.engine.decode import NOT_STRICT, strictly, values
from dragoman.engine.emulation import Emulation, nobody
from dragoman.engine.errors import as_error
from dragoman.engine.handler import Handler, acknowledged
from dragoman.engine.inbox import Inbox
from dragoman.engine.incoming import Incoming
from dragoman.engine.limits import EOF_GRACE, INBOX_HARD_BYTES
from dragoman.engine.pending import Done
from dragoman.engine.running import Inbound
from dragoman.engine.sender import Voice, closed, inside
from dragoman.engine.text_run import Run, run_at
from dragoman.errors import ConnectionFailed, Kind, Overloaded, ProtocolError, TransportClosed
from dragoman.schema.side import Side
from dragoman.schema.update import UpdateParams
from dragoman.transport.base import Transport
from dragoman.wire.envelope import (
    Envelope,
    Malformed,
    parse,
)
from dragoman.wire.frames import Frame

# Sees calls before they are translated; says whether it took the call, and what must be awaited before the next.
Tap = Callable[[Envelope, bytes], tuple[bool, Awaitable[None] | None]]

# Takes a bare piece of text as session and typed update, without anything around them: the hot path of every stream.
Sink = Callable[[str, Any], Awaitable[None] | None]

# Takes a whole run of them; says whether it did, else each goes to the Sink, which may have to be awaited in between.
RunSink = Callable[[Run], bool]

UPDATE = "session/update"
_NONE = Raw(b"{}")


class Connection(Voice):
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
        super().__init__(transport, we, settings, report)
        self.handlers = handlers
        self.fallback = fallback
        self.on_close: Callable[[BaseException], None] | None = None
        self.on_eof: Callable[[], Awaitable[None]] | None = None  # the peer says no more, and may still listen
        self.tap: Tap | None = None
        self.on_update: Sink | None = None
        self.on_run: RunSink = lambda run: False
        self._inbox = Inbox(self._dispatch, lambda error: self.note_fault("a notification handler", error))
        self.make_room = self._inbox.room.set
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
        self.inbound = Inbound(self.note_fault)
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
                await (self.inbound.finish(EOF_GRACE) if self.on_eof is None else self.on_eof())
            self._fail(error)
        except Exception as fault:  # ours; whoever waits is told rather than left waiting
            self.note_fault(f"reading from {self.transport.peer}", fault)
            self._fail(ConnectionFailed(f"reading from {self.transport.peer} failed: {fault}"))
        finally:
            dispatcher.cancel()
            await asyncio.gather(dispatcher, return_exceptions=True)

    async def _attend_inbox(self) -> None:
        inside.set(self)
        await self._inbox.run()

    def _fail(self, error: BaseException) -> None:
        if self._ended is not None:
            return
        self._ended = error
        self.outbox.closed = True
        for exchange in list(self._exchanges.open.values()):
            exchange.done(None, closed(error))
        self._exchanges.open.clear()
        if self.emulation is not None:
            self.emulation.end(closed(error))
        self.inbound.cancel_all()
        self.ended.set()
        self._inbox.room.set()
        if self.on_close is not None:
            self.on_close(error)

    def deafen(self) -> None:
        """The peer says nothing more: whatever it is asked, now or later, is never answered."""
        self._deaf = TransportClosed(f"{self.transport.peer} has ended its input and can answer nothing more")
        for exchange in list(self._exchanges.open.values()):
            exchange.done(None, closed(self._deaf))
        self._exchanges.open.clear()

    def leave(self, error: BaseException) -> None:
        """End the connection soon, for this reason, after what was said has been written."""
        self._loop.create_task(self._leave(error))

    async def _leave(self, error: BaseException) -> None:
        await self.transport.close(str(error))
        self._fail(error)

    @property
    def failure(self) -> BaseException | None:
        """Why the connection ended; None while it lives."""
        return self._ended

    # --- reading ----------------------------------------------------------------------------------------------

    async def _read(self) -> None:
        self.transport.listen(self._take)
        while True:
            self._accept_all(await self.transport.receive())
            if self._inbox.is_full:
                await self._await_room()

    def _take(self, frames: list[Frame]) -> bool:
        """Frames straight from the transport; refused when the reader has to wait before it reads on."""
        if self._inbox.is_full or self._ended is not None:
            return False
        self._accept_all(frames)
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

    def _accept_all(self, frames: list[Frame]) -> None:
        """The frames of one block, in wire order; bare pieces of text that follow each other go together."""
        start, end = 0, len(frames)
        while start < end:
            run = run_at(frames, start) if self._hears_runs() else None
            if run is None:
                self._accept(frames[start])
                start += 1
            else:
                start += self._deliver(run)

    def _hears_runs(self) -> bool:
        """Whether a bare piece of text could go to its sink now, with nothing and nobody in between."""
        return (
            self.on_update is not None
            and not self._inbox.busy
            and self.tap is None
            and self.speech is not None
            and self.speech.plain
            and not (self.emulation and UPDATE in self.emulation.ledger.incoming)
        )

    def _deliver(self, run: Run) -> int:
        """Give a run to its sink, as one or piece by piece until one has to be awaited; how many were given."""
        session, updates = run
        sink = self.on_update
        assert sink is not None
        given = len(updates)
        try:
            if self.on_run(run):
                return given
            for given, update in enumerate(updates, 1):
                waiting = sink(session, update)
                if waiting is not None:
                    self._inbox.attend(waiting)
                    return given
        except Exception as error:  # of a hook: costs this one update
            self.note_fault(UPDATE, error)
        return given

    def _accept(self, frame: Frame) -> None:
        """One frame, in wire order: dispatched now if nothing is under way, queued otherwise."""
        if type(frame) is not bytes:
            malformed.oversize(self, frame)  # type: ignore[arg-type]
            return
        try:
            envelope = parse(frame)
        except Malformed as error:
            malformed.malformed(self, frame, error)
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

    # --- dispatching ------------------------------------------------------------------------------------------

    def _dispatch(self, envelope: Envelope, frame: bytes) -> Awaitable[None] | None:
        """One message of the peer; what it returns must be awaited before the next one is dispatched."""
        method = envelope.method
        try:
            if method is UNSET:
                self._answered(envelope, frame)
                return None
            if self.tap is not None:
                taken, waiting = self.tap(envelope, frame)
                if taken:
                    return waiting
            speech = self.speech or self._detect(envelope)
            sink = self.on_update if method == UPDATE and envelope.id is UNSET else None
            if sink is not None and speech.plain and not (self.emulation and UPDATE in self.emulation.ledger.incoming):
                try:
                    params = strictly(UpdateParams, envelope.params or _NONE)
                except NOT_STRICT:
                    pass  # odd: read it the long way
                else:
                    if is_bare(params):
                        return sink(params.session_id, params.update)
            elif sink is not None and not speech.plain:
                bare = self._hear_chunk(speech, envelope)
                if bare is not None:
                    return sink(bare.session_id, bare.update)
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
            self.note_fault("an answer" if method is UNSET else str(method), error)
            if method is not UNSET and envelope.id is not UNSET:
                self._answer_error(envelope.id, as_error(error))
            return None

    def _hear_chunk(self, speech: Speech, envelope: Envelope) -> Any:
        """The update that a bare piece of text is, by the short way; None when it has to take the long one."""
        chunk = None if envelope.params is UNSET else speech.dialect.chunk.read(envelope.params)
        if chunk is not None and self.emulation is not None:
            chunk = self.emulation.ledger.pass_chunk(chunk)
        return None if chunk is None else update_of(chunk)

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
            self.note_fault(f"the handler of {incoming.method}", error)
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
