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

from dragoman.dialect.reshape import SIDE_DATA_KEY
from dragoman.dialect.session_table import compact_json
from dragoman.engine.connection import Connection
from dragoman.engine.pending import DoneCallback
from dragoman.errors import ConnectionFailed
from dragoman.roles.client.follow import LocationStream
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
from dragoman.session.location import Location, new_locations
from dragoman.session.toolcall import FINAL_STATUSES, ToolCall
from dragoman.session.transcript import MERGE_AFTER, Transcript

if TYPE_CHECKING:
    from dragoman.roles.client.recovery import Recovery

# Updates outside turns that are kept for somebody to look at; older ones fall away.
MAX_UPDATES_OUTSIDE_TURNS = 10_000


T = TypeVar("T")


class SessionSettings(msgspec.Struct, frozen=True):
    """What a remote agent arranged for its sessions."""

    timeout: float | None = None  # for every answer but that to a prompt
    idle_timeout: float | None = None  # for turns in which nothing is heard
    renew: Callable[[ClientSession], Awaitable[None]] | None = None  # opens it anew, in the same folder
    release: Callable[[str], Awaitable[None]] | None = None  # ends what it was lent


class ClientSession:
    """One session of a remote agent."""

    def __init__(
        self,
        connection: Connection,
        id: str,
        cwd: str,
        directories: Sequence[str] = (),
        mcp_servers: Sequence[McpServer] = (),
        *,
        settings: SessionSettings = SessionSettings(),  # noqa: B008  (immutable)
    ) -> None:
        self.connection = connection
        self.id = id
        self.cwd = cwd
        self.directories = [os.path.abspath(path) for path in directories]
        self.mcp_servers = list(mcp_servers)
        self.updates_outside_turns: deque[Any] = deque(maxlen=MAX_UPDATES_OUTSIDE_TURNS)
        self.on_update: Callable[[SessionUpdate], Any] | None = None
        self.on_location: Callable[[Location], None] | None = None
        self.turn: ClientTurn | None = None
        self._settings = settings
        self._transcript = Transcript()
        self._unmerged = self._transcript.unmerged
        self._followers: list[LocationStream] = []
        self._own_turn_id = ""  # what a host calls the turn that we began last
        self._is_foreign_turn = False  # whether the turn that runs there is somebody else's
        self._open_questions: set[asyncio.Future[Any]] = set()

    # --- what is known of it ----------------------------------------------------------------------------------

    @property
    def transcript(self) -> Transcript:
        """Everything said and done so far, merged: messages and tool calls in order, plan, usage, title, mode."""
        self._transcript.merge_pending()
        return self._transcript

    @property
    def tool_calls(self) -> dict[str, ToolCall]:
        """Every tool call as it stands now, by its id."""
        return self._transcript.tool_calls

    @property
    def plan(self) -> list[PlanEntry]:
        """The plan as it stands now."""
        return self._transcript.plan

    @property
    def usage(self) -> UsageUpdate | None:
        """How full the context window is, if the agent told."""
        return self._transcript.usage

    @property
    def title(self) -> str | None:
        """The name of the session, if it has one."""
        return self._transcript.title

    @property
    def modes(self) -> SessionModeState | None:
        """The modes there are; None when the agent has none."""
        return self._transcript.modes

    @property
    def mode(self) -> str | None:
        """The id of the mode it is in; None when the agent has no modes."""
        return self._transcript.mode

    @property
    def options(self) -> list[SessionConfigOption]:
        """The config options as they stand now."""
        return self._transcript.options

    @property
    def commands(self) -> list[AvailableCommand]:
        """The slash commands there are now."""
        return self._transcript.commands

    @property
    def roots(self) -> list[str]:
        """The folders of the session: cwd first."""
        return [self.cwd, *self.directories]

    def offers_mode(self, mode_id: str) -> bool:
        """Whether the agent has a mode with this id."""
        return self.modes is not None and any(mode.id == mode_id for mode in self.modes.available_modes)

    @property
    def is_turn_cancelled(self) -> bool:
        """Whether the running turn was cancelled: open questions are then answered so."""
        return self.turn is not None and self.turn.cancelled and not self.turn.is_over

    @property
    def keeps_agent_waiting(self) -> bool:
        """Whether the agent asked for something and was not answered yet."""
        return bool(self._open_questions) or self.connection.running_requests.is_busy

    def follow(self) -> LocationStream:
        """Where the agent goes from now on: `async for place in session.follow(): ...`."""
        follower = LocationStream(self._followers.remove)
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
        idle = self._settings.idle_timeout if idle_timeout is None else idle_timeout
        return ClientTurn(self, blocks, timeout=timeout, idle_timeout=idle)

    async def ask(
        self,
        content: str | Sequence[ContentBlock],
        *,
        timeout: float | None = None,
        idle_timeout: float | None = None,
        recovery: Recovery | None = None,
    ) -> str:
        """Prompt, wait for the end, and give the agent's text; `recover` says what to do about errors."""
        idle = self._settings.idle_timeout if idle_timeout is None else idle_timeout

        async def once(stretch: float) -> str:
            turn = self.prompt(
                content, timeout=_scale_timeout(timeout, stretch), idle_timeout=_scale_timeout(idle, stretch)
            )
            return await _collect_text(turn)

        if recovery is None:
            return await once(1.0)
        begun = self._transcript.started_calls
        return await recovery.run(once, renew=self._renew, has_acted=lambda: self._transcript.started_calls > begun)

    async def _renew(self) -> None:
        if self._settings.renew is None:
            raise RuntimeError("this session was made by hand; nobody knows how to open it anew")
        await self._settings.renew(self)

    async def request(self, method: str, params: Any) -> Any:
        """Ask the agent something about this session; kind timeout when it does not answer in time."""
        return await self.connection.request(method, params, timeout=self._settings.timeout)

    async def set_mode(self, mode_id: str) -> None:
        """Put the session into another mode."""
        await self.request("session/set_mode", SetModeParams(session_id=self.id, mode_id=mode_id))
        self._transcript.set_mode(mode_id)

    async def set_option(self, config_id: str, value: Any) -> None:
        """Set a config option: to a choice, true or false, or, in the draft, any JSON value."""
        kind: Any = "boolean" if isinstance(value, bool) else UNSET
        params = SetConfigOptionParams(session_id=self.id, config_id=config_id, value=value, type=kind)
        if not isinstance(value, str | bool):
            params.value, params.meta = compact_json(value), {SIDE_DATA_KEY: {"value": value}}
        result = await self.request("session/set_config_option", params)
        self._transcript.options = list(result.config_options or ())

    def cancel(self, reason: str | None = None) -> None:
        """Cancel the running turn; its result will say so. Open questions are answered, open tool calls marked."""
        why = {SIDE_DATA_KEY: {"reason": reason}} if reason else UNSET
        self.connection.notify("session/cancel", CancelParams(session_id=self.id, meta=why))
        if self.turn is None or self.turn.is_over:
            return
        self.turn.cancelled = True
        for question in list(self._open_questions):
            question.cancel()
        for call in self.tool_calls.values():
            if call.status not in FINAL_STATUSES:  # many agents never speak of them again (peers.md 18)
                call.status = ToolCallStatus.CANCELLED

    async def close(self) -> None:
        """End the session's work and free what it holds."""
        await self.request("session/close", CloseSessionParams(session_id=self.id))
        self.end()
        if self._settings.release is not None:
            await self._settings.release(self.id)

    # --- what the agent says ----------------------------------------------------------------------------------

    def apply_open_result(self, result: Any) -> None:
        """Take modes and options from the answer that opened the session."""
        self._transcript.modes = result.modes or None
        self._transcript.options = list(result.config_options or ())

    def begin_turn(self, prompt: list[Any]) -> Awaitable[None] | None:
        """A turn begins: what the user says is taken down as well. What it returns comes before the prompt is sent."""
        self._transcript.add_prompt(prompt)
        return None

    def wrap_done(self, done: DoneCallback) -> DoneCallback:
        """Who hears the answer to a prompt: whoever asked, when all that was said before it was heard."""
        return done

    def receive(self, update: Any) -> Awaitable[None] | None:
        """One update, in order; what it returns must be awaited before the next one."""
        if type(update) is AgentMessageChunk:
            self._unmerged.append(update)
            if len(self._unmerged) >= MERGE_AFTER:
                self._transcript.merge_pending()
        elif type(update) is ToolCallStart or type(update) is ToolCallProgress:
            self._note_tool_call(update, lambda: self._transcript.add(update))
        else:
            self._transcript.add(update)
        if self.on_update is not None:
            told = self.on_update(update)
            if isinstance(told, Awaitable):
                return self._deliver_after(told, update)
        return self._deliver(update)

    def _deliver(self, update: Any) -> Awaitable[None] | None:
        """To whoever iterates our turn, if it is said there."""
        turn = self.turn
        if turn is None or turn.is_over:
            self.updates_outside_turns.append(update)
            return None
        if self._is_foreign_turn:
            turn.note_foreign_update()
            self.updates_outside_turns.append(update)
            return None
        return turn.receive(update)

    def note_host_turn(self, state: str, turn_id: str) -> None:
        """A host says which turn runs, and which is ours: what is said in those of others is not in our answer."""
        if state == "yours":
            self._own_turn_id = turn_id
        # Who comes in the middle is told that a turn runs, perhaps after it has become their own.
        self._is_foreign_turn = state in ("started", "running") and turn_id != self._own_turn_id

    def receive_run(self, updates: list[Any]) -> bool:
        """Bare pieces of one message, taken as one; false, and nothing happens, when each must be heard by itself."""
        turn = self.turn
        if self.on_update is not None or turn is None or turn.is_over or self._is_foreign_turn:
            return False
        if not turn.receive_run(updates):
            return False
        self._transcript.add_run(updates)
        return True

    async def _deliver_after(self, callback: Awaitable[Any], update: Any) -> None:
        await callback
        self._deliver(update)

    def note_permission_request(self, params: RequestPermissionParams) -> Awaitable[None] | None:
        """A question names a tool call, announced or not (peers.md 18). The user is asked after what it returns."""
        self._note_tool_call(params.tool_call, lambda: self._transcript.add_permission_call(params.tool_call))
        return None

    def note_permission_outcome(self, params: RequestPermissionParams, outcome: Any) -> Awaitable[None] | None:
        """A question is answered; the agent hears it after what this returns."""
        return None

    def note_elicitation(self, params: Any) -> Awaitable[None] | None:
        """A form or a link; the user is asked after what this returns."""
        return None

    def note_elicitation_result(self, params: Any, result: Any) -> Awaitable[None] | None:
        """A form or a link is answered; the agent hears it after what this returns."""
        return None

    def _note_tool_call(self, update: Any, note: Callable[[], None]) -> None:
        """Take down a tool call, and tell those who follow the agent where it leads."""
        id = update.tool_call_id
        known = self.tool_calls.get(id)
        is_another = type(update) is ToolCallStart and known is not None and known.status in FINAL_STATUSES
        before = known.locations if known is not None and not is_another else ()
        note()
        if not update.locations or (self.on_location is None and not self._followers):
            return
        for place in new_locations(id, before, update.locations):
            if self.on_location is not None:
                self.on_location(place)
            for follower in self._followers:
                follower.add(place)

    async def unless_cancelled(self, answer: Awaitable[T]) -> T | None:
        """The user's answer to a question; None, and the user is no longer asked, when the turn is cancelled."""
        question = asyncio.ensure_future(answer)
        self._open_questions.add(question)
        try:
            return await question
        except asyncio.CancelledError:
            task = asyncio.current_task()
            if task is not None and task.cancelling():
                raise
            return None
        finally:
            self._open_questions.discard(question)

    def on_agent_lost(self, error: ConnectionFailed) -> None:
        """The agent is gone."""
        if self.turn is not None:
            self.turn.fail(error)
        self.end()

    def end(self) -> None:
        """Nothing more will be heard: those who follow the agent need not wait."""
        for follower in self._followers:
            follower.end()
        self._followers.clear()


async def _collect_text(turn: ClientTurn) -> str:
    """What the agent says in a turn."""
    async with turn:
        parts = [
            update.content.text
            async for update in turn
            if type(update) is AgentMessageChunk and type(update.content) is TextContent
        ]
    return "".join(parts)


def _scale_timeout(timeout: float | None, factor: float) -> float | None:
    return None if timeout is None else timeout * factor
