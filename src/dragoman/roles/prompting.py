"""The turns of one client: prompt and cancel, and the settings a client changes between and during them.

Runs the author's function as the task of its request. Whatever becomes of that (it returns, fails, is cancelled), the
session is left idle and no tool call stays open. Above is the reception; below are turns.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from dragoman.dialect.book import side_data
from dragoman.errors import Kind, ProtocolError
from dragoman.roles.sessions import now
from dragoman.roles.turn import Turn
from dragoman.schema.base import Unknown
from dragoman.schema.config import SetConfigOptionResult, SetModeResult
from dragoman.schema.prompt import PromptParams, PromptResult, StopReason
from dragoman.schema.update import UserMessageChunk

if TYPE_CHECKING:
    from dragoman.roles.reception import Reception


class Prompting:
    """The running turns of one client."""

    def __init__(self, reception: Reception) -> None:
        self._reception = reception
        self._agent = reception.agent
        self.running: dict[str, asyncio.Task[Any]] = {}

    async def prompt(self, params: PromptParams) -> PromptResult:
        """session/prompt: the author's function, from its start to its end."""
        reception = self._reception
        session = reception.active(params.session_id)
        self._check_content(params)
        if session.turn is not None:
            raise ProtocolError(Kind.INVALID_STATE, "a turn is already running in this session")
        session.bind(reception.connection)
        session.turns += 1
        session.turn = turn = Turn(session, params.prompt)
        session.transcript.end_message()
        for block in params.prompt:
            session.transcript.add(UserMessageChunk(content=block))
        reception.lifecycle.begin(session.id)
        task = asyncio.current_task()
        assert task is not None
        self.running[session.id] = task
        try:
            return await self._answer(turn, task)
        finally:
            session.turn = None
            session.updated_at = now()
            session.transcript.end_message()
            reception.lifecycle.end(session.id)
            self.running.pop(session.id, None)

    async def _answer(self, turn: Turn, task: asyncio.Task[Any]) -> PromptResult:
        if self._agent.answer is None:
            raise ProtocolError(
                Kind.INTERNAL_ERROR, "this agent has no prompt function; decorate one with @agent.prompt"
            )
        try:
            reason = await self._agent.answer(turn)
        except asyncio.CancelledError:
            task.uncancel()
            turn.cancelled = True
        except ProtocolError:
            if not turn.cancelled:
                raise
        except Exception:
            if not turn.cancelled:  # an error caused by the cancel itself is no error (reference 1.7)
                raise
        else:
            if reason is not None:
                turn.stop_reason = reason
        finally:
            turn.session.finish_message()
            if turn.cancelled:
                for tool in list(turn.open_tools.values()):
                    tool.close_cancelled()
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
        """session/cancel."""
        self.cancel_turn(params.session_id, side_data(params).get("reason"))

    def cancel_turn(self, session_id: str, reason: str | None = None) -> None:
        """Cancel the author's code of a running turn; nothing happens when none runs."""
        task = self.running.get(session_id)
        session = self._agent.sessions.get(session_id)
        if task is not None and session is not None and session.turn is not None:
            session.turn.cancelled = True
            session.turn.cancel_reason = reason
            session.turn.stop_reason = StopReason.CANCELLED
            task.cancel()

    async def stop(self, session_id: str) -> None:
        """Cancel a running turn and wait for its end."""
        task = self.running.get(session_id)
        if task is not None:
            self.cancel_turn(session_id)
            await asyncio.wait({task})

    # --- settings ---------------------------------------------------------------------------------------------

    async def set_mode(self, params: Any) -> SetModeResult:
        """session/set_mode: the author hears of it before the client is answered."""
        session = self._reception.active(params.session_id)
        before = session.mode
        session.set_mode(params.mode_id, tell=False)
        try:
            await self._agent.call_hook("mode_changed", session, params.mode_id)
        except BaseException:
            if before is not None:
                session.set_mode(before, tell=False)
            raise
        session.tell_mode()
        return SetModeResult()

    async def set_config_option(self, params: Any) -> SetConfigOptionResult:
        """session/set_config_option: the author hears of it before the client is answered."""
        session = self._reception.active(params.session_id)
        before = list(session.options)
        session.set_option(params.config_id, side_data(params).get("value", params.value), tell=False)
        try:
            await self._agent.call_hook("option_changed", session, params.config_id, session.option(params.config_id))
        except BaseException:
            session.options = before
            raise
        return SetConfigOptionResult(config_options=session.shown_options)
