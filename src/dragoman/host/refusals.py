"""What the host does with each method: answer it, forward it, or refuse it with a reason. Pure tables.

Every row of schema/methods.py is here, for both directions; tests compare the two and try every method.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from dragoman.errors import Kind, ProtocolError
from dragoman.schema.side import Side

if TYPE_CHECKING:
    from dragoman.engine.incoming import Incoming

A, C = Side.AGENT, Side.CLIENT

_MCP_IN_CLIENT = (
    "an MCP server inside a client ends with the client, but host sessions do not; configure it with a command or a url"
)
_NOT_IN_CHAIN = "a host is the end of a chain, not part of one; put proxies in front of the agent or of the client"

# Methods that the host answers, and those that it forwards to the agent of the session.
ANSWERED_TO_CLIENTS = frozenset(
    {"initialize", "authenticate", "logout", "auth/status"}
    | {"providers/list", "providers/set", "providers/disable"}
    | {"session/new", "session/load", "session/resume", "session/fork", "session/attach", "session/detach"}
    | {"session/list", "session/close", "session/delete", "session/archive", "session/unarchive"}
    | {"session/status", "session/set_title", "$/cancel_request"}
)
PASSED_TO_AGENTS = frozenset(
    {"session/prompt", "session/cancel", "session/set_mode", "session/set_config_option", "fs/changed"}
)

# What agents request: answered with the files and terminals of the host, or of a client in the session.
ANSWERED_TO_AGENTS = frozenset({"$/cancel_request"})
PASSED_TO_CLIENTS = frozenset(
    {"session/update", "session/request_permission", "elicitation/create", "elicitation/complete"}
    | {"auth/status_update", "fs/read_text_file", "fs/write_text_file", "fs/read_binary_file", "fs/write_binary_file"}
    | {"fs/list_directory", "fs/create_directory", "fs/watch", "fs/unwatch", "fs/write_files"}
    | {"terminal/create", "terminal/output", "terminal/wait_for_exit", "terminal/kill", "terminal/release"}
)

REFUSED: dict[tuple[Side, str], str] = {
    (
        A,
        "permission_response",
    ): "in this dialect the answer to a permission request is the result of session/request_permission",
    (A, "terminal/output"): "in this dialect output is requested, not pushed",
    (A, "proxy/initialize"): _NOT_IN_CHAIN,
    (A, "proxy/successor"): _NOT_IN_CHAIN,
    (C, "proxy/successor"): _NOT_IN_CHAIN,
    (A, "mcp/message"): _MCP_IN_CLIENT,
    (C, "mcp/message"): _MCP_IN_CLIENT,
    (C, "mcp/connect"): _MCP_IN_CLIENT,
    (C, "mcp/disconnect"): _MCP_IN_CLIENT,
    (A, "_mcp/request"): _MCP_IN_CLIENT,
    (C, "_mcp/request"): _MCP_IN_CLIENT,
}

_OUR_PREFIX = "_dragoman/"


def is_extension(method: str) -> bool:
    """Tell whether a method is an extension between the agent and its clients: neither ours nor refused."""
    return method.startswith("_") and not method.startswith(_OUR_PREFIX) and (A, method) not in REFUSED


def refusal(to: Side, incoming: Incoming, default_reason: str = "") -> ProtocolError:
    """Return the error for a request that the host does not serve, with the reason."""
    reason = REFUSED.get((to, incoming.method), default_reason)
    kind = Kind.METHOD_NOT_FOUND if incoming.row is None else Kind.CAPABILITY_UNSUPPORTED
    what = f"the host does not serve {incoming.method}" + (f": {reason}" if reason else "")
    return ProtocolError(kind, what, {"method": incoming.method})
