"""THE table: one row for each method that any dialect or the host can say.

A row takes raw params or a raw result and gives Models; whoever routes, gates, forwards or documents reads
the table and keeps no list of its own. Above: dialect, engine, everything else. Below: the chapters.
`read_*` is what a peer's words go through: strict first, and the second pass (lenient.py) when that fails.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

import msgspec

from dragoman.schema import auth, config, elicitation, fs, initialize, mcp, permission, prompt, providers, session
from dragoman.schema import terminal as term
from dragoman.schema import update as news
from dragoman.schema.base import Model
from dragoman.schema.side import Side

if TYPE_CHECKING:
    from dragoman.schema.lenient import Fault

Scope = Literal["connection", "session"]
Stability = Literal["stable", "unstable", "seed", "dragoman"]

_decoders: dict[Any, msgspec.json.Decoder[Any]] = {}


def decoder_for(kind: Any) -> msgspec.json.Decoder[Any]:
    """The strict decoder of a type, made at its first use."""
    try:
        return _decoders[kind]
    except KeyError:
        return _decoders.setdefault(kind, msgspec.json.Decoder(kind))


class Method(msgspec.Struct, frozen=True, kw_only=True):
    """One row: a method, who receives it, its types, what gates it and which ids it carries.

    `gate` is a path into the capabilities of one end ("agent.loadSession"); "" means none.
    `ids` and `result_ids` name members by path ("update.content[].terminalId") and say what they identify.
    `either` marks the few methods that come with or without a request id; `request` is then the usual way.
    `result` is None for notifications and Any where the answer is that of an inner method.
    """

    name: str
    side: Side
    request: bool
    params: type[Model]
    result: Any
    gate: str
    scope: Scope
    ids: dict[str, str]
    stability: Stability
    since: str
    result_ids: dict[str, str]
    either: bool

    def decode_params(self, raw: bytes | msgspec.Raw) -> Any:
        """Decode params strictly; raises msgspec.DecodeError, UnicodeDecodeError or RecursionError."""
        return decoder_for(self.params).decode(raw)

    def decode_result(self, raw: bytes | msgspec.Raw) -> Any:
        """Decode a result strictly; raises as decode_params does."""
        return decoder_for(self.result).decode(raw)

    def convert_params(self, value: Any) -> Any:
        """Make params from JSON builtins, strictly; raises msgspec.ValidationError."""
        return msgspec.convert(value, self.params)

    def convert_result(self, value: Any) -> Any:
        """Make a result from JSON builtins, strictly; raises msgspec.ValidationError."""
        return msgspec.convert(value, self.result)

    def read_params(self, raw: bytes | msgspec.Raw | None) -> tuple[Any, list[Fault]]:
        """Read a peer's params: strictly, else by the second pass; raises only ProtocolError."""
        return read_value(self.params, raw)

    def read_result(self, raw: bytes | msgspec.Raw | None) -> tuple[Any, list[Fault]]:
        """Read a peer's result: strictly, else by the second pass; raises only ProtocolError."""
        return read_value(self.result, raw)


def read_value(kind: Any, raw: bytes | msgspec.Raw | None) -> tuple[Any, list[Fault]]:
    """Read raw JSON (None: there was none) as a type: strictly, else by the second pass."""
    try:
        return decoder_for(kind).decode(b"{}" if raw is None else raw), []
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        from dragoman.schema import lenient

        return lenient.read_leniently(kind, None if raw is None else lenient.parse(bytes(raw)))


METHODS: dict[tuple[Side, str], Method] = {}


def find_method(side: Side, name: str) -> Method | None:
    """The row of a method as that side receives it."""
    return METHODS.get((side, name))


A, C = Side.AGENT, Side.CLIENT
_SESSION = {"sessionId": "session"}
_TERMINAL = {"sessionId": "session", "terminalId": "terminal"}


def _add_method(
    side: Side,
    name: str,
    params: type[Model],
    result: Any = None,
    gate: str = "",
    *,
    scope: Scope = "session",
    ids: dict[str, str] = _SESSION,
    result_ids: dict[str, str] | None = None,
    stability: Stability = "stable",
    since: str = "v1",
    either: bool = False,
) -> None:
    METHODS[side, name] = Method(
        name=name,
        side=side,
        request=result is not None,
        params=params,
        result=result,
        gate=gate,
        scope=scope,
        ids=ids if scope == "session" or ids is not _SESSION else {},
        stability=stability,
        since=since,
        result_ids=result_ids or {},
        either=either,
    )


# fmt: off
# ---- to the agent: the connection
_add_method(A, "initialize", initialize.InitializeParams, initialize.InitializeResult, scope="connection")
_add_method(A, "authenticate", auth.AuthenticateParams, auth.AuthenticateResult, scope="connection")
_add_method(A, "logout", auth.LogoutParams, auth.LogoutResult, "agent.auth.logout", scope="connection")
_add_method(A, "auth/status", auth.AuthStatusParams, auth.AuthStatusResult, "agent.auth.status", scope="connection",
     stability="unstable", since="after 1.21")
_add_method(A, "providers/list", providers.ListProvidersParams, providers.ListProvidersResult, "agent.providers",
     scope="connection", stability="unstable", since="1.19")
_add_method(A, "providers/set", providers.SetProviderParams, providers.SetProviderResult, "agent.providers",
     scope="connection", stability="unstable", since="1.19")
_add_method(A, "providers/disable", providers.DisableProviderParams, providers.DisableProviderResult, "agent.providers",
     scope="connection", stability="unstable", since="1.19")

# ---- to the agent: sessions
_add_method(A, "session/new", session.NewSessionParams, session.NewSessionResult, scope="connection",
     result_ids=_SESSION)
_add_method(A, "session/load", session.LoadSessionParams, session.LoadSessionResult, "agent.loadSession")
_add_method(A, "session/resume", session.ResumeSessionParams, session.ResumeSessionResult,
     "agent.sessionCapabilities.resume")
_add_method(A, "session/list", session.ListSessionsParams, session.ListSessionsResult,
     "agent.sessionCapabilities.list", scope="connection", result_ids={"sessions[].sessionId": "session"})
_add_method(A, "session/delete", session.DeleteSessionParams, session.DeleteSessionResult,
     "agent.sessionCapabilities.delete")
_add_method(A, "session/close", session.CloseSessionParams, session.CloseSessionResult,
     "agent.sessionCapabilities.close")
_add_method(A, "session/fork", session.ForkSessionParams, session.ForkSessionResult,
     "agent.sessionCapabilities.fork", result_ids=_SESSION, stability="unstable", since="1.19")
_add_method(A, "session/archive", session.ArchiveSessionParams, session.ArchiveSessionResult,
     "agent.sessionCapabilities.archive", stability="unstable", since="after 1.21")
_add_method(A, "session/unarchive", session.UnarchiveSessionParams, session.UnarchiveSessionResult,
     "agent.sessionCapabilities.archive", stability="unstable", since="after 1.21")
_add_method(A, "session/status", session.SessionStatusParams, session.SessionStatusResult,
     "agent.sessionCapabilities.status", stability="unstable", since="after 1.21")
_add_method(A, "session/set_title", session.SetTitleParams, session.SetTitleResult,
     "agent.sessionCapabilities.title", stability="unstable", since="after 1.21")
_add_method(A, "session/set_mode", config.SetModeParams, config.SetModeResult)
_add_method(A, "session/set_config_option", config.SetConfigOptionParams, config.SetConfigOptionResult)
_add_method(A, "session/attach", providers.AttachParams, providers.AttachResult, "agent._meta.dragoman.attach",
     stability="dragoman", since="0.1")
_add_method(A, "session/detach", providers.DetachParams, providers.DetachResult, "agent._meta.dragoman.attach",
     stability="dragoman", since="0.1")

# ---- to the agent: the turn
_add_method(A, "session/prompt", prompt.PromptParams, prompt.PromptResult)
_add_method(A, "session/cancel", prompt.CancelParams)
_add_method(A, "permission_response", permission.PermissionResponseParams, stability="seed", since="crow",
     either=True)

# ---- to the client: the turn
_add_method(C, "session/update", news.UpdateParams, ids={
    "sessionId": "session",
    "update.sessionId": "session",
    "update.senderSessionId": "session",
    "update.recipientSessionId": "session",
    "update.content[].terminalId": "terminal",
})
_add_method(C, "session/request_permission", permission.RequestPermissionParams, permission.RequestPermissionResult,
     ids={"sessionId": "session", "toolCall.content[].terminalId": "terminal"})
_add_method(C, "elicitation/create", elicitation.CreateElicitationParams, elicitation.CreateElicitationResult,
     "client.elicitation",
     ids={"sessionId": "session", "requestId": "request", "elicitationId": "elicitation"}, since="1.21")
_add_method(C, "elicitation/complete", elicitation.CompleteElicitationParams, gate="client.elicitation.url",
     scope="connection", ids={"elicitationId": "elicitation"}, since="1.21")
_add_method(C, "auth/status_update", auth.AuthStatusUpdateParams, gate="agent.auth.status", scope="connection",
     stability="unstable", since="after 1.21")

# ---- to the client: files
_add_method(C, "fs/read_text_file", fs.ReadTextFileParams, fs.ReadTextFileResult, "client.fs.readTextFile")
_add_method(C, "fs/write_text_file", fs.WriteTextFileParams, fs.WriteTextFileResult, "client.fs.writeTextFile")
_add_method(C, "fs/read_binary_file", fs.ReadBinaryFileParams, fs.ReadBinaryFileResult,
     "client._meta.dragoman.fs.binary", stability="dragoman", since="0.1")
_add_method(C, "fs/write_binary_file", fs.WriteBinaryFileParams, fs.WriteBinaryFileResult,
     "client._meta.dragoman.fs.binary", stability="dragoman", since="0.1")
_add_method(C, "fs/list_directory", fs.ListDirectoryParams, fs.ListDirectoryResult,
     "client._meta.dragoman.fs.list", stability="dragoman", since="0.1")
_add_method(C, "fs/create_directory", fs.CreateDirectoryParams, fs.CreateDirectoryResult,
     "client._meta.dragoman.fs.createDirectory", stability="dragoman", since="0.1")
_add_method(C, "fs/watch", fs.WatchParams, fs.WatchResult,
     "client._meta.dragoman.fs.watch", stability="dragoman", since="0.1")
_add_method(C, "fs/unwatch", fs.UnwatchParams, fs.UnwatchResult,
     "client._meta.dragoman.fs.watch", stability="dragoman", since="0.1")
_add_method(A, "fs/changed", fs.ChangedParams, gate="client._meta.dragoman.fs.watch",
     stability="dragoman", since="0.1")
_add_method(C, "fs/write_files", fs.WriteFilesParams, fs.WriteFilesResult,
     "client._meta.dragoman.fs.atomic", stability="dragoman", since="0.1")

# ---- terminals
_add_method(C, "terminal/create", term.CreateTerminalParams, term.CreateTerminalResult, "client.terminal",
     result_ids={"terminalId": "terminal"})
_add_method(C, "terminal/output", term.TerminalOutputParams, term.TerminalOutputResult, "client.terminal",
     ids=_TERMINAL)
_add_method(C, "terminal/wait_for_exit", term.WaitForExitParams, term.WaitForExitResult, "client.terminal",
     ids=_TERMINAL)
_add_method(C, "terminal/kill", term.KillTerminalParams, term.KillTerminalResult, "client.terminal", ids=_TERMINAL)
_add_method(C, "terminal/release", term.ReleaseTerminalParams, term.ReleaseTerminalResult, "client.terminal",
     ids=_TERMINAL)
_add_method(A, "terminal/output", term.PushOutputParams, term.PushOutputResult, "client.terminal", ids=_TERMINAL,
     stability="seed", since="draft")

# ---- MCP over this protocol: three spellings (docs/protocol/extensions.md#mcp-over-acp) and the draft's plan
_add_method(C, "mcp/connect", mcp.ConnectMcpParams, mcp.ConnectMcpResult, "agent.mcpCapabilities.acp",
     scope="connection", stability="unstable", since="1.19, dropped after 1.21")
_add_method(C, "mcp/disconnect", mcp.DisconnectMcpParams, mcp.DisconnectMcpResult, "agent.mcpCapabilities.acp",
     scope="connection", stability="unstable", since="1.19, dropped after 1.21")

for _side in (A, C):
    _add_method(_side, "mcp/message", mcp.MessageMcpParams, Any, "agent.mcpCapabilities.acp", scope="connection",
         stability="unstable", since="1.19", either=True)
    _add_method(_side, "_mcp/request", mcp.DraftMcpRequestParams, Any, scope="connection",
         stability="seed", since="draft", either=True)

    # ---- the chain of proxies, and what concerns single requests
    _add_method(_side, "proxy/successor", providers.SuccessorParams, Any, scope="connection",
         stability="unstable", since="after 1.21", either=True)
    _add_method(_side, "$/cancel_request", prompt.CancelRequestParams, scope="connection",
         ids={"requestId": "request"})

_add_method(A, "proxy/initialize", initialize.InitializeParams, initialize.InitializeResult, scope="connection",
     stability="unstable", since="after 1.21")
# fmt: on
