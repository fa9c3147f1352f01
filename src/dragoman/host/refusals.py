"""What becomes of every method at a host: it is answered here, passed on, or refused for a reason. Pure tables.

A row for each row of THE table, in both directions; a test holds them against each other, and another tries them all.
Answered are those about sessions and logins, which are the host's own; passed on with their ids mapped those that only
the agent of a session, or a client in it, can make sense of. Above are desks and rooms.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from dragoman.errors import Kind, ProtocolError
from dragoman.schema.side import Side

if TYPE_CHECKING:
    from dragoman.engine.incoming import Incoming

A, C = Side.AGENT, Side.CLIENT

_MCP_IN_CLIENT = "an MCP server inside a client ends with it, and sessions of a host do not; give it a command or a url"
_NOT_IN_CHAIN = "a host is the end of a chain, not a part of one; put proxies before the agent, or before the client"

# Methods that a host answers, and those that it passes on to the agent of a session.
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

# What agents ask of a host: answered by its own files and terminals, or by those of a client that is there.
ANSWERED_TO_AGENTS = frozenset({"$/cancel_request"})
PASSED_TO_CLIENTS = frozenset(
    {"session/update", "session/request_permission", "elicitation/create", "elicitation/complete"}
    | {"auth/status_update", "fs/read_text_file", "fs/write_text_file", "fs/read_binary_file", "fs/write_binary_file"}
    | {"fs/list_directory", "fs/create_directory", "fs/watch", "fs/unwatch", "fs/write_files"}
    | {"terminal/create", "terminal/output", "terminal/wait_for_exit", "terminal/kill", "terminal/release"}
)

REFUSED: dict[tuple[Side, str], str] = {
    (A, "permission_response"): "a question is answered by the result of session/request_permission in this dialect",
    (A, "terminal/output"): "output is asked for in this dialect, and not pushed",
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
    """Whether a method is somebody's own, between the agent and its clients: not ours, and not refused."""
    return method.startswith("_") and not method.startswith(_OUR_PREFIX) and (A, method) not in REFUSED


def refusal(to: Side, incoming: Incoming, default_reason: str = "") -> ProtocolError:
    """The answer to a request that a host does not serve: by name, and why."""
    why = REFUSED.get((to, incoming.method), default_reason)
    kind = Kind.METHOD_NOT_FOUND if incoming.row is None else Kind.CAPABILITY_UNSUPPORTED
    what = f"the host does not serve {incoming.method}" + (f": {why}" if why else "")
    return ProtocolError(kind, what, {"method": incoming.method})
