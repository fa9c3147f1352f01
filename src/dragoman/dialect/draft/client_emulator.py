"""Emulation for a client that speaks the draft (docs/protocol/dialect-matrix.md#translation).

Sets initial mode and options after session/new, remembers previous values and message counts, splits the option list
into single changes, buffers pushed terminal output to answer polls, and maps yes or no to the agent's options.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterator
from typing import Any, ClassVar
from urllib.parse import quote, unquote

import msgspec
from msgspec import UNSET

from dragoman.dialect.announced_calls import AnnouncedCalls
from dragoman.dialect.draft.old_sessions import listed_cwd
from dragoman.dialect.draft.terminal_buffer import BUFFER_LIMIT, TerminalBuffer
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
    Start,
)
from dragoman.dialect.session_table import SessionRow, SessionTable, compact_json
from dragoman.dialect.side_data import mark_inferred, side_data_of, with_side_data
from dragoman.dialect.text_chunk import Chunk
from dragoman.errors import Kind, ProtocolError
from dragoman.schema.config import SetConfigOptionParams, SetModeParams
from dragoman.schema.content import ResourceLink, TextContent
from dragoman.schema.initialize import InitializeParams, InitializeResult
from dragoman.schema.permission import CancelledOutcome, RequestPermissionResult, SelectedOutcome
from dragoman.schema.side import Side
from dragoman.schema.terminal import TerminalExitStatus, TerminalOutputResult, WaitForExitParams
from dragoman.schema.toolcall import TerminalEmbed, ToolCallStatus
from dragoman.schema.update import (
    AgentMessageChunk,
    AgentThoughtChunk,
    ConfigOptionUpdate,
    CurrentModeUpdate,
    ToolCallProgress,
    ToolCallStart,
    UserMessageChunk,
)

# The base URI that a relative path is lifted to.
_RELATIVE_URI = re.compile(r"file:(?!/)")

_REMEMBERED_SCOPES = frozenset({"session", "workspace", "always"})
_OPTION_KINDS: dict[tuple[bool, bool], tuple[str, ...]] = {  # (granted, remember) -> option kinds, best first
    (True, False): ("allow_once", "allow_always"),
    (True, True): ("allow_always", "allow_once"),
    (False, False): ("reject_once", "reject_always"),
    (False, True): ("reject_always", "reject_once"),
}

# Options of these kinds, one of each, mean the same as yes, no and "remember", so their names can be dropped.
_STANDARD_KINDS = frozenset(kind for kinds in _OPTION_KINDS.values() for kind in kinds)


class ClientEmulator(Emulator):
    """For a draft client."""

    def __init__(self, peer_side: Side, settings: EmulatorSettings) -> None:
        super().__init__(peer_side, settings)
        self.sessions = SessionTable()
        self.terminal_buffers: dict[str, TerminalBuffer] = {}
        self.terminal_contents: dict[tuple[str, str], list[Any]] = {}  # the terminal that a tool call shows
        self.tool_calls = AnnouncedCalls(("title", "kind"), ("locations", "raw_input"))
        self.max_terminals: int | None = None
        self.supports_system_prompt = False
        self.has_permission_dialogs = True
        self.announced_names: frozenset[str] = frozenset()  # modes and options that the client knows

    def note_initialize(self, params: InitializeParams) -> None:
        """Note how many terminals the client offers at once, and whether it has dialogs (section 10.2)."""
        capabilities = params.client_capabilities or None
        lent = side_data_of(capabilities).get("terminal")
        most = lent.get("maxConcurrent") if isinstance(lent, dict) else None
        self.max_terminals = most if isinstance(most, int) else None
        face = side_data_of(capabilities).get("ui")
        self.has_permission_dialogs = not isinstance(face, dict) or face.get("permissionDialogs") is not False

    def note_initialize_result(self, result: InitializeResult) -> None:
        """Note whether the agent accepts a system prompt, and which modes and options initialize announces."""
        capabilities = result.agent_capabilities or None
        sessions = (capabilities.session_capabilities or None) if capabilities is not None else None
        self.supports_system_prompt = sessions is not None and bool(sessions.system_prompt)
        told = side_data_of(sessions)
        modes = told.get("modes") or side_data_of(capabilities).get("modes")
        lists = [modes, told.get("configOptions")]
        found = [name for names in lists if isinstance(names, list) for name in names]
        self.announced_names = frozenset(name for name in found if isinstance(name, str))

    def _without_announced(self, result: Any, session: SessionRow) -> Any:
        """Return the result without modes and options that initialize announced: the draft sends them only there."""
        modes = {mode.id for mode in session.modes.available_modes} if session.modes else set()
        if modes <= self.announced_names:
            result = msgspec.structs.replace(result, modes=UNSET)
        if session.option_values().keys() <= self.announced_names:
            result = msgspec.structs.replace(result, config_options=UNSET)
        return result

    # --- what the client asks ---------------------------------------------------------------------------------

    def new_session(self, params: Any) -> Flow:
        """Pass session/new; set the draft's initial values before answering
        (docs/protocol/dialect-matrix.md#session-extras).
        """
        side_data = side_data_of(params)
        preamble = ""
        if params.system_prompt and not self.supports_system_prompt:
            preamble = "\n".join(getattr(block, "text", "") for block in params.system_prompt.content)
            params = msgspec.structs.replace(params, system_prompt=UNSET)
            yield NotifyUser("the agent accepts no system prompt; it is sent with the first prompt instead")
        result = yield Pass(params)
        row = self.sessions.get_or_add(result.session_id, params.cwd)
        row.set_modes_and_options(result.modes, result.config_options)
        row.pending_system_prompt = preamble
        row.is_opening = True
        try:
            yield from self._set_initial_mode(row, side_data.get("initialMode"))
            options = side_data.get("configOptions")
            for key, value in options.items() if isinstance(options, dict) else ():
                yield from self._set_initial_option(row, key, value)
        finally:
            row.is_opening = False
        result = msgspec.structs.replace(result, modes=row.modes or UNSET, config_options=row.options or UNSET)
        return with_side_data(self._without_announced(result, row), createdAt=self.settings.now())

    def _set_initial_mode(self, session: SessionRow, initial_mode: Any) -> Flow:
        """Set the initial mode; `default` unless given (section 5.1.3)."""
        wanted = initial_mode if isinstance(initial_mode, str) else "default"
        if wanted == session.mode:
            return
        if session.modes is None or wanted not in {mode.id for mode in session.modes.available_modes}:
            if isinstance(initial_mode, str):
                yield NotifyUser(f"initialMode {wanted!r} is lost: the agent does not offer it")
            return
        yield Deliver("session/set_mode", SetModeParams(session_id=session.session_id, mode_id=wanted))
        session.modes.current_mode_id = wanted

    def _set_initial_option(self, session: SessionRow, key: str, value: Any) -> Flow:
        if key not in session.option_values():
            yield NotifyUser(f"configOptions.{key} is lost: the agent does not offer it")
            return
        kind: Any = "boolean" if isinstance(value, bool) else UNSET
        params = SetConfigOptionParams(session_id=session.session_id, config_id=key, value=value, type=kind)
        if not isinstance(value, str | bool):
            params = with_side_data(msgspec.structs.replace(params, value=compact_json(value)), value=value)
        try:
            result = yield Deliver("session/set_config_option", params)
        except ProtocolError as error:
            yield NotifyUser(f"configOptions.{key} is lost: {error.message}")
            return
        session.set_options(_options_of(result))

    def load_session(self, params: Any) -> Flow:
        """Pass session/load; folder from memory, counts from replay (docs/protocol/dialect-matrix.md#load-results)."""
        known = self.sessions.find(params.session_id)
        cwd = params.cwd or (known.cwd if known else (yield from listed_cwd(params.session_id, self.settings.cwd)))
        row = self.sessions.get_or_add(params.session_id, cwd)
        row.message_count, row.last_speaker = 0, ""
        result = yield Pass(msgspec.structs.replace(params, cwd=cwd))
        row.cwd = side_data_of(result).get("workingDirectory", cwd)
        row.set_modes_and_options(result.modes, result.config_options)
        return with_side_data(
            self._without_announced(result, row),
            sessionId=row.session_id,
            workingDirectory=row.cwd,
            mode=row.mode,
            configOptions=row.option_values(),
            messageCount=row.message_count,
        )

    def prompt(self, params: Any) -> Flow:
        """Pass session/prompt and count it; the first one carries a system prompt that the agent could not accept."""
        row = self.sessions.get_or_add(params.session_id, "")
        row.last_speaker = ""
        row.count_chunk("user")
        blocks = [_with_absolute_uri(block, row.cwd) for block in params.prompt]
        if row.pending_system_prompt:
            blocks.insert(0, TextContent(text=row.pending_system_prompt))
            row.pending_system_prompt = ""
        try:
            return (yield Pass(msgspec.structs.replace(params, prompt=blocks)))
        finally:
            self.tool_calls.forget(params.session_id)
            self.terminal_buffers = {
                id: buffer for id, buffer in self.terminal_buffers.items() if not buffer.is_released
            }
            self.terminal_contents = {
                key: content for key, content in self.terminal_contents.items() if key[0] != params.session_id
            }

    def set_mode(self, params: Any) -> Flow:
        """Pass session/set_mode; the draft expects the old mode (docs/protocol/dialect-matrix.md#previous-values)."""
        row = self.sessions.get_or_add(params.session_id, "")
        previous = row.mode
        result = yield Pass(params)
        if row.modes is not None:
            row.modes.current_mode_id = params.mode_id
        return with_side_data(result, previousMode=previous, currentMode=params.mode_id)

    def set_config_option(self, params: Any) -> Flow:
        """Pass session/set_config_option; the draft expects the previous value
        (docs/protocol/dialect-matrix.md#previous-values).
        """
        row = self.sessions.get_or_add(params.session_id, "")
        previous = row.option_values().get(params.config_id)
        result = yield Pass(params)
        row.set_options(result.config_options)
        current = row.option_values().get(params.config_id, side_data_of(params).get("value", params.value))
        return with_side_data(result, key=params.config_id, previousValue=previous, currentValue=current)

    def authenticate(self, params: Any) -> Flow:
        """Pass authenticate; the draft returns a failure as a result (docs/protocol/dialect-matrix.md#credentials)."""
        try:
            return (yield Pass(params))
        except ProtocolError as error:
            return {"success": False, "error": error.message}

    def push_output(self, params: Any) -> Flow:
        """Buffer pushed terminal/output for the agent's next poll (docs/protocol/dialect-matrix.md#terminal-forms)."""
        buffer = self._open_buffer(params.terminal_id)
        if buffer is not None:
            buffer.append(params.data, params.stream or "stdout")
        return {"received": buffer is not None}
        yield

    # --- what the agent says ----------------------------------------------------------------------------------

    def update(self, params: Any) -> Flow:
        """Count session/update, and complete it from memory."""
        update = params.update
        kind = type(update)
        row = self.sessions.find(params.session_id)
        if row is None:
            row = self.sessions.get_or_add(params.session_id, "")
        if kind in _CHUNK_KINDS:
            row.count_chunk(_SPEAKERS[_CHUNK_KINDS[kind]])
        elif row.is_opening and kind in _SETTINGS_UPDATES:
            return  # the client requested this in session/new, and does not know the session yet
        elif kind is CurrentModeUpdate:
            update = with_side_data(update, previousMode=row.mode)
            if row.modes is not None:
                row.modes.current_mode_id = update.current_mode_id
            params = msgspec.structs.replace(params, update=update)
        elif kind is ConfigOptionUpdate:
            for change in self._option_changes(row, update):
                yield SendNotification("session/update", msgspec.structs.replace(params, update=change))
            return
        elif kind is ToolCallStart:
            self.tool_calls.note(params.session_id, update)
        elif kind is ToolCallProgress:
            self.tool_calls.note(params.session_id, update)
            params = msgspec.structs.replace(params, update=self._with_terminal_output(params.session_id, update))
        yield Pass(params)

    def pass_chunk(self, chunk: Chunk) -> Chunk | None:
        """Count a text chunk."""
        row = self.sessions.find(chunk.session) or self.sessions.get_or_add(chunk.session, "")
        row.count_chunk(_SPEAKERS[chunk.kind])
        return chunk

    def _option_changes(self, session: SessionRow, update: ConfigOptionUpdate) -> Iterator[ConfigOptionUpdate]:
        """Return one update per changed option; the vocabulary sends all options at once
        (docs/protocol/dialect-matrix.md#options-one-by-one).
        """
        before = session.option_values()
        session.set_options(update.config_options)
        for key, value in session.option_values().items():
            if key not in before or before[key] != value:
                yield with_side_data(update, key=key, previousValue=before.get(key), currentValue=value, source="agent")

    def _with_terminal_output(self, session_id: str, update: ToolCallProgress) -> ToolCallProgress:
        """Add the terminal's text: v1 only names the terminal (docs/protocol/dialect-matrix.md#tool-output).

        v1 need not name a terminal again; in the draft the end of the call carries the rest.
        """
        key = (session_id, update.tool_call_id)
        content = update.content or (self.terminal_contents.get(key) if update.status in _FINAL_STATUSES else None)
        if not content or not any(type(entry) is TerminalEmbed for entry in content):
            return update
        self.terminal_contents[key] = list(content)
        told = [
            with_side_data(entry, **self.terminal_buffers[entry.terminal_id].tool_call_data())
            if type(entry) is TerminalEmbed and entry.terminal_id in self.terminal_buffers
            else entry
            for entry in content
        ]
        return msgspec.structs.replace(update, content=told)

    def request_permission(self, params: Any) -> Flow:
        """Map yes or no, and for how long, to one of the agent's options
        (docs/protocol/dialect-matrix.md#draft-permission).
        """
        if not self.has_permission_dialogs:
            yield NotifyUser("the client has no dialogs to ask for permission; denied")
            no = next((option for option in params.options if option.kind.startswith("reject")), None)
            outcome = CancelledOutcome() if no is None else SelectedOutcome(option_id=no.option_id)
            return RequestPermissionResult(outcome=outcome)
        call = self.tool_calls.complete(params.session_id, params.tool_call)
        params = msgspec.structs.replace(params, tool_call=call)
        kinds = [option.kind for option in params.options]
        is_plain = len(set(kinds)) == len(kinds) and _STANDARD_KINDS.issuperset(kinds)
        result = yield Pass(mark_inferred(params, "options") if is_plain else params)
        beside = side_data_of(result)
        if "granted" not in beside:
            return result
        granted = beside.get("granted") is True
        remember = beside.get("remember") is True or beside.get("scope") in _REMEMBERED_SCOPES
        for kind in _OPTION_KINDS[granted, remember]:
            for option in params.options:
                if option.kind == kind:
                    chosen = SelectedOutcome(option_id=option.option_id)
                    return RequestPermissionResult(outcome=chosen, meta=result.meta)
        return RequestPermissionResult(outcome=CancelledOutcome(), meta=result.meta)

    def pass_without_session(self, params: Any) -> Flow:
        """Pass a file or terminal call without its session, which the draft lacks
        (docs/protocol/dialect-matrix.md#calls-without-session).
        """
        return (yield Pass(mark_inferred(params, "sessionId")))

    def create_terminal(self, params: Any) -> Flow:
        """Pass terminal/create within the client's limit; watch the exit, which the draft does not push."""
        lent = sum(not buffer.is_released for buffer in self.terminal_buffers.values())
        if self.max_terminals is not None and lent >= self.max_terminals:
            raise ProtocolError(
                Kind.RATE_LIMITED, f"the client allows {self.max_terminals} terminals at once; release one first"
            )
        result = yield from self.pass_without_session(params)
        limit = params.output_byte_limit if isinstance(params.output_byte_limit, int) else BUFFER_LIMIT
        line = " ".join([params.command, *(params.args or ())])
        self.terminal_buffers[result.terminal_id] = TerminalBuffer(command=line, limit=min(limit, BUFFER_LIMIT))
        yield Start(self._watch_exit(params.session_id, result.terminal_id))
        return result

    def _watch_exit(self, session_id: str, terminal_id: str) -> Flow:
        ended = yield SendRequest(
            "terminal/wait_for_exit",
            mark_inferred(WaitForExitParams(session_id=session_id, terminal_id=terminal_id), "sessionId"),
        )
        buffer = self.terminal_buffers.get(terminal_id)
        if buffer is not None:
            buffer.exit_status = TerminalExitStatus(exit_code=ended.exit_code, signal=ended.signal)

    def terminal_output(self, params: Any) -> Flow:
        """Answer a terminal/output poll from the buffer: the draft pushes."""
        buffer = self._open_buffer(params.terminal_id)
        if buffer is None:
            raise ProtocolError(
                Kind.RESOURCE_NOT_FOUND,
                f"there is no terminal {params.terminal_id}",
                {"terminalId": params.terminal_id},
            )
        return TerminalOutputResult(
            output=buffer.text, truncated=buffer.truncated, exit_status=buffer.exit_status or UNSET
        )
        yield

    def wait_for_exit(self, params: Any) -> Flow:
        """Pass terminal/wait_for_exit; later polls have the exit too."""
        result = yield from self.pass_without_session(params)
        buffer = self.terminal_buffers.get(params.terminal_id)
        if buffer is not None:
            buffer.exit_status = TerminalExitStatus(exit_code=result.exit_code, signal=result.signal)
        return result

    def release_terminal(self, params: Any) -> Flow:
        """Pass terminal/release; keep the buffer until the turn ends, for tool calls that show it."""
        result = yield from self.pass_without_session(params)
        buffer = self.terminal_buffers.get(params.terminal_id)
        if buffer is not None:
            buffer.is_released = True
        return result

    def _open_buffer(self, terminal_id: str) -> TerminalBuffer | None:
        buffer = self.terminal_buffers.get(terminal_id)
        return None if buffer is None or buffer.is_released else buffer

    incoming: ClassVar[dict[str, FlowMaker]] = {
        "session/new": new_session,
        "session/load": load_session,
        "session/prompt": prompt,
        "session/set_mode": set_mode,
        "session/set_config_option": set_config_option,
        "authenticate": authenticate,
        "terminal/output": push_output,
    }
    outgoing: ClassVar[dict[str, FlowMaker]] = {
        "session/update": update,
        "session/request_permission": request_permission,
        "fs/read_text_file": pass_without_session,
        "fs/write_text_file": pass_without_session,
        "terminal/create": create_terminal,
        "terminal/output": terminal_output,
        "terminal/wait_for_exit": wait_for_exit,
        "terminal/kill": pass_without_session,
        "terminal/release": release_terminal,
    }


_FINAL_STATUSES = frozenset({ToolCallStatus.COMPLETED, ToolCallStatus.FAILED, ToolCallStatus.CANCELLED})
_SETTINGS_UPDATES = frozenset({CurrentModeUpdate, ConfigOptionUpdate})
_SPEAKERS = {"agent_message_chunk": "agent", "user_message_chunk": "user", "agent_thought_chunk": "thought"}
_CHUNK_KINDS: dict[type, str] = {
    AgentMessageChunk: "agent_message_chunk",
    UserMessageChunk: "user_message_chunk",
    AgentThoughtChunk: "agent_thought_chunk",
}


def _with_absolute_uri(block: Any, cwd: str) -> Any:
    """Return an attachment with a relative path resolved in the session's folder (section 14.3)."""
    if type(block) is not ResourceLink or "attachment" not in side_data_of(block) or not _RELATIVE_URI.match(block.uri):
        return block
    path = posixpath.normpath(posixpath.join(cwd, unquote(block.uri.removeprefix("file:"))))
    return msgspec.structs.replace(block, uri=f"file://{quote(path)}")


def _options_of(result: Any) -> Any:
    return result.config_options if not isinstance(result, dict) else ()
