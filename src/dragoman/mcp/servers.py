"""From the entry of an MCP server in a session to its channel and its settings."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from dragoman.dialect.side_data import side_data_of
from dragoman.mcp.channel import Channel, HttpChannel, ProcessChannel
from dragoman.mcp.limits import CALL_TIMEOUT
from dragoman.mcp.sdk import ServerFailed
from dragoman.schema.mcp import McpForm, McpServer


def server_timeout(server: McpServer) -> float:
    """Return the timeout of one call: that of the entry, which only the draft has (in milliseconds), or the default."""
    timeout = side_data_of(server).get("timeout")
    if not isinstance(timeout, int | float) or isinstance(timeout, bool) or timeout <= 0:
        return CALL_TIMEOUT
    return timeout / 1000


def direct_channel(server: McpServer, cwd: str, report: Callable[[str], None]) -> Channel:
    """Return the channel to a server that is a command or has an address; raise ServerFailed for others."""
    if server.missing_member:
        raise ServerFailed(server.name, f"its entry has no {server.missing_member}")
    if server.form == McpForm.STDIO:
        folder = side_data_of(server).get("cwd")
        return ProcessChannel(
            server.name,
            [str(server.command), *(server.args or ())],
            _pairs(server.env),
            folder if isinstance(folder, str) and folder else cwd,
            report,
        )
    if server.form in (McpForm.HTTP, McpForm.SSE):
        url = str(server.url)
        if not url.startswith(("http://", "https://")):
            raise ServerFailed(server.name, "its url must begin with http:// or https://")
        return HttpChannel(server.name, url, _pairs(server.headers), is_sse=server.form == McpForm.SSE)
    raise ServerFailed(server.name, f"servers of the type {server.form!r} cannot be reached from here")


def _pairs(given: Any) -> dict[str, str]:
    return {pair.name: pair.value for pair in given or ()}
