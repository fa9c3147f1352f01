"""Detect a peer's dialect from its first message (docs/protocol/dialect-matrix.md#detection).

A client is detected by its first message, an agent by its initialize result; None if undecided. Pure. Banjo clients
look like v1 clients, and v1 reads banjo's additions.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any, NamedTuple

from dragoman.dialect.dialects import dialect_of_version, load_dialect
from dragoman.errors import Kind, ProtocolError
from dragoman.schema.side import Side

# The order in which an unknown agent is tried. Banjo agents understand v1.
TRY_ORDER = ("v1", "draft", "crow", "2025.1")

# Offered to an agent that refuses the version of the first try, or that understands nothing else. It need not be
# tried before: an agent that has it answers the first try as well, unless it has nothing else.
NEXT_VERSION = "v2"


class Sign(NamedTuple):
    """The members that show a dialect: present ones, absent ones, and those that are strings."""

    dialect: str
    has: tuple[str, ...] = ()
    lacks: tuple[str, ...] = ()
    strings: tuple[str, ...] = ()
    least_version: int = 0
    no_version: bool = False  # the version is 0 or no number

    def fits(self, values: dict[str, Any]) -> bool:
        """Return whether an object shows this dialect."""
        return (
            all(name in values for name in self.has)
            and not any(name in values for name in self.lacks)
            and all(isinstance(values.get(name), str) for name in self.strings)
            and (not self.least_version or _version(values) >= self.least_version)
            and (not self.no_version or _version(values) == 0)
        )


def _version(values: dict[str, Any]) -> int:
    version = values.get("protocolVersion")
    return version if isinstance(version, int) else 0


# The params of a client's first message, by method. The first sign that fits decides.
CLIENT_SIGNS: dict[str, list[Sign]] = {
    "initialize": [
        # The draft and v2 have the same capabilities; only v2 has `info`. Version 1 with `info` is v1.
        Sign("v2", has=("protocolVersion", "info"), least_version=2),
        Sign("v2", has=("protocolVersion", "info"), no_version=True),
        # Without any name of the client it is a v2 client that forgot its own, and is told so.
        Sign("v2", has=("capabilities",), lacks=("clientCapabilities", "clientInfo"), least_version=2),
        Sign("draft", has=("protocolVersion", "capabilities"), lacks=("clientCapabilities", "info")),
        Sign("v1", has=("protocolVersion",)),
        Sign("2025.1", strings=("protocol_version",)),
        Sign("2025.1", has=("working_directory",)),
        Sign("2025.1", has=("mcp_servers",)),
        Sign("crow", has=("protocol_version",)),
        Sign("crow", has=("client_capabilities",)),
        Sign("2025.1", has=("capabilities", "client_info")),
        Sign("v1"),
    ],
    "session/new": [
        Sign("draft", has=("workingDirectory",)),
        Sign("2025.1", has=("session_id",)),
        Sign("v1", has=("cwd",)),
    ],
    "session/prompt": [
        Sign("2025.1", has=("session_id", "content")),
        Sign("crow", has=("session_id", "prompt")),
        Sign("draft", has=("sessionId", "content")),
        Sign("v1", has=("sessionId", "prompt")),
    ],
    "session/load": [
        Sign("crow", has=("session_id", "cwd")),
        Sign("2025.1", has=("session_id",)),
        Sign("v1", has=("sessionId", "cwd")),
        Sign("draft", has=("sessionId",)),
    ],
    "authenticate": [
        Sign("2025.1", has=("token",)),
        Sign("draft", has=("credentials",)),
        Sign("v1", has=("methodId",)),
    ],
    "cancel": [Sign("crow", has=("session_id",))],
    "session/cancel": [Sign("2025.1", has=("session_id",))],
}

# The result of an agent's initialize.
AGENT_SIGNS = [
    Sign("crow", has=("agent_capabilities",)),
    Sign("2025.1", has=("agent_info", "capabilities")),
    Sign("2025.1", has=("agent_info",), lacks=("protocol_version",)),
    Sign("crow", has=("agent_info",)),
    Sign("v1", has=("agentCapabilities",)),
    Sign("v2", has=("info",)),
    Sign("draft", has=("agentInfo", "capabilities")),
    Sign("crow", has=("protocol_version",)),
]


def dialect_of_client(method: str, params: Any) -> str | None:
    """Return the dialect of a client from its first message; None if undecided."""
    return _first_fit(CLIENT_SIGNS.get(method, []), params if isinstance(params, dict) else {})


def served_dialect(name: str, versions: Sequence[int]) -> str:
    """Return the dialect in which a client is answered that shows this one: the highest version that both have.

    Raise unsupported_version if there is none.
    """
    asked = load_dialect(name).version
    if asked is None or asked in versions:
        return name
    lower = [version for version in versions if version < asked]
    if not lower:
        raise ProtocolError(
            Kind.UNSUPPORTED_VERSION,
            f"version {asked} is not supported; use {' or '.join(map(str, versions))}",
            {"requested": asked, "supported": list(versions)},
        )
    return dialect_of_version(max(lower))


# What an agent misses in an initialize of v1 if it speaks only v2: the name of the client under its v2 name.
_MISSING_INFO = re.compile(r"\binfo\b")


def asks_for_next_version(error: ProtocolError) -> bool:
    """Return whether a refused initialize shows an agent of the next version: it says so, or misses `info`."""
    if error.kind == Kind.UNSUPPORTED_VERSION:
        return True
    said = f"{error.message} {error.data}" if error.kind in (Kind.INVALID_PARAMS, Kind.INVALID_REQUEST) else ""
    return _MISSING_INFO.search(said) is not None


def dialect_of_agent(result: Any) -> str | None:
    """Return the dialect of an agent from its initialize result; None if it is not an object."""
    return (_first_fit(AGENT_SIGNS, result) or "v1") if isinstance(result, dict) else None


def certain_dialect_of_agent(result: Any) -> str | None:
    """Return the dialect of an agent; None also for an answer with only a version, which fits several dialects."""
    return _first_fit(AGENT_SIGNS, result) if isinstance(result, dict) else None


def _first_fit(signs: list[Sign], values: dict[str, Any]) -> str | None:
    return next((sign.dialect for sign in signs if sign.fits(values)), None)


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
