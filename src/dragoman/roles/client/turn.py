"""ClientTurn: one turn as its client sees it."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Mapping, Sequence
from types import TracebackType
from typing import TYPE_CHECKING, Any, NoReturn

from dragoman.engine.incoming import DoneCallback
from dragoman.errors import ConnectionFailed, DragomanError, Kind, ProtocolError
from dragoman.ids import new_id
from dragoman.roles.async_with import needs_async_with
from dragoman.roles.client.caller_errors import check_loop, content_blocks
from dragoman.roles.client.turn_timeouts import TurnTimeouts
from dragoman.schema.content import ContentBlock
from dragoman.schema.prompt import PromptParams, PromptResult, StopReason, Usage
from dragoman.schema.terminal import CancelTerminalParams
from dragoman.schema.toolcall import CancelToolCallParams
from dragoman.schema.update import AgentMessage, AgentMessageChunk, SessionUpdate
from dragoman.session.transcript import Transcript
from dragoman.store.contract import EntryKind
from dragoman.store.session_log import turn_ended_body

if TYPE_CHECKING:
    from dragoman.roles.client.session import ClientSession


# Updates that a reader may leave unread before the connection waits for it.
MAX_UNREAD_UPDATES = 20_000


# A question waits for the reader: for some rounds of the event loop, which is enough for most, then at intervals (s).
QUICK_ROUNDS, POLL_INTERVAL = 100, 0.002


@needs_async_with("session.prompt(...) as turn; for the text alone: await session.ask(...)")
class ClientTurn:
    """A turn, from a prompt to its stop reason. Iterate over it for the updates, in order.

    Made by `ClientSession.prompt`. A reader that falls far behind slows the agent down.
    """

    def __init__(
        self,
        session: ClientSession,
        prompt: list[Any],
        *,
        timeout: float | None,
        idle_timeout: float | None,
        preamble: list[Any],
        by: str,
        log_extra: Mapping[str, Any],
    ) -> None:
        self.session = session
        self.cancelled = False
        self.is_over = False
        self.result: PromptResult | None = None
        self._is_sent = False
        self._answer = Transcript()  # what the agent said in this turn
        self._prompt = prompt
        self._preamble = preamble  # blocks to send before the prompt
        self._by = by
        self._log_extra = log_extra
        self._answered: asyncio.Event  # set by the answer to a logged prompt
        self._unread: deque[Any] = deque()
        self._waiter: asyncio.Future[None] | None = None
        self._has_room: asyncio.Event | None = None
        self._iterating = False
        self._received_count = 0  # updates of this turn
        self._foreign_count = 0  # updates of other clients' turns that run before this one
        self._open_prompts = 0  # sent by `steer` and not answered
        self._last_answer: tuple[Any, ProtocolError | None] | None = None  # kept until those are answered
        self._error: BaseException | None = None
        self._timeout = timeout
        self._idle_timeout = idle_timeout
        self._turn_timeouts: TurnTimeouts | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._timeout_error: ProtocolError | None = None

    def __repr__(self) -> str:
        state = self.stop_reason or ("over" if self.is_over else "running")
        return f"<ClientTurn of session {self.session.id}: {state}>"

    @property
    def stop_reason(self) -> str | None:
        """Why the turn ended; None while it runs."""
        return self.result.stop_reason if self.result else None

    @property
    def usage(self) -> Usage | None:
        """The tokens used, or None if the agent did not report them."""
        return (self.result.usage or None) if self.result else None

    @property
    def activity(self) -> int:
        """The number of updates so far: a sign of life."""
        return self._received_count + self._foreign_count

    async def __aenter__(self) -> ClientTurn:
        session = self.session
        check_loop(session.connection)
        if self._is_sent:
            raise ProtocolError(Kind.INVALID_STATE, "this turn was already sent; call session.prompt again")
        if session.turn is not None and not session.turn.is_over:
            running = "a turn is already running in this session; wait until it ends or cancel it"
            raise ProtocolError(Kind.INVALID_STATE, running)
        self._is_sent = True
        session.turn, session._own_turn_id = self, ""
        done = self._on_answer
        if session.log.store is not None:
            await self._log_start()
            done = self._log_answer
        session._add_prompt(self._prompt)
        if self._timeout is not None or self._idle_timeout is not None:
            loop = asyncio.get_running_loop()
            self._turn_timeouts = TurnTimeouts(self._idle_timeout, self._timeout, loop.time())
            self._timer = loop.call_later(self._turn_timeouts.next_check(loop.time()), self._check_timeouts)
        params = PromptParams(session_id=session.id, prompt=[*self._preamble, *self._prompt])
        session.connection.call("session/prompt", params, self._after_held_updates(done))
        return self

    def _after_held_updates(self, done: DoneCallback) -> DoneCallback:
        """Return a callback for the answer that waits for the updates before it that an observer holds."""
        session, held_updates = self.session, self.session._settings.held_updates
        if held_updates is None:
            return done

        def answer(result: Any, error: ProtocolError | None) -> None:
            held = held_updates(session.id)
            if held is None:
                done(result, error)
            else:
                held.add_done_callback(lambda _: done(result, error))
                session.connection.sender.hold = held  # what follows the answer stays behind it

        return answer

    async def _log_start(self) -> None:
        """Log the prompt before it is sent."""
        session, log = self.session, self.session.log
        try:
            await session.wait_unlogged_turn()
            log.clear_fault()
            log.turn = new_id()
            log.append(EntryKind.TURN_STARTED, {}, actor=self._by)
            # The preamble is in the log already, and would double with each continuation.
            body = {"prompt": self._prompt, **self._log_extra} | ({"retold": True} if self._preamble else {})
            await log.append_and_wait(EntryKind.PROMPT, body, actor=self._by)
        except BaseException:  # the prompt is not sent
            self.is_over = True
            raise
        self._answered = session._prompt_answered = asyncio.Event()

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if not self.is_over:
            if kind is not None:
                self.cancel()
            if kind is not None and issubclass(kind, asyncio.CancelledError):
                return  # a cancelled task must not wait for an agent that may not answer
            await self._wait_end()
        if error is None and self._error is not None:
            raise self._error

    async def _wait_end(self) -> None:
        """Wait for the end of the turn, without a reader for the rest."""
        self._iterating = False
        if self._has_room is not None:
            self._has_room.set()
        while not self.is_over:
            await self._wait_update()

    async def wait_consumed(self) -> None:
        """Wait until the reader has handled all updates so far, so that a question appears after them."""
        last = self._received_count
        rounds = 0
        # Polling: an event would cost the reader time for each update.
        while self._iterating and self._consumed_count <= last and not self._is_consumed:
            await asyncio.sleep(0 if rounds < QUICK_ROUNDS else POLL_INTERVAL)
            rounds += 1

    @property
    def _consumed_count(self) -> int:
        return self._received_count - len(self._unread)

    @property
    def _is_consumed(self) -> bool:
        return not self._unread and (self.is_over or self._waiter is not None)

    def cancel(self, reason: str | None = None) -> None:
        """Cancel the turn. It then ends with the stop reason `cancelled`."""
        if not self.is_over:
            self.session.cancel(reason)

    async def wait(self) -> PromptResult:
        """Wait for the end of the turn without reading the updates."""
        self._check_sent()
        await self._wait_end()
        if self._error is not None:
            raise self._error
        assert self.result is not None
        return self.result

    async def text(self) -> str:
        """Wait for the end of the turn and return the agent's text; send the prompt first if it was not sent.

        A whole message replaces what was said of it.
        """
        if not self._is_sent:
            async with self:
                return await self.text()
        async for _ in self:  # what nobody read is of no use any more
            pass
        return "".join(message.text for message in self._answer.messages)

    def steer(self, content: str | ContentBlock | Sequence[ContentBlock]) -> asyncio.Future[PromptResult]:
        """Send another prompt while the turn runs, to a v2 agent. The turn ends when all its prompts have ended.

        The agent takes it into the running work, or works on it afterwards. The future is for whom its end matters.
        """
        connection = self.session.connection
        if not connection.dialect.is_wide:
            message = "this agent takes no prompt while it works; wait for the end of the turn"
            raise ProtocolError(Kind.CAPABILITY_UNSUPPORTED, message)
        self._check_sent()
        if self.is_over:
            raise ProtocolError(Kind.INVALID_STATE, "the turn is over; start another one with session.prompt")
        blocks = content_blocks(content)
        self.session._add_prompt(blocks)
        answered: asyncio.Future[PromptResult] = asyncio.get_running_loop().create_future()
        self._open_prompts += 1

        def done(result: Any, error: ProtocolError | None) -> None:
            self._open_prompts -= 1
            if not answered.done():
                answered.set_result(result) if error is None else answered.set_exception(error)
                answered.exception() if error is not None else None  # nobody has to look at it
            if self._open_prompts == 0 and self._last_answer is not None:
                self._end_with(*self._last_answer)

        def send() -> None:
            params = PromptParams(session_id=self.session.id, prompt=blocks)
            connection.call("session/prompt", params, self._after_held_updates(done))

        log = self.session.log
        if log.store is None:
            send()
        else:
            log.append(EntryKind.PROMPT, {"prompt": blocks}, actor=self._by, then=send)
        return answered

    def __aiter__(self) -> AsyncIterator[SessionUpdate]:
        self._check_sent()
        self._iterating = True
        return self._updates()

    def __iter__(self) -> NoReturn:
        raise TypeError("use: async for update in turn")

    def _check_sent(self) -> None:
        if not self._is_sent:
            message = "the prompt was not sent; write: async with session.prompt(...) as turn"
            raise ProtocolError(Kind.INVALID_STATE, message)

    async def _updates(self) -> AsyncIterator[SessionUpdate]:
        unread = self._unread
        while True:
            while unread:
                yield unread.popleft()
                if self._has_room is not None and len(unread) < MAX_UNREAD_UPDATES // 2:
                    self._has_room.set()
            if self.is_over:
                if self._error is not None:
                    raise self._error
                return
            await self._wait_update()

    async def _wait_update(self) -> None:
        self._waiter = waiter = asyncio.get_running_loop().create_future()
        try:
            await waiter
        finally:
            self._waiter = None

    def _wake(self) -> None:
        waiter, self._waiter = self._waiter, None
        if waiter is not None and not waiter.done():
            waiter.set_result(None)

    def _receive(self, update: Any) -> Awaitable[None] | None:
        """Receive one update of this turn."""
        self._unread.append(update)
        self._received_count += 1
        if type(update) is AgentMessageChunk or type(update) is AgentMessage:
            self._answer.add(update)
        if self._waiter is not None:
            self._wake()
        if len(self._unread) > MAX_UNREAD_UPDATES and self._iterating:
            self._has_room = self._has_room or asyncio.Event()
            self._has_room.clear()
            return self._wait_for_reader()
        return None

    def _note_foreign_update(self) -> None:
        """Count an update of another client's turn as activity: ours waits for that turn in the host."""
        self._foreign_count += 1

    def _note_text(self, chunks: list[Any]) -> None:
        """Note the text of consecutive chunks of one message, which are joined already."""
        if type(chunks[0]) is AgentMessageChunk:
            self._answer.add_run(chunks)

    def _receive_run(self, updates: list[Any]) -> bool:
        """Receive consecutive updates. Return False, and do nothing, if there are too many unread ones.

        The caller joins their text, and then calls `_note_text`.
        """
        if len(self._unread) + len(updates) > MAX_UNREAD_UPDATES:
            return False
        self._unread.extend(updates)
        self._received_count += len(updates)
        if self._waiter is not None:
            self._wake()
        return True

    async def _wait_for_reader(self) -> None:
        """Hold the connection until the reader has caught up, but not while the reader waits for an answer."""
        assert self._has_room is not None
        connection = self.session.connection
        while len(self._unread) > MAX_UNREAD_UPDATES // 2 and not self.is_over and self._iterating:
            if connection.sender.has_pending_requests(excluding="session/prompt"):
                return
            self._has_room.clear()
            try:
                async with asyncio.timeout(0.05):
                    await self._has_room.wait()
            except TimeoutError:
                continue

    # --- timeouts ---------------------------------------------------------------------------------------------

    def _check_timeouts(self) -> None:
        # On a timer, so that updates cost nothing.
        assert self._turn_timeouts is not None
        loop = asyncio.get_running_loop()
        is_waiting = self.session._keeps_agent_waiting or (self._iterating and bool(self._unread))
        reason = self._turn_timeouts.check(loop.time(), self._received_count + self._foreign_count, is_waiting)
        if reason is None:
            self._timer = loop.call_later(self._turn_timeouts.next_check(loop.time()), self._check_timeouts)
            return
        self._timeout_error = ProtocolError(Kind.TIMEOUT, reason, {"sessionId": self.session.id})
        self._timer = loop.call_later(self._turn_timeouts.grace, self._end_timed_out)
        self.cancel("timeout")

    def _end_timed_out(self) -> None:
        """End the turn, because the agent did not end it after the cancel."""
        if self._timeout_error is not None:
            self._end(self._timeout_error)

    # --- the end ----------------------------------------------------------------------------------------------

    def _log_answer(self, result: Any, error: ProtocolError | None) -> None:
        """Log the answer to the prompt, then deliver it."""
        log, interruption = self.session.log, self.session._settings.interruption
        self._answered.set()
        cause = error.__cause__ if error is not None else None
        if isinstance(cause, ConnectionFailed) and self.session.is_closing and interruption is not None:
            error = interruption()
            error.__cause__ = cause

        def deliver() -> None:
            log.turn = None
            self._on_answer(result, error)

        log.append(
            EntryKind.TURN_ENDED,
            self._ended_body(result, error),
            then=deliver,
            on_failure=lambda fault: self._on_answer(None, fault),
        )

    def _ended_body(self, result: Any, error: ProtocolError | None) -> dict[str, Any]:
        """Return the body of the log entry; a cancelled turn that ends in an error is cancelled, and has both."""
        body = turn_ended_body(result, error)
        is_lost = error is not None and isinstance(error.__cause__, ConnectionFailed)
        if error is None or is_lost or not self.cancelled or self._timeout_error is not None:
            return body
        return {"stopReason": StopReason.CANCELLED, **body}

    def _on_answer(self, result: Any, error: ProtocolError | None) -> None:
        if self._open_prompts and error is None:  # `steer` sent more
            self._last_answer = (result, error)
        else:
            self._end_with(result, error)

    def _end_with(self, result: Any, error: ProtocolError | None) -> None:
        if self.is_over:
            return
        self.result = result
        if error is not None and isinstance(error.__cause__, ConnectionFailed):
            self._end(error.__cause__)
        elif self._timeout_error is not None:
            self.result = None
            self._end(self._timeout_error)
        elif error is not None and self.cancelled:
            # Some agents fail when they are cancelled (docs/protocol/peers.md#after-cancel); report the cancel instead.
            self.session.connection.sender.report(f"the cancelled turn ended with an error: {error.message}")
            self.result = PromptResult(stop_reason=StopReason.CANCELLED)
            self._end(None)
        else:
            self._end(error)

    def _fail(self, error: DragomanError) -> None:
        """Fail the turn, because the agent is gone or the log failed."""
        if not self.is_over:
            self._end(error)

    def _end(self, error: BaseException | None) -> None:
        self.is_over = True
        self._error = error
        if self._timer is not None:
            self._timer.cancel()
        for callback in self.session.on_turn_over:
            callback()
        self._wake()


def cancel_call(session: ClientSession, *, tool_call_id: str = "", terminal_id: str = "") -> tuple[str, Any]:
    """Return the method and params that cancel one tool call or one terminal; raise if the agent cannot do that."""
    if not session.connection.dialect.is_wide:
        message = "this agent cannot cancel a part of a turn; cancel the turn"
        raise ProtocolError(Kind.CAPABILITY_UNSUPPORTED, message)
    if tool_call_id:
        return "tool_call/cancel", CancelToolCallParams(session_id=session.id, tool_call_id=tool_call_id)
    return "terminal/cancel", CancelTerminalParams(session_id=session.id, terminal_id=terminal_id)
