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
from dragoman.dialect.dialects import Dialect, load_dialect
from dragoman.dialect.emulator import EmulatorSettings
from dragoman.engine import malformed
from dragoman.engine.codec import PeerCodec, is_bare_text, may_have_side_data, update_of
from dragoman.engine.decode import STRICT_ERRORS, decode_strict, json_values
from dragoman.engine.emulation import Emulation, ignore_answer
from dragoman.engine.errors import to_protocol_error
from dragoman.engine.handler import Handler, answer_notification
from dragoman.engine.inbox import Inbox
from dragoman.engine.incoming import Incoming
from dragoman.engine.limits import EOF_GRACE, INBOX_HARD_BYTES
from dragoman.engine.pending import DoneCallback
from dragoman.engine.running import RunningRequests
from dragoman.engine.sender import Sender, closed_error, handler_connection
from dragoman.engine.text_run import TextRun, text_run_at
from dragoman.errors import ConnectionFailed, Kind, Overloaded, ProtocolError, TransportClosed
from dragoman.schema.side import Side
from dragoman.schema.update import UpdateParams
from dragoman.transport.base import Transport
from dragoman.wire.envelope import (
    Envelope,
    Malformed,
    parse_envelope,
)
from dragoman.wire.frames import Frame

# Sees calls before they are translated; says whether it took the call, and what must be awaited before the next.
Tap = Callable[[Envelope, bytes], tuple[bool, Awaitable[None] | None]]

# Takes a bare piece of text as session and typed update, without anything around them: the hot path of every stream.
UpdateSink = Callable[[str, Any], Awaitable[None] | None]

# Takes a whole run of them; says whether it did, else each goes to the Sink, which may have to be awaited in between.
TextRunSink = Callable[[TextRun], bool]

UPDATE = "session/update"
_EMPTY_PARAMS = Raw(b"{}")


class Connection(Sender):
    """One peer, being talked to. Handlers get its calls; `request` and `notify` make ours."""

    def __init__(
        self,
        transport: Transport,
        side: Side,
        handlers: dict[str, Handler],
        *,
        fallback: Handler,
        settings: EmulatorSettings,
        peer_dialect: Dialect | None = None,
        report: Callable[[str], None] | None = None,
    ) -> None:
        super().__init__(transport, side, settings, report)
        self.handlers = handlers
        self.fallback = fallback
        self.on_close: Callable[[BaseException], None] | None = None
        self.on_eof: Callable[[], Awaitable[None]] | None = None  # the peer says no more, and may still listen
        self.tap: Tap | None = None
        self.on_update: UpdateSink | None = None
        self.on_text_run: TextRunSink = lambda run: False
        self._inbox = Inbox(self._dispatch, lambda error: self.log_failure("a notification handler", error))
        self.resume_reading = self._inbox.space_available.set
        self.ended: asyncio.Event = asyncio.Event()
        self._reader_task: asyncio.Task[None] | None = None
        self._dispatcher_task: asyncio.Task[None] | None = None
        if peer_dialect is not None:
            self.set_dialect(peer_dialect)

    # --- life -------------------------------------------------------------------------------------------------

    def set_dialect(self, peer_dialect: Dialect) -> None:
        """Pin the peer's dialect to this connection."""
        self.codec = PeerCodec(peer_dialect, self.side)
        ledger = peer_dialect.open_emulator(self.side.other, self.settings)
        self.emulation = None if ledger is None else Emulation(self, ledger)

    def start(self) -> None:
        """Begin to read; needs a running event loop."""
        self._loop = asyncio.get_running_loop()
        self.running_requests = RunningRequests(self.log_failure)
        self._reader_task = self._loop.create_task(self._run(), name=f"dragoman {self.transport.peer}")

    async def close(self, reason: str = "") -> None:
        """End the connection: what is open fails, handlers are cancelled, the transport is let go."""
        self._fail(
            TransportClosed(f"the connection to {self.transport.peer} was closed" + (f": {reason}" if reason else ""))
        )
        if asyncio.current_task() not in (self._reader_task, self._dispatcher_task) and self._reader_task is not None:
            self._reader_task.cancel()
            await asyncio.gather(self._reader_task, return_exceptions=True)
        self.running_requests.cancel_all()
        await self.running_requests.wait_cancelled()
        await self.transport.close(reason)

    async def _run(self) -> None:
        self._dispatcher_task = dispatcher = self._loop.create_task(self._run_inbox())
        try:
            await self._read()
        except ConnectionFailed as error:
            try:
                async with asyncio.timeout(EOF_GRACE):
                    await self._inbox.wait_idle()  # what arrived before the end is still delivered, in order
            except TimeoutError:
                pass
            if type(error) is TransportClosed:
                await (self.running_requests.wait_finished(EOF_GRACE) if self.on_eof is None else self.on_eof())
            self._fail(error)
        except Exception as fault:  # ours; whoever waits is told rather than left waiting
            self.log_failure(f"reading from {self.transport.peer}", fault)
            self._fail(ConnectionFailed(f"reading from {self.transport.peer} failed: {fault}"))
        finally:
            dispatcher.cancel()
            await asyncio.gather(dispatcher, return_exceptions=True)

    async def _run_inbox(self) -> None:
        handler_connection.set(self)
        await self._inbox.run()

    def _fail(self, error: BaseException) -> None:
        if self._failure is not None:
            return
        self._failure = error
        self.outbox.is_closed = True
        for exchange in list(self._pending.by_id.values()):
            exchange.done(None, closed_error(error))
        self._pending.by_id.clear()
        if self.emulation is not None:
            self.emulation.fail(closed_error(error))
        self.running_requests.cancel_all()
        self.ended.set()
        self._inbox.space_available.set()
        if self.on_close is not None:
            self.on_close(error)

    def note_peer_eof(self) -> None:
        """The peer says nothing more: whatever it is asked, now or later, is never answered."""
        self._peer_eof = TransportClosed(f"{self.transport.peer} has ended its input and can answer nothing more")
        for exchange in list(self._pending.by_id.values()):
            exchange.done(None, closed_error(self._peer_eof))
        self._pending.by_id.clear()

    def close_soon(self, error: BaseException) -> None:
        """End the connection soon, for this reason, after what was said has been written."""
        self._loop.create_task(self._close_with_error(error))

    async def _close_with_error(self, error: BaseException) -> None:
        await self.transport.close(str(error))
        self._fail(error)

    @property
    def failure(self) -> BaseException | None:
        """Why the connection ended; None while it lives."""
        return self._failure

    # --- reading ----------------------------------------------------------------------------------------------

    async def _read(self) -> None:
        self.transport.listen(self._take_frames)
        while True:
            self._accept_frames(await self.transport.receive())
            if self._inbox.is_full:
                await self._wait_for_space()

    def _take_frames(self, frames: list[Frame]) -> bool:
        """Frames straight from the transport; refused when the reader has to wait before it reads on."""
        if self._inbox.is_full or self._failure is not None:
            return False
        self._accept_frames(frames)
        return True

    async def _wait_for_space(self) -> None:
        inbox = self._inbox
        while inbox.is_full and not self._nested_count:
            inbox.space_available.clear()
            await inbox.space_available.wait()
        if inbox.size > INBOX_HARD_BYTES:
            error = Overloaded(f"{self.transport.peer} sent {inbox.size} bytes that nobody has read yet")
            await self.transport.close(str(error))
            raise error

    def _accept_frames(self, frames: list[Frame]) -> None:
        """The frames of one block, in wire order; bare pieces of text that follow each other go together."""
        start, end = 0, len(frames)
        while start < end:
            run = text_run_at(frames, start) if self._accepts_text_runs() else None
            if run is None:
                self._accept_frame(frames[start])
                start += 1
            else:
                start += self._deliver_text_run(run)

    def _accepts_text_runs(self) -> bool:
        """Whether a bare piece of text could go to its sink now, with nothing and nobody in between."""
        return (
            self.on_update is not None
            and not self._inbox.is_busy
            and self.tap is None
            and self.codec is not None
            and self.codec.is_native
            and not (self.emulation and UPDATE in self.emulation.emulator.incoming)
        )

    def _deliver_text_run(self, run: TextRun) -> int:
        """Give a run to its sink, as one or piece by piece until one has to be awaited; how many were given."""
        session, updates = run
        sink = self.on_update
        assert sink is not None
        given = len(updates)
        try:
            if self.on_text_run(run):
                return given
            for given, update in enumerate(updates, 1):
                waiting = sink(session, update)
                if waiting is not None:
                    self._inbox.block_on(waiting)
                    return given
        except Exception as error:  # of a hook: costs this one update
            self.log_failure(UPDATE, error)
        return given

    def _accept_frame(self, frame: Frame) -> None:
        """One frame, in wire order: dispatched now if nothing is under way, queued otherwise."""
        if type(frame) is not bytes:
            malformed.report_oversize(self, frame)  # type: ignore[arg-type]
            return
        try:
            envelope = parse_envelope(frame)
        except Malformed as error:
            malformed.report_malformed(self, frame, error)
            return
        if not self._inbox.is_busy:
            waiting = self._dispatch(envelope, frame)
            if waiting is not None:
                self._inbox.block_on(waiting)
        elif self._nested_count and envelope.method is UNSET and self._may_overtake(envelope):
            self._dispatch(envelope, frame)
        else:
            self._inbox.push(envelope, frame)

    def _may_overtake(self, envelope: Envelope) -> bool:
        exchange = None if envelope.id is UNSET else self._pending.find(envelope.id)
        return exchange is not None and exchange.is_nested

    # --- dispatching ------------------------------------------------------------------------------------------

    def _dispatch(self, envelope: Envelope, frame: bytes) -> Awaitable[None] | None:
        """One message of the peer; what it returns must be awaited before the next one is dispatched."""
        method = envelope.method
        try:
            if method is UNSET:
                self._process_answer(envelope, frame)
                return None
            if self.tap is not None:
                taken, waiting = self.tap(envelope, frame)
                if taken:
                    return waiting
            speech = self.codec or self._detect_dialect(envelope)
            sink = self.on_update if method == UPDATE and envelope.id is UNSET else None
            if (
                sink is not None
                and speech.is_native
                and not (self.emulation and UPDATE in self.emulation.emulator.incoming)
            ):
                try:
                    params = decode_strict(UpdateParams, envelope.params or _EMPTY_PARAMS)
                except STRICT_ERRORS:
                    pass  # odd: read it the long way
                else:
                    if is_bare_text(params):
                        return sink(params.session_id, params.update)
            elif sink is not None and not speech.is_native:
                bare = self._lift_chunk(speech, envelope)
                if bare is not None:
                    return sink(bare.session_id, bare.update)
            name, row, source = speech.lift_call(method, envelope.params, may_have_side_data(frame))
            incoming = Incoming(envelope.id, name, row, source, speech)
            if self.emulation is not None:
                flow = self.emulation.emulator.incoming.get(name)
                if flow is not None:
                    return self.emulation.run_incoming(incoming, flow)
                if name == "$/cancel_request" and self.emulation.cancel_peer_request(incoming.params.request_id):
                    return None
            if incoming.id is UNSET:
                return self.handle(incoming, ignore_answer)
            return self.handle(incoming, self.answer_callback(incoming.id, name))
        except Exception as error:  # one message, whatever is wrong with it, never ends the connection
            self.log_failure("an answer" if method is UNSET else str(method), error)
            if method is not UNSET and envelope.id is not UNSET:
                self._send_error(envelope.id, to_protocol_error(error))
            return None

    def _lift_chunk(self, codec: PeerCodec, envelope: Envelope) -> Any:
        """The update that a bare piece of text is, by the short way; None when it has to take the long one."""
        chunk = None if envelope.params is UNSET else codec.dialect.chunk_form.parse_params(envelope.params)
        if chunk is not None and self.emulation is not None:
            chunk = self.emulation.emulator.pass_chunk(chunk)
        return None if chunk is None else update_of(chunk)

    def _detect_dialect(self, envelope: Envelope) -> PeerCodec:
        try:
            params = json_values(envelope.params)
        except ProtocolError:
            params = None
        name = detect.dialect_of_client(str(envelope.method), params) or "v1"
        self.set_dialect(load_dialect(name))
        assert self.codec is not None
        return self.codec

    def handle(self, incoming: Incoming, done: DoneCallback) -> Awaitable[None] | None:
        """Give a call to its handler; a request's coroutine becomes a task, a notification's is returned.

        Which of the two a method is its row says: a prompt without an id must not hold up its own cancel.
        """
        is_request = incoming.id is not UNSET
        has_task = is_request if incoming.row is None else incoming.row.request
        if incoming.method == "initialize" and is_request and self.side is Side.AGENT and not self.peer.is_initialized:
            self.note_initialize(incoming.values)
        handler = self.handlers.get(incoming.method) or self._default_handler(incoming.method)
        if has_task and self.running_requests.is_full:
            done(None, ProtocolError(Kind.RATE_LIMITED, "too many requests are under way; wait for some to end"))
            return None
        try:
            work = handler(incoming, done)
        except Exception as error:
            self.log_failure(f"the handler of {incoming.method}", error)
            if is_request:
                done(None, to_protocol_error(error))
            return None
        if has_task:
            if work is not None:
                self.running_requests.start(incoming, work, done)
            return None
        return answer_notification(work, done) if is_request else work

    def _default_handler(self, method: str) -> Handler:
        """The handler of a method that nobody put into the table: cancelling needs nothing but the connection."""
        return self._cancel_running_request if method == "$/cancel_request" else self.fallback

    def _cancel_running_request(self, incoming: Incoming, _: DoneCallback) -> None:
        self.running_requests.cancel(incoming.params.request_id)
