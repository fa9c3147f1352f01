"""MCP servers in session setup (docs/protocol/sessions.md#mcp-servers), and MCP carried over this protocol
(docs/protocol/extensions.md#mcp-over-acp). A server is one Struct with a `form`.
"""

from __future__ import annotations

from typing import Any

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


class McpServer(Model, kw_only=True):
    """An MCP server that the agent shall connect to."""

    name: str
    type: Maybe[str] = UNSET
    command: Maybe[str] = UNSET
    args: Maybe[list[str]] = UNSET
    env: Maybe[list[NameValue]] = UNSET
    url: Maybe[str] = UNSET
    headers: Maybe[list[NameValue]] = UNSET
    server_id: Maybe[str] = UNSET

    @property
    def form(self) -> str:
        """Which form this is: its `type`, or "stdio" when it has none."""
        return self.type or McpForm.STDIO

    @property
    def missing_member(self) -> str:
        """The member without which a server of this form cannot be reached; "" if it has all."""
        if self.form in (McpForm.HTTP, McpForm.SSE):
            return "" if self.url else "url"
        if self.form in (McpForm.STDIO, ""):
            return "" if self.command else "command"
        return "" if self.form == McpForm.ACP or self.command or self.url else "type"


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
