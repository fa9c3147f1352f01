"""The connection: reads the frames of a transport and calls the handlers, in wire order.

The reader never awaits a handler. While no handler is awaited, it dispatches each message as it reads it. Once a
notification handler has to be awaited, later messages queue in the inbox, and one task dispatches them in order.
Requests run as tasks that start at once. The same code serves an agent, a client and both halves of a proxy; `side` is
the side we play.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Sequence
from typing import Any

from msgspec import UNSET, Raw

from dragoman.dialect import detect
from dragoman.dialect.dialects import DEFAULT_DIALECT, OFFICIAL_VERSIONS, Dialect, load_dialect
from dragoman.dialect.emulator import EmulatorSettings
from dragoman.dialect.text_chunk import parse_chunk
from dragoman.engine import malformed
from dragoman.engine.codec import STRICT_ERRORS, PeerCodec, decode_strict, json_values, may_have_side_data
from dragoman.engine.emulation import Emulation, ignore_answer
from dragoman.engine.inbox import Inbox
from dragoman.engine.incoming import DoneCallback, Handler, Incoming, answer_notification, to_protocol_error
from dragoman.engine.requests import RunningRequests
from dragoman.engine.sender import Sender, closed_error, handler_sender
from dragoman.engine.text_run import TextRun, is_bare_text, text_run_at, update_of
from dragoman.errors import AgentExited, ConnectionFailed, Kind, Overloaded, ProtocolError, TransportClosed
from dragoman.schema.side import Side
from dragoman.schema.update import UpdateParams
from dragoman.transport.base import Transport, close_error
from dragoman.wire.envelope import Envelope, Malformed, parse_envelope
from dragoman.wire.frames import Frame

# A handler that awaits its own peer needs the reader to go on; above this the connection fails as overloaded.
INBOX_HARD_BYTES = 256 * 1024 * 1024

# How long running requests may still finish after the peer's output has ended. Seconds.
EOF_GRACE = 1.0

# Gets each call before it is translated. Returns whether it took the call, and what to await before the next one.
Tap = Callable[[Envelope, bytes], tuple[bool, Awaitable[None] | None]]

# Gets a text chunk as session id and typed update: the hot path of every stream.
UpdateSink = Callable[[str, Any], Awaitable[None] | None]

# Gets a whole run of text chunks. Returns False to get them one by one through the UpdateSink, True, or what to await
# before the next message.
TextRunSink = Callable[[TextRun], bool | Awaitable[None]]

UPDATE = "session/update"
_EMPTY_PARAMS = Raw(b"{}")


class Connection:
    """A connection to one peer. Handlers get the peer's calls; `request` and `notify` send ours."""

    def __init__(
        self,
        transport: Transport,
        side: Side,
        handlers: dict[str, Handler],
        *,
        fallback: Handler,
        settings: EmulatorSettings,
        peer_dialect: Dialect | None = None,
        versions: Sequence[int] = OFFICIAL_VERSIONS,
        report: Callable[[str], None] | None = None,
    ) -> None:
        """A dialect that is not given is detected; `versions` are the official ones that may be."""
        self.transport = transport
        self.side = side
        self.settings = settings
        sender = self.sender = Sender(transport, side, report)
        # The sender's own methods, so that sending through the connection costs no second call.
        self.request, self.request_raw, self.notify = sender.request, sender.request_raw, sender.notify
        self.call, self.forward, self.cancel_request = sender.call, sender.forward, sender.cancel_request
        self.peer, self.offers = sender.peer, sender.peer.offers
        self.failure: BaseException | None = None  # why the connection ended; None while it is open
        self.handlers = handlers
        self.fallback = fallback
        self.on_close: Callable[[BaseException], None] | None = None
        self.on_eof: Callable[[], Awaitable[None]] | None = None  # the peer sends nothing more, but may still read
        self.tap: Tap | None = None
        self.on_update: UpdateSink | None = None
        self.on_text_run: TextRunSink = lambda run: False
        self._inbox = Inbox(self._dispatch_frames, lambda error: sender.log_failure("a notification handler", error))
        sender.resume_reading = self._inbox.space_available.set
        self.ended: asyncio.Event = asyncio.Event()
        self._reader_task: asyncio.Task[None] | None = None
        self._dispatcher_task: asyncio.Task[None] | None = None
        self._versions = versions
        self._can_detect = peer_dialect is None
        if peer_dialect is not None:
            self.set_dialect(peer_dialect)

    def set_dialect(self, peer_dialect: Dialect) -> None:
        """Set the peer's dialect for the life of this connection."""
        self.sender.codec = PeerCodec(peer_dialect, self.side, self.sender.trusts_side_data)
        self.peer.emulator = emulator = peer_dialect.open_emulator(self.side.other, self.settings)
        self.sender.emulation = None if emulator is None else Emulation(self, emulator)

    def narrow_updates(
        self, observe: Callable[[str, Any], None] | None = None, sent: tuple[str, Iterable[Any]] | None = None
    ) -> None:
        """From now on give the client what it knows of updates and questions that only v2 has.

        `observe` gets method and params of each call that was narrowed; `sent` is a session and its updates so far.
        """
        from dragoman.dialect.narrow.emulator import NarrowingEmulator  # most connections do not need it

        current = self.peer.emulator
        if isinstance(current, NarrowingEmulator):
            return
        self.peer.emulator = emulator = NarrowingEmulator(self.side.other, self.settings, current)
        emulator.note_capabilities(self.peer.capabilities)
        if sent is not None:
            emulator.note_history(*sent)
        if observe is not None:
            emulator.observe = observe
        if self.sender.emulation is None:
            self.sender.emulation = Emulation(self, emulator)
        else:
            self.sender.emulation.emulator = emulator

    def flush_updates(self, session_id: str) -> None:
        """Send what is still collected of narrowed updates, before the end of a turn."""
        if self.sender.emulation is not None:
            self.sender.emulation.flush(session_id)

    def start(self) -> None:
        """Start reading; needs a running event loop."""
        self.loop = asyncio.get_running_loop()
        self.running_requests = RunningRequests(self.sender.log_failure)
        self._reader_task = self.loop.create_task(self._run(), name=f"dragoman {self.transport.peer}")

    @property
    def dialect(self) -> Dialect:
        """The peer's dialect; the default one until it is known."""
        codec = self.sender.codec
        return codec.dialect if codec is not None else load_dialect(DEFAULT_DIALECT)

    async def close(self, reason: str = "") -> None:
        """Close the connection: fail pending requests, cancel handlers, close the transport."""
        self._fail(close_error(self.transport.peer, reason))
        if asyncio.current_task() not in (self._reader_task, self._dispatcher_task) and self._reader_task is not None:
            self._reader_task.cancel()
            await asyncio.gather(self._reader_task, return_exceptions=True)
        self.running_requests.cancel_all()
        await self.running_requests.wait_cancelled()
        await self.transport.close(reason)

    async def _run(self) -> None:
        self._dispatcher_task = dispatcher = self.loop.create_task(self._run_inbox())
        try:
            await self._read()
        except ConnectionFailed as error:
            try:
                async with asyncio.timeout(EOF_GRACE):
                    await self._inbox.wait_idle()  # deliver what arrived before the end, in order
            except TimeoutError:
                pass
            if type(error) is TransportClosed:
                await (self.running_requests.wait_finished(EOF_GRACE) if self.on_eof is None else self.on_eof())
            self._fail(error)
        except Exception as fault:  # a defect of ours: fail the pending requests instead of leaving them waiting
            self.sender.log_failure(f"reading from {self.transport.peer}", fault)
            self._fail(ConnectionFailed(f"reading from {self.transport.peer} failed: {fault}"))
        finally:
            dispatcher.cancel()
            await asyncio.gather(dispatcher, return_exceptions=True)

    async def _run_inbox(self) -> None:
        handler_sender.set(self.sender)
        await self._inbox.run()

    def _fail(self, error: BaseException) -> None:
        if self.failure is not None:
            return
        self.failure = error
        if isinstance(error, AgentExited):
            error.stdout = self.sender.noise
        self.sender.outbox.is_closed = True
        self.sender.fail(error)
        if self.sender.emulation is not None:
            self.sender.emulation.fail(closed_error(error))
        self.running_requests.cancel_all()
        self.ended.set()
        self._inbox.space_available.set()
        if self.on_close is not None:
            self.on_close(error)

    def note_peer_eof(self) -> None:
        """Fail all requests to the peer, now and later: its output has ended, so it cannot answer."""
        self.sender.fail(TransportClosed(f"{self.transport.peer} closed its output and cannot answer any more"))

    def close_soon(self, error: BaseException) -> None:
        """Close the connection for this reason once everything is written."""
        self.loop.create_task(self._close_with_error(error))

    async def _close_with_error(self, error: BaseException) -> None:
        await self.transport.close(str(error))
        self._fail(error)

    async def _read(self) -> None:
        self.transport.listen(self._take_frames)
        while True:
            self._accept_frames(await self.transport.receive())
            if self._inbox.is_full:
                await self._wait_for_space()

    def _take_frames(self, frames: list[Frame]) -> bool:
        """Take frames straight from the transport; return False when the reader has to wait before it reads on."""
        if self._inbox.is_full or self.failure is not None:
            return False
        self._accept_frames(frames)
        return True

    async def _wait_for_space(self) -> None:
        inbox = self._inbox
        while inbox.is_full and not self.sender.pending.nested_count:
            inbox.space_available.clear()
            await inbox.space_available.wait()
        if inbox.size > INBOX_HARD_BYTES:
            error = Overloaded(f"{self.transport.peer} sent {inbox.size} bytes that no handler has taken yet")
            await self.transport.close(str(error))
            raise error

    def _accept_frames(self, frames: list[Frame]) -> None:
        """Dispatch the frames of one block in wire order; queue them while a handler is awaited."""
        if not self._inbox.is_busy:
            start, waiting = self._dispatch_frames(frames, 0)
            if waiting is not None:
                self._inbox.block_on(waiting)
            if start == len(frames):
                return
            frames = frames[start:]
        if self.sender.pending.nested_count:
            frames = [frame for frame in frames if not self._dispatch_nested_answer(frame)]
        self._inbox.push(frames)

    def _dispatch_nested_answer(self, frame: Frame) -> bool:
        """Dispatch an answer that the awaited handler itself waits for; return whether the frame was one."""
        try:
            envelope = parse_envelope(frame) if type(frame) is bytes else None
        except Malformed:
            return False  # reported in its turn
        if envelope is None or envelope.method is not UNSET or not self.sender.pending.is_nested(envelope.id):
            return False
        self._dispatch(envelope, frame)  # type: ignore[arg-type]
        return True

    def _dispatch_frames(self, frames: list[Frame], start: int) -> tuple[int, Awaitable[None] | None]:
        """Dispatch frames until one has to be awaited; deliver consecutive text chunks together.

        Return where to go on, and what to await.
        """
        waiting: Awaitable[None] | None = None
        end = len(frames)
        while start < end and waiting is None:
            run = text_run_at(frames, start) if self._accepts_text_runs() else None
            if run is None:
                waiting = self._dispatch_frame(frames[start])
                start += 1
            else:
                count, waiting = self._deliver_text_run(run)
                start += count
        return start, waiting

    def _accepts_text_runs(self) -> bool:
        """Whether a text chunk could be delivered now: it is neither tapped nor emulated."""
        sender = self.sender
        return (
            self.on_update is not None
            and self.tap is None
            and sender.codec is not None
            and sender.codec.is_native
            and not (sender.emulation and UPDATE in sender.emulation.emulator.incoming)
        )

    def _deliver_text_run(self, run: TextRun) -> tuple[int, Awaitable[None] | None]:
        """Deliver a run whole, or chunk by chunk until one has to be awaited; return how many, and what to await."""
        session, updates = run
        sink = self.on_update
        assert sink is not None
        count = len(updates)
        try:
            taken = self.on_text_run(run)
            if taken is not False:
                return count, None if taken is True else taken
            for count, update in enumerate(updates, 1):
                waiting = sink(session, update)
                if waiting is not None:
                    return count, waiting
        except Exception as error:  # raised by a hook: only this update is lost
            self.sender.log_failure(UPDATE, error)
        return count, None

    def _dispatch_frame(self, frame: Frame) -> Awaitable[None] | None:
        """Dispatch one frame; what it returns must be awaited before the next one."""
        if type(frame) is not bytes:
            malformed.report_oversize(self.sender, frame)  # type: ignore[arg-type]
            return None
        try:
            envelope = parse_envelope(frame)
        except Malformed as error:
            malformed.report_malformed(self.sender, frame, error)
            return None
        return self._dispatch(envelope, frame)

    def _dispatch(self, envelope: Envelope, frame: bytes) -> Awaitable[None] | None:
        """Dispatch one message; what it returns must be awaited before the next message."""
        method, sender = envelope.method, self.sender
        try:
            if method is UNSET:
                sender.process_answer(envelope, frame)
                if sender.hold is None:
                    return None
                held, sender.hold = sender.hold, None
                return held
            if self.tap is not None:
                is_taken, waiting = self.tap(envelope, frame)
                if is_taken:
                    return waiting
            codec = sender.codec
            if codec is None or (method == "initialize" and self._can_detect):
                codec = self._detect_dialect(envelope)
            id = envelope.id
            if id is not UNSET and type(id) is not int and type(id) is not str and codec.dialect.checks_ids:
                malformed.check_id(id)
            emulation = sender.emulation
            sink = self.on_update if method == UPDATE and envelope.id is UNSET else None
            if sink is not None and codec.is_native and not (emulation and UPDATE in emulation.emulator.incoming):
                try:
                    params = decode_strict(UpdateParams, envelope.params or _EMPTY_PARAMS)
                except STRICT_ERRORS:
                    pass  # unusual: decode it leniently below
                else:
                    if is_bare_text(params):
                        return sink(params.session_id, params.update)
            elif sink is not None and not codec.is_native:
                update = self._lift_chunk(codec, envelope)
                if update is not None:
                    return sink(update.session_id, update.update)
            name, row, source = codec.lift_call(method, envelope.params, may_have_side_data(frame))
            incoming = Incoming(envelope.id, name, row, source, codec)
            if emulation is not None:
                flow = emulation.emulator.incoming.get(name)
                if flow is not None:
                    return emulation.run_incoming(incoming, flow)
                if name == "$/cancel_request" and emulation.cancel_peer_request(incoming.params.request_id):
                    return None
            if incoming.id is UNSET:
                return self.handle(incoming, ignore_answer)
            return self.handle(incoming, sender.answer_callback(incoming.id, name))
        except Exception as error:  # no single message may end the connection
            sender.log_failure("an answer" if method is UNSET else str(method), error)
            if method is not UNSET and envelope.id is not UNSET:
                id = None if isinstance(error, malformed.InvalidId) else envelope.id
                sender.send_error(id, to_protocol_error(error))
            return None

    def _lift_chunk(self, codec: PeerCodec, envelope: Envelope) -> Any:
        """Return the update of a text chunk by the fast path; None when it needs the general path."""
        chunk = None if envelope.params is UNSET else parse_chunk(codec.dialect.chunk_forms, envelope.params)
        if chunk is not None and self.sender.emulation is not None:
            chunk = self.sender.emulation.emulator.pass_chunk(chunk)
        return None if chunk is None else update_of(chunk)

    def _detect_dialect(self, envelope: Envelope) -> PeerCodec:
        """Set the dialect that a message shows; until a client is initialized, another initialize may change it."""
        if self.sender.codec is not None and self.peer.is_initialized:
            return self.sender.codec
        try:
            params = json_values(envelope.params)
        except ProtocolError:
            params = None
        name = detect.dialect_of_client(str(envelope.method), params) or DEFAULT_DIALECT
        dialect = load_dialect(detect.served_dialect(name, self._versions))
        if self.sender.codec is None or self.sender.codec.dialect is not dialect:
            self.set_dialect(dialect)
        assert self.sender.codec is not None
        return self.sender.codec

    def handle(self, incoming: Incoming, done: DoneCallback) -> Awaitable[None] | None:
        """Give a call to its handler; run a request's coroutine as a task, return a notification's.

        The method's row decides which of the two it is: a prompt without an id must not delay its own cancel.
        """
        is_request = incoming.id is not UNSET
        has_task = is_request if incoming.row is None else incoming.row.request
        if incoming.method == "initialize" and is_request and self.side is Side.AGENT and not self.peer.is_initialized:
            self.peer.note_initialize(incoming.values)
        handler = self.handlers.get(incoming.method)
        if handler is None:
            handler = self._cancel_running_request if incoming.method == "$/cancel_request" else self.fallback
        if has_task and self.running_requests.is_full:
            done(None, ProtocolError(Kind.RATE_LIMITED, "too many requests are running; wait for some to end"))
            return None
        try:
            work = handler(incoming, done)
        except Exception as error:
            self.sender.log_failure(f"the handler of {incoming.method}", error)
            if is_request:
                done(None, to_protocol_error(error))
            return None
        if has_task:
            if work is not None:
                self.running_requests.start(incoming, work, done)
            return None
        return answer_notification(work, done) if is_request else work

    def _cancel_running_request(self, incoming: Incoming, _: DoneCallback) -> None:
        self.running_requests.cancel(incoming.params.request_id)
