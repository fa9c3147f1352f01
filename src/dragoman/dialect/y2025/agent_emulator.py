"""Emulation for a 2025.1 agent (docs/protocol/dialect-matrix.md#translation).

We choose its session ids. It has one folder and one list of MCP servers, its modes are fixed when a session is created,
its file and terminal calls name no session, and its turns have no stop reason. Keeps folders, mode and open turn of
each session, and the session of each terminal.
"""

from __future__ import annotations

import posixpath
from collections.abc import Mapping
from typing import Any, ClassVar

import msgspec
from msgspec import UNSET

from dragoman.dialect.emulator import Emulator, EmulatorSettings, Flow, FlowMaker, NotifyUser, Pass
from dragoman.dialect.reshape import ABSENT
from dragoman.dialect.side_data import (
    get_member,
    inferred_members,
    mark_explicit,
    mark_inferred,
    side_data_of,
    with_members,
    with_side_data,
)
from dragoman.errors import Kind, ProtocolError
from dragoman.schema.base import to_json
from dragoman.schema.config import SessionMode, SessionModeState, SetModeResult
from dragoman.schema.initialize import InitializeResult
from dragoman.schema.prompt import StopReason
from dragoman.schema.side import Side

# Extra file and terminal members that only the draft requests.
_EXTRA_RESULT_DATA = ("encoding", "totalLines", "truncated", "bytesWritten", "created", "pid", "killed", "timedOut")

# Sent once for all sessions; differences were rejected or reported.
_CONNECTION_MEMBERS = ("cwd", "mcpServers")


class AgentSession(msgspec.Struct):
    """One session of the agent."""

    roots: list[str]
    mode: str | None = None
    in_turn: bool = False
    is_cancelled: bool = False


class AgentEmulator(Emulator):
    """For a 2025.1 agent."""

    def __init__(self, peer_side: Side, settings: EmulatorSettings) -> None:
        super().__init__(peer_side, settings)
        self._cwd = posixpath.normpath(settings.cwd)
        self._mcp_servers: Any = []
        self._modes: list[str] = []
        self._sessions: dict[str, AgentSession] = {}
        self._terminals: dict[str, str] = {}

    # --- the introduction -------------------------------------------------------------------------------------

    def _initialize(self, params: Any) -> Flow:
        """Send folder and servers once, for all sessions (docs/protocol/dialect-matrix.md#connection-folder)."""
        side_data = side_data_of(params)
        folder, servers = side_data.get("workingDirectory"), side_data.get("mcpServers")
        folder = folder if isinstance(folder, str) and folder else self.settings.cwd
        self._cwd = posixpath.normpath(folder)
        self._mcp_servers = servers if isinstance(servers, list) else []
        return (yield Pass(with_side_data(params, workingDirectory=folder, mcpServers=self._mcp_servers)))

    def note_initialize_result(self, result: InitializeResult) -> None:
        """Note the agent's modes, by name."""
        said = side_data_of(result.agent_capabilities).get("modes")
        self._modes = [mode for mode in said if isinstance(mode, str)] if isinstance(said, list) else []

    # --- sessions ---------------------------------------------------------------------------------------------

    def _new_session(self, params: Any) -> Flow:
        self._check_working_directory(params.cwd)
        yield from self._report_lost_servers(params.mcp_servers)
        chosen, mode = self.settings.new_id(), self._requested_mode(params)
        self._sessions[chosen] = self._build_session(params, mode)
        if mode is None and isinstance(wanted := side_data_of(params).get("initialMode"), str):
            yield NotifyUser(f"initialMode {wanted!r} is lost: the agent offers {', '.join(self._modes) or 'none'}")
        params = with_side_data(mark_inferred(params, *_CONNECTION_MEMBERS), sessionId=chosen, initialMode=ABSENT)
        try:
            result = yield Pass(with_side_data(params, mode=mode) if mode else params)
        except ProtocolError:
            del self._sessions[chosen]
            raise
        # An agent that answers with its own id will use that one.
        session = get_member(result, "session_id") or chosen
        self._sessions[session] = self._sessions.pop(chosen)
        result = with_members(mark_explicit(result, "sessionId"), session_id=session)
        return with_members(result, modes=self._mode_state(mode)) if self._modes else result

    def _load_session(self, params: Any) -> Flow:
        self._check_working_directory(params.cwd)
        yield from self._report_lost_servers(params.mcp_servers)
        is_new = params.session_id not in self._sessions
        if is_new:
            self._sessions[params.session_id] = self._build_session(params, None)
        try:
            return (yield Pass(mark_inferred(params, *_CONNECTION_MEMBERS)))
        except ProtocolError:
            if is_new:
                del self._sessions[params.session_id]
            raise

    def _check_working_directory(self, folder: str) -> None:
        if folder and posixpath.normpath(folder) != self._cwd:
            raise ProtocolError(
                Kind.INVALID_PARAMS,
                f"a 2025.1 agent has one working directory, {self._cwd}; start another agent for {folder}",
                {"cwd": folder, "workingDirectory": self._cwd},
            )

    def _report_lost_servers(self, servers: Any) -> Flow:
        lost = [server.name for server in servers or () if to_json(server) not in self._mcp_servers]
        if lost:
            yield NotifyUser(f"MCP servers lost ({', '.join(lost)}): a 2025.1 agent takes them at initialize only")

    def _build_session(self, params: Any, mode: str | None) -> AgentSession:
        folders = [posixpath.normpath(folder) for folder in params.additional_directories or ()]
        return AgentSession([self._cwd, *folders], mode or (self._modes[0] if self._modes else None))

    def _requested_mode(self, params: Any) -> str | None:
        """Return the mode that a 2025.1 client requested, or a draft client, if the agent has it."""
        said, initial = side_data_of(params).get("mode"), side_data_of(params).get("initialMode")
        if isinstance(said, str):
            return said
        return initial if initial in self._modes else None

    def _mode_state(self, mode: str | None) -> SessionModeState:
        """Return the mode of a new session, the only one that can be chosen in it."""
        current = mode or self._modes[0]
        return SessionModeState(current_mode_id=current, available_modes=[SessionMode(id=current, name=current)])

    def _set_mode(self, params: Any) -> Flow:
        yield from ()  # a flow without effects
        session = self._sessions.get(params.session_id)
        if session is not None and session.mode == params.mode_id:
            return SetModeResult()
        raise ProtocolError(
            Kind.CAPABILITY_UNSUPPORTED,
            f"2025.1 fixes the mode at session/new; open a new session for mode {params.mode_id!r}",
            {"method": "session/set_mode"},
        )

    # --- turns ------------------------------------------------------------------------------------------------

    def _prompt(self, params: Any) -> Flow:
        session = self._sessions.setdefault(params.session_id, AgentSession([self._cwd]))
        session.in_turn, session.is_cancelled = True, False
        # The latest turn is last: of several candidates it is the likeliest.
        self._sessions[params.session_id] = self._sessions.pop(params.session_id)
        try:
            result = yield Pass(params)
        finally:
            session.in_turn = False
        if session.is_cancelled and "stopReason" in inferred_members(result):
            return with_members(mark_explicit(result, "stopReason"), stop_reason=StopReason.CANCELLED)
        return result

    def _cancel(self, params: Any) -> Flow:
        session = self._sessions.get(params.session_id)
        if session is not None and session.in_turn:
            session.is_cancelled = True
        yield Pass(params)

    # --- files and terminals ----------------------------------------------------------------------------------

    def _file_call(self, params: Any) -> Flow:
        return _without_extra_data((yield Pass(self._with_session(params, params.path))))

    def _create_terminal(self, params: Any) -> Flow:
        params = self._with_session(params, params.cwd or self._cwd)
        result = yield Pass(params)
        terminal = get_member(result, "terminal_id")
        if isinstance(terminal, str):
            self._terminals[terminal] = params.session_id
        return _without_extra_data(result)

    def _terminal_call(self, params: Any) -> Flow:
        return _without_extra_data((yield Pass(self._with_session(params, UNSET))))

    def _release_terminal(self, params: Any) -> Flow:
        result = yield Pass(self._with_session(params, UNSET))
        self._terminals.pop(params.terminal_id, None)
        return result

    def _with_session(self, params: Any, path: Any) -> Any:
        """Return the call with its session (docs/protocol/dialect-matrix.md#calls-without-session)."""
        if params.session_id:
            return params
        session = self._terminals.get(get_member(params, "terminal_id")) or self._guess_session(path)
        return with_members(params, session_id=session)

    def _guess_session(self, path: Any) -> str:
        open_turns = [id for id, session in self._sessions.items() if session.in_turn]
        candidates = open_turns or list(self._sessions)
        if len(candidates) == 1:
            return candidates[0]
        if isinstance(path, str):
            # Any session with the path in its folders: each would be allowed it.
            for id in reversed(candidates):
                if any(self._is_within(path, root) for root in self._sessions[id].roots):
                    return id
        raise ProtocolError(
            Kind.ACCESS_DENIED,
            f"a 2025.1 agent names no session in its calls, and {len(candidates)} sessions match"
            + (f"; none has {path} in its folders" if isinstance(path, str) else ""),
            {"sessions": candidates},
        )

    def _is_within(self, path: str, root: str) -> bool:
        whole = posixpath.normpath(posixpath.join(self._cwd, path))
        return whole == root or whole.startswith(root.rstrip("/") + "/")

    incoming: ClassVar[Mapping[str, FlowMaker]] = {
        "fs/read_text_file": _file_call,
        "fs/write_text_file": _file_call,
        "terminal/create": _create_terminal,
        "terminal/output": _terminal_call,
        "terminal/wait_for_exit": _terminal_call,
        "terminal/kill": _terminal_call,
        "terminal/release": _release_terminal,
    }
    outgoing: ClassVar[Mapping[str, FlowMaker]] = {
        "initialize": _initialize,
        "session/new": _new_session,
        "session/load": _load_session,
        "session/set_mode": _set_mode,
        "session/prompt": _prompt,
        "session/cancel": _cancel,
    }


def _without_extra_data(result: Any) -> Any:
    """Return the result without unrequested members: shapes are exact (docs/protocol/dialects.md#y2025-messages)."""
    return with_side_data(result, **dict.fromkeys(_EXTRA_RESULT_DATA, ABSENT)) if side_data_of(result) else result
