"""A session as its client sees it, and the turns in it.

Updates arrive in wire order: those of a running turn go to whoever iterates it, the others (early, late, or of an agent
that works unasked) to `between` and to `on_update`. A reader who falls far behind slows the agent down.
"""

from __future__ import annotations

import asyncio
import os
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from types import TracebackType
from typing import Any

from msgspec import UNSET

from dragoman.dialect.book import compact
from dragoman.dialect.shape import SIDE
from dragoman.engine.connection import Connection
from dragoman.errors import ConnectionFailed, ProtocolError
from dragoman.schema.config import (
    SessionConfigOption,
    SessionModeState,
    SetConfigOptionParams,
    SetModeParams,
)
from dragoman.schema.content import ContentBlock, TextContent
from dragoman.schema.permission import RequestPermissionParams
from dragoman.schema.prompt import CancelParams, PromptParams, PromptResult, StopReason, Usage
from dragoman.schema.session import CloseSessionParams
from dragoman.schema.toolcall import ToolCallStatus
from dragoman.schema.update import (
    AgentMessageChunk,
    AvailableCommand,
    AvailableCommandsUpdate,
    ConfigOptionUpdate,
    CurrentModeUpdate,
    SessionInfoUpdate,
    SessionUpdate,
    ToolCallProgress,
    ToolCallStart,
)
from dragoman.session.toolcall import FINAL, ToolCall, merge

# Updates that a reader may leave unread before the agent is made to wait for it.
UNREAD = 20_000

# Updates outside turns that are kept for somebody to look at; older ones fall away.
BETWEEN = 10_000


class Conversation:
    """One session of a remote agent."""

    def __init__(self, connection: Connection, id: str, cwd: str, directories: Sequence[str]) -> None:
        self.connection = connection
        self.id = id
        self.cwd = cwd
        self.directories = [os.path.abspath(path) for path in directories]
        self.modes: SessionModeState | None = None
        self.options: list[SessionConfigOption] = []
        self.commands: list[AvailableCommand] = []
        self.title: str | None = None
        self.tool_calls: dict[str, ToolCall] = {}
        self.between: deque[Any] = deque(maxlen=BETWEEN)
        self.on_update: Callable[[SessionUpdate], Any] | None = None
        self.turn: ClientTurn | None = None
        self._questions: set[asyncio.Future[Any]] = set()

    @property
    def roots(self) -> list[str]:
        """The folders of the session: cwd first."""
        return [self.cwd, *self.directories]

    @property
    def mode(self) -> str | None:
        """The id of the mode it is in; None when the agent has no modes."""
        return self.modes.current_mode_id if self.modes else None

    def offers_mode(self, mode_id: str) -> bool:
        """Whether the agent has a mode with this id."""
        return self.modes is not None and any(mode.id == mode_id for mode in self.modes.available_modes)

    @property
    def is_cancelled(self) -> bool:
        """Whether the running turn was cancelled: open questions are then answered so."""
        return self.turn is not None and self.turn.cancelled and not self.turn.is_over

    def prompt(self, content: str | Sequence[ContentBlock]) -> ClientTurn:
        """Begin a turn: `async with session.prompt("...") as turn: async for update in turn: ...`."""
        blocks: list[Any] = [TextContent(text=content)] if isinstance(content, str) else list(content)
        return ClientTurn(self, blocks)

    async def ask(self, content: str | Sequence[ContentBlock]) -> str:
        """Prompt, wait for the end, and give the agent's text."""
        async with self.prompt(content) as turn:
            parts = [
                update.content.text
                async for update in turn
                if type(update) is AgentMessageChunk and type(update.content) is TextContent
            ]
        return "".join(parts)

    async def set_mode(self, mode_id: str) -> None:
        """Put the session into another mode."""
        await self.connection.request("session/set_mode", SetModeParams(session_id=self.id, mode_id=mode_id))
        if self.modes is not None:
            self.modes.current_mode_id = mode_id

    async def set_option(self, config_id: str, value: Any) -> None:
        """Set a config option: to a choice, true or false, or, in the draft, any JSON value."""
        kind: Any = "boolean" if isinstance(value, bool) else UNSET
        params = SetConfigOptionParams(session_id=self.id, config_id=config_id, value=value, type=kind)
        if not isinstance(value, str | bool):
            params.value, params.meta = compact(value), {SIDE: {"value": value}}
        result = await self.connection.request("session/set_config_option", params)
        self.options = list(result.config_options or ())

    def cancel(self, reason: str | None = None) -> None:
        """Cancel the running turn; its result will say so. Open questions are answered, open tool calls marked."""
        why = {SIDE: {"reason": reason}} if reason else UNSET
        self.connection.notify("session/cancel", CancelParams(session_id=self.id, meta=why))
        if self.turn is None or self.turn.is_over:
            return
        self.turn.cancelled = True
        for question in list(self._questions):
            question.cancel()
        for call in self.tool_calls.values():
            if call.status not in FINAL:  # many agents never speak of them again (peers.md 18)
                call.status = ToolCallStatus.CANCELLED

    async def close(self) -> None:
        """End the session's work and free what it holds."""
        await self.connection.request("session/close", CloseSessionParams(session_id=self.id))

    # --- what the agent says ----------------------------------------------------------------------------------

    def set_up(self, result: Any) -> None:
        """Take modes and options from the answer that opened the session."""
        self.modes = result.modes or None
        self.options = list(result.config_options or ())

    def receive(self, update: Any) -> Awaitable[None] | None:
        """One update, in order; what it returns must be awaited before the next one."""
        if type(update) is not AgentMessageChunk:
            self._note(update)
        if self.on_update is not None:
            told = self.on_update(update)
            if isinstance(told, Awaitable):
                return self._told(told, update)
        turn = self.turn
        if turn is None or turn.is_over:
            self.between.append(update)
            return None
        return turn.receive(update)

    async def _told(self, told: Awaitable[Any], update: Any) -> None:
        await told
        turn = self.turn
        if turn is None or turn.is_over:
            self.between.append(update)
        else:
            turn.receive(update)

    def _note(self, update: Any) -> None:
        kind = type(update)
        if kind is ToolCallStart or kind is ToolCallProgress:
            known = self.tool_calls.get(update.tool_call_id)
            if kind is ToolCallStart and known is not None and known.status in FINAL:
                known = None  # an id used again, in every turn by some agents (peers.md 18)
            self.tool_calls[update.tool_call_id] = merge(known, update)
        elif kind is CurrentModeUpdate and self.modes is not None:
            self.modes.current_mode_id = update.current_mode_id
        elif kind is ConfigOptionUpdate:
            self.options = list(update.config_options)
        elif kind is AvailableCommandsUpdate:
            self.commands = list(update.available_commands)
        elif kind is SessionInfoUpdate and update.title is not UNSET:
            self.title = update.title

    def asked(self, params: RequestPermissionParams) -> None:
        """A question names a tool call, announced or not (peers.md 18)."""
        call = params.tool_call
        self.tool_calls[call.tool_call_id] = merge(self.tool_calls.get(call.tool_call_id), call)

    async def unless_cancelled(self, answer: Awaitable[str | None]) -> str | None:
        """The user's answer to a question; None, and the user is no longer asked, when the turn is cancelled."""
        question = asyncio.ensure_future(answer)
        self._questions.add(question)
        try:
            return await question
        except asyncio.CancelledError:
            task = asyncio.current_task()
            if task is not None and task.cancelling():
                raise
            return None
        finally:
            self._questions.discard(question)

    def lost(self, error: ConnectionFailed) -> None:
        """The agent is gone."""
        if self.turn is not None:
            self.turn.fail(error)


class ClientTurn:
    """From one prompt to its stop reason: iterate it for the updates, in order."""

    def __init__(self, session: Conversation, prompt: list[Any]) -> None:
        self.session = session
        self.cancelled = False
        self.is_over = False
        self.result: PromptResult | None = None
        self._prompt = prompt
        self._unread: deque[Any] = deque()
        self._waiter: asyncio.Future[None] | None = None
        self._room: asyncio.Event | None = None
        self._iterating = False
        self._taken = 0
        self._error: BaseException | None = None

    @property
    def stop_reason(self) -> str | None:
        """Why the turn ended; None while it runs."""
        return self.result.stop_reason if self.result else None

    @property
    def usage(self) -> Usage | None:
        """What it cost, if the agent told."""
        return (self.result.usage or None) if self.result else None

    async def __aenter__(self) -> ClientTurn:
        session = self.session
        if session.turn is not None and not session.turn.is_over:
            raise RuntimeError("a turn is running in this session; wait for its end or cancel it")
        session.turn = self
        params = PromptParams(session_id=session.id, prompt=self._prompt)
        session.connection.call("session/prompt", params, self._done)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if not self.is_over:
            if kind is not None:
                self.cancel()
            if kind is not None and issubclass(kind, asyncio.CancelledError):
                return  # whoever is cancelled, by a timeout say, cannot wait for an agent that may be deaf
            await self._finish()
        if error is None and self._error is not None:
            raise self._error

    async def _finish(self) -> None:
        """Wait for the end; whoever leaves early is not made to read the rest."""
        self._iterating = False
        if self._room is not None:
            self._room.set()
        while not self.is_over:
            await self._wait()

    async def caught_up(self) -> None:
        """Wait until whoever iterates has dealt with all that arrived: then a question stands where it belongs."""
        last = self._taken + len(self._unread)
        # The reader runs meanwhile; an event would cost it something for each update.
        while self._iterating and self._taken <= last and not self._is_read:  # noqa: ASYNC110
            await asyncio.sleep(0)

    @property
    def _is_read(self) -> bool:
        return not self._unread and (self.is_over or self._waiter is not None)

    def cancel(self, reason: str | None = None) -> None:
        """Ask the agent to stop; the turn then ends with the reason `cancelled`."""
        if not self.is_over:
            self.session.cancel(reason)

    async def wait(self) -> PromptResult:
        """Wait for the end without reading the updates."""
        await self._finish()
        if self._error is not None:
            raise self._error
        assert self.result is not None
        return self.result

    def __aiter__(self) -> AsyncIterator[SessionUpdate]:
        self._iterating = True
        return self._updates()

    async def _updates(self) -> AsyncIterator[SessionUpdate]:
        unread = self._unread
        while True:
            while unread:
                self._taken += 1
                yield unread.popleft()
                if self._room is not None and len(unread) < UNREAD // 2:
                    self._room.set()
            if self.is_over:
                if self._error is not None:
                    raise self._error
                return
            await self._wait()

    async def _wait(self) -> None:
        self._waiter = waiter = asyncio.get_running_loop().create_future()
        try:
            await waiter
        finally:
            self._waiter = None

    def _wake(self) -> None:
        waiter, self._waiter = self._waiter, None
        if waiter is not None and not waiter.done():
            waiter.set_result(None)

    def receive(self, update: Any) -> Awaitable[None] | None:
        """One update of this turn."""
        self._unread.append(update)
        if self._waiter is not None:
            self._wake()
        if len(self._unread) > UNREAD and self._iterating:
            self._room = self._room or asyncio.Event()
            self._room.clear()
            return self._make_room()
        return None

    async def _make_room(self) -> None:
        """Hold the connection until the reader caught up; requests it makes meanwhile must still be answered."""
        assert self._room is not None
        connection = self.session.connection
        while len(self._unread) > UNREAD // 2 and not self.is_over and self._iterating:
            if connection.has_open_requests(besides="session/prompt"):
                return
            self._room.clear()
            try:
                async with asyncio.timeout(0.05):
                    await self._room.wait()
            except TimeoutError:
                continue

    def _done(self, result: Any, error: ProtocolError | None) -> None:
        self.is_over = True
        self.result = result
        if error is not None and isinstance(error.__cause__, ConnectionFailed):
            self._error = error.__cause__
        elif error is not None and self.cancelled:
            # Some agents break when they are stopped (peers.md 15); who cancelled wants to hear that it is over.
            self.session.connection.report(f"the cancelled turn ended with an error: {error.message}")
            self.result = PromptResult(stop_reason=StopReason.CANCELLED)
        else:
            self._error = error
        self._wake()

    def fail(self, error: ConnectionFailed) -> None:
        """The agent is gone before the turn ended."""
        if not self.is_over:
            self.is_over = True
            self._error = error
            self._wake()
