"""Names of MCP tools for a model: mcp__SERVER__TOOL, of letters, digits, _ and -, at most 64 characters.

Policy reads the server and the tool out of such a name, so the server's part never contains a double underscore.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from hashlib import sha256

from dragoman.mcp.limits import MAX_NAME

_FORBIDDEN = re.compile(r"[^A-Za-z0-9_-]")
_UNDERSCORES = re.compile(r"_{2,}")

# What follows a name that was cut, so that two long names stay different.
_DIGEST_LENGTH = 6

# Leaves as much again for the name of the tool.
_MAX_KEY = 28


def server_key(name: str) -> str:
    """Return the part of a tool's name that stands for its server."""
    return _UNDERSCORES.sub("_", _FORBIDDEN.sub("_", name)).strip("_")[:_MAX_KEY] or "server"


def server_keys(names: Iterable[str]) -> dict[str, str]:
    """Return a different key for each server name."""
    keys: dict[str, str] = {}
    used: set[str] = set()
    for name in names:
        key = base = server_key(name)
        number = 1
        while key in used:
            number += 1
            key = f"{base}-{number}"
        used.add(key)
        keys[name] = key
    return keys


def tool_name(key: str, tool: str) -> str:
    """Return the name of a tool for a model; long names are cut and keep a digest."""
    name = f"mcp__{key}__{_FORBIDDEN.sub('_', tool)}"
    if len(name) <= MAX_NAME:
        return name
    digest = sha256(f"{key}/{tool}".encode()).hexdigest()[:_DIGEST_LENGTH]
    return f"{name[: MAX_NAME - _DIGEST_LENGTH - 1]}_{digest}"
