"""ClientSession: a session as its client sees it."""

from __future__ import annotations

import asyncio
import os
from collections import deque
from collections.abc import Awaitable, Callable, Mapping, Sequence
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, TypeVar

from msgspec import UNSET

from dragoman.dialect.reshape import SIDE_DATA_KEY
from dragoman.dialect.session_table import compact_json
from dragoman.engine.connection import Connection
from dragoman.errors import AgentExited, ConnectionFailed, Kind, ProtocolError
from dragoman.roles.client.caller_errors import check_kind, check_loop, check_seconds, content_blocks
from dragoman.roles.client.follow import Location, LocationStream, new_locations
from dragoman.roles.client.session_settings import SessionSettings
from dragoman.roles.client.turn import ClientTurn, cancel_call
from dragoman.schema import update as updates
from dragoman.schema.config import SessionConfigOption, SessionModeState, SetConfigOptionParams, SetModeParams
from dragoman.schema.content import ContentBlock
from dragoman.schema.mcp import McpServer
from dragoman.schema.plan import PlanEntry
from dragoman.schema.prompt import CancelParams
from dragoman.schema.session import CloseSessionParams
from dragoman.schema.toolcall import ToolCallStatus
from dragoman.schema.update import AgentMessageChunk, SessionState, ToolCallProgress, ToolCallStart
from dragoman.session.toolcall import FINAL_STATUSES, ToolCall
from dragoman.session.transcript import MERGE_AFTER, Transcript
from dragoman.store.contract import EntryKind
from dragoman.store.session_log import NO_LOG, NoLog, SessionLog

if TYPE_CHECKING:
    from dragoman.roles.client.recovery import Recovery

# Updates outside turns that are kept; older ones are dropped.
MAX_UPDATES_OUTSIDE_TURNS = 10_000

# How long to wait for the end of a turn that was cancelled because it could not be logged, before the next prompt is
# sent anyway. Seconds.
STOP_TIMEOUT = 10.0

T = TypeVar("T")


class ClientSession:
    """A session of a RemoteAgent: prompt it, change its settings, read its transcript.

    Updates arrive in wire order and go into the transcript. Those of a running turn go to the ClientTurn; others
    (early, late, unprompted, or of another client's turn in a host) to `updates_outside_turns`. `on_update` gets
    all of them.
    """

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
        self.on_update: Callable[[updates.SessionUpdate], Any] | None = None
        self.on_location: Callable[[Location], None] | None = None
        self.on_turn_over: list[Callable[[], None]] = []  # called at the end of each turn, to release its leases
        self.turn: ClientTurn | None = None
        self._settings = settings
        self._transcript = Transcript()
        self._unmerged = self._transcript.unmerged
        self._followers: list[LocationStream] = []
        self._own_turn_id = ""  # the host's id of our turn, while it runs
        self._is_foreign_turn = False  # whether the turn that runs in the host is another client's
        self._open_questions: set[asyncio.Future[Any]] = set()
        self.log: SessionLog | NoLog = NO_LOG
        self.is_closing = False  # whether we end the agent ourselves, so that its exit is not logged
        self._preamble: list[Any] = []  # blocks to send before the first prompt
        self._prompt_answered: asyncio.Event | None = None  # set when the agent answered the last logged prompt
        # Attributes, so that a log can come before: for one update, awaited before the next, and for a run of texts.
        self._receive: Callable[[Any], Awaitable[None] | None] = self._deliver
        self._receive_run: Callable[[list[Any]], bool | Awaitable[None]] = self._deliver_run

    def __repr__(self) -> str:
        return f"<ClientSession {self.id} in {self.cwd}>"

    # --- state ------------------------------------------------------------------------------------------------

    @property
    def transcript(self) -> Transcript:
        """Messages and tool calls in order, merged, with plan, usage, title, mode and options."""
        self._transcript.merge_pending()
        return self._transcript

    @property
    def tool_calls(self) -> dict[str, ToolCall]:
        """The current state of every tool call, by id."""
        return self._transcript.tool_calls

    @property
    def plan(self) -> list[PlanEntry]:
        """The current plan."""
        return self._transcript.plan

    @property
    def usage(self) -> updates.UsageUpdate | None:
        """The context usage, or None if the agent did not report it."""
        return self._transcript.usage

    @property
    def title(self) -> str | None:
        """The title of the session, or None."""
        return self._transcript.title

    @property
    def modes(self) -> SessionModeState | None:
        """The available modes, or None if the agent has no modes."""
        return self._transcript.modes

    @property
    def mode(self) -> str | None:
        """The id of the current mode, or None if the agent has no modes."""
        return self._transcript.mode

    @property
    def options(self) -> list[SessionConfigOption]:
        """The config options with their current values."""
        return self._transcript.options

    @property
    def commands(self) -> list[updates.AvailableCommand]:
        """The available slash commands."""
        return self._transcript.commands

    @property
    def state(self) -> str:
        """What the session is doing: `running`, `requires_action` (it waits for the user), `idle`, or another one."""
        told = self._transcript.state or SessionState.IDLE
        if told != SessionState.IDLE or self.turn is None or self.turn.is_over:
            return told
        return SessionState.REQUIRES_ACTION if self._open_questions else SessionState.RUNNING

    @property
    def roots(self) -> list[str]:
        """The folders of the session, cwd first."""
        return [self.cwd, *self.directories]

    def offers_mode(self, mode_id: str) -> bool:
        """Return whether the agent has a mode with this id."""
        return self.modes is not None and any(mode.id == mode_id for mode in self.modes.available_modes)

    @property
    def is_turn_cancelled(self) -> bool:
        """Whether the running turn was cancelled; open questions are then answered with cancelled."""
        return self.turn is not None and self.turn.cancelled and not self.turn.is_over

    @property
    def _keeps_agent_waiting(self) -> bool:
        """Whether the agent waits for an answer of ours."""
        return bool(self._open_questions) or self.connection.running_requests.is_busy

    def follow(self) -> LocationStream:
        """Follow the agent's tool calls from now on: `async for location in session.follow(): ...`."""
        follower = LocationStream(self._followers.remove)
        self._followers.append(follower)
        return follower

    # --- requests ---------------------------------------------------------------------------------------------

    def prompt(
        self,
        content: str | ContentBlock | Sequence[ContentBlock],
        *,
        timeout: float | None = None,
        idle_timeout: float | None = None,
        by: str = "user",
        log_extra: Mapping[str, Any] = MappingProxyType({}),
    ) -> ClientTurn:
        """Start a turn: `async with session.prompt("...") as turn: async for update in turn: ...`.

        A turn that takes longer than `timeout` seconds, or without an update for `idle_timeout` seconds, is cancelled
        and raises a ProtocolError of kind timeout. In the log, `by` is the author of the prompt, and `log_extra` are
        more members of its entry.
        """
        blocks = content_blocks(content)
        check_seconds(timeout=timeout, idle_timeout=idle_timeout)
        idle = self._settings.idle_timeout if idle_timeout is None else idle_timeout
        preamble, self._preamble = self._preamble, []
        return ClientTurn(
            self, blocks, timeout=timeout, idle_timeout=idle, preamble=preamble, by=by, log_extra=log_extra
        )

    async def ask(
        self,
        content: str | ContentBlock | Sequence[ContentBlock],
        *,
        timeout: float | None = None,
        idle_timeout: float | None = None,
        recovery: Recovery | None = None,
    ) -> str:
        """Prompt, wait for the end of the turn, and return the agent's text. `recovery` decides about errors."""
        check_seconds(timeout=timeout, idle_timeout=idle_timeout)
        idle = self._settings.idle_timeout if idle_timeout is None else idle_timeout

        async def run_once(timeout_factor: float) -> str:
            turn = self.prompt(
                content,
                timeout=_scale_timeout(timeout, timeout_factor),
                idle_timeout=_scale_timeout(idle, timeout_factor),
            )
            return await turn.text()

        if recovery is None:
            return await run_once(1.0)
        from dragoman.roles.client.recovery import Recovery  # few programs need it

        check_kind("recovery", recovery, Recovery)
        before = self._transcript.started_calls
        return await recovery.run(
            run_once, renew=self._renew, has_acted=lambda: self._transcript.started_calls > before
        )

    async def _renew(self) -> None:
        if self._settings.renew is None:
            message = "this session cannot be renewed, because no RemoteAgent opened it"
            raise ProtocolError(Kind.INVALID_STATE, message)
        await self._settings.renew(self)

    async def request(self, method: str, params: Any) -> Any:
        """Send a request about this session. Raises a ProtocolError of kind timeout if there is no answer in time."""
        check_loop(self.connection)
        return await self.connection.request(method, params, timeout=self._settings.timeout)

    async def set_mode(self, mode_id: str, *, by: str = "user") -> None:
        """Change the mode. In the log, `by` is who did it."""
        await self.request("session/set_mode", SetModeParams(session_id=self.id, mode_id=mode_id))
        self._transcript.set_mode(mode_id)
        await self._log_setting(updates.CurrentModeUpdate(current_mode_id=mode_id), by)

    async def set_option(self, config_id: str, value: Any, *, by: str = "user") -> None:
        """Set a config option: to a choice, a boolean or, in the draft, any JSON value."""
        kind: Any = "boolean" if isinstance(value, bool) else UNSET
        params = SetConfigOptionParams(session_id=self.id, config_id=config_id, value=value, type=kind)
        if not isinstance(value, str | bool):
            params.value, params.meta = compact_json(value), {SIDE_DATA_KEY: {"value": value}}
        result = await self.request("session/set_config_option", params)
        self._transcript.options = list(result.config_options or ())
        await self._log_setting(updates.ConfigOptionUpdate(config_options=self.options), by)

    def cancel(self, reason: str | None = None) -> None:
        """Cancel the running turn. Open questions are answered with cancelled, open tool calls marked cancelled."""
        why = {SIDE_DATA_KEY: {"reason": reason}} if reason else UNSET
        self.connection.notify("session/cancel", CancelParams(session_id=self.id, meta=why))
        if self.turn is None or self.turn.is_over:
            return
        self.turn.cancelled = True
        for question in list(self._open_questions):
            question.cancel()
        for call in self.tool_calls.values():
            # Many agents send no further update for them (docs/protocol/peers.md#tool-call-order).
            if call.status not in FINAL_STATUSES:
                call.status = ToolCallStatus.CANCELLED

    async def cancel_tool_call(self, tool_call_id: str) -> None:
        """Cancel one tool call of a v2 agent; the turn goes on. The agent says which calls can be cancelled."""
        await self.request(*cancel_call(self, tool_call_id=tool_call_id))

    async def cancel_terminal(self, terminal_id: str) -> None:
        """End the command of one terminal that a v2 agent runs; the turn goes on."""
        await self.request(*cancel_call(self, terminal_id=terminal_id))

    async def close(self) -> None:
        """Close the session: stop its work and release its resources."""
        await self.request("session/close", CloseSessionParams(session_id=self.id))
        self._end()
        if self._settings.release is not None:
            await self._settings.release(self.id)

    # --- messages of the agent --------------------------------------------------------------------------------

    def _apply_open_result(self, result: Any) -> None:
        """Take modes and options from the answer that opened the session."""
        self._transcript.modes = result.modes or None
        self._transcript.options = list(result.config_options or ())

    def _add_prompt(self, prompt: list[Any]) -> None:
        """Add a prompt to the transcript."""
        if not self._settings.keeps_messages:
            self._transcript.discard_finished()
        self._transcript.add_prompt(prompt)

    def _note_state(self, update: Any) -> None:
        """Add an update to the transcript."""
        if type(update) is ToolCallStart or type(update) is ToolCallProgress:
            self._note_tool_call(update, self._transcript.add)
        else:
            self._transcript.add(update)

    def _deliver(self, update: Any) -> Awaitable[None] | None:
        """Add one update to the transcript and pass it to `on_update` and the turn."""
        if type(update) is AgentMessageChunk:
            self._unmerged.append(update)
            if len(self._unmerged) >= MERGE_AFTER:
                self._transcript.merge_pending()
        elif type(update) is ToolCallStart or type(update) is ToolCallProgress:
            self._note_tool_call(update, self._transcript.add)
        else:
            self._transcript.add(update)
        if self.on_update is not None:
            result = self.on_update(update)
            if isinstance(result, Awaitable):
                return self._pass_to_turn_after(result, update)
        return self._pass_to_turn(update)

    def _pass_to_turn(self, update: Any) -> Awaitable[None] | None:
        turn = self.turn
        if turn is None or turn.is_over:
            self.updates_outside_turns.append(update)
            return None
        if self._is_foreign_turn:
            turn._note_foreign_update()
            self.updates_outside_turns.append(update)
            return None
        return turn._receive(update)

    async def _pass_to_turn_after(self, callback: Awaitable[Any], update: Any) -> None:
        await callback
        self._pass_to_turn(update)

    def _note_host_turn(self, state: str, turn_id: str) -> None:
        """Note which turn runs in a host, after everything before. Updates of other turns do not go to our turn."""

        def note() -> None:
            if state in ("yours", "ended"):
                self._own_turn_id = turn_id if state == "yours" else ""
            # A client that joins is told "running", perhaps late, over another stream, when its own turn runs.
            self._is_foreign_turn = state == "started" or (state == "running" and not self._own_turn_id)

        self.log.call_after(note)

    def _deliver_run(self, chunks: list[Any]) -> bool:
        """Add text chunks to the transcript and pass them to the turn, if nobody else waits for each."""
        turn = self.turn
        if self.on_update is not None or turn is None or turn.is_over or self._is_foreign_turn:
            return False
        if is_taken := turn._receive_run(chunks):
            turn._note_text(self._transcript.add_run(chunks))
        return is_taken

    async def _note_question(self, method: str, params: Any) -> None:
        """Log a question to the user. Add the tool call of a permission request, announced or not
        (docs/protocol/peers.md#tool-call-order).
        """
        await self.log.append_question(method, params)
        if method == "session/request_permission":
            self._note_tool_call(params.tool_call, self._transcript.add_permission_call)

    async def _note_decision(self, method: str, params: Any, result: Any) -> None:
        """Log the answer to a question, before the agent gets it."""
        await self.log.append_decision(method, params, result, self._settings.decider(params))

    def _note_tool_call(self, update: Any, add: Callable[[Any], None]) -> None:
        """Add a tool call to the transcript and its new locations to the followers."""
        id = update.tool_call_id
        known = self.tool_calls.get(id)
        is_reused = type(update) is ToolCallStart and known is not None and known.status in FINAL_STATUSES
        before = known.locations if known is not None and not is_reused else ()
        add(update)
        if not update.locations or (self.on_location is None and not self._followers):
            return
        for location in new_locations(id, before, update.locations):
            if self.on_location is not None:
                self.on_location(location)
            for follower in self._followers:
                follower.add(location)

    async def _unless_cancelled(self, answer: Awaitable[T]) -> T | None:
        """Await the user's answer to a question. Return None, and cancel it, if the turn is cancelled."""
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

    def _on_agent_lost(self, error: ConnectionFailed) -> None:
        """Fail the turn and end the session, because the agent is gone. Log it first, unless we ended the agent."""
        self._settings.on_agent_lost(self, error)

        def fail(_: Any = None) -> None:
            if self.turn is not None:
                self.turn._fail(error)
            self._end()

        if self.is_closing:
            fail()
            return
        body: dict[str, Any] = {"message": str(error)}
        if isinstance(error, AgentExited):
            body |= {"status": error.status, "stderr": error.stderr[-2000:]}
        self.log.append(EntryKind.AGENT_EXITED, body, then=fail, on_failure=fail)

    def _end(self) -> None:
        """End the location streams, because no more updates will come."""
        for follower in self._followers:
            follower.end()
        self._followers.clear()

    # --- the log ----------------------------------------------------------------------------------------------

    @property
    def log_id(self) -> str | None:
        """The id of its log in the store, or None until something is stored."""
        return self.log.session_id or None

    async def _log_setting(self, update: Any, by: str) -> None:
        if self.turn is None or self.turn.is_over:
            self.log.clear_fault()
        await self.log.append_and_wait(EntryKind.UPDATE, update, actor=by)

    async def wait_unlogged_turn(self) -> None:
        """Wait for the end of a turn that could not be logged, so that its updates do not go to the next one."""
        if self.log.fault is None or self._prompt_answered is None:
            return
        try:
            async with asyncio.timeout(STOP_TIMEOUT):
                await self._prompt_answered.wait()
        except TimeoutError:
            pass


def _scale_timeout(timeout: float | None, factor: float) -> float | None:
    return None if timeout is None else timeout * factor
