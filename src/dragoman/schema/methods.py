"""The table of methods: one row for each method of any dialect or of the host.

Whoever routes, checks, forwards or documents a method reads its row and keeps no list of its own.
"""

from __future__ import annotations

from functools import partial
from typing import Any, Literal

import msgspec
from msgspec.structs import force_setattr

from dragoman.schema import auth, config, elicitation, fs, initialize, mcp, permission, prompt, providers, session
from dragoman.schema import terminal as term
from dragoman.schema import toolcall as tools
from dragoman.schema import update as news
from dragoman.schema.base import Model
from dragoman.schema.side import Side

Scope = Literal["connection", "session"]
Stability = Literal["stable", "unstable", "seed", "dragoman"]

# What a success does. With a session: open a new one, fork one into a new one, open one that exists, attach to or
# detach from a shared one, end one. With a terminal or a watch: create, use, wait for its end, release.
Effect = Literal[
    "", "opens", "forks", "reopens", "attaches", "detaches", "ends", "creates", "uses", "waits", "releases"
]
HostAction = Literal["answers", "forwards", "refuses"]


class Method(msgspec.Struct, frozen=True):
    """One row: a method, who receives it, its types, and its properties.

    `gate` is a path into the capabilities of one end ("agent.loadSession"); "" means none.
    `ids` and `result_ids` name members by path ("update.content[].terminalId") and say what they identify. A method of
    a session always has "sessionId".
    `host` is what a host does with it; `host_reason` says why it refuses it.
    `either` marks the few methods that come with or without a request id; `request` is then the usual way.
    `result` is None for notifications and Any where the answer is that of an inner method.
    """

    side: Side
    name: str
    params: type[Model]
    result: Any = None
    gate: str = ""
    host: HostAction = "refuses"
    effect: Effect = ""
    ids: dict[str, str] = {}
    result_ids: dict[str, str] = {}
    host_reason: str = ""
    stability: Stability = "stable"
    since: str = "v1"
    either: bool = False
    before_initialize: bool = False  # allowed before the connection is initialized
    needs_login: bool = False  # if the agent requires one
    needs_idle: bool = False  # not allowed during a turn of its session
    needs_open_session: bool = False  # only for a session of this connection; official servers refuse others with 404
    once_per_process: bool = False  # rooms that share an agent process share its answer
    has_credentials: bool = False  # its params hold secrets of the user
    is_logged: bool = True  # a client logs each use of its workspace, but not what is repeated and changes nothing
    content: Literal["", "reads", "writes"] = ""  # whether it reads or writes the content of files
    request: bool = True  # this one and `scope` follow from the types
    scope: Scope = "connection"

    def __post_init__(self) -> None:
        """Set what follows from the types."""
        force_setattr(self, "request", self.result is not None)
        if "sessionId" in self.params.__struct_encode_fields__:
            force_setattr(self, "scope", "session")
            force_setattr(self, "ids", {"sessionId": "session", **self.ids})


A, C = Side.AGENT, Side.CLIENT
_NEW_SESSION = {"sessionId": "session"}
_TERMINAL = {"terminalId": "terminal"}
_WATCH = {"watchId": "watch"}
_NOT_IN_CHAIN = "a host is the end of a chain, not part of one; put proxies in front of the agent or of the client"
_MCP_IN_CLIENT = (
    "an MCP server inside a client ends with the client, but host sessions do not; configure it with a command or a url"
)
_unstable = partial(Method, stability="unstable", since="1.19")
_later = partial(Method, stability="unstable", since="after 1.21")
_seed = partial(Method, stability="seed")
_ours = partial(Method, stability="dragoman", since="0.1")
_v2 = partial(Method, stability="unstable", since="v2")

# fmt: off
_ROWS: list[Method] = [
    # ---- to the agent: the connection
    Method(A, "initialize", initialize.InitializeParams, initialize.InitializeResult, host="answers",
           before_initialize=True, once_per_process=True),
    Method(A, "authenticate", auth.AuthenticateParams, auth.AuthenticateResult, host="answers",
           once_per_process=True, has_credentials=True),
    Method(A, "logout", auth.LogoutParams, auth.LogoutResult, "agent.auth.logout", "answers"),
    _later(A, "auth/status", auth.AuthStatusParams, auth.AuthStatusResult, "agent.auth.status", "answers"),
    _unstable(A, "providers/list", providers.ListProvidersParams, providers.ListProvidersResult, "agent.providers",
              "answers"),
    _unstable(A, "providers/set", providers.SetProviderParams, providers.SetProviderResult, "agent.providers",
              "answers", has_credentials=True),
    _unstable(A, "providers/disable", providers.DisableProviderParams, providers.DisableProviderResult,
              "agent.providers", "answers"),

    # ---- to the agent: sessions
    Method(A, "session/new", session.NewSessionParams, session.NewSessionResult, "", "answers", "opens",
           result_ids=_NEW_SESSION, needs_login=True),
    Method(A, "session/load", session.LoadSessionParams, session.LoadSessionResult, "agent.loadSession", "answers",
           "reopens", needs_login=True, needs_idle=True),
    Method(A, "session/resume", session.ResumeSessionParams, session.ResumeSessionResult,
           "agent.sessionCapabilities.resume", "answers", "reopens", needs_login=True, needs_idle=True),
    _unstable(A, "session/fork", session.ForkSessionParams, session.ForkSessionResult,
              "agent.sessionCapabilities.fork", "answers", "forks", result_ids=_NEW_SESSION, needs_login=True,
              needs_idle=True),
    _ours(A, "session/attach", providers.AttachParams, providers.AttachResult, "agent._meta.dragoman.attach",
          "answers", "attaches", needs_login=True),
    _ours(A, "session/detach", providers.DetachParams, providers.DetachResult, "agent._meta.dragoman.attach",
          "answers", "detaches", needs_login=True),
    Method(A, "session/close", session.CloseSessionParams, session.CloseSessionResult,
           "agent.sessionCapabilities.close", "answers", "ends", needs_open_session=True),
    Method(A, "session/delete", session.DeleteSessionParams, session.DeleteSessionResult,
           "agent.sessionCapabilities.delete", "answers", "ends", needs_login=True),
    Method(A, "session/list", session.ListSessionsParams, session.ListSessionsResult, "agent.sessionCapabilities.list",
           "answers", result_ids={"sessions[].sessionId": "session"}, needs_login=True),
    _later(A, "session/archive", session.ArchiveSessionParams, session.ArchiveSessionResult,
           "agent.sessionCapabilities.archive", "answers", needs_login=True),
    _later(A, "session/unarchive", session.UnarchiveSessionParams, session.UnarchiveSessionResult,
           "agent.sessionCapabilities.archive", "answers", needs_login=True),
    _later(A, "session/status", session.SessionStatusParams, session.SessionStatusResult,
           "agent.sessionCapabilities.status", "answers", needs_login=True),
    _later(A, "session/set_title", session.SetTitleParams, session.SetTitleResult, "agent.sessionCapabilities.title",
           "answers", needs_login=True),
    Method(A, "session/set_mode", config.SetModeParams, config.SetModeResult, host="forwards", needs_login=True,
           needs_open_session=True),
    Method(A, "session/set_config_option", config.SetConfigOptionParams, config.SetConfigOptionResult,
           host="forwards", needs_login=True, needs_open_session=True),

    # ---- to the agent: the turn
    Method(A, "session/prompt", prompt.PromptParams, prompt.PromptResult, host="forwards", needs_login=True,
           needs_idle=True, needs_open_session=True),
    Method(A, "session/cancel", prompt.CancelParams, host="forwards", needs_open_session=True),
    _v2(A, "tool_call/cancel", tools.CancelToolCallParams, tools.CancelToolCallResult, host="forwards",
        needs_login=True, needs_open_session=True),
    _v2(A, "terminal/cancel", term.CancelTerminalParams, term.CancelTerminalResult, host="forwards",
        ids={"terminalId": "agent terminal"}, needs_login=True, needs_open_session=True),
    _seed(A, "permission_response", permission.PermissionResponseParams, since="crow", either=True,
          host_reason="in this dialect the answer to a permission request is the result of session/request_permission"),

    # ---- to the client: the turn
    Method(C, "session/update", news.UpdateParams, host="forwards", ids={
        "update.sessionId": "session",
        "update.senderSessionId": "session",
        "update.recipientSessionId": "session",
        "update.content[].terminalId": "terminal",
    }),
    Method(C, "session/request_permission", permission.RequestPermissionParams, permission.RequestPermissionResult,
           host="forwards", ids={"toolCall.content[].terminalId": "terminal"}),
    Method(C, "elicitation/create", elicitation.CreateElicitationParams, elicitation.CreateElicitationResult,
           "client.elicitation", "forwards", ids={"requestId": "request", "elicitationId": "elicitation"},
           since="1.21"),
    Method(C, "elicitation/complete", elicitation.CompleteElicitationParams, None, "client.elicitation.url",
           "forwards", "uses", ids={"elicitationId": "elicitation"}, since="1.21"),
    _later(C, "auth/status_update", auth.AuthStatusUpdateParams, None, "agent.auth.status", "forwards"),

    # ---- to the client: files
    Method(C, "fs/read_text_file", fs.ReadTextFileParams, fs.ReadTextFileResult, "client.fs.readTextFile", "forwards",
           content="reads"),
    Method(C, "fs/write_text_file", fs.WriteTextFileParams, fs.WriteTextFileResult, "client.fs.writeTextFile",
           "forwards", content="writes"),
    _ours(C, "fs/read_binary_file", fs.ReadBinaryFileParams, fs.ReadBinaryFileResult,
          "client._meta.dragoman.fs.binary", "forwards", content="reads"),
    _ours(C, "fs/write_binary_file", fs.WriteBinaryFileParams, fs.WriteBinaryFileResult,
          "client._meta.dragoman.fs.binary", "forwards", content="writes"),
    _ours(C, "fs/list_directory", fs.ListDirectoryParams, fs.ListDirectoryResult, "client._meta.dragoman.fs.list",
          "forwards"),
    _ours(C, "fs/create_directory", fs.CreateDirectoryParams, fs.CreateDirectoryResult,
          "client._meta.dragoman.fs.createDirectory", "forwards"),
    _ours(C, "fs/watch", fs.WatchParams, fs.WatchResult, "client._meta.dragoman.fs.watch", "forwards", "creates",
          result_ids=_WATCH, is_logged=False),
    _ours(C, "fs/unwatch", fs.UnwatchParams, fs.UnwatchResult, "client._meta.dragoman.fs.watch", "forwards",
          "releases", _WATCH, is_logged=False),
    _ours(A, "fs/changed", fs.ChangedParams, None, "client._meta.dragoman.fs.watch", "forwards", "", _WATCH),
    _ours(C, "fs/write_files", fs.WriteFilesParams, fs.WriteFilesResult, "client._meta.dragoman.fs.atomic",
          "forwards", content="writes"),

    # ---- terminals
    Method(C, "terminal/create", term.CreateTerminalParams, term.CreateTerminalResult, "client.terminal", "forwards",
           "creates", result_ids=_TERMINAL),
    Method(C, "terminal/output", term.TerminalOutputParams, term.TerminalOutputResult, "client.terminal", "forwards",
           "uses", _TERMINAL, is_logged=False),
    Method(C, "terminal/wait_for_exit", term.WaitForExitParams, term.WaitForExitResult, "client.terminal", "forwards",
           "waits", _TERMINAL),
    Method(C, "terminal/kill", term.KillTerminalParams, term.KillTerminalResult, "client.terminal", "forwards", "uses",
           _TERMINAL),
    Method(C, "terminal/release", term.ReleaseTerminalParams, term.ReleaseTerminalResult, "client.terminal",
           "forwards", "releases", _TERMINAL),
    _seed(A, "terminal/output", term.PushOutputParams, term.PushOutputResult, "client.terminal", ids=_TERMINAL,
          since="draft", host_reason="in this dialect output is requested, not pushed"),

    # ---- MCP over this protocol: three spellings (docs/protocol/extensions.md#mcp-over-acp) and the draft's plan
    _unstable(C, "mcp/connect", mcp.ConnectMcpParams, mcp.ConnectMcpResult, "agent.mcpCapabilities.acp",
              since="1.19, dropped after 1.21", host_reason=_MCP_IN_CLIENT),
    _unstable(C, "mcp/disconnect", mcp.DisconnectMcpParams, mcp.DisconnectMcpResult, "agent.mcpCapabilities.acp",
              since="1.19, dropped after 1.21", host_reason=_MCP_IN_CLIENT),
    *(_unstable(side, "mcp/message", mcp.MessageMcpParams, Any, "agent.mcpCapabilities.acp", either=True,
                host_reason=_MCP_IN_CLIENT) for side in Side),
    *(_seed(side, "_mcp/request", mcp.DraftMcpRequestParams, Any, since="draft", either=True,
            host_reason=_MCP_IN_CLIENT) for side in Side),

    # ---- the chain of proxies, and what concerns single requests
    *(_later(side, "proxy/successor", providers.SuccessorParams, Any, either=True, host_reason=_NOT_IN_CHAIN)
      for side in Side),
    *(Method(side, "$/cancel_request", prompt.CancelRequestParams, host="answers", ids={"requestId": "request"},
             before_initialize=True) for side in Side),
    _later(A, "proxy/initialize", initialize.InitializeParams, initialize.InitializeResult,
           host_reason=_NOT_IN_CHAIN),
]
# fmt: on
METHODS: dict[tuple[Side, str], Method] = {(row.side, row.name): row for row in _ROWS}


def find_method(side: Side, name: str) -> Method | None:
    """The row of a method as that side receives it."""
    return METHODS.get((side, name))


def methods_that(*effects: Effect) -> frozenset[str]:
    """The names of the methods with one of these effects."""
    return frozenset(row.name for row in METHODS.values() if row.effect in effects)


def mcp_methods(side: Side) -> list[str]:
    """Return the methods of MCP over ACP that a side receives."""
    return [name for receiver, name in METHODS if receiver is side and name.lstrip("_").startswith("mcp/")]
