"""MCP servers in session setup (docs/protocol/sessions.md#mcp-servers), and MCP carried over this protocol
(docs/protocol/extensions.md#mcp-over-acp). A server is one Struct with a `form`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from msgspec import field

from dragoman.schema.base import UNSET, Maybe, Model


class NameValue(Model, kw_only=True):
    """A name with a value: an environment variable or an HTTP header."""

    name: str
    value: str


class McpForm:
    """The forms of a server entry."""

    STDIO = "stdio"
    HTTP = "http"
    SSE = "sse"
    ACP = "acp"


# What a server of a form has besides its name (docs/protocol/sessions.md#mcp-servers). The id of a server inside a
# client has several spellings.
_REQUIRED_MEMBERS: Mapping[str, tuple[str, ...]] = {
    McpForm.STDIO: ("command", "args", "env"),
    McpForm.HTTP: ("url", "headers"),
    McpForm.SSE: ("url", "headers"),
    McpForm.ACP: (),
}
_SCALARS = frozenset({"command", "url"})


class McpServer(Model, kw_only=True):
    """An MCP server that the agent shall connect to.

    It is strict: without one of its variables or headers it would be another server.
    """

    is_strict = True

    name: str
    type: Maybe[str] = UNSET
    command: Maybe[str] = UNSET
    args: Maybe[list[str]] = UNSET
    env: Maybe[list[NameValue]] = UNSET
    url: Maybe[str] = UNSET
    headers: Maybe[list[NameValue]] = UNSET
    server_id: Maybe[str] = UNSET
    acp_id: Maybe[str] = field(name="id", default=UNSET)  # the oldest spelling of server_id

    @property
    def form(self) -> str:
        """Which form this is: its `type`, or "stdio" when it has none."""
        return self.type or McpForm.STDIO

    @property
    def missing_member(self) -> str:
        """The first member that a server of this form lacks, "type" for an unknown form; "" if it has all."""
        required = _REQUIRED_MEMBERS.get(self.form)
        if required is None:
            return "" if self.command or self.url else "type"
        return next((name for name in required if self._lacks(name)), "")

    def _lacks(self, name: str) -> bool:
        value = getattr(self, name)
        # Clients written in Go send null for an empty list.
        return value is UNSET or (name in _SCALARS and not value)

    @property
    def absent_lists(self) -> list[str]:
        """The lists that a server of this form requires, and that this one lacks."""
        return [name for name in _REQUIRED_MEMBERS.get(self.form, ()) if name not in _SCALARS and self._lacks(name)]


class ConnectMcpParams(Model, kw_only=True):
    """mcp/connect of older schemas: open a connection to a server that the client offers."""

    server_id: Maybe[str] = UNSET
    acp_id: Maybe[str] = UNSET


class ConnectMcpResult(Model, kw_only=True):
    """The connection that was opened."""

    connection_id: str


class DisconnectMcpParams(Model, kw_only=True):
    """mcp/disconnect of older schemas."""

    connection_id: str


class DisconnectMcpResult(Model, kw_only=True):
    """The connection is closed."""


class MessageMcpParams(Model, kw_only=True):
    """mcp/message: one MCP call, by connection (older schemas) or by server and MCP request (today)."""

    method: str
    params: Maybe[dict[str, Any]] = UNSET
    server_id: Maybe[str] = UNSET
    request_id: Maybe[str] = UNSET
    connection_id: Maybe[str] = UNSET

    @property
    def form(self) -> str:
        """Which spelling this is: "connection" or "server"."""
        return "connection" if isinstance(self.connection_id, str) else "server"


class McpError(Model, kw_only=True):
    """An error of the MCP server, carried inside a result."""

    code: int
    message: str
    data: Maybe[Any] = UNSET


class MessageMcpResult(Model, kw_only=True):
    """Today's answer to mcp/message: `result` or `error`. The older answer is the bare MCP result."""

    result: Maybe[Any] = UNSET
    error: Maybe[McpError] = UNSET


class DraftMcpRequestParams(Model, kw_only=True):
    """_mcp/request, planned by the draft (docs/protocol/draft.md#planned-features)."""

    server_name: str
    mcp_method: str
    mcp_params: Maybe[Any] = UNSET
