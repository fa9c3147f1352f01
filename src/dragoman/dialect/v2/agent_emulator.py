"""Emulation for a v2 agent: a prompt ends with its turn, although the agent answers it at once.

The agent tells by states when work is over, and not for which prompt. A prompt ends at the first idle after its user
message was inserted, if the agent was busy since the prompt was sent, or if the idle has a stop reason. An idle that
was queued before the work (some agents tell one after session setup) ends nothing.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, ClassVar, Final

import msgspec

from dragoman.dialect.emulator import (
    Deliver,
    Emulator,
    EmulatorSettings,
    Flow,
    FlowMaker,
    NotifyUser,
    Pass,
    SendNotification,
    SendRequest,
    Sleep,
    Start,
    Wait,
    Wake,
)
from dragoman.dialect.reshape import ABSENT
from dragoman.dialect.side_data import get_member, side_data_of, with_members, with_side_data
from dragoman.dialect.text_chunk import Chunk
from dragoman.dialect.v2.initialize import NO_STDIO
from dragoman.dialect.v2.session import COMMANDS
from dragoman.dialect.v2.tables import MODE_CATEGORY
from dragoman.errors import Kind, ProtocolError
from dragoman.schema.config import (
    SessionConfigOption,
    SessionMode,
    SessionModeState,
    SetConfigOptionParams,
    SetModeResult,
)
from dragoman.schema.content import TextContent
from dragoman.schema.initialize import InitializeResult
from dragoman.schema.mcp import McpForm
from dragoman.schema.prompt import CancelParams, PromptResult, StopReason
from dragoman.schema.side import Side
from dragoman.schema.update import (
    AvailableCommandsUpdate,
    ConfigOptionUpdate,
    CurrentModeUpdate,
    SessionState,
    SessionStateUpdate,
    UpdateParams,
    UserMessage,
    UserMessageChunk,
)

# How long a prompt that was sent during the work of another one waits for its own work to begin. Seconds.
NEXT_WORK_TIMEOUT: Final = 0.2

# An agent must tell its state. If an inserted prompt has none for so long, and no update comes, its turn ends. Seconds.
SILENCE_TIMEOUT: Final = 60.0

_STOP_REASONS: Final = frozenset(
    {
        StopReason.END_TURN,
        StopReason.MAX_TOKENS,
        StopReason.MAX_TURN_REQUESTS,
        StopReason.REFUSAL,
        StopReason.CANCELLED,
    }
)
_CLOSED: Final = SessionStateUpdate(state=SessionState.IDLE, stop_reason=StopReason.CANCELLED)


class _StateEvent(msgspec.Struct, eq=False):
    """A state that the agent told, and when."""

    at: int
    update: SessionStateUpdate
    is_taken: bool = False  # it ended a prompt

    @property
    def is_idle(self) -> bool:
        return self.update.state == SessionState.IDLE


class _Prompt(msgspec.Struct, eq=False):
    """An open prompt of ours."""

    key: str
    text: str
    sent_at: int
    answered_at: int | None = None
    message_id: str = ""
    is_cancelled: bool = False
    is_over: bool = False
    ignores_until: int = 0  # an idle up to this one ended another prompt


class _Session(msgspec.Struct, eq=False):
    """What is known of one session; `clock` numbers everything that arrives for it."""

    clock: int = 0
    prompts: list[_Prompt] = msgspec.field(default_factory=list)
    states: list[_StateEvent] = msgspec.field(default_factory=list)  # since the oldest open prompt was sent
    messages: dict[str, int] = msgspec.field(default_factory=dict)  # the user's, and when the first part came
    own_messages: set[str] = msgspec.field(default_factory=set)  # of our prompts
    held: list[UpdateParams] = msgspec.field(default_factory=list)  # user messages that may be our own
    state: str = SessionState.IDLE
    options: list[SessionConfigOption] = msgspec.field(default_factory=list)

    def tick(self) -> int:
        self.clock += 1
        return self.clock

    def mode_option(self) -> SessionConfigOption | None:
        return next((option for option in self.options if option.category == MODE_CATEGORY), None)

    def end_of(self, prompt: _Prompt) -> _StateEvent | None:
        """Return the idle that ends a prompt; None while its work goes on."""
        if prompt.answered_at is None:
            return None
        inserted = min(prompt.answered_at, self.messages.get(prompt.message_id, prompt.answered_at))
        is_busy = False
        for event in self.states:
            if event.at < prompt.sent_at:
                continue
            if not event.is_idle:
                is_busy = True
            elif event.at > max(inserted, prompt.ignores_until) and (is_busy or event.update.stop_reason):
                return event
        return None

    def forget_past(self) -> None:
        """Drop what no open prompt needs."""
        oldest = min((prompt.sent_at for prompt in self.prompts), default=self.clock + 1)
        self.states = [event for event in self.states if event.at >= oldest]
        if not self.prompts:
            self.messages.clear()


class AgentEmulator(Emulator):
    """For a v2 agent."""

    def __init__(self, peer_side: Side, settings: EmulatorSettings) -> None:
        super().__init__(peer_side, settings)
        self.sessions: dict[str, _Session] = {}
        self._prompt_count = 0
        self._starts_servers = True

    def note_initialize_result(self, result: InitializeResult) -> None:
        """Note whether the agent starts MCP servers by a command."""
        self._starts_servers = not side_data_of(result.agent_capabilities or None).get(NO_STDIO)

    def pass_chunk(self, chunk: Chunk) -> Chunk | None:
        """Pass chunks of the agent; the user's may be an echo of our own prompt."""
        return None if chunk.kind == "user_message_chunk" else chunk

    def _session(self, session_id: str) -> _Session:
        return self.sessions.setdefault(session_id, _Session())

    # --- our calls --------------------------------------------------------------------------------------------

    def prompt(self, params: Any) -> Flow:
        """Send a prompt and answer it when its turn ends."""
        session = self._session(params.session_id)
        self._prompt_count += 1
        prompt = _Prompt(f"turn {self._prompt_count}", _text_of(params.prompt), session.tick())
        session.prompts.append(prompt)
        try:
            receipt = yield Pass(params)
            prompt.answered_at = session.tick()
            prompt.message_id = get_member(receipt, "message_id") or ""
            if prompt.message_id:
                session.own_messages.add(prompt.message_id)
            yield from self._release_held(session)
            idle = yield from self._wait_for_end(params.session_id, session, prompt)
        except ProtocolError as error:
            if prompt.answered_at is None:
                prompt.answered_at = session.tick()
                yield from self._release_held(session)
                prompt.answered_at = None
            if error.kind != Kind.CANCELLED:
                raise
            if prompt.answered_at is not None:  # the client withdrew a prompt that is in the conversation
                yield SendNotification("session/cancel", CancelParams(session_id=params.session_id))
            return PromptResult(stop_reason=StopReason.CANCELLED)
        finally:
            prompt.is_over = True
            session.prompts.remove(prompt)
            session.forget_past()
        return _result_of(idle, prompt)

    def _wait_for_end(self, session_id: str, session: _Session, prompt: _Prompt) -> Flow:
        event = session.end_of(prompt)
        if event is None:
            yield Start(self._end_silent_prompt(session, prompt))
            event = (yield Wait(prompt.key)) or _StateEvent(0, _CLOSED)
        if event.is_taken and not prompt.is_cancelled and event.update is not _CLOSED:
            # Another prompt ended with this idle. Work of this one may still begin.
            prompt.ignores_until = event.at
            yield Start(self._end_if_idle(session, prompt, event))
            event = (yield Wait(prompt.key)) or _StateEvent(0, _CLOSED)
        event.is_taken = True
        return event.update

    def _end_if_idle(self, session: _Session, prompt: _Prompt, event: _StateEvent) -> Flow:
        yield Sleep(NEXT_WORK_TIMEOUT)
        if prompt.is_over:
            return
        later = next((each for each in session.states if each.at > event.at), None)
        if later is None:
            yield Wake(prompt.key, event)

    def _end_silent_prompt(self, session: _Session, prompt: _Prompt) -> Flow:
        """End a prompt of an agent that tells no states; anything that arrives starts the time anew."""
        clock = -1
        while not prompt.is_over:
            if clock == session.clock and session.state == SessionState.IDLE:
                yield NotifyUser("the agent did not say when its turn ended; it has been silent, so the turn is over")
                yield Wake(prompt.key, _StateEvent(session.clock, SessionStateUpdate(state=SessionState.IDLE)))
                return
            clock = session.clock
            yield Sleep(SILENCE_TIMEOUT)

    def cancel(self, params: Any) -> Flow:
        """Pass session/cancel; every open prompt ends at the next idle."""
        session = self._session(params.session_id)
        for prompt in session.prompts:
            prompt.is_cancelled = True
        yield Pass(params)

    def close(self, params: Any) -> Flow:
        """Pass session/close; prompts that are still open are cancelled."""
        result = yield Pass(params)
        session = self.sessions.pop(params.session_id, None)
        for prompt in list(session.prompts) if session is not None else ():
            yield Wake(prompt.key, _StateEvent(0, _CLOSED))
        return result

    def open_session(self, params: Any) -> Flow:
        """Pass session/new, load, resume or fork; give the result modes, and deliver its commands as an update."""
        if not self._starts_servers:
            for server in params.mcp_servers or ():
                if server.form == McpForm.STDIO:
                    raise ProtocolError(
                        Kind.INVALID_PARAMS,
                        f"the agent starts no MCP servers; give {server.name} as http or leave it out",
                        {"name": server.name},
                    )
        result = yield Pass(params)
        session_id = get_member(result, "session_id") or params.session_id
        session = self._session(session_id)
        session.options = list(get_member(result, "config_options") or ())
        commands = side_data_of(result).get(COMMANDS)
        if commands is not None:
            yield Start(self._deliver_commands(session_id, commands))
            result = with_side_data(result, **{COMMANDS: ABSENT})
        modes = modes_of(session.mode_option())
        return result if modes is None else with_members(result, modes=modes)

    def _deliver_commands(self, session_id: str, commands: Any) -> Flow:
        yield Sleep(0)  # after the answer, without which clients do not know the session
        try:
            update = msgspec.convert({"availableCommands": commands}, AvailableCommandsUpdate)
        except msgspec.ValidationError:
            return
        yield Deliver("session/update", UpdateParams(session_id=session_id, update=update), request=False)

    def set_mode(self, params: Any) -> Flow:
        """Set the option that stands for modes."""
        session = self._session(params.session_id)
        option = session.mode_option()
        if option is None:
            raise ProtocolError(Kind.METHOD_NOT_FOUND, "the agent has no modes")
        result = yield SendRequest(
            "session/set_config_option",
            SetConfigOptionParams(session_id=params.session_id, config_id=option.id, value=params.mode_id),
        )
        yield from self._note_options(params.session_id, get_member(result, "config_options"))
        return SetModeResult()

    def set_option(self, params: Any) -> Flow:
        """Pass session/set_config_option, and tell a changed mode."""
        result = yield Pass(params)
        yield from self._note_options(params.session_id, get_member(result, "config_options"))
        return result

    # --- what the agent sends -----------------------------------------------------------------------------------

    def update(self, params: Any) -> Flow:
        """Pass an update; note states, user messages and options."""
        session = self._session(params.session_id)
        update = params.update
        if isinstance(update, UserMessage | UserMessageChunk):
            yield from self._user_message(session, params)
            return
        session.tick()
        yield Pass(params)
        if isinstance(update, SessionStateUpdate):
            yield from self._note_state(session, update)
        elif isinstance(update, ConfigOptionUpdate):
            yield from self._note_options(params.session_id, update.config_options)

    def _note_state(self, session: _Session, update: SessionStateUpdate) -> Flow:
        is_repeated = update.state == session.state == SessionState.IDLE and not update.stop_reason
        session.state = update.state
        if not session.prompts or is_repeated:
            return
        session.states.append(_StateEvent(session.clock, update))
        if update.state != SessionState.IDLE:
            return
        for prompt in list(session.prompts):
            event = session.end_of(prompt)
            if event is not None or (prompt.is_cancelled and prompt.answered_at):
                yield Wake(prompt.key, event or session.states[-1])

    def _user_message(self, session: _Session, params: Any) -> Flow:
        """Pass a user message unless it is the echo of our own prompt; hold it while that is not known."""
        update = params.update
        id, now = update.message_id or "", session.tick()
        session.messages.setdefault(id, now)
        if id and id in session.own_messages:
            return
        if id and any(prompt.answered_at is None for prompt in session.prompts):
            session.held.append(params)
        elif not any(_is_echo(update, prompt) for prompt in session.prompts):
            yield Pass(params)

    def _release_held(self, session: _Session) -> Flow:
        """Deliver held user messages that turned out not to be our own."""
        if any(prompt.answered_at is None for prompt in session.prompts):
            return
        held, session.held = session.held, []
        for params in held:
            update: Any = params.update
            is_own = update.message_id in session.own_messages
            if not is_own and not any(_is_echo(update, prompt) for prompt in session.prompts):
                yield Deliver("session/update", params, request=False)

    def _note_options(self, session_id: str, options: Any) -> Flow:
        """Remember all options; deliver a mode that changed."""
        if not isinstance(options, list):
            return
        session = self._session(session_id)
        before = session.mode_option()
        session.options = options
        after = session.mode_option()
        if before is not None and after is not None and before.current_value != after.current_value:
            update = CurrentModeUpdate(current_mode_id=str(after.current_value))
            yield Deliver("session/update", UpdateParams(session_id=session_id, update=update), request=False)

    incoming: ClassVar[dict[str, FlowMaker]] = {"session/update": update}
    outgoing: ClassVar[dict[str, FlowMaker]] = {
        "session/new": open_session,
        "session/load": open_session,
        "session/resume": open_session,
        "session/fork": open_session,
        "session/prompt": prompt,
        "session/cancel": cancel,
        "session/close": close,
        "session/set_mode": set_mode,
        "session/set_config_option": set_option,
    }


def modes_of(option: SessionConfigOption | None) -> SessionModeState | None:
    """Return v1's modes for the option of that category."""
    if option is None or not isinstance(option.current_value, str):
        return None
    modes = [
        SessionMode(id=str(choice.value), name=choice.name or str(choice.value), description=choice.description)
        for choice in option.values
    ]
    return SessionModeState(current_mode_id=option.current_value, available_modes=modes)


def _result_of(idle: SessionStateUpdate, prompt: _Prompt) -> PromptResult:
    """Return the result of a prompt whose work ended with this idle; raise for an error."""
    reason = idle.stop_reason
    if reason == StopReason.ERROR:
        raise _error_of(idle.error)
    if reason in _STOP_REASONS:
        return PromptResult(stop_reason=str(reason), usage=idle.usage)
    said = StopReason.CANCELLED if prompt.is_cancelled and not reason else StopReason.END_TURN
    result = PromptResult(stop_reason=said, usage=idle.usage)
    return with_side_data(result, stopReason=reason) if reason else result


def _error_of(error: Any) -> ProtocolError:
    said = error if isinstance(error, dict) else {}
    code, data = said.get("code"), said.get("data")
    kind = Kind.AUTH_REQUIRED if code == -32000 else Kind.INTERNAL_ERROR
    message = said.get("message")
    return ProtocolError(
        kind,
        message if isinstance(message, str) and message else "the agent reports an error without a message",
        data if isinstance(data, dict) else None if data is None else {"details": data},
        code=code if isinstance(code, int) else None,
    )


def _text_of(blocks: Any) -> str:
    return "".join(_texts(blocks))


def _texts(blocks: Any) -> Iterator[str]:
    for block in blocks or ():
        yield block.text if isinstance(block, TextContent) else f"\0{getattr(block, 'uri', '') or type(block).__name__}"


def _is_echo(update: UserMessage | UserMessageChunk, prompt: _Prompt) -> bool:
    """Return whether a user message that no receipt names is a prompt of ours, or a part of it."""
    if prompt.message_id:
        return False
    said = _text_of(update.content if isinstance(update, UserMessage) else [update.content])
    return said == prompt.text if isinstance(update, UserMessage) else bool(said) and said in prompt.text
