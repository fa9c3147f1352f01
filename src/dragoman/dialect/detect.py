"""Detect a peer's dialect from its first message (docs/protocol/dialect-matrix.md#detection).

A client is detected by its first message, an agent by its initialize result; None if undecided. Pure. Banjo clients
look like v1 clients, and v1 reads banjo's additions.
"""

from __future__ import annotations

from typing import Any

from dragoman.dialect.dialects import load_dialect
from dragoman.schema.side import Side

# The order in which an unknown agent is tried. Banjo agents understand v1.
TRY_ORDER = ("v1", "draft", "crow", "2025.1")

# Other messages than initialize show the dialect by their member names, tested in this order.
_SIGNS: tuple[tuple[str, tuple[str, ...], str], ...] = (
    ("session/new", ("workingDirectory",), "draft"),
    ("session/new", ("session_id",), "2025.1"),
    ("session/new", ("cwd",), "v1"),
    ("session/prompt", ("session_id", "content"), "2025.1"),
    ("session/prompt", ("session_id", "prompt"), "crow"),
    ("session/prompt", ("sessionId", "content"), "draft"),
    ("session/prompt", ("sessionId", "prompt"), "v1"),
    ("session/load", ("session_id", "cwd"), "crow"),
    ("session/load", ("session_id",), "2025.1"),
    ("session/load", ("sessionId", "cwd"), "v1"),
    ("session/load", ("sessionId",), "draft"),
    ("authenticate", ("token",), "2025.1"),
    ("authenticate", ("credentials",), "draft"),
    ("authenticate", ("methodId",), "v1"),
    ("cancel", ("session_id",), "crow"),
    ("session/cancel", ("session_id",), "2025.1"),
)


def dialect_of_client(method: str, params: Any) -> str | None:
    """Return the dialect of a client from its first message; None if undecided."""
    params = params if isinstance(params, dict) else {}
    if method == "initialize":
        return _dialect_of_initialize(params)
    for name, members, found in _SIGNS:
        if name == method and all(member in params for member in members):
            return found
    return None


def _dialect_of_initialize(params: dict[str, Any]) -> str:
    if "protocolVersion" in params:
        both = "capabilities" in params and "clientCapabilities" not in params
        return "draft" if both and "info" not in params else "v1"
    version = params.get("protocol_version")
    if isinstance(version, str) or "working_directory" in params or "mcp_servers" in params:
        return "2025.1"
    if version is not None or "client_capabilities" in params:
        return "crow"
    return "2025.1" if "capabilities" in params and "client_info" in params else "v1"


def dialect_of_agent(result: Any) -> str | None:
    """Return the dialect of an agent from its initialize result; None if it is not an object."""
    if not isinstance(result, dict):
        return None
    if "agent_capabilities" in result:
        return "crow"
    if "agent_info" in result:
        return "2025.1" if "capabilities" in result or "protocol_version" not in result else "crow"
    if "agentCapabilities" in result:
        return "v1"
    if "agentInfo" in result and "capabilities" in result:
        return "draft"
    return "crow" if "protocol_version" in result else "v1"


def certain_dialect_of_agent(result: Any) -> str | None:
    """Return the dialect of an agent; None also for an answer with only a version, which fits several dialects."""
    found = dialect_of_agent(result)
    return found if found != "v1" or "agentCapabilities" in result else None


def polyglot_params(official: dict[str, Any], cwd: str) -> dict[str, Any]:
    """Return initialize params in all dialects at once; only `protocol_version` has one value
    (docs/protocol/dialect-matrix.md#polyglot).
    """
    merged: dict[str, Any] = {}
    for name in reversed(TRY_ORDER):
        params = load_dialect(name).lower_call(Side.AGENT, "initialize", official)[1]
        capabilities = {**merged.get("capabilities", {}), **params.get("capabilities", {})}
        merged = {**merged, **params}
        if capabilities:
            merged["capabilities"] = capabilities
    terminal = merged["capabilities"].get("terminal")
    if not (isinstance(terminal, dict) and terminal.get("create")):
        # An object in the draft, a boolean in 2025.1, which would read any object as true.
        merged["capabilities"].pop("terminal", None)
    return {**merged, "protocol_version": "2025.1", "working_directory": cwd, "mcp_servers": []}
