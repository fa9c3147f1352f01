"""From one update that only v2 agents send to the updates of a client that knows less. Pure; state per session.

What the client gets later, because lists and texts are sent whole, waits until the caller takes it: `pending` and
`take`. What is lost is in `losses`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from dragoman.dialect.narrow.client_view import ClientView
from dragoman.dialect.narrow.content import narrow_block
from dragoman.dialect.narrow.loss import Loss, LossReports
from dragoman.dialect.narrow.message import Messages
from dragoman.dialect.narrow.options import mode_option, narrow_options, narrow_session
from dragoman.dialect.narrow.permission import narrow_question
from dragoman.dialect.narrow.plans import Plans
from dragoman.dialect.narrow.terminals import Terminals
from dragoman.dialect.narrow.tool_calls import ToolCalls
from dragoman.dialect.side_data import get_member, with_members, with_side_data
from dragoman.schema import update as updates
from dragoman.schema.base import Unknown
from dragoman.schema.config import SessionConfigOption
from dragoman.schema.permission import RequestPermissionParams
from dragoman.schema.prompt import StopReason
from dragoman.schema.update import NoticeSeverity, SessionState

# What waits to be sent: contents of tool calls, and output of terminals.
CONTENT: Final = "content"
TERMINALS: Final = "terminals"

_CHUNK_TYPES: Final[dict[str, type]] = {
    "user_message_chunk": updates.UserMessageChunk,
    "agent_message_chunk": updates.AgentMessageChunk,
    "agent_thought_chunk": updates.AgentThoughtChunk,
}

_STATES: Final = frozenset(
    {SessionState.RUNNING, SessionState.IDLE, SessionState.REQUIRES_ACTION, SessionState.UNKNOWN}
)
_STOP_REASONS: Final = frozenset(
    {
        StopReason.END_TURN,
        StopReason.MAX_TOKENS,
        StopReason.MAX_TURN_REQUESTS,
        StopReason.REFUSAL,
        StopReason.CANCELLED,
        StopReason.ERROR,
        StopReason.AUTH_REQUIRED,
    }
)


class _Session:
    """What the client was told of one session."""

    def __init__(self, view: ClientView, losses: LossReports) -> None:
        self.prompt_count = 0  # prompts of this client that are not answered yet
        self.mode: Any = None
        self.messages = Messages(losses)
        self.begin_anew(view, losses)

    def begin_anew(self, view: ClientView, losses: LossReports) -> None:
        """Forget what was told, because the history comes again."""
        self.messages.forget()
        self.terminals = Terminals(view, losses)
        self.calls = ToolCalls(self.terminals, losses)
        self.plans = Plans(view, losses)


class Narrowing:
    """What a client of one connection gets of an agent that tells more than the client can be told."""

    def __init__(self, view: ClientView) -> None:
        self.view = view
        self.losses = LossReports()
        self._sessions: dict[str, _Session] = {}

    def _session(self, id: str) -> _Session:
        session = self._sessions.get(id)
        if session is None:
            session = self._sessions[id] = _Session(self.view, self.losses)
        return session

    # --- updates ----------------------------------------------------------------------------------------------

    def updates(self, session_id: str, update: Any) -> list[Any]:
        """Return the updates that the client gets now for one update of the agent."""
        narrow = _NARROW.get(type(update))
        return [update] if narrow is None else narrow(self, self._session(session_id), update)

    def passes_text(self, session_id: str, kind: str, message_id: str) -> bool:
        """Return whether pieces of text of a message pass as they are."""
        return self._session(session_id).messages.passes(_CHUNK_TYPES[kind], message_id)

    def note_text(self, session_id: str, kind: str, message_id: str, text: str) -> None:
        """Note a piece of text that passed as it is."""
        self._session(session_id).messages.note_text(_CHUNK_TYPES[kind], message_id, text)

    def pending(self, session_id: str) -> list[str]:
        """Return which kinds of updates wait to be taken."""
        session = self._sessions.get(session_id)
        if session is None:
            return []
        kinds = [CONTENT] if session.calls.has_changed_content else []
        return [*kinds, TERMINALS] if session.terminals.changed else kinds

    def take(self, session_id: str, kind: str) -> list[Any]:
        """Return the waiting updates of a kind."""
        session = self._sessions.get(session_id)
        if session is None:
            return []
        return session.calls.take_changed_content() if kind == CONTENT else session.calls.take_changed_terminals()

    def drop_pending(self, session_id: str) -> None:
        """Drop the waiting updates: the client has them already."""
        for kind in self.pending(session_id):
            self.take(session_id, kind)

    def _chunk(self, session: _Session, update: Any) -> list[Any]:
        return session.messages.chunk(update)

    def _whole_message(self, session: _Session, update: Any) -> list[Any]:
        return session.messages.whole(update)

    def _start_call(self, session: _Session, update: Any) -> list[Any]:
        return session.calls.start(update)

    def _change_call(self, session: _Session, update: Any) -> list[Any]:
        return session.calls.change(update)

    def _add_content(self, session: _Session, update: Any) -> list[Any]:
        return session.calls.add_content(update)

    def _change_terminal(self, session: _Session, update: Any) -> list[Any]:
        return session.terminals.update(update) + session.calls.take_ended_terminals()

    def _add_output(self, session: _Session, update: Any) -> list[Any]:
        return session.terminals.output(update)

    def _state(self, session: _Session, update: Any) -> list[Any]:
        """Tell nothing: a prompt that is answered says that its work is over."""
        if update.state not in _STATES:
            self.losses.add(Loss.CUSTOM_STATE, update.state)
        elif update.state == SessionState.REQUIRES_ACTION:
            self.losses.add(Loss.REQUIRES_ACTION)
        elif update.state == SessionState.RUNNING and not session.prompt_count:
            self.losses.add(Loss.SESSION_STATE)
        if update.background:
            self.losses.add(Loss.BACKGROUND)
        return []

    def _plan(self, session: _Session, update: Any) -> list[Any]:
        return session.plans.whole(update)

    def _update_plan(self, session: _Session, update: Any) -> list[Any]:
        return session.plans.update(update)

    def _remove_plan(self, session: _Session, update: Any) -> list[Any]:
        return session.plans.removed(update)

    def _mode(self, session: _Session, update: Any) -> list[Any]:
        if update.current_mode_id == session.mode:  # the options said so before
            return []
        session.mode = update.current_mode_id
        return [update]

    def _options(self, session: _Session, update: Any) -> list[Any]:
        options = narrow_options(update.config_options, self.view, self.losses)
        changes = self._mode_change(session, update.config_options)
        if options is not update.config_options:
            update = with_members(update, config_options=options)
        return [update, *changes]

    def _mode_change(self, session: _Session, options: list[SessionConfigOption]) -> list[Any]:
        """Return the update of a mode that the client does not know of, for clients that know modes only."""
        option = mode_option(options)
        if option is None or option.current_value == session.mode or not isinstance(option.current_value, str):
            return []
        session.mode = option.current_value
        return [updates.CurrentModeUpdate(current_mode_id=option.current_value)]

    def _notice(self, session: _Session, update: Any) -> list[Any]:
        if self.view.notices:
            return [update]
        self.losses.add(Loss.NOTICES)
        if update.severity == NoticeSeverity.ERROR:
            self.losses.add_text(f"the agent reports: {update.title}{f': {d}' if (d := update.description) else ''}")
        return []

    def _compaction(self, session: _Session, update: Any) -> list[Any]:
        return self._if_shown(self.view.compaction, Loss.COMPACTION, update)

    def _subagent(self, session: _Session, update: Any) -> list[Any]:
        return self._if_shown(self.view.subagents, Loss.SUBAGENTS, update)

    def _if_shown(self, is_shown: bool, loss: str, update: Any) -> list[Any]:
        """Return an update that the client shows, with its content narrowed."""
        if not is_shown:
            self.losses.add(loss)
            return []
        for name in ("content", "summary"):
            content = get_member(update, name)
            if isinstance(content, list):
                update = with_members(update, **{name: [narrow_block(block, self.losses) for block in content]})
            elif content:
                update = with_members(update, **{name: narrow_block(content, self.losses)})
        return [update]

    def _unknown(self, session: _Session, update: Any) -> list[Any]:
        self.losses.add(Loss.UNKNOWN_UPDATE, update.tag)
        return []

    # --- questions, turns, sessions ---------------------------------------------------------------------------

    def question(self, params: RequestPermissionParams) -> tuple[list[Any], RequestPermissionParams]:
        """Return the updates that must come before a permission request, and the request as the client gets it."""
        return narrow_question(params, self._session(params.session_id).calls, self.losses)

    def begin_turn(self, session_id: str) -> None:
        """Note a prompt of the client."""
        self._session(session_id).prompt_count += 1

    def end_turn(self, session_id: str) -> None:
        """Note that a prompt is answered; the caller takes first what waits."""
        session = self._session(session_id)
        session.prompt_count = max(session.prompt_count - 1, 0)

    def prompt_result(self, result: Any) -> Any:
        """Return the answer to a prompt with a stop reason that clients know."""
        reason = get_member(result, "stop_reason")
        if not isinstance(reason, str) or reason in _STOP_REASONS:
            return result
        self.losses.add(Loss.STOP_REASON, reason)
        return with_side_data(with_members(result, stop_reason=StopReason.END_TURN), stopReason=reason)

    def begin_replay(self, session_id: str) -> None:
        """Forget what the client was told: the history comes again."""
        session = self._session(session_id)
        session.begin_anew(self.view, self.losses)
        session.messages.is_replaying = True

    def end_replay(self, session_id: str) -> None:
        """Note that the history is complete."""
        self._session(session_id).messages.is_replaying = False

    def opening_result(self, session_id: str, result: Any) -> Any:
        """Return the result that opened a session as the client gets it; note its mode."""
        session = self._session(session_id)
        option = mode_option(get_member(result, "config_options"))
        if option is not None:
            session.mode = option.current_value
        return narrow_session(result, self.view, self.losses)

    def set_mode(self, session_id: str, mode: Any) -> None:
        """Note the mode that the client chose."""
        self._session(session_id).mode = mode

    def options_result(self, session_id: str, result: Any) -> tuple[list[Any], Any]:
        """Return the updates before the answer to a changed option, and the answer."""
        options = get_member(result, "config_options")
        if not isinstance(options, list):
            return [], result
        changes = self._mode_change(self._session(session_id), options)
        shown = narrow_options(options, self.view, self.losses)
        return changes, result if shown is options else with_members(result, config_options=shown)

    def forget(self, session_id: str) -> None:
        """Forget a session that was closed."""
        self._sessions.pop(session_id, None)


_NARROW: Final[dict[type, Callable[[Narrowing, _Session, Any], list[Any]]]] = {
    updates.UserMessageChunk: Narrowing._chunk,
    updates.AgentMessageChunk: Narrowing._chunk,
    updates.AgentThoughtChunk: Narrowing._chunk,
    updates.UserMessage: Narrowing._whole_message,
    updates.AgentMessage: Narrowing._whole_message,
    updates.AgentThought: Narrowing._whole_message,
    updates.ToolCallStart: Narrowing._start_call,
    updates.ToolCallProgress: Narrowing._change_call,
    updates.ToolCallContentChunk: Narrowing._add_content,
    updates.TerminalUpdate: Narrowing._change_terminal,
    updates.TerminalOutputChunk: Narrowing._add_output,
    updates.SessionStateUpdate: Narrowing._state,
    updates.Plan: Narrowing._plan,
    updates.PlanUpdate: Narrowing._update_plan,
    updates.PlanRemoved: Narrowing._remove_plan,
    updates.CurrentModeUpdate: Narrowing._mode,
    updates.ConfigOptionUpdate: Narrowing._options,
    updates.Notice: Narrowing._notice,
    updates.CompactionUpdate: Narrowing._compaction,
    updates.CompactionSummaryChunk: Narrowing._compaction,
    updates.SubagentUpdate: Narrowing._subagent,
    updates.SessionMessage: Narrowing._subagent,
    updates.SessionMessageChunk: Narrowing._subagent,
    Unknown: Narrowing._unknown,
}
