"""What must be remembered of a 2025.1 client, so that agents see a client like any other (reference 5.14).

It chooses its session ids, has one folder and one list of MCP servers for all sessions, cannot be asked for leave and
serves files and terminals whole. Content that it says it has no support for is neither taken from it nor given to it.
Kept: both ways of the id map, what initialize said, the tool calls of running turns, the limits of terminals.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

import msgspec
from msgspec import UNSET

from dragoman.dialect.emulator import Deliver, Flow, FlowMaker, Ledger, Pass, Report, Settings, Wait, Wake
from dragoman.dialect.guesses import placeholder
from dragoman.dialect.reshape import ABSENT
from dragoman.dialect.side_data import changed, inferred, known, member, noted, side, unsaid
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


def _with_session(receiver: Side) -> list[str]:
    return [name for (side_, name), row in METHODS.items() if side_ is receiver and "sessionId" in row.ids]


# The blocks that a capability of the client is about, and how it is called beside the capabilities of the vocabulary.
_CAPABLE: dict[type, str] = {ImageContent: "image", AudioContent: "audio", EmbeddedResource: "embeddedContext"}

_CHUNKS = (AgentMessageChunk, AgentThoughtChunk, UserMessageChunk)

_LENT = tuple(name for side_, name in METHODS if side_ is Side.CLIENT and name.startswith(("fs/", "terminal/")))


class ClientLedger(Ledger):
    """A 2025.1 client at the other end."""

    def __init__(self, peer: Side, settings: Settings) -> None:
        super().__init__(peer, settings)
        self._cwd = settings.cwd
        self._servers: Any = []
        self._comes_back = False  # whether it wants to know what the agent calls its sessions
        self._lends: frozenset[str] = frozenset()
        self._closed: frozenset[str] = frozenset()  # kinds of content that the client said it has no support for
        self._agent_ids: dict[str, str] = {}  # the client's id of a session -> the agent's
        self._client_ids: dict[str, str] = {}
        self._opening: list[str] = []  # ids the client chose for sessions that the agent is making
        self._held: set[str] = set()  # agent's ids of sessions that nobody can place yet, though updates came
        self._calls: dict[str, dict[str, tuple[str, str]]] = {}  # agent's id -> tool call -> title, kind
        self._limits: dict[str, int] = {}  # terminal -> most bytes of output
        self._modes: frozenset[str] = frozenset()  # that the client heard of at initialize

    def met(self, params: InitializeParams) -> None:
        """Folder, servers and capabilities belong to the whole connection."""
        beside = side(params)
        folder = beside.get("workingDirectory")
        self._cwd = folder if isinstance(folder, str) and folder else self.settings.cwd
        self._servers = beside.get("mcpServers", [])
        lends = params.client_capabilities or None
        files = lends.fs or None if lends else None
        self._lends = frozenset(
            what
            for what, is_lent in (
                (auto_permission.FILES, files is not None and files.read_text_file and files.write_text_file),
                (auto_permission.TERMINALS, lends is not None and lends.terminal),
            )
            if is_lent is True
        )
        # What it does not speak of stays open: the seed's own initialize leaves all three out.
        said = side(lends) if lends else {}
        self._comes_back = said.get("comesBack") is True
        self._closed = frozenset(name for name in _CAPABLE.values() if said.get(name) is False)

    def introduced(self, result: InitializeResult) -> None:
        """The modes that the client is told of."""
        agent = result.agent_capabilities or None
        said = side(agent).get("modes") or side(member(agent, "session_capabilities")).get("modes")
        modes = said if isinstance(said, list) else []
        self._modes = frozenset(mode for mode in modes if isinstance(mode, str))

    # --- opening sessions -------------------------------------------------------------------------------------

    def _new(self, params: Any) -> Flow:
        said = side(params).get("sessionId")
        if not isinstance(said, str | None):  # who chose an id would never hear of another one that we choose
            fault = {"path": "sessionId", "message": "must be a string"}
            raise ProtocolError(Kind.INVALID_PARAMS, "sessionId must be a string", {"errors": [fault]})
        chosen = said or ""
        mode = side(params).get("mode")
        if chosen and (chosen in self._agent_ids or chosen in self._opening):
            raise ProtocolError(
                Kind.INVALID_PARAMS, f"session {chosen!r} exists already; choose another id", {"sessionId": chosen}
            )
        params = noted(self._set_up(params), sessionId=ABSENT)
        self._opening.append(chosen)
        try:
            result = yield Pass(params)
        except ProtocolError:
            self._opening.remove(chosen)
            yield from self._place("")
            raise
        self._opening.remove(chosen)
        session = member(result, "session_id")
        if not isinstance(session, str):
            return result
        self._join(chosen or session, session)
        yield from self._place(session)
        if isinstance(mode, str):
            yield from self._enter(session, mode, member(result, "modes"))
        result = changed(self._without_known_modes(result), session_id=chosen or session)
        # Who comes back over another connection, where nobody knows the client's name for it, asked for the agent's.
        return noted(result, session=session) if self._comes_back and chosen and chosen != session else result

    def _load(self, params: Any) -> Flow:
        chosen = params.session_id
        is_new = chosen not in self._agent_ids
        if is_new and self._client_ids.get(chosen, chosen) != chosen:
            message = f"session {chosen!r} is open as {self._client_ids[chosen]!r}"
            raise ProtocolError(Kind.INVALID_PARAMS, message, {"sessionId": chosen})
        session = self._agent_ids.get(chosen, chosen)
        self._join(chosen, session)  # before the answer: the replay comes first
        try:
            result = yield Pass(changed(self._set_up(params), session_id=session))
        except ProtocolError:
            if is_new:
                del self._agent_ids[chosen], self._client_ids[session]
            raise
        return self._without_known_modes(result)

    def _without_known_modes(self, result: Any) -> Any:
        offered = {member(each, "id") for each in member(member(result, "modes"), "available_modes") or ()}
        return changed(result, modes=UNSET) if offered and offered <= self._modes else result

    def _set_up(self, params: Any) -> Any:
        """Fill in what 2025.1 says once for all sessions (5.14-3)."""
        missing = inferred(params)
        if "cwd" in missing:
            params = changed(params, cwd=self._cwd)
        if "mcpServers" in missing:
            try:
                servers = msgspec.convert(self._servers, list[McpServer])
            except msgspec.ValidationError as error:
                raise ProtocolError(Kind.INVALID_PARAMS, f"mcp_servers of initialize: {error}") from None
            params = changed(params, mcp_servers=servers)
        return known(params, "cwd", "mcpServers")

    def _join(self, chosen: str, session: str) -> None:
        self._agent_ids[chosen] = session
        self._client_ids[session] = chosen

    def _place(self, session: str) -> Flow:
        """Let go what came for this session before its answer; and all else once nothing is being opened."""
        for each in sorted(self._held) if not self._opening else [session]:
            self._held.discard(each)
            while (yield Wake(_placed(each))):
                pass

    def _enter(self, session: str, mode: str, modes: Any) -> Flow:
        """`mode` of session/new is set_mode where the agent offers it (5.17)."""
        offered = [member(each, "id") for each in member(modes, "available_modes") or ()]
        if mode not in offered:
            there = ", ".join(map(str, offered)) or "none"
            yield Report(f"mode {mode!r} of session/new is lost: the agent offers {there}")
        elif member(modes, "current_mode_id") != mode:
            try:
                yield Deliver("session/set_mode", SetModeParams(session_id=session, mode_id=mode))
            except ProtocolError as error:
                yield Report(f"mode {mode!r} of session/new is lost: {error.message}")

    # --- ids of sessions --------------------------------------------------------------------------------------

    def _heard(self, params: Any) -> Flow:
        return (yield Pass(self._for_agent(params)))

    def _told(self, params: Any) -> Flow:
        return (yield Pass(self._for_client(params)))

    def _for_agent(self, params: Any) -> Any:
        session = self._agent_ids.get(params.session_id, params.session_id)
        return params if session == params.session_id else changed(params, session_id=session)

    def _for_client(self, params: Any) -> Any:
        session = self._client_ids.get(params.session_id, params.session_id)
        return params if session == params.session_id else changed(params, session_id=session)

    # --- turns and questions ----------------------------------------------------------------------------------

    def _prompt(self, params: Any) -> Flow:
        """A turn that simply ended is `ok`; only another reason is worth a member that nobody knows (5.14-5)."""
        params = self._for_agent(params)
        for index, block in enumerate(params.prompt):
            if self._is_closed(block):
                what = _CAPABLE[type(block)]
                raise ProtocolError(
                    Kind.CAPABILITY_UNSUPPORTED,
                    f"the client's own capabilities rule out {what} content; initialize with it to send some",
                    {"errors": [{"path": f"content[{index}]", "message": f"{what} was announced as false"}]},
                )
        try:
            result = yield Pass(params)
        finally:
            self._calls.pop(params.session_id, None)
        return unsaid(result, "stopReason") if member(result, "stop_reason") == StopReason.END_TURN else result

    def _update(self, params: Any) -> Flow:
        session, update = params.session_id, params.update
        if type(update) is ToolCallStart or type(update) is ToolCallProgress:
            self._note_call(session, update)
        elif type(update) in _CHUNKS and self._is_closed(update.content):
            # Chunks are text here; what stands for the block is said, and the block itself is not sent beside it.
            text = placeholder(to_json(update.content))
            params = changed(params, update=changed(update, content=TextContent(text=text)))
        # Only while a session is being made can an id belong to a session whose name for the client is not known.
        while self._opening and session not in self._client_ids:
            self._held.add(session)
            yield Wait(_placed(session))
        yield Pass(self._for_client(params))

    def pass_chunk(self, chunk: Chunk) -> Chunk | None:
        """Pieces of text get the client's name of their session; they wait, by the flow, while that may be unknown."""
        session = self._client_ids.get(chunk.session)
        if session is None:
            return None if self._opening else chunk
        return chunk if session == chunk.session else chunk._replace(session=session)

    def _is_closed(self, block: Any) -> bool:
        return _CAPABLE.get(type(block)) in self._closed

    def _note_call(self, session: str, call: Any) -> tuple[str, str]:
        """Title and kind as far as they were said; a question may leave both out (peers.md 18)."""
        calls = self._calls.setdefault(session, {})
        title, kind = calls.get(call.tool_call_id, ("", ""))
        calls[call.tool_call_id] = (call.title or title, call.kind or kind)
        return calls[call.tool_call_id]

    def _question(self, params: Any) -> Flow:
        call = params.tool_call
        title, kind = self._note_call(params.session_id, call)
        title, kind = title or call.name or call.tool_call_id, kind or ToolKind.OTHER
        verdict = auto_permission.decide(self.settings.permission, kind, self._lends)
        option = auto_permission.choose(params.options, verdict.kinds)
        if option is None:
            yield Report(f"permission for {title} ({kind}): cancelled, because no option is {verdict.kinds[0]}")
            return RequestPermissionResult(outcome=CancelledOutcome())
        yield Report(f"permission for {title} ({kind}): {option.kind}, because {verdict.reason}")
        return RequestPermissionResult(outcome=SelectedOutcome(option_id=option.option_id))

    # --- files and terminals ----------------------------------------------------------------------------------

    def _lent(self, params: Any) -> Flow:
        """A call about files or terminals: such calls name no session here (5.14-4)."""
        return (yield Pass(unsaid(params, "sessionId")))

    def _read(self, params: Any) -> Flow:
        """The client gives whole files only; lines are cut here."""
        line, limit = params.line, params.limit
        result = yield from self._lent(changed(params, line=UNSET, limit=UNSET))
        if not isinstance(line, int) and not isinstance(limit, int):
            return result
        return changed(result, content=truncate.lines(member(result, "content"), line, limit))

    def _create(self, params: Any) -> Flow:
        limit = params.output_byte_limit
        result = yield from self._lent(changed(params, output_byte_limit=UNSET))
        if isinstance(limit, int):
            self._limits[member(result, "terminal_id")] = max(limit, 0)
        return result

    def _output(self, params: Any) -> Flow:
        result = yield from self._lent(params)
        limit = self._limits.get(params.terminal_id)
        if limit is None:
            return result
        text, is_cut = truncate.tail(member(result, "output"), limit)
        return changed(result, output=text, truncated=True) if is_cut else result

    def _release(self, params: Any) -> Flow:
        result = yield from self._lent(params)
        self._limits.pop(params.terminal_id, None)
        return result

    incoming: ClassVar[Mapping[str, FlowMaker]] = {
        **dict.fromkeys(_with_session(Side.AGENT), _heard),
        "session/new": _new,
        "session/load": _load,
        "session/prompt": _prompt,
    }
    outgoing: ClassVar[Mapping[str, FlowMaker]] = {
        **dict.fromkeys(_with_session(Side.CLIENT), _told),
        **dict.fromkeys(_LENT, _lent),
        "session/update": _update,
        "session/request_permission": _question,
        "fs/read_text_file": _read,
        "terminal/create": _create,
        "terminal/output": _output,
        "terminal/release": _release,
    }


def _placed(session: str) -> str:
    return f"placed:{session}"
