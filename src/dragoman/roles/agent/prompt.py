"""The turns of one client: prompt, cancel, set_mode and set_config_option; and agents with several responders.

However the author's function ends, the client is answered and no tool call stays open.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from msgspec import UNSET

from dragoman.dialect.side_data import JOINED, side_data_of, with_side_data
from dragoman.engine.incoming import DoneCallback, Handler, Incoming, to_protocol_error
from dragoman.engine.lifecycle import PROCESSING
from dragoman.errors import Kind, ProtocolError
from dragoman.ids import now
from dragoman.roles.agent.author.arguments import check_stop_reason
from dragoman.roles.agent.author.awaits import add_advice, check_awaits, watch_awaits
from dragoman.roles.agent.options import Option
from dragoman.roles.agent.session import Session
from dragoman.roles.agent.turn import Turn
from dragoman.schema.base import Unknown, to_json
from dragoman.schema.config import SetConfigOptionResult, SetModeResult
from dragoman.schema.content import EmbeddedResource
from dragoman.schema.prompt import PromptParams, PromptResult, StopReason
from dragoman.schema.terminal import CancelTerminalResult
from dragoman.schema.toolcall import CancelToolCallResult
from dragoman.schema.update import ConfigOptionUpdate, UserMessageChunk
from dragoman.store.contract import EntryKind
from dragoman.store.session_log import turn_ended_body

if TYPE_CHECKING:
    from dragoman.roles.agent.served_client import ServedClient
    from dragoman.roles.agent.session import Session
    from dragoman.roles.agent.turn import Turn
    from dragoman.schema.config import SessionConfigOption


# How long the author's code may clean up after a cancel. Then the client is answered anyway, and the code is cancelled
# again. Seconds.
CANCEL_TIMEOUT = 10.0


class _PendingPrompt:
    """A prompt whose turn has not begun: it waits for a login or for the author's middleware."""

    def __init__(self, session_id: str, task: asyncio.Task[Any], done: DoneCallback) -> None:
        self.session_id = session_id
        self.task = task
        self.cancelled = False
        self._done = done

    def cancel(self) -> None:
        if not self.cancelled:
            self.cancelled = True
            self.task.cancel()
            timer = asyncio.get_running_loop().call_later(CANCEL_TIMEOUT, self.answer_cancelled)
            self.task.add_done_callback(lambda _: timer.cancel())

    def answer_cancelled(self) -> None:
        """Answer the prompt with the stop reason cancelled."""
        self._done(PromptResult(stop_reason=StopReason.CANCELLED), None)


class PromptCalls:
    """The turns of one client."""

    def __init__(self, client: ServedClient) -> None:
        self._client = client
        self._agent = client.agent
        self._pending: dict[Incoming, _PendingPrompt] = {}

    def with_cancellation(self, handler: Handler) -> Handler:
        """Let session/cancel reach a prompt before its turn has begun, if middleware or a login can delay it."""
        if not self._agent._middleware_chain and not self._agent.auth_required:
            return handler

        def wrapped(incoming: Incoming, done: DoneCallback) -> Awaitable[None] | None:
            work = handler(incoming, done)
            return None if work is None else self._run_pending(incoming, work, done)

        return wrapped

    async def _run_pending(self, incoming: Incoming, work: Awaitable[None], done: DoneCallback) -> None:
        task = asyncio.current_task()
        assert task is not None
        pending = self._pending[incoming] = _PendingPrompt(_session_id_of(incoming), task, done)
        try:
            await work
        except (asyncio.CancelledError, Exception):
            if not pending.cancelled:
                raise
            while task.cancelling():
                task.uncancel()
            pending.answer_cancelled()
        finally:
            self._pending.pop(incoming, None)

    def prompt(self, incoming: Incoming, done: DoneCallback) -> Awaitable[None] | None:
        """Handle session/prompt. It takes `done`, because a turn may be answered before its code has ended."""
        pending = self._pending.pop(incoming, None)
        if pending is None or not pending.cancelled:
            return self._run_turn(incoming.params, done)
        done(PromptResult(stop_reason=StopReason.CANCELLED), None)
        return None

    async def _run_turn(self, params: PromptParams, done: DoneCallback) -> None:
        """Run the author's function and answer the prompt."""
        client = self._client
        session = client.find_open_session(params.session_id)
        self._check_content(params)
        if self.can_join(session):
            await self._join_turn(session, params, done)
            return
        while session.turn is not None and session.turn._is_own_work:
            await session.turn._ended.wait()
        if session.turn is not None:
            raise busy_error(session)
        session._bind(client.connection)
        session.turn_count += 1
        session.turn = turn = Turn(session, params.prompt)
        session.history.end_message()
        for block in params.prompt:
            session.history.add(UserMessageChunk(content=block))
        client.lifecycle.begin_turn(session.id)
        task = asyncio.current_task()
        assert task is not None
        turn._running = (task, done)
        is_logged = session.log.store is not None
        try:
            if is_logged:
                await _log_turn_started(session, params.prompt)
            if session.tools:
                session.tools.show_failures(turn)
            result = await self._call_prompt_handler(turn, task)
            if is_logged:
                await _log_turn_ended(session, result, None)
        except Exception as error:
            if is_logged:
                await _log_turn_ended(session, None, error)
            _answer_joined(turn, None, to_protocol_error(error))
            raise
        finally:
            session.turn = turn._running = None
            session.updated_at = now()
            session.history.end_message()
            client.lifecycle.end_turn(session.id)
            turn._mark_ended()
        client.connection.flush_updates(session.id)
        _answer_joined(turn, result, None)
        done(result, None)

    def can_join(self, session: Session | None) -> bool:
        """Return whether a prompt can become part of the running turn."""
        turn = session.turn if session is not None else None
        return (
            turn is not None
            and turn._running is not None
            and not turn.cancelled
            and not turn._is_own_work
            and self._agent._has_hook("steer")
            and self._client.dialect.is_wide
        )

    async def _join_turn(self, session: Session, params: PromptParams, done: DoneCallback) -> None:
        """Give a prompt to the running turn; both are answered at its end."""
        turn = session.turn
        assert turn is not None
        ended = asyncio.Event()
        turn.joined.append(params.prompt)
        turn._joined_answers.append((done, ended))
        try:
            if await self._agent._call_hook("steer", turn, params.prompt) is False:
                raise busy_error(session)
        except BaseException:
            if (done, ended) in turn._joined_answers:
                turn._joined_answers.remove((done, ended))
                turn.joined.remove(params.prompt)
            raise
        if not ended.is_set():
            if session.log.store is not None:
                await session.log.append_and_wait(EntryKind.PROMPT, {"prompt": to_json(params.prompt)}, actor="user")
            session.history.end_message()
            for block in params.prompt:
                session.history.add(UserMessageChunk(content=block))
            session.history.end_message()
            # For the emulator, which then tells the client that the prompt is part of the conversation.
            session._notify_update(with_side_data(UserMessageChunk(content=params.prompt[0]), **{JOINED: True}))
        await ended.wait()

    async def _call_prompt_handler(self, turn: Turn, task: asyncio.Task[Any]) -> PromptResult:
        if self._agent.prompt_handler is None:
            raise ProtocolError(
                Kind.INTERNAL_ERROR, "this agent has no prompt function; decorate one with @agent.prompt"
            )
        watch_awaits()
        try:
            if turn.session.tools:
                turn.prompt = await turn.session.tools.expand_command(turn.prompt)
            reason = await self._agent.prompt_handler(turn)
            check_awaits(task)
        except asyncio.CancelledError:
            turn.cancelled = True
        except Exception as error:
            # An error caused by the cancel itself is no error (docs/protocol/prompt-turns.md#cancel).
            if not turn.cancelled:
                add_advice(error, task)
                raise
        else:
            if reason is None:
                check_stop_reason("turn.stop_reason is", turn.stop_reason)
            else:
                turn.stop_reason = check_stop_reason("the prompt function returned", reason)
        finally:
            turn._finish()
            while task.cancelling():  # also if the author's code swallowed the cancel
                task.uncancel()
        return turn._result()

    def _check_content(self, params: PromptParams) -> None:
        """Raise if the prompt has content that the agent does not support."""
        offered = {
            "image": self._agent.image,
            "audio": self._agent.audio,
            "resource": self._agent.embedded_context,
        }
        for index, block in enumerate(params.prompt):
            if isinstance(block, EmbeddedResource) and block.resource.text is UNSET and block.resource.blob is UNSET:
                path = f"prompt[{index}].resource"
                raise ProtocolError(
                    Kind.INVALID_PARAMS,
                    f"{path} has neither text nor blob; send one of them, or a resource_link",
                    {"errors": [{"path": f"{path}.text", "message": "is missing"}]},
                )
            tag = block.tag if isinstance(block, Unknown) else block.__struct_config__.tag
            if not offered.get(str(tag), True):
                raise ProtocolError(
                    Kind.CAPABILITY_UNSUPPORTED,
                    f"this agent does not support {tag} content",
                    {"errors": [{"path": f"prompt[{index}]", "message": f"{tag} is not offered"}]},
                )

    def cancel(self, params: Any) -> None:
        """Handle session/cancel. Ignore it if no turn runs or this client has not opened the session."""
        session = self._agent.sessions.get(params.session_id)
        if session is not None and session.id in self._client.lifecycle.sessions:
            self._cancel_turn(session, side_data_of(params).get("reason"))
            for pending in [one for one in self._pending.values() if one.session_id == session.id]:
                pending.cancel()

    def cancel_tool_call(self, params: Any) -> CancelToolCallResult:
        """Handle tool_call/cancel: cancel the code of one tool call; the turn goes on."""
        self._cancel_scope(params.session_id, "tool_call", params.tool_call_id)
        return CancelToolCallResult()

    def cancel_terminal(self, params: Any) -> CancelTerminalResult:
        """Handle terminal/cancel: end the command of one terminal; the turn goes on."""
        self._cancel_scope(params.session_id, "terminal", params.terminal_id)
        return CancelTerminalResult()

    def _cancel_scope(self, session_id: str, kind: str, id: str) -> None:
        scope = self._client.find_open_session(session_id)._cancel_scopes.get((kind, id))
        if scope is None:
            what = kind.replace("_", " ")
            raise ProtocolError(Kind.INVALID_PARAMS, f"there is no {what} {id!r} that can be cancelled now", {"id": id})
        scope.cancel()

    async def cancel_and_wait(self, session: Session) -> None:
        """Cancel a running turn, of any client, and wait up to CANCEL_TIMEOUT for its end."""
        task = self._cancel_turn(session)
        if task is not None:
            await asyncio.wait({task}, timeout=CANCEL_TIMEOUT)

    def _cancel_turn(self, session: Session, reason: str | None = None) -> asyncio.Task[Any] | None:
        """Cancel the author's code of a running turn; return its task."""
        turn = session.turn
        if turn is None or turn._running is None:
            return None
        task, done = turn._running
        if not turn.cancelled:  # a second cancel must not interrupt the cleanup after the first
            turn.cancelled = True
            turn.cancel_reason = reason
            task.cancel()
            timer = asyncio.get_running_loop().call_later(CANCEL_TIMEOUT, self._abandon_turn, turn, task, done)
            task.add_done_callback(lambda _: timer.cancel())
        return task

    def _abandon_turn(self, turn: Turn, task: asyncio.Task[Any], done: DoneCallback) -> None:
        """Answer the client although the author's code does not end (docs/protocol/prompt-turns.md#cancel)."""
        session = turn.session
        session.connection.sender.report(
            f"the cancelled turn of session {session.id} does not end; the client is answered anyway"
        )
        turn._finish()
        done(turn._result(), None)
        task.cancel()

    # --- settings ---------------------------------------------------------------------------------------------

    async def set_mode(self, params: Any) -> SetModeResult:
        """Handle session/set_mode: call the author's hook, then answer."""
        session = self._client.find_open_session(params.session_id)
        before = session.mode
        session.set_mode(params.mode_id, notify=False)
        try:
            await self._agent._call_hook("mode_changed", session, params.mode_id)
        except BaseException:
            if before is not None:
                session.set_mode(before, notify=False)
            raise
        session._send_mode()
        await session.log.wait_stored()
        return SetModeResult()

    async def set_config_option(self, params: Any) -> SetConfigOptionResult:
        """Handle session/set_config_option: call the author's hook, then answer."""
        session = self._client.find_open_session(params.session_id)
        before = list(session.options)
        session.set_option(params.config_id, side_data_of(params).get("value", params.value), notify=False)
        try:
            await self._agent._call_hook(
                "option_changed", session, params.config_id, session.get_option(params.config_id)
            )
        except BaseException:
            session.options = before
            raise
        session._clear_log_fault()
        update = ConfigOptionUpdate(config_options=session.options)
        await session.log.append_and_wait(EntryKind.UPDATE, to_json(update), actor="user")
        return SetConfigOptionResult(config_options=session._options_for_client)


async def _log_turn_started(session: Session, prompt: list[Any]) -> None:
    log = session.log
    log.clear_fault()
    log.turn = f"turn_{session.turn_count}"
    log.append(EntryKind.TURN_STARTED, {}, actor="user")
    await log.append_and_wait(EntryKind.PROMPT, {"prompt": to_json(prompt)}, actor="user")


async def _log_turn_ended(session: Session, result: PromptResult | None, error: Exception | None) -> None:
    try:
        await session.log.append_and_wait(EntryKind.TURN_ENDED, turn_ended_body(result, error))
    finally:
        session.log.turn = None


def _answer_joined(turn: Turn, result: PromptResult | None, error: ProtocolError | None) -> None:
    answers, turn._joined_answers = turn._joined_answers, []
    for done, ended in answers:
        done(result, error)
        ended.set()


def _session_id_of(incoming: Incoming) -> str:
    try:
        return str(incoming.params.session_id)
    except ProtocolError:  # the handler reports it, or the author's middleware repairs it
        return ""


def busy_error(session: Session) -> ProtocolError:
    """Return the error for a session in which a turn runs."""
    why = "a turn is already running in this session; cancel it or wait until it ends"
    if session.turn is not None and session.turn.cancelled:
        why = "the cancelled turn has not ended yet; try again in a moment"
    return ProtocolError(Kind.INVALID_STATE, why, {"sessionId": session.id, "state": PROCESSING})


ROUTE, PRIMARY, AUTO_RESUME = "route", "primary_agent", "auto_resume"

# The route on which all responders answer.
DUET = "duet"

Responder = Callable[["Turn"], Awaitable[str | None]]


def with_route_options(options: Sequence[SessionConfigOption], names: Sequence[str]) -> list[SessionConfigOption]:
    """Add the routing options for these responders. One responder needs none."""
    others = [option for option in options if option.id not in (ROUTE, PRIMARY)]
    if len(names) < 2:
        return others
    return [
        *others,
        Option.select(ROUTE, [*names, DUET], description="Who answers: one of them, or all in turn"),
        Option.select(PRIMARY, list(names), description="Who answers first when all do"),
    ]


def selected_responders(session: Session, names: Iterable[str]) -> list[str]:
    """Return the names of the responders for the next prompt, in order."""
    known = list(names)
    route = session.get_option(ROUTE)
    if route in known:
        return [route]
    if route != DUET:
        return known[:1]
    first = session.get_option(PRIMARY)
    return [first, *(name for name in known if name != first)] if first in known else known


async def run_responders(responders: Mapping[str, Responder], turn: Turn) -> str | None:
    """Call the selected responders in order, until one returns a stop reason other than end_turn."""
    for name in selected_responders(turn.session, responders):
        reason = await responders[name](turn)
        if reason is not None and reason != StopReason.END_TURN:
            return reason
    return None


def is_auto_resumed(session: Session) -> bool:
    """Return whether the next session in this folder continues this one."""
    value: Any = session.get_option(AUTO_RESUME)
    return value in ("on", "true", "yes") if isinstance(value, str) else value is True
