"""Emulation for an agent that speaks the draft (docs/protocol/dialect-matrix.md#translation).

Finds the session of calls that name none, resolves relative paths, polls the client's terminals and pushes new output,
enforces timeouts, emulates `overwrite: false` by a read, and keeps the full option list for v1 clients.
"""

from __future__ import annotations

import posixpath
from typing import Any, ClassVar

import msgspec
from msgspec import UNSET

from dragoman.dialect.emulator import (
    Deliver,
    Emulator,
    EmulatorSettings,
    Flow,
    FlowMaker,
    NotifyUser,
    Pass,
    SendRequest,
    Sleep,
    Start,
    Wait,
    Wake,
)
from dragoman.dialect.reshape import ABSENT
from dragoman.dialect.session_table import (
    SessionRow,
    SessionTable,
    option_from_value,
    parse_json,
    switch_as_select,
)
from dragoman.dialect.side_data import mark_inferred, side_data_of, with_side_data
from dragoman.dialect.text_chunk import Chunk
from dragoman.errors import Kind, ProtocolError
from dragoman.schema.config import SessionConfigOption, SessionMode, SessionModeState, SetConfigOptionResult
from dragoman.schema.fs import ReadTextFileParams
from dragoman.schema.initialize import (
    AgentCapabilities,
    ClientCapabilities,
    ClientSessionCapabilities,
    InitializeParams,
    InitializeResult,
)
from dragoman.schema.side import Side
from dragoman.schema.terminal import (
    KillTerminalParams,
    PushOutputParams,
    TerminalOutputParams,
    WaitForExitResult,
)
from dragoman.schema.update import ConfigOptionUpdate, CurrentModeUpdate

# How often a client's terminal is polled for new output to push. Seconds.
POLL_INTERVAL = 0.1


class AgentEmulator(Emulator):
    """For a draft agent."""

    def __init__(self, peer_side: Side, settings: EmulatorSettings) -> None:
        super().__init__(peer_side, settings)
        self.sessions = SessionTable()
        self.pushed_output: dict[str, dict[str, str]] = {}  # what was pushed of each terminal so far, by stream
        self.modes: list[str] = []
        self.option_names: list[str] = []
        self.mcp_transports: frozenset[str] | None = None  # of MCP servers; None if the agent named none
        self.supports_attachments = True
        self.supports_cancel = True
        self._shows_switches = settings.shows_switches
        self._wait_count = 0
        self._poll_count = 0
        self._latest_polls: dict[str, int] = {}  # the latest answered poll of each terminal

    def note_initialize(self, params: InitializeParams) -> None:
        """Note whether the client shows boolean options (docs/protocol/initialize.md#client-capabilities)."""
        session = (params.client_capabilities or ClientCapabilities()).session or ClientSessionCapabilities()
        self._shows_switches |= bool(session.config_options and session.config_options.boolean)

    def note_initialize_result(self, result: InitializeResult) -> None:
        """Note the agent's capabilities, and its modes and options, which v1 expects with each session."""
        capabilities = result.agent_capabilities or AgentCapabilities()
        sessions = _draft_capabilities(capabilities.session_capabilities)
        self.modes = [name for name in sessions.get("modes") or () if isinstance(name, str)]
        self.option_names = [name for name in sessions.get("configOptions") or () if isinstance(name, str)]
        prompts = _draft_capabilities(capabilities.prompt_capabilities)
        self.supports_attachments = prompts.get("attachments") is not False
        self.supports_cancel = prompts.get("cancellation") is not False
        servers = _draft_capabilities(capabilities.mcp_capabilities)
        if servers.get("servers") is False:
            self.mcp_transports = frozenset()
        elif isinstance(servers.get("transport"), list):
            self.mcp_transports = frozenset(name for name in servers["transport"] if isinstance(name, str))

    # --- what the client asks ---------------------------------------------------------------------------------

    def new_session(self, params: Any) -> Flow:
        """Pass session/new; add modes and options to the result."""
        self._check_mcp_servers(params.mcp_servers)
        result = yield Pass(params)
        row = self.sessions.get_or_add(result.session_id, params.cwd)
        side_data = side_data_of(params)
        self._set_modes_and_options(row, side_data.get("initialMode"), side_data.get("configOptions"))
        return msgspec.structs.replace(result, modes=row.modes or UNSET, config_options=self._options_of(row) or UNSET)

    def _check_mcp_servers(self, servers: Any) -> None:
        """Raise for MCP servers whose transport the agent did not announce (section 10.3)."""
        for server in servers or ():
            if self.mcp_transports is not None and server.form not in self.mcp_transports:
                raise ProtocolError(
                    Kind.CAPABILITY_UNSUPPORTED,
                    f"the agent does not connect to MCP servers over {server.form}; leave out {server.name!r}",
                    {"capability": "mcpCapabilities.transport", "server": server.name},
                )

    def load_session(self, params: Any) -> Flow:
        """Pass session/load; the draft's result has mode and values."""
        row = self.sessions.get_or_add(params.session_id, params.cwd)
        row.in_turn = True  # the replay may request files
        try:
            result = yield Pass(params)
        finally:
            row.in_turn = False
        side_data = side_data_of(result)
        self._set_modes_and_options(row, side_data.get("mode"), side_data.get("configOptions"))
        return msgspec.structs.replace(result, modes=row.modes or UNSET, config_options=self._options_of(row) or UNSET)

    def _set_modes_and_options(self, session: SessionRow, mode: Any, values: Any) -> None:
        known = values if isinstance(values, dict) else {}
        names = list(dict.fromkeys([*self.option_names, *known]))
        session.options = [option_from_value(name, known.get(name)) for name in names]
        if self.modes:
            current = mode if mode in self.modes else "default" if "default" in self.modes else self.modes[0]
            available = [SessionMode(id=name, name=name) for name in self.modes]
            session.modes = SessionModeState(current_mode_id=current, available_modes=available)

    def prompt(self, params: Any) -> Flow:
        """Pass session/prompt; calls without a session belong to it while it runs."""
        row = self.sessions.get_or_add(params.session_id, "")
        row.in_turn = True
        if not self.supports_attachments:
            blocks = [with_side_data(block, attachment=ABSENT) for block in params.prompt]
            params = msgspec.structs.replace(params, prompt=blocks)
        try:
            return (yield Pass(params))
        finally:
            row.in_turn = False

    def cancel(self, params: Any) -> Flow:
        """Pass session/cancel, unless the agent cannot cancel; then its turn ends by itself."""
        if self.supports_cancel:
            yield Pass(params)
        else:
            yield NotifyUser("the agent cannot be cancelled; its turn ends when it is done")

    def set_config_option(self, params: Any) -> Flow:
        """Convert session/set_config_option: the draft returns one value, v1 the full list
        (docs/protocol/dialect-matrix.md#options-one-by-one).
        """
        row = self.sessions.get_or_add(params.session_id, "")
        known = row.option_values().get(params.config_id)
        value = side_data_of(params).get("value", params.value)
        if isinstance(value, str) and not (isinstance(known, str) and known):
            value = parse_json(value)  # a client that shows choices sends text
        try:
            result = yield Pass(with_side_data(params, value=value))
        except ProtocolError as error:
            if known not in (None, "") or value == params.value or error.kind != Kind.INVALID_PARAMS:
                raise
            value = params.value  # the option takes text, which no value showed before
            result = yield Pass(params)
        self._note_option(row, params.config_id, side_data_of(result).get("currentValue", value))
        return SetConfigOptionResult(config_options=self._options_of(row), meta=result.meta)

    def _options_of(self, session: SessionRow) -> list[SessionConfigOption]:
        """Return the options as the client shows them."""
        return list(session.options) if self._shows_switches else [*map(switch_as_select, session.options)]

    def _note_option(self, session: SessionRow, key: Any, value: Any) -> None:
        if not isinstance(key, str):
            return
        fresh = option_from_value(key, value)
        for index, option in enumerate(session.options):
            if option.id == key:
                session.options[index] = fresh
                return
        session.options.append(fresh)

    # --- what the agent says ----------------------------------------------------------------------------------

    def update(self, params: Any) -> Flow:
        """Convert session/update: a changed option becomes the full list."""
        update = params.update
        kind = type(update)
        if kind is ConfigOptionUpdate:
            row = self.sessions.get_or_add(params.session_id, "")
            side_data = side_data_of(update)
            if "key" in side_data:
                self._note_option(row, side_data["key"], side_data.get("currentValue"))
                update = msgspec.structs.replace(update, config_options=self._options_of(row))
                params = msgspec.structs.replace(params, update=update)
        elif kind is CurrentModeUpdate:
            row = self.sessions.get_or_add(params.session_id, "")
            if row.modes is not None:
                row.modes.current_mode_id = update.current_mode_id
        yield Pass(params)

    def pass_chunk(self, chunk: Chunk) -> Chunk | None:
        """Return the chunk: text changes no option."""
        return chunk

    def _with_session(self, params: Any) -> Any:
        """Return the call with its session, and with absolute paths (docs/protocol/draft.md#boundaries)."""
        path = getattr(params, "path", None) or getattr(params, "cwd", None) or None
        terminal = getattr(params, "terminal_id", None)
        known = self.sessions.find(params.session_id) if params.session_id else None
        row = known or self.sessions.resolve_session(terminal, path if isinstance(path, str) else None)
        changes: dict[str, Any] = {"session_id": row.session_id}
        for member in ("path", "cwd"):
            value = getattr(params, member, None)
            if isinstance(value, str) and value and not value.startswith("/"):
                changes[member] = posixpath.normpath(posixpath.join(row.cwd, value))
        return msgspec.structs.replace(params, **changes)

    def pass_with_session(self, params: Any) -> Flow:
        """Pass a call without a session, with its session added."""
        return (yield Pass(self._with_session(params)))

    def write_files(self, params: Any) -> Flow:
        """Pass fs/write_files; every path may be relative."""
        params = self._with_session(params)
        row = self.sessions.find(params.session_id)
        cwd = row.cwd if row is not None else self.settings.cwd
        files = [msgspec.structs.replace(file, path=posixpath.join(cwd, file.path)) for file in params.files]
        return (yield Pass(msgspec.structs.replace(params, files=files)))

    def write_text_file(self, params: Any) -> Flow:
        """Pass fs/write_text_file: `overwrite: false` reads first; the result says what was written
        (docs/protocol/dialect-matrix.md#file-ranges).
        """
        params = self._with_session(params)
        created = False
        if side_data_of(params).get("overwrite") is False:
            probe = ReadTextFileParams(session_id=params.session_id, path=params.path, line=1, limit=1)
            try:
                yield Deliver(
                    "fs/read_text_file", with_side_data(probe, encoding="latin-1", probe=True)
                )  # which any bytes are
            except ProtocolError as error:
                if error.kind != Kind.RESOURCE_NOT_FOUND:
                    raise
                created = True
            else:
                raise ProtocolError(
                    Kind.INVALID_PARAMS, f"{params.path} exists and overwrite is false", {"path": params.path}
                )
        result = yield Pass(params)
        told = {"bytesWritten": len(params.content.encode("utf-8", "replace")), "created": created}
        return with_side_data(result, **{**told, **side_data_of(result)})

    # --- terminals --------------------------------------------------------------------------------------------

    def create_terminal(self, params: Any) -> Flow:
        """Pass terminal/create: push the client's output to the agent and enforce the timeout here
        (docs/protocol/dialect-matrix.md#terminal-forms).
        """
        params = with_side_data(self._with_session(params), streams=True)  # a client that can keeps the streams apart
        result = yield Pass(params)
        identity = result.terminal_id
        self.sessions.terminals[identity] = params.session_id
        self.pushed_output[identity] = {}
        timeout = side_data_of(params).get("timeout")
        if isinstance(timeout, int | float) and timeout > 0:
            yield Start(self._kill_after(params.session_id, identity, timeout / 1000))
        yield Start(self._push_output(params.session_id, identity))
        return result

    def _kill_after(self, session_id: str, terminal_id: str, seconds: float) -> Flow:
        yield Sleep(seconds)
        if terminal_id in self.pushed_output:
            yield Deliver("terminal/kill", KillTerminalParams(session_id=session_id, terminal_id=terminal_id))

    def _push_output(self, session_id: str, terminal_id: str) -> Flow:
        """Poll and push until the command has ended or the terminal is released."""
        while terminal_id in self.pushed_output:
            yield Sleep(POLL_INTERVAL)
            if terminal_id not in self.pushed_output or (yield from self._push_new_output(session_id, terminal_id)):
                return

    def _push_new_output(self, session_id: str, terminal_id: str) -> Flow:
        """Push new output; return whether the command has ended."""
        self._poll_count += 1
        poll = self._poll_count
        try:
            shown = yield Deliver(
                "terminal/output", TerminalOutputParams(session_id=session_id, terminal_id=terminal_id)
            )
        except ProtocolError:
            return True
        streams = side_data_of(shown).get("streams")
        now: dict[str, str] = streams if isinstance(streams, dict) else {"": shown.output}  # "": unknown stream
        if terminal_id not in self.pushed_output or poll < self._latest_polls.get(terminal_id, 0):
            return bool(shown.exit_status)  # released, or a later poll was answered first: nothing is new
        before, self.pushed_output[terminal_id] = self.pushed_output[terminal_id], now
        self._latest_polls[terminal_id] = poll
        for stream, text in now.items():
            if data := _new_output(before.get(stream, ""), text):
                params = PushOutputParams(
                    session_id=session_id, terminal_id=terminal_id, data=data, stream=stream or UNSET
                )
                yield Start(self._send_push(mark_inferred(params, "sessionId")))
        return bool(shown.exit_status)

    def _send_push(self, params: Any) -> Flow:
        """Send a push, a call in the style of a notification (section 5.2.5): nobody waits for its answer."""
        yield SendRequest("terminal/output", params)

    def wait_for_exit(self, params: Any) -> Flow:
        """Pass terminal/wait_for_exit with the draft's timeout; push all output before the answer."""
        params = self._with_session(params)
        timeout = side_data_of(params).get("timeout")
        if not isinstance(timeout, int | float):
            result = yield Pass(params)
        else:
            self._wait_count += 1
            key = f"wait:{self._wait_count}"
            outcome: list[Any] = []  # filled before the wait begins if the command has already ended
            yield Start(self._deliver_wait(params, key, outcome))
            if not outcome:
                yield Start(self._wake_after(key, timeout / 1000))
                yield Wait(key)
            if not outcome:
                return with_side_data(WaitForExitResult(exit_code=-1), timedOut=True)
            result = outcome[0]
            if isinstance(result, ProtocolError):
                raise result
        if params.terminal_id in self.pushed_output:
            yield from self._push_new_output(params.session_id, params.terminal_id)
        return result

    def _deliver_wait(self, params: Any, key: str, outcome: list[Any]) -> Flow:
        try:
            outcome.append((yield Deliver("terminal/wait_for_exit", params)))
        except ProtocolError as error:
            outcome.append(error)
        yield Wake(key)

    def _wake_after(self, key: str, seconds: float) -> Flow:
        yield Sleep(seconds)
        yield Wake(key, None)

    def release_terminal(self, params: Any) -> Flow:
        """Pass terminal/release: stop pushing and polling."""
        params = self._with_session(params)
        self.pushed_output.pop(params.terminal_id, None)
        self._latest_polls.pop(params.terminal_id, None)
        result = yield Pass(params)
        self.sessions.terminals.pop(params.terminal_id, None)
        return result

    incoming: ClassVar[dict[str, FlowMaker]] = {
        "session/update": update,
        "fs/read_text_file": pass_with_session,
        "fs/write_text_file": write_text_file,
        "fs/read_binary_file": pass_with_session,
        "fs/write_binary_file": pass_with_session,
        "fs/list_directory": pass_with_session,
        "fs/create_directory": pass_with_session,
        "fs/watch": pass_with_session,
        "fs/write_files": write_files,
        "terminal/create": create_terminal,
        "terminal/output": pass_with_session,
        "terminal/wait_for_exit": wait_for_exit,
        "terminal/kill": pass_with_session,
        "terminal/release": release_terminal,
    }
    outgoing: ClassVar[dict[str, FlowMaker]] = {
        "session/new": new_session,
        "session/load": load_session,
        "session/prompt": prompt,
        "session/cancel": cancel,
        "session/set_config_option": set_config_option,
    }


def _draft_capabilities(capabilities: Any) -> dict[str, Any]:
    """Return the draft's own part of some capabilities."""
    return side_data_of(capabilities)


def _new_output(before: str, now: str) -> str:
    """Return new output: the rest, or what follows the overlap if the start was dropped."""
    if now.startswith(before):
        return now[len(before) :]
    for start in range(1, len(before)):
        if now.startswith(before[start:]):
            return now[len(before) - start :]
    return now
