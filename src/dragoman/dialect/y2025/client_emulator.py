"""Emulation for a 2025.1 client (docs/protocol/dialect-matrix.md#translation).

It chooses its session ids, has one folder and one list of MCP servers for all sessions, cannot be asked for permission
and serves whole files and terminals. Content that it does not support is neither accepted nor sent. Keeps the id map,
its initialize, the tool calls of running turns and the terminal limits.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

import msgspec
from msgspec import UNSET

from dragoman.dialect.announced_calls import AnnouncedCalls
from dragoman.dialect.emulator import Deliver, Emulator, EmulatorSettings, Flow, FlowMaker, NotifyUser, Pass, Wait, Wake
from dragoman.dialect.guesses import placeholder_text
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
from dragoman.dialect.text_chunk import Chunk
from dragoman.dialect.y2025 import auto_permission, truncate
from dragoman.errors import Kind, ProtocolError
from dragoman.schema.base import to_json
from dragoman.schema.config import SetModeParams
from dragoman.schema.content import AudioContent, EmbeddedResource, ImageContent, TextContent
from dragoman.schema.initialize import InitializeParams, InitializeResult
from dragoman.schema.mcp import McpServer
from dragoman.schema.methods import METHODS
from dragoman.schema.permission import CancelledOutcome, RequestPermissionResult, SelectedOutcome
from dragoman.schema.prompt import StopReason
from dragoman.schema.side import Side
from dragoman.schema.toolcall import ToolKind
from dragoman.schema.update import (
    AgentMessageChunk,
    AgentThoughtChunk,
    ToolCallProgress,
    ToolCallStart,
    UserMessageChunk,
)


def _session_methods(receiver: Side) -> list[str]:
    return [name for (side_, name), row in METHODS.items() if side_ is receiver and "sessionId" in row.ids]


# The blocks that a client capability covers, and its name outside the vocabulary's capabilities.
_CONTENT_CAPABILITIES: dict[type, str] = {
    ImageContent: "image",
    AudioContent: "audio",
    EmbeddedResource: "embeddedContext",
}

_CHUNK_TYPES = (AgentMessageChunk, AgentThoughtChunk, UserMessageChunk)

_WORKSPACE_METHODS = tuple(
    name for side_, name in METHODS if side_ is Side.CLIENT and name.startswith(("fs/", "terminal/"))
)


class ClientEmulator(Emulator):
    """For a 2025.1 client."""

    def __init__(self, peer_side: Side, settings: EmulatorSettings) -> None:
        super().__init__(peer_side, settings)
        self._cwd = settings.cwd
        self._mcp_servers: Any = []
        self._wants_agent_ids = False  # whether it wants the agent's session ids
        self._capabilities: frozenset[str] = frozenset()
        self._unsupported_content: frozenset[str] = frozenset()  # content kinds that the client does not support
        self._agent_ids: dict[str, str] = {}  # the client's session id -> the agent's
        self._client_ids: dict[str, str] = {}
        self._pending_ids: list[str] = []  # ids that the client chose for sessions that the agent is creating
        self._waiting_sessions: set[str] = set()  # agent's ids of sessions that are not mapped yet, though updates came
        self._tool_calls = AnnouncedCalls(("title", "name", "kind"))  # by the agent's session ids
        self._output_limits: dict[str, int] = {}  # terminal -> maximum bytes of output
        self._announced_modes: frozenset[str] = frozenset()  # that initialize announced to the client

    def note_initialize(self, params: InitializeParams) -> None:
        """Note folder, servers and capabilities, which belong to the whole connection."""
        side_data = side_data_of(params)
        folder = side_data.get("workingDirectory")
        self._cwd = folder if isinstance(folder, str) and folder else self.settings.cwd
        self._mcp_servers = side_data.get("mcpServers", [])
        lends = params.client_capabilities or None
        files = lends.fs or None if lends else None
        self._capabilities = frozenset(
            what
            for what, is_lent in (
                (auto_permission.FILES, files is not None and files.read_text_file and files.write_text_file),
                (auto_permission.TERMINALS, lends is not None and lends.terminal),
            )
            if is_lent is True
        )
        # Missing members stay undecided: the document's own initialize leaves out all three.
        said = side_data_of(lends) if lends else {}
        self._wants_agent_ids = said.get("comesBack") is True
        self._unsupported_content = frozenset(
            name for name in _CONTENT_CAPABILITIES.values() if said.get(name) is False
        )

    def note_initialize_result(self, result: InitializeResult) -> None:
        """Note the modes that are announced to the client."""
        agent = result.agent_capabilities or None
        said = side_data_of(agent).get("modes") or side_data_of(get_member(agent, "session_capabilities")).get("modes")
        modes = said if isinstance(said, list) else []
        self._announced_modes = frozenset(mode for mode in modes if isinstance(mode, str))

    # --- opening sessions -------------------------------------------------------------------------------------

    def _new_session(self, params: Any) -> Flow:
        said = side_data_of(params).get("sessionId")
        if not isinstance(said, str | None):  # a client that chose an id would never learn another one
            fault = {"path": "sessionId", "message": "must be a string"}
            raise ProtocolError(Kind.INVALID_PARAMS, "sessionId must be a string", {"errors": [fault]})
        chosen = said or ""
        mode = side_data_of(params).get("mode")
        if chosen and (chosen in self._agent_ids or chosen in self._pending_ids):
            raise ProtocolError(
                Kind.INVALID_PARAMS, f"session {chosen!r} exists already; choose another id", {"sessionId": chosen}
            )
        params = with_side_data(self._with_connection_members(params), sessionId=ABSENT)
        cwd = params.cwd
        self._pending_ids.append(chosen)
        try:
            result = yield Pass(params)
        except ProtocolError:
            self._pending_ids.remove(chosen)
            yield from self._release_updates("")
            raise
        self._pending_ids.remove(chosen)
        session = get_member(result, "session_id")
        if not isinstance(session, str):
            return result
        self._map_session_ids(chosen or session, session)
        if chosen and chosen != session and self.settings.session_ids is not None:
            self.settings.session_ids.add(cwd, chosen, session)
        yield from self._release_updates(session)
        if isinstance(mode, str):
            yield from self._set_initial_mode(session, mode, get_member(result, "modes"))
        result = with_members(self._without_announced_modes(result), session_id=chosen or session)
        # A client that returns on another connection, where its own id is unknown, uses the agent's id.
        return (
            with_side_data(result, session=session)
            if self._wants_agent_ids and chosen and chosen != session
            else result
        )

    def _load_session(self, params: Any) -> Flow:
        params = self._with_connection_members(params)
        chosen = params.session_id
        is_new = chosen not in self._agent_ids
        session = self._agent_ids.get(chosen) or self._earlier_id(params) or chosen
        if is_new and self._client_ids.get(session, chosen) != chosen:
            message = f"session {chosen!r} is open as {self._client_ids[session]!r}"
            raise ProtocolError(Kind.INVALID_PARAMS, message, {"sessionId": chosen})
        self._map_session_ids(chosen, session)  # before the answer: the replay comes first
        try:
            result = yield Pass(with_members(params, session_id=session))
        except ProtocolError:
            if is_new:
                del self._agent_ids[chosen], self._client_ids[session]
            raise
        return self._without_announced_modes(result)

    def _earlier_id(self, params: Any) -> str | None:
        """Return the agent's id of a session that the client opened on an earlier connection under an id of its own."""
        kept = self.settings.session_ids
        return kept.find(params.cwd, params.session_id) if kept is not None else None

    def _without_announced_modes(self, result: Any) -> Any:
        offered = {get_member(each, "id") for each in get_member(get_member(result, "modes"), "available_modes") or ()}
        return with_members(result, modes=UNSET) if offered and offered <= self._announced_modes else result

    def _with_connection_members(self, params: Any) -> Any:
        """Add what 2025.1 sends once for all sessions (docs/protocol/dialect-matrix.md#connection-folder)."""
        missing = inferred_members(params)
        if "cwd" in missing:
            params = with_members(params, cwd=self._cwd)
        if "mcpServers" in missing:
            try:
                servers = msgspec.convert(self._mcp_servers, list[McpServer])
            except msgspec.ValidationError as error:
                raise ProtocolError(Kind.INVALID_PARAMS, f"mcp_servers of initialize: {error}") from None
            params = with_members(params, mcp_servers=servers)
        return mark_explicit(params, "cwd", "mcpServers")

    def _map_session_ids(self, client_id: str, agent_id: str) -> None:
        self._agent_ids[client_id] = agent_id
        self._client_ids[agent_id] = client_id

    def _release_updates(self, session: str) -> Flow:
        """Release updates that came for this session before its answer; and all others once none is being opened."""
        for each in sorted(self._waiting_sessions) if not self._pending_ids else [session]:
            self._waiting_sessions.discard(each)
            while (yield Wake(_wait_key(each))):
                pass

    def _set_initial_mode(self, session: str, mode: str, modes: Any) -> Flow:
        """Send `mode` of session/new as set_mode if offered (docs/protocol/extensions.md#choices-for-20251)."""
        offered = [get_member(each, "id") for each in get_member(modes, "available_modes") or ()]
        if mode not in offered:
            there = ", ".join(map(str, offered)) or "none"
            yield NotifyUser(f"mode {mode!r} of session/new is lost: the agent offers {there}")
        elif get_member(modes, "current_mode_id") != mode:
            try:
                yield Deliver("session/set_mode", SetModeParams(session_id=session, mode_id=mode))
            except ProtocolError as error:
                yield NotifyUser(f"mode {mode!r} of session/new is lost: {error.message}")

    # --- ids of sessions --------------------------------------------------------------------------------------

    def _pass_to_agent(self, params: Any) -> Flow:
        return (yield Pass(self._with_agent_id(params)))

    def _pass_to_client(self, params: Any) -> Flow:
        return (yield Pass(self._with_client_id(params)))

    def _with_agent_id(self, params: Any) -> Any:
        session = self._agent_ids.get(params.session_id, params.session_id)
        return params if session == params.session_id else with_members(params, session_id=session)

    def _with_client_id(self, params: Any) -> Any:
        session = self._client_ids.get(params.session_id, params.session_id)
        return params if session == params.session_id else with_members(params, session_id=session)

    # --- turns and questions ----------------------------------------------------------------------------------

    def _prompt(self, params: Any) -> Flow:
        """Convert the stop reason: a normal end is `ok`; only others need an extra member
        (docs/protocol/dialect-matrix.md#status-ok).
        """
        params = self._with_agent_id(params)
        for index, block in enumerate(params.prompt):
            if self._is_unsupported(block):
                what = _CONTENT_CAPABILITIES[type(block)]
                raise ProtocolError(
                    Kind.CAPABILITY_UNSUPPORTED,
                    f"the client did not announce {what} content; announce it in initialize to send it",
                    {"errors": [{"path": f"content[{index}]", "message": f"{what} was announced as false"}]},
                )
        try:
            result = yield Pass(params)
        finally:
            self._tool_calls.forget(params.session_id)
        return (
            mark_inferred(result, "stopReason") if get_member(result, "stop_reason") == StopReason.END_TURN else result
        )

    def _update(self, params: Any) -> Flow:
        session, update = params.session_id, params.update
        if type(update) is ToolCallStart or type(update) is ToolCallProgress:
            self._tool_calls.note(session, update)
        elif type(update) in _CHUNK_TYPES and self._is_unsupported(update.content):
            # Chunks are text here: send the placeholder, without the block as side data.
            text = placeholder_text(to_json(update.content))
            params = with_members(params, update=with_members(update, content=TextContent(text=text)))
        # Only while a session is being created can an id be unknown to the client.
        while self._pending_ids and session not in self._client_ids:
            self._waiting_sessions.add(session)
            yield Wait(_wait_key(session))
        yield Pass(self._with_client_id(params))

    def pass_chunk(self, chunk: Chunk) -> Chunk | None:
        """Return a text chunk with the client's session id; None while that may be unknown."""
        session = self._client_ids.get(chunk.session)
        if session is None:
            return None if self._pending_ids else chunk
        return chunk if session == chunk.session else chunk._replace(session=session)

    def _is_unsupported(self, block: Any) -> bool:
        return _CONTENT_CAPABILITIES.get(type(block)) in self._unsupported_content

    def _request_permission(self, params: Any) -> Flow:
        call = self._tool_calls.complete(params.session_id, params.tool_call)
        title, kind = call.title or call.name or call.tool_call_id, call.kind or ToolKind.OTHER
        verdict = auto_permission.decide(self.settings.permission, kind, self._capabilities)
        option = auto_permission.choose_option(params.options, verdict.kinds)
        if option is None:
            yield NotifyUser(f"permission for {title} ({kind}): cancelled, because no option is {verdict.kinds[0]}")
            return RequestPermissionResult(outcome=CancelledOutcome())
        yield NotifyUser(f"permission for {title} ({kind}): {option.kind}, because {verdict.reason}")
        return RequestPermissionResult(outcome=SelectedOutcome(option_id=option.option_id))

    # --- files and terminals ----------------------------------------------------------------------------------

    def _pass_without_session(self, params: Any) -> Flow:
        """Pass a file or terminal call without its session, which 2025.1 lacks
        (docs/protocol/dialect-matrix.md#calls-without-session).
        """
        return (yield Pass(mark_inferred(params, "sessionId")))

    def _read_text_file(self, params: Any) -> Flow:
        """Pass a file read; the client returns whole files, so select the lines here."""
        line, limit = params.line, params.limit
        result = yield from self._pass_without_session(with_members(params, line=UNSET, limit=UNSET))
        if not isinstance(line, int) and not isinstance(limit, int):
            return result
        return with_members(result, content=truncate.select_lines(get_member(result, "content"), line, limit))

    def _create_terminal(self, params: Any) -> Flow:
        limit = params.output_byte_limit
        result = yield from self._pass_without_session(with_members(params, output_byte_limit=UNSET))
        if isinstance(limit, int):
            self._output_limits[get_member(result, "terminal_id")] = max(limit, 0)
        return result

    def _terminal_output(self, params: Any) -> Flow:
        result = yield from self._pass_without_session(params)
        limit = self._output_limits.get(params.terminal_id)
        if limit is None:
            return result
        text, is_cut = truncate.last_bytes(get_member(result, "output"), limit)
        return with_members(result, output=text, truncated=True) if is_cut else result

    def _release_terminal(self, params: Any) -> Flow:
        result = yield from self._pass_without_session(params)
        self._output_limits.pop(params.terminal_id, None)
        return result

    incoming: ClassVar[Mapping[str, FlowMaker]] = {
        **dict.fromkeys(_session_methods(Side.AGENT), _pass_to_agent),
        "session/new": _new_session,
        "session/load": _load_session,
        "session/prompt": _prompt,
    }
    outgoing: ClassVar[Mapping[str, FlowMaker]] = {
        **dict.fromkeys(_session_methods(Side.CLIENT), _pass_to_client),
        **dict.fromkeys(_WORKSPACE_METHODS, _pass_without_session),
        "session/update": _update,
        "session/request_permission": _request_permission,
        "fs/read_text_file": _read_text_file,
        "terminal/create": _create_terminal,
        "terminal/output": _terminal_output,
        "terminal/release": _release_terminal,
    }


def _wait_key(session: str) -> str:
    return f"placed:{session}"
