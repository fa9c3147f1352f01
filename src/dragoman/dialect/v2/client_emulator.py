"""Emulation for a v2 client: prompts are answered when they are inserted, and states tell when work begins and ends.

An agent of the vocabulary answers a prompt at the end of its turn. Its first sign of work inserts the prompt: the
client gets its message, the answer with the message's id, and `running`. The end of the turn is `idle`. Prompts that
arrive during a turn are held, in order, or join it if the agent takes them.
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
from dragoman.dialect.side_data import JOINED, OWN_STATE, get_member, side_data_of
from dragoman.dialect.text_chunk import Chunk
from dragoman.dialect.v2.client_session import (
    ClientPrompt,
    ClientSession,
    check_prompt,
    error_object,
    is_sign_of_work,
    stop_of,
    take_echo,
    text_of,
)
from dragoman.dialect.v2.client_session_flows import SESSION_FLOWS
from dragoman.dialect.v2.questions import CANCELLED_PERMISSION, Questions
from dragoman.errors import Kind, ProtocolError
from dragoman.schema.initialize import InitializeResult
from dragoman.schema.prompt import CancelParams, StopReason
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


class ClientEmulator(Emulator):
    """For a v2 client."""

    def __init__(self, peer_side: Side, settings: EmulatorSettings) -> None:
        super().__init__(peer_side, settings)
        self.sessions: dict[str, ClientSession] = {}
        self._count = 0
        self.opening_count = 0  # calls of session/new and fork without an answer
        self.questions = Questions()
        self.has_login = True
        self.can_load = self.can_resume = self.can_close = self.can_list = True

    def note_initialize_result(self, result: InitializeResult) -> None:
        """Note which calls the agent serves: v2 requires more of them than v1."""
        self.has_login = bool(result.auth_methods)
        capabilities = result.agent_capabilities or None
        sessions = (capabilities.session_capabilities or None) if capabilities is not None else None
        self.can_load = capabilities is not None and bool(capabilities.load_session)
        self.can_resume, self.can_close, self.can_list = (
            sessions is not None and getattr(sessions, name) not in (None, UNSET)
            for name in ("resume", "close", "list")
        )

    def session_of(self, session_id: str) -> ClientSession:
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
        check_prompt(params.prompt)
        session = self.session_of(params.session_id)
        self._count += 1
        prompt = ClientPrompt(self._count, params, self.settings.new_id(), text_of(params.prompt))
        if self.settings.joins_prompts and session.can_be_joined:
            session.joined.append(prompt)
        elif session.running is not None or session.held:
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
        if prompt in session.joined:
            yield Start(self._join_turn(session, prompt))
        elif prompt.error is None:
            yield Start(self._run_turn(session, prompt))
        if not prompt.is_answered:
            try:
                yield Wait(f"inserted {prompt.number}")
            except ProtocolError as error:  # withdrawn before it was inserted
                if prompt is not session.running:
                    prompt.error = error
                    if prompt in session.held:
                        session.held.remove(prompt)
                        yield Wake(f"go {prompt.number}")
                    raise
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
                    yield from self.tell_state(session, SessionState.IDLE)
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

    def _join_turn(self, session: ClientSession, prompt: ClientPrompt) -> Flow:
        """Deliver a prompt that the agent may take into the running turn, whose end is then that of both.

        If the agent is only busy, the prompt is held as usual.
        """
        try:
            yield Deliver("session/prompt", prompt.params)
        except ProtocolError as error:
            session.joined.remove(prompt)
            if prompt.is_answered:
                return
            if error.kind != Kind.INVALID_STATE:
                prompt.error = error
                yield Wake(f"inserted {prompt.number}")
                return
            if session.running is not None:
                session.held.append(prompt)
                yield Wait(f"go {prompt.number}")
            else:
                session.running = prompt
            if prompt.error is None:
                yield from self._run_turn(session, prompt)
            else:
                yield Wake(f"inserted {prompt.number}")
        else:
            yield from self._insert(session, prompt)
            session.joined.remove(prompt)

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
        yield self.notification_of(session, UserMessage(message_id=prompt.message_id, content=prompt.params.prompt))
        yield Reply(prompt.key, prompt.receipt)
        yield Wake(f"inserted {prompt.number}")
        is_joined = prompt in session.joined  # the state of that work is told
        if not session.tells_state and not is_joined and session.state != SessionState.RUNNING:
            yield from self.tell_state(session, SessionState.RUNNING)

    def _end_turn(self, session: ClientSession, reason: Any, error: Any, usage: Any = UNSET) -> Flow:
        session.ids.end_message()
        if reason == StopReason.CANCELLED:
            for id in session.open_calls():
                update = ToolCallProgress(tool_call_id=id, status=ToolCallStatus.CANCELLED)
                yield self.notification_of(session, update)
        session.tool_calls = dict.fromkeys(session.tool_calls, "")
        if session.tells_state and session.state == SessionState.IDLE:
            return
        session.state = SessionState.IDLE
        idle = SessionStateUpdate(state=SessionState.IDLE, stop_reason=reason, error=error, usage=usage)
        yield self.notification_of(session, session.with_background(idle))

    def tell_state(self, session: ClientSession, state: str) -> Flow:
        session.state = state
        yield self.notification_of(session, session.with_background(SessionStateUpdate(state=state)))

    def notification_of(self, session: ClientSession, update: Any) -> SendNotification:
        return SendNotification("session/update", UpdateParams(session_id=session.id, update=update))

    def cancel(self, params: Any) -> Flow:
        """Refuse held prompts, close open questions, and pass session/cancel."""
        session = self.session_of(params.session_id)
        yield from self.refuse_held(session)
        yield from self.questions.cancel(session)
        if session.running is not None:
            session.running.is_cancelled = True
        yield Pass(params)

    def refuse_held(self, session: ClientSession) -> Flow:
        held, session.held = list(session.held), deque()
        for prompt in held:
            prompt.error = ProtocolError(Kind.CANCELLED, "cancelled before the prompt was inserted")
            yield Wake(f"go {prompt.number}")

    # --- questions ----------------------------------------------------------------------------------------------

    def request_permission(self, params: Any) -> Flow:
        """Ask the client; tell that the turn waits for the user."""
        session = self.session_of(params.session_id)
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
        return (yield from self._ask(self.session_of(session_id), "elicitation/create", params))

    def _ask(self, session: ClientSession, method: str, params: Any) -> Flow:
        """Ask the client; the question inserts the prompt, and the client is told that the turn waits."""
        if session.running is not None and session.can_insert(session.running):
            yield from self._insert(session, session.running)
        key = self.questions.open(session)
        yield from self._tell_waiting(session)
        answer = yield from self.questions.ask(session, key, method, params)
        yield from self._tell_waiting(session)
        return answer

    def _tell_waiting(self, session: ClientSession) -> Flow:
        """Tell `requires_action` while questions of a turn are open, and `running` after the last one."""
        turn = session.running
        if turn is None or not turn.is_inserted or turn.is_cancelled or session.tells_state:
            return
        state = SessionState.REQUIRES_ACTION if session.questions else SessionState.RUNNING
        if state != session.state:
            yield from self.tell_state(session, state)

    # --- what the agent sends -----------------------------------------------------------------------------------

    def update(self, params: Any) -> Flow:
        """Send an update as v2 says it; the first one of a turn inserts the prompt."""
        is_opening = self.opening_count > 0 and params.session_id not in self.sessions
        session = self.session_of(params.session_id)
        session.is_opening = session.is_opening or is_opening
        update = params.update
        if session.is_closed or session.is_silent:
            return
        turn = session.running
        if turn is not None and not session.is_replaying:
            if isinstance(update, UserMessageChunk):
                if JOINED in side_data_of(update):
                    prompt = next((each for each in session.joined if not each.is_answered), None)
                    yield from self._insert(session, prompt) if prompt is not None else ()
                    return
                if take_echo(turn, update):
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
            yield from self._state(session, params, update)
        elif isinstance(update, AvailableCommandsUpdate) and session.is_opening:
            session.commands = update.available_commands
        elif not (session.is_replaying and isinstance(update, Notice)):
            session.note_whole_message(update)
            yield Pass(params)

    def _state(self, session: ClientSession, params: Any, update: SessionStateUpdate) -> Flow:
        """Send a state that the agent tells; after work of its own the waiting prompt is next."""
        if OWN_STATE not in side_data_of(update):
            if session.note_state(update):
                yield Pass(params)
            return
        told = session.note_own_state(update)
        if not session.is_reopening:
            yield Pass(msgspec.structs.replace(params, update=told))
        turn = session.running
        if turn is not None and not turn.is_answered and not session.is_working:
            yield Start(self._insert_later(session, turn), name=f"insert {turn.number}")

    def _chunk(self, session: ClientSession, params: Any, update: Any) -> Flow:
        """Send a chunk with the id of its message; a replayed message is emptied first."""
        kind = update.__struct_config__.tag
        id = session.ids.id_for(session.id, kind, update.message_id or "")
        if (emptied := session.begin_replayed(kind, id)) is not None:
            yield self.notification_of(session, emptied)
        yield Pass(msgspec.structs.replace(params, update=msgspec.structs.replace(update, message_id=id)))

    incoming: ClassVar[dict[str, FlowMaker]] = {
        "session/prompt": prompt,
        "session/cancel": cancel,
        **SESSION_FLOWS,
    }
    outgoing: ClassVar[dict[str, FlowMaker]] = {
        "session/update": update,
        "session/request_permission": request_permission,
        "elicitation/create": create_elicitation,
    }
