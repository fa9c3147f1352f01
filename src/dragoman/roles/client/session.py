"""A session as its client sees it.

Updates arrive in wire order and are taken down in its minutes; those of a running turn go to whoever iterates it, the
others (early, late, of an agent that works unasked, or of somebody else's turn in a host) to `between`. Above is the
remote agent, beside it the turn.
"""

from __future__ import annotations

import asyncio
import os
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

import msgspec
from msgspec import UNSET

from dragoman.dialect.reshape import SIDE
from dragoman.dialect.session_table import compact
from dragoman.engine.connection import Connection
from dragoman.engine.pending import Done
from dragoman.errors import ConnectionFailed
from dragoman.roles.client.follow import Follow
from dragoman.roles.client.turn import ClientTurn
from dragoman.schema.config import (
    SessionConfigOption,
    SessionModeState,
    SetConfigOptionParams,
    SetModeParams,
)
from dragoman.schema.content import ContentBlock, TextContent
from dragoman.schema.mcp import McpServer
from dragoman.schema.permission import RequestPermissionParams
from dragoman.schema.plan import PlanEntry
from dragoman.schema.prompt import CancelParams
from dragoman.schema.session import CloseSessionParams
from dragoman.schema.toolcall import ToolCallStatus
from dragoman.schema.update import (
    AgentMessageChunk,
    AvailableCommand,
    SessionUpdate,
    ToolCallProgress,
    ToolCallStart,
    UsageUpdate,
)
from dragoman.session.location import Place, news
from dragoman.session.toolcall import FINAL, ToolCall
from dragoman.session.transcript import GATHERED, Minutes

if TYPE_CHECKING:
    from dragoman.roles.client.recovery import Recovery

# Updates outside turns that are kept for somebody to look at; older ones fall away.
BETWEEN = 10_000


T = TypeVar("T")


class Terms(msgspec.Struct, frozen=True):
    """What a remote agent arranged for its sessions."""

    timeout: float | None = None  # for every answer but that to a prompt
    idle_timeout: float | None = None  # for turns in which nothing is heard
    renew: Callable[[Conversation], Awaitable[None]] | None = None  # opens it anew, in the same folder
    over: Callable[[str], Awaitable[None]] | None = None  # ends what it was lent


class Conversation:
    """One session of a remote agent."""

    def __init__(
        self,
        connection: Connection,
        id: str,
        cwd: str,
        directories: Sequence[str] = (),
        mcp_servers: Sequence[McpServer] = (),
        *,
        terms: Terms = Terms(),  # noqa: B008  (immutable)
    ) -> None:
        self.connection = connection
        self.id = id
        self.cwd = cwd
        self.directories = [os.path.abspath(path) for path in directories]
        self.mcp_servers = list(mcp_servers)
        self.between: deque[Any] = deque(maxlen=BETWEEN)
        self.on_update: Callable[[SessionUpdate], Any] | None = None
        self.on_location: Callable[[Place], None] | None = None
        self.turn: ClientTurn | None = None
        self._terms = terms
        self._minutes = Minutes()
        self._unmerged = self._minutes.unmerged
        self._followers: list[Follow] = []
        self._own = ""  # what a host calls the turn that we began last
        self._is_theirs = False  # whether the turn that runs there is somebody else's
        self._questions: set[asyncio.Future[Any]] = set()

    # --- what is known of it ----------------------------------------------------------------------------------

    @property
    def transcript(self) -> Minutes:
        """Everything said and done so far, merged: messages and tool calls in order, plan, usage, title, mode."""
        self._minutes.gather()
        return self._minutes

    @property
    def tool_calls(self) -> dict[str, ToolCall]:
        """Every tool call as it stands now, by its id."""
        return self._minutes.tool_calls

    @property
    def plan(self) -> list[PlanEntry]:
        """The plan as it stands now."""
        return self._minutes.plan

    @property
    def usage(self) -> UsageUpdate | None:
        """How full the context window is, if the agent told."""
        return self._minutes.usage

    @property
    def title(self) -> str | None:
        """The name of the session, if it has one."""
        return self._minutes.title

    @property
    def modes(self) -> SessionModeState | None:
        """The modes there are; None when the agent has none."""
        return self._minutes.modes

    @property
    def mode(self) -> str | None:
        """The id of the mode it is in; None when the agent has no modes."""
        return self._minutes.mode

    @property
    def options(self) -> list[SessionConfigOption]:
        """The config options as they stand now."""
        return self._minutes.options

    @property
    def commands(self) -> list[AvailableCommand]:
        """The slash commands there are now."""
        return self._minutes.commands

    @property
    def roots(self) -> list[str]:
        """The folders of the session: cwd first."""
        return [self.cwd, *self.directories]

    def offers_mode(self, mode_id: str) -> bool:
        """Whether the agent has a mode with this id."""
        return self.modes is not None and any(mode.id == mode_id for mode in self.modes.available_modes)

    @property
    def is_cancelled(self) -> bool:
        """Whether the running turn was cancelled: open questions are then answered so."""
        return self.turn is not None and self.turn.cancelled and not self.turn.is_over

    @property
    def keeps_agent_waiting(self) -> bool:
        """Whether the agent asked for something and was not answered yet."""
        return bool(self._questions) or self.connection.inbound.is_busy

    def follow(self) -> Follow:
        """Where the agent goes from now on: `async for place in session.follow(): ...`."""
        follower = Follow(self._followers.remove)
        self._followers.append(follower)
        return follower

    # --- talking to it ----------------------------------------------------------------------------------------

    def prompt(
        self,
        content: str | Sequence[ContentBlock],
        *,
        timeout: float | None = None,
        idle_timeout: float | None = None,
    ) -> ClientTurn:
        """Begin a turn: `async with session.prompt("...") as turn: async for update in turn: ...`.

        A turn that takes longer than `timeout`, or in which nothing is heard of the agent for `idle_timeout`, is
        cancelled and ends with the error kind timeout.
        """
        blocks: list[Any] = [TextContent(text=content)] if isinstance(content, str) else list(content)
        idle = self._terms.idle_timeout if idle_timeout is None else idle_timeout
        return ClientTurn(self, blocks, timeout=timeout, idle_timeout=idle)

    async def ask(
        self,
        content: str | Sequence[ContentBlock],
        *,
        timeout: float | None = None,
        idle_timeout: float | None = None,
        recover: Recovery | None = None,
    ) -> str:
        """Prompt, wait for the end, and give the agent's text; `recover` says what to do about errors."""
        idle = self._terms.idle_timeout if idle_timeout is None else idle_timeout

        async def once(stretch: float) -> str:
            turn = self.prompt(content, timeout=_times(timeout, stretch), idle_timeout=_times(idle, stretch))
            return await _text_of(turn)

        if recover is None:
            return await once(1.0)
        begun = self._minutes.calls_begun
        return await recover.run(once, renew=self._renew, has_acted=lambda: self._minutes.calls_begun > begun)

    async def _renew(self) -> None:
        if self._terms.renew is None:
            raise RuntimeError("this session was made by hand; nobody knows how to open it anew")
        await self._terms.renew(self)

    async def request(self, method: str, params: Any) -> Any:
        """Ask the agent something about this session; kind timeout when it does not answer in time."""
        return await self.connection.request(method, params, timeout=self._terms.timeout)

    async def set_mode(self, mode_id: str) -> None:
        """Put the session into another mode."""
        await self.request("session/set_mode", SetModeParams(session_id=self.id, mode_id=mode_id))
        self._minutes.set_mode(mode_id)

    async def set_option(self, config_id: str, value: Any) -> None:
        """Set a config option: to a choice, true or false, or, in the draft, any JSON value."""
        kind: Any = "boolean" if isinstance(value, bool) else UNSET
        params = SetConfigOptionParams(session_id=self.id, config_id=config_id, value=value, type=kind)
        if not isinstance(value, str | bool):
            params.value, params.meta = compact(value), {SIDE: {"value": value}}
        result = await self.request("session/set_config_option", params)
        self._minutes.options = list(result.config_options or ())

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
        await self.request("session/close", CloseSessionParams(session_id=self.id))
        self.end()
        if self._terms.over is not None:
            await self._terms.over(self.id)

    # --- what the agent says ----------------------------------------------------------------------------------

    def set_up(self, result: Any) -> None:
        """Take modes and options from the answer that opened the session."""
        self._minutes.modes = result.modes or None
        self._minutes.options = list(result.config_options or ())

    def begin(self, prompt: list[Any]) -> Awaitable[None] | None:
        """A turn begins: what the user says is taken down as well. What it returns comes before the prompt is sent."""
        self._minutes.prompt(prompt)
        return None

    def settled(self, done: Done) -> Done:
        """Who hears the answer to a prompt: whoever asked, when all that was said before it was heard."""
        return done

    def receive(self, update: Any) -> Awaitable[None] | None:
        """One update, in order; what it returns must be awaited before the next one."""
        if type(update) is AgentMessageChunk:
            self._unmerged.append(update)
            if len(self._unmerged) >= GATHERED:
                self._minutes.gather()
        elif type(update) is ToolCallStart or type(update) is ToolCallProgress:
            self._note_call(update, lambda: self._minutes.note(update))
        else:
            self._minutes.note(update)
        if self.on_update is not None:
            told = self.on_update(update)
            if isinstance(told, Awaitable):
                return self._told(told, update)
        return self._pass_on(update)

    def _pass_on(self, update: Any) -> Awaitable[None] | None:
        """To whoever iterates our turn, if it is said there."""
        turn = self.turn
        if turn is None or turn.is_over:
            self.between.append(update)
            return None
        if self._is_theirs:
            turn.stir()
            self.between.append(update)
            return None
        return turn.receive(update)

    def turn_told(self, state: str, turn: str) -> None:
        """A host says which turn runs, and which is ours: what is said in those of others is not in our answer."""
        if state == "yours":
            self._own = turn
        # Who comes in the middle is told that a turn runs, perhaps after it has become their own.
        self._is_theirs = state in ("started", "running") and turn != self._own

    def receive_run(self, updates: list[Any]) -> bool:
        """Bare pieces of one message, taken as one; false, and nothing happens, when each must be heard by itself."""
        turn = self.turn
        if self.on_update is not None or turn is None or turn.is_over or self._is_theirs:
            return False
        if not turn.receive_run(updates):
            return False
        self._minutes.note_run(updates)
        return True

    async def _told(self, told: Awaitable[Any], update: Any) -> None:
        await told
        self._pass_on(update)

    def asked(self, params: RequestPermissionParams) -> Awaitable[None] | None:
        """A question names a tool call, announced or not (peers.md 18). The user is asked after what it returns."""
        self._note_call(params.tool_call, lambda: self._minutes.asked(params.tool_call))
        return None

    def decided(self, params: RequestPermissionParams, outcome: Any) -> Awaitable[None] | None:
        """A question is answered; the agent hears it after what this returns."""
        return None

    def elicited(self, params: Any) -> Awaitable[None] | None:
        """A form or a link; the user is asked after what this returns."""
        return None

    def replied(self, params: Any, result: Any) -> Awaitable[None] | None:
        """A form or a link is answered; the agent hears it after what this returns."""
        return None

    def _note_call(self, update: Any, note: Callable[[], None]) -> None:
        """Take down a tool call, and tell those who follow the agent where it leads."""
        id = update.tool_call_id
        known = self.tool_calls.get(id)
        is_another = type(update) is ToolCallStart and known is not None and known.status in FINAL
        before = known.locations if known is not None and not is_another else ()
        note()
        if not update.locations or (self.on_location is None and not self._followers):
            return
        for place in news(id, before, update.locations):
            if self.on_location is not None:
                self.on_location(place)
            for follower in self._followers:
                follower.tell(place)

    async def unless_cancelled(self, answer: Awaitable[T]) -> T | None:
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
        self.end()

    def end(self) -> None:
        """Nothing more will be heard: those who follow the agent need not wait."""
        for follower in self._followers:
            follower.end()
        self._followers.clear()


async def _text_of(turn: ClientTurn) -> str:
    """What the agent says in a turn."""
    async with turn:
        parts = [
            update.content.text
            async for update in turn
            if type(update) is AgentMessageChunk and type(update.content) is TextContent
        ]
    return "".join(parts)


def _times(limit: float | None, stretch: float) -> float | None:
    return None if limit is None else limit * stretch
