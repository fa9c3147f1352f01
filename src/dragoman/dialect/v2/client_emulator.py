"""Emulation for a v2 client: prompts are answered when they are inserted, and states tell when work begins and ends.

An agent of the vocabulary answers a prompt at the end of its turn. Its first sign of work inserts the prompt: the
client gets its message, the answer with the message's id, and `running`. The end of the turn is `idle`. Prompts that
arrive during a turn are held, in order.
"""

from __future__ import annotations

from collections import deque
from typing import Any, ClassVar, Final

import msgspec
from msgspec import UNSET

from dragoman.dialect.emulator import (
    AllowReply,
    Deliver,
    Emulator,
    EmulatorSettings,
    Flow,
    FlowMaker,
    NotifyUser,
    Pass,
    Reply,
    SendNotification,
    Sleep,
    Start,
    Stop,
    Wait,
    Wake,
)
from dragoman.dialect.side_data import get_member
from dragoman.dialect.text_chunk import Chunk
from dragoman.dialect.v2.client_session import (
    ClientPrompt,
    ClientSession,
    error_object,
    is_sign_of_work,
    stop_of,
    take_echo,
    text_of,
)
from dragoman.dialect.v2.questions import CANCELLED_PERMISSION, Questions
from dragoman.errors import Kind, ProtocolError
from dragoman.schema.base import to_json
from dragoman.schema.config import SetModeParams
from dragoman.schema.initialize import InitializeResult
from dragoman.schema.prompt import CancelParams, StopReason
from dragoman.schema.session import CloseSessionResult, ListSessionsResult, LoadSessionParams, SessionInfo
from dragoman.schema.side import Side
from dragoman.schema.toolcall import ToolCallStatus
from dragoman.schema.update import (
    AvailableCommandsUpdate,
    ConfigOptionUpdate,
    CurrentModeUpdate,
    MessageChunk,
    Notice,
    SessionState,
    SessionStateUpdate,
    ToolCallProgress,
    ToolCallStart,
    UpdateParams,
    UserMessage,
    UserMessageChunk,
)

# A prompt of an agent that shows no sign of work is inserted after this time; an error before it refuses the prompt.
INSERT_TIMEOUT: Final = 0.1

# How long session/close waits for the end of a turn. Seconds.
CLOSE_TIMEOUT: Final = 5.0

_OPEN_STATUSES: Final = (ToolCallStatus.PENDING, ToolCallStatus.IN_PROGRESS)


class ClientEmulator(Emulator):
    """For a v2 client."""

    def __init__(self, peer_side: Side, settings: EmulatorSettings) -> None:
        super().__init__(peer_side, settings)
        self.sessions: dict[str, ClientSession] = {}
        self._count = 0
        self._opening_count = 0  # calls of session/new and fork without an answer
        self._questions = Questions()
        self._can_load = self._can_resume = self._can_close = self._can_list = True

    def note_initialize_result(self, result: InitializeResult) -> None:
        """Note which calls the agent serves: v2 requires more of them than v1."""
        capabilities = result.agent_capabilities or None
        sessions = (capabilities.session_capabilities or None) if capabilities is not None else None
        self._can_load = capabilities is not None and bool(capabilities.load_session)
        self._can_resume, self._can_close, self._can_list = (
            sessions is not None and getattr(sessions, name) not in (None, UNSET)
            for name in ("resume", "close", "list")
        )

    def _session(self, session_id: str) -> ClientSession:
        return self.sessions.setdefault(session_id, ClientSession(session_id))

    def pass_chunk(self, chunk: Chunk) -> Chunk | None:
        """Give a chunk the id of its message; the flow must see what inserts a prompt, echoes it, or replays."""
        session = self.sessions.get(chunk.session)
        if session is None or session.is_opening or session.is_replaying or session.is_closed:
            return None
        if chunk.kind == "user_message_chunk" or (session.running is not None and not session.running.is_inserted):
            return None
        return chunk._replace(message_id=session.ids.id_for(chunk.session, chunk.kind, chunk.message_id))

    # --- prompts ------------------------------------------------------------------------------------------------

    def prompt(self, params: Any) -> Flow:
        """Answer a prompt when it is inserted; hold it while another one runs."""
        if not params.prompt:
            raise ProtocolError(Kind.INVALID_PARAMS, "prompt must have at least one content block")
        session = self._session(params.session_id)
        self._count += 1
        prompt = ClientPrompt(self._count, params, self.settings.new_id(), text_of(params.prompt))
        if session.running is not None or session.held:
            session.held.append(prompt)
            try:
                yield Wait(f"go {prompt.number}")
            except ProtocolError:
                if prompt in session.held:
                    session.held.remove(prompt)
                raise
        else:
            session.running = prompt
        yield AllowReply(prompt.key)
        if prompt.error is None:
            yield Start(self._run_turn(session, prompt))
        if not prompt.is_answered:
            try:
                yield Wait(f"inserted {prompt.number}")
            except ProtocolError:  # withdrawn before it was inserted
                prompt.is_cancelled = True
                yield Deliver("session/cancel", CancelParams(session_id=session.id), request=False)
                if not prompt.is_answered:
                    yield Wait(f"inserted {prompt.number}")
        if prompt.error is not None:
            raise prompt.error
        return prompt.receipt

    def _run_turn(self, session: ClientSession, prompt: ClientPrompt) -> Flow:
        yield Start(self._insert_later(session, prompt), name=f"insert {prompt.number}")
        try:
            result = yield Deliver("session/prompt", prompt.params)
        except ProtocolError as error:
            yield Stop(f"insert {prompt.number}")
            if prompt.is_inserted:
                yield from self._end_turn(session, *stop_of(error, prompt.is_cancelled))
            else:
                prompt.error = error
                if session.state != SessionState.IDLE:
                    yield from self._tell_state(session, SessionState.IDLE)
                yield Wake(f"inserted {prompt.number}")
        else:
            yield Stop(f"insert {prompt.number}")
            yield from self._insert(session, prompt)
            reason, usage = get_member(result, "stop_reason"), get_member(result, "usage")
            if reason == StopReason.AUTH_REQUIRED:
                needs_login = ProtocolError(Kind.AUTH_REQUIRED, "the agent needs a login; call auth/login")
                yield from self._end_turn(session, StopReason.ERROR, error_object(needs_login))
            else:
                yield from self._end_turn(session, reason, UNSET, usage)
        session.running = session.held.popleft() if session.held else None
        if session.running is not None:
            yield Wake(f"go {session.running.number}")
        else:
            yield Wake(f"idle {session.id}")

    def _insert_later(self, session: ClientSession, prompt: ClientPrompt) -> Flow:
        yield Sleep(INSERT_TIMEOUT)
        if session.can_insert(prompt):
            yield from self._insert(session, prompt)

    def _insert(self, session: ClientSession, prompt: ClientPrompt) -> Flow:
        """Tell the client its message, answer the prompt, and tell that work runs."""
        if prompt.is_answered:
            return
        prompt.is_inserted = True
        session.ids.end_message()
        yield self._update(session, UserMessage(message_id=prompt.message_id, content=prompt.params.prompt))
        yield Reply(prompt.key, prompt.receipt)
        yield Wake(f"inserted {prompt.number}")
        if not session.tells_state and session.state != SessionState.RUNNING:
            yield from self._tell_state(session, SessionState.RUNNING)

    def _end_turn(self, session: ClientSession, reason: Any, error: Any, usage: Any = UNSET) -> Flow:
        session.ids.end_message()
        if reason == StopReason.CANCELLED:
            for id, status in session.tool_calls.items():
                if status in _OPEN_STATUSES:
                    yield self._update(session, ToolCallProgress(tool_call_id=id, status=ToolCallStatus.CANCELLED))
        session.tool_calls = dict.fromkeys(session.tool_calls, "")
        if session.tells_state and session.state == SessionState.IDLE:
            return
        session.state = SessionState.IDLE
        yield self._update(
            session, SessionStateUpdate(state=SessionState.IDLE, stop_reason=reason, error=error, usage=usage)
        )

    def _tell_state(self, session: ClientSession, state: str) -> Flow:
        session.state = state
        yield self._update(session, SessionStateUpdate(state=state))

    def _update(self, session: ClientSession, update: Any) -> SendNotification:
        return SendNotification("session/update", UpdateParams(session_id=session.id, update=update))

    def cancel(self, params: Any) -> Flow:
        """Refuse held prompts, close open questions, and pass session/cancel."""
        session = self._session(params.session_id)
        yield from self._refuse_held(session)
        yield from self._questions.cancel(session)
        if session.running is not None:
            session.running.is_cancelled = True
        yield Pass(params)

    def _refuse_held(self, session: ClientSession) -> Flow:
        held, session.held = list(session.held), deque()
        for prompt in held:
            prompt.error = ProtocolError(Kind.CANCELLED, "cancelled before the prompt was inserted")
            yield Wake(f"go {prompt.number}")

    # --- questions ----------------------------------------------------------------------------------------------

    def request_permission(self, params: Any) -> Flow:
        """Ask the client; tell that the turn waits for the user."""
        session = self._session(params.session_id)
        if not params.options:
            yield NotifyUser("a permission request without options was cancelled: the client could not answer it")
            return CANCELLED_PERMISSION
        if session.is_closed:
            return CANCELLED_PERMISSION
        if not params.title:
            call = params.tool_call
            title = call.title or session.titles.get(call.tool_call_id)
            params = msgspec.structs.replace(params, title=title) if title else params
        result = yield from self._ask(session, "session/request_permission", params)
        offered = {option.option_id for option in params.options}
        if getattr(result.outcome, "option_id", None) not in offered | {None}:
            return CANCELLED_PERMISSION
        return result

    def create_elicitation(self, params: Any) -> Flow:
        """Ask the client; a question of a session tells that its turn waits."""
        session_id = getattr(params, "session_id", UNSET)
        if not isinstance(session_id, str):
            return (yield Pass(params))
        return (yield from self._ask(self._session(session_id), "elicitation/create", params))

    def _ask(self, session: ClientSession, method: str, params: Any) -> Flow:
        """Ask the client; the question inserts the prompt, and the client is told that the turn waits."""
        if session.running is not None and session.can_insert(session.running):
            yield from self._insert(session, session.running)
        key = self._questions.open(session)
        yield from self._tell_waiting(session)
        answer = yield from self._questions.ask(session, key, method, params)
        yield from self._tell_waiting(session)
        return answer

    def _tell_waiting(self, session: ClientSession) -> Flow:
        """Tell `requires_action` while questions of a turn are open, and `running` after the last one."""
        turn = session.running
        if turn is None or not turn.is_inserted or turn.is_cancelled or session.tells_state:
            return
        state = SessionState.REQUIRES_ACTION if session.questions else SessionState.RUNNING
        if state != session.state:
            yield from self._tell_state(session, state)

    # --- sessions -----------------------------------------------------------------------------------------------

    def new_session(self, params: Any) -> Flow:
        """Pass session/new or session/fork; commands that come before the answer become part of it."""
        self._opening_count += 1
        try:
            result = yield Pass(params)
        finally:
            self._opening_count -= 1
        session = self._session(get_member(result, "session_id"))
        session.cwd, session.is_opening = params.cwd, False
        return session.opening_result(result)

    def load_session(self, params: Any) -> Flow:
        """Replay a session; every replay ends with a state."""
        if not self._can_load:
            raise ProtocolError(Kind.INVALID_PARAMS, "the agent cannot replay a session; resume it without replayFrom")
        session = self._session(params.session_id)
        session.cwd = params.cwd
        session.begin_reopening()
        session.ids.restart()
        session.is_replaying = True
        try:
            result = yield Pass(params)
        finally:
            session.is_replaying = session.is_reopening = False
            session.ids.end_message()
        yield from self._tell_state(session, SessionState.RUNNING if session.running else session.state)
        return session.opening_result(result)

    def resume_session(self, params: Any) -> Flow:
        """Resume a session without its history, by session/load if the agent has nothing else."""
        session = self._session(params.session_id)
        session.cwd = params.cwd
        session.begin_reopening()
        if self._can_resume:
            try:
                result = yield Pass(params)
            finally:
                session.is_reopening = False
        elif self._can_load:
            session.is_silent = True
            try:
                load = LoadSessionParams(
                    session_id=params.session_id,
                    cwd=params.cwd,
                    mcp_servers=params.mcp_servers or [],
                    additional_directories=params.additional_directories,
                )
                result = yield Deliver("session/load", load)
            finally:
                session.is_silent = session.is_reopening = False
        else:
            raise ProtocolError(Kind.METHOD_NOT_FOUND, "the agent cannot open stored sessions; start a new one")
        yield from self._tell_state(session, SessionState.RUNNING if session.running else session.state)
        return session.opening_result(result)

    def close_session(self, params: Any) -> Flow:
        """End the turn of a session, tell its end, then close it; nothing is sent for it afterwards."""
        session = self._session(params.session_id)
        yield from self._refuse_held(session)
        yield from self._questions.cancel(session)
        result: Any = CloseSessionResult()
        if session.running is not None:
            session.running.is_cancelled = True
            if not self._can_close:
                yield Deliver("session/cancel", CancelParams(session_id=session.id), request=False)
        if self._can_close:
            result = yield Pass(params)
        if session.running is not None:
            yield Start(self._wake_later(f"idle {session.id}", CLOSE_TIMEOUT), name=f"close {session.id}")
            yield Wait(f"idle {session.id}")
            yield Stop(f"close {session.id}")
        session.is_closed = True
        return result

    def _wake_later(self, key: str, seconds: float) -> Flow:
        yield Sleep(seconds)
        yield Wake(key)

    def list_sessions(self, params: Any) -> Flow:
        """Pass session/list; for an agent without it, list the sessions of this connection."""
        if self._can_list:
            return (yield Pass(params))
        known = [SessionInfo(session_id=each.id, cwd=each.cwd) for each in self.sessions.values() if not each.is_closed]
        return ListSessionsResult(sessions=[each for each in known if not params.cwd or each.cwd == params.cwd])

    def set_option(self, params: Any) -> Flow:
        """Set an option, or the mode that an option stands for; tell all options before the answer."""
        session = self._session(params.session_id)
        if session.options.is_mode(params.config_id):
            yield Deliver("session/set_mode", SetModeParams(session_id=session.id, mode_id=params.value))
            session.options.set_mode(params.value)
            result: Any = {}
        else:
            result = yield Pass(params)
            session.options.set_all(get_member(result, "config_options"))
        yield self._update(session, ConfigOptionUpdate(config_options=session.options.all))
        return {"configOptions": [to_json(option) for option in session.options.all]}

    def cancel_tool_call(self, params: Any) -> Flow:
        """Pass the cancel of one tool call or terminal; agents of other dialects cannot do it."""
        try:
            return (yield Pass(params))
        except ProtocolError as error:
            if error.kind in (Kind.CAPABILITY_UNSUPPORTED, Kind.METHOD_NOT_FOUND):
                raise ProtocolError(Kind.INVALID_PARAMS, "the agent cannot cancel it alone; cancel the turn") from error
            raise

    # --- what the agent sends -----------------------------------------------------------------------------------

    def update(self, params: Any) -> Flow:
        """Send an update as v2 says it; the first one of a turn inserts the prompt."""
        is_opening = self._opening_count > 0 and params.session_id not in self.sessions
        session = self._session(params.session_id)
        session.is_opening = session.is_opening or is_opening
        update = params.update
        if session.is_closed or session.is_silent:
            return
        turn = session.running
        if turn is not None and not session.is_replaying:
            if isinstance(update, UserMessageChunk) and take_echo(turn, update):
                yield from self._insert(session, turn)
                return
            session.note_own_turn(turn, update)
            if session.can_insert(turn) and is_sign_of_work(update):
                yield from self._insert(session, turn)
        if isinstance(update, MessageChunk):
            yield from self._chunk(session, params, update)
        elif isinstance(update, ToolCallStart):
            yield Pass(msgspec.structs.replace(params, update=session.start_tool_call(update)))
        elif isinstance(update, ToolCallProgress):
            session.note_tool_call(update)
            yield Pass(params)
        elif isinstance(update, CurrentModeUpdate):
            if session.options.set_mode(update.current_mode_id):
                yield Pass(
                    msgspec.structs.replace(params, update=ConfigOptionUpdate(config_options=session.options.all))
                )
        elif isinstance(update, ConfigOptionUpdate):
            session.options.set_all(update.config_options)
            yield Pass(msgspec.structs.replace(params, update=ConfigOptionUpdate(config_options=session.options.all)))
        elif isinstance(update, SessionStateUpdate):
            if session.note_state(update):
                yield Pass(params)
        elif isinstance(update, AvailableCommandsUpdate) and session.is_opening:
            session.commands = update.available_commands
        elif not (session.is_replaying and isinstance(update, Notice)):
            session.note_whole_message(update)
            yield Pass(params)

    def _chunk(self, session: ClientSession, params: Any, update: Any) -> Flow:
        """Send a chunk with the id of its message; a replayed message is emptied first."""
        kind = update.__struct_config__.tag
        id = session.ids.id_for(session.id, kind, update.message_id or "")
        if (emptied := session.begin_replayed(kind, id)) is not None:
            yield self._update(session, emptied)
        yield Pass(msgspec.structs.replace(params, update=msgspec.structs.replace(update, message_id=id)))

    incoming: ClassVar[dict[str, FlowMaker]] = {
        "session/prompt": prompt,
        "session/cancel": cancel,
        "session/new": new_session,
        "session/fork": new_session,
        "session/load": load_session,
        "session/resume": resume_session,
        "session/close": close_session,
        "session/list": list_sessions,
        "session/set_config_option": set_option,
        "tool_call/cancel": cancel_tool_call,
        "terminal/cancel": cancel_tool_call,
    }
    outgoing: ClassVar[dict[str, FlowMaker]] = {
        "session/update": update,
        "session/request_permission": request_permission,
        "elicitation/create": create_elicitation,
    }
