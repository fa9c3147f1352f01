"""The turns of one client: prompt and cancel, and the settings a client changes between and during them.

Runs the author's function as the task of its request. Whatever becomes of that (it returns, fails, is cancelled, will
not be cancelled), the client is answered and no tool call stays open. Above is the reception; below are turns.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from typing import TYPE_CHECKING, Any

from dragoman.dialect.side_data import side_data_of
from dragoman.engine.handler import Handler
from dragoman.engine.incoming import Incoming
from dragoman.engine.lifecycle import PROCESSING
from dragoman.engine.pending import DoneCallback
from dragoman.errors import Kind, ProtocolError
from dragoman.roles.agent.session import Session, now
from dragoman.roles.agent.turn import Turn
from dragoman.schema.base import Unknown
from dragoman.schema.config import SetConfigOptionResult, SetModeResult
from dragoman.schema.prompt import PromptParams, PromptResult, StopReason
from dragoman.schema.update import UserMessageChunk

if TYPE_CHECKING:
    from dragoman.roles.agent.served_client import ServedClient

# How long the author's code may clean up after a cancel. Then the client, who must not wait for ever, is answered
# anyway, and the code is cancelled once more. Seconds.
CANCEL_TIMEOUT = 10.0


class _PendingPrompt:
    """A prompt whose turn has not begun: it waits for a login, or in the author's middleware."""

    def __init__(self, session_id: str, task: asyncio.Task[Any], done: DoneCallback) -> None:
        self.session_id = session_id
        self.task = task
        self.cancelled = False
        self._done = done

    def cancel(self) -> None:
        if not self.cancelled:
            self.cancelled = True
            self.task.cancel()
            alarm = asyncio.get_running_loop().call_later(CANCEL_TIMEOUT, self.answer_cancelled)
            self.task.add_done_callback(lambda _: alarm.cancel())

    def answer_cancelled(self) -> None:
        """Tell the client, who cancelled, that it is over."""
        self._done(PromptResult(stop_reason=StopReason.CANCELLED), None)


class PromptCalls:
    """The turns of one client."""

    def __init__(self, client: ServedClient) -> None:
        self._client = client
        self._agent = client.agent
        self._pending: dict[Incoming, _PendingPrompt] = {}

    def with_cancellation(self, handler: Handler) -> Handler:
        """Let a cancel reach a prompt also before its turn has begun; nothing where nothing stands before it."""
        if not self._agent.middleware_chain and not self._agent.auth_required:
            return handler

        def waiting(incoming: Incoming, done: DoneCallback) -> Awaitable[None] | None:
            work = handler(incoming, done)
            return None if work is None else self._run_pending(incoming, work, done)

        return waiting

    async def _run_pending(self, incoming: Incoming, work: Awaitable[None], done: DoneCallback) -> None:
        task = asyncio.current_task()
        assert task is not None
        waiting = self._pending[incoming] = _PendingPrompt(_session_id_of(incoming), task, done)
        try:
            await work
        except (asyncio.CancelledError, Exception):
            if not waiting.cancelled:
                raise
            while task.cancelling():
                task.uncancel()
            waiting.answer_cancelled()
        finally:
            self._pending.pop(incoming, None)

    def prompt(self, incoming: Incoming, done: DoneCallback) -> Awaitable[None] | None:
        """session/prompt: a handler, for a turn may be answered before its code has ended."""
        waiting = self._pending.pop(incoming, None)
        if waiting is None or not waiting.cancelled:
            return self._run_turn(incoming.params, done)
        done(PromptResult(stop_reason=StopReason.CANCELLED), None)
        return None

    async def _run_turn(self, params: PromptParams, done: DoneCallback) -> None:
        """The author's function, from its start to its end."""
        reception = self._client
        session = reception.find_open_session(params.session_id)
        self._check_content(params)
        if session.turn is not None:
            raise busy_error(session)
        session.bind(reception.connection)
        session.turn_count += 1
        session.turn = turn = Turn(session, params.prompt)
        session.history.end_message()
        for block in params.prompt:
            session.history.add(UserMessageChunk(content=block))
        reception.lifecycle.begin_turn(session.id)
        task = asyncio.current_task()
        assert task is not None
        turn.running = (task, done)
        try:
            if (noted := session.log_turn_started(params.prompt)) is not None:
                await noted
            result = await self._call_prompt_handler(turn, task)
            if (noted := session.log_turn_ended(result)) is not None:
                await noted
        except Exception as error:
            if (noted := session.log_turn_ended(None, error)) is not None:
                await noted
            raise
        finally:
            session.turn = turn.running = None
            session.updated_at = now()
            session.history.end_message()
            reception.lifecycle.end_turn(session.id)
        done(result, None)

    async def _call_prompt_handler(self, turn: Turn, task: asyncio.Task[Any]) -> PromptResult:
        if self._agent.prompt_handler is None:
            raise ProtocolError(
                Kind.INTERNAL_ERROR, "this agent has no prompt function; decorate one with @agent.prompt"
            )
        try:
            reason = await self._agent.prompt_handler(turn)
        except asyncio.CancelledError:
            turn.cancelled = True
        except Exception:
            if not turn.cancelled:  # an error caused by the cancel itself is no error (reference 1.7)
                raise
        else:
            if reason is not None:
                turn.stop_reason = reason
        finally:
            turn.finish()
            while task.cancelling():  # also where the author took the cancel for something else
                task.uncancel()
        return turn.result()

    def _check_content(self, params: PromptParams) -> None:
        """Content the agent did not offer to take is refused by its name."""
        offered = {
            "image": self._agent.image,
            "audio": self._agent.audio,
            "resource": self._agent.embedded_context,
        }
        for index, block in enumerate(params.prompt):
            tag = block.tag if isinstance(block, Unknown) else block.__struct_config__.tag
            if not offered.get(str(tag), True):
                raise ProtocolError(
                    Kind.CAPABILITY_UNSUPPORTED,
                    f"this agent takes no {tag} content",
                    {"errors": [{"path": f"prompt[{index}]", "message": f"{tag} is not offered"}]},
                )

    def cancel(self, params: Any) -> None:
        """session/cancel: nothing happens when no turn runs, or in a session that this client did not open."""
        session = self._agent.sessions.get(params.session_id)
        if session is not None and session.id in self._client.lifecycle.sessions:
            self._cancel_turn(session, side_data_of(params).get("reason"))
            for waiting in [one for one in self._pending.values() if one.session_id == session.id]:
                waiting.cancel()

    async def cancel_and_wait(self, session: Session) -> None:
        """Cancel a running turn, whichever client began it, and wait for its end as long as anybody should."""
        work = self._cancel_turn(session)
        if work is not None:
            await asyncio.wait({work}, timeout=CANCEL_TIMEOUT)

    def _cancel_turn(self, session: Session, reason: str | None = None) -> asyncio.Task[Any] | None:
        """Cancel the author's code of a running turn; gives its task."""
        turn = session.turn
        if turn is None or turn.running is None:
            return None
        task, done = turn.running
        if not turn.cancelled:  # a second cancel must not disturb the cleaning up after the first
            turn.cancelled = True
            turn.cancel_reason = reason
            task.cancel()
            alarm = asyncio.get_running_loop().call_later(CANCEL_TIMEOUT, self._abandon_turn, turn, task, done)
            task.add_done_callback(lambda _: alarm.cancel())
        return task

    def _abandon_turn(self, turn: Turn, task: asyncio.Task[Any], done: DoneCallback) -> None:
        """The author's code does not end: its client is answered all the same (reference 1.7)."""
        session = turn.session
        session.connection.report(f"the cancelled turn of session {session.id} goes on; it is answered without it")
        turn.finish()
        done(turn.result(), None)
        task.cancel()

    # --- settings ---------------------------------------------------------------------------------------------

    async def set_mode(self, params: Any) -> SetModeResult:
        """session/set_mode: the author hears of it before the client is answered."""
        session = self._client.find_open_session(params.session_id)
        before = session.mode
        session.set_mode(params.mode_id, notify=False)
        try:
            await self._agent.call_hook("mode_changed", session, params.mode_id)
        except BaseException:
            if before is not None:
                session.set_mode(before, notify=False)
            raise
        session.send_mode()
        if (kept := session.wait_stored()) is not None:
            await kept
        return SetModeResult()

    async def set_config_option(self, params: Any) -> SetConfigOptionResult:
        """session/set_config_option: the author hears of it before the client is answered."""
        session = self._client.find_open_session(params.session_id)
        before = list(session.options)
        session.set_option(params.config_id, side_data_of(params).get("value", params.value), notify=False)
        try:
            await self._agent.call_hook(
                "option_changed", session, params.config_id, session.get_option(params.config_id)
            )
        except BaseException:
            session.options = before
            raise
        session.log_options()
        if (kept := session.wait_stored()) is not None:
            await kept
        return SetConfigOptionResult(config_options=session.options_for_client)


def _session_id_of(incoming: Incoming) -> str:
    try:
        return str(incoming.params.session_id)
    except ProtocolError:  # which the handler tells, or the author's middleware mends
        return ""


def busy_error(session: Session) -> ProtocolError:
    """The error for who wants a session in which a turn runs."""
    why = "a turn is already running in this session; cancel it or wait for its end"
    if session.turn is not None and session.turn.cancelled:
        why = "the turn before was cancelled and has not ended yet; try again soon"
    return ProtocolError(Kind.INVALID_STATE, why, {"sessionId": session.id, "state": PROCESSING})
