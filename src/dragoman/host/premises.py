"""Where sessions may be opened, and with which MCP servers: what a visitor's words from the wire may start and read.

The owner on this machine may name any folder unless roots were given; everybody else only what lies under the roots
that they were given, links resolved. A server that a remote user brings must be one that the house names itself, with
the same command, or be allowed by policy. Takes words, gives resolved folders and servers, or refuses.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import msgspec

from dragoman.errors import Kind, ProtocolError
from dragoman.schema.mcp import McpServer

if TYPE_CHECKING:
    from dragoman.transport.remote.visitor import Visitor


def own_roots(visitor: Visitor) -> Sequence[str] | None:
    """The owner on this machine may open sessions anywhere; everybody else nowhere, until somebody says where."""
    return None if visitor.local else ()


def admitted(path: str, roots: Sequence[str] | None, member: str) -> str:
    """The folder as it really is; refused where it is outside the roots. None for roots: any folder is good."""
    if not path.startswith("/") or "\0" in path:
        raise _fault(Kind.INVALID_PARAMS, f"{member} must be an absolute path, not {path!r}", member)
    if roots is None:
        return path
    real = os.path.realpath(path)
    for root in roots:
        base = os.path.realpath(root)
        if real == base or real.startswith(base.rstrip("/") + "/"):
            return real
    known = ", ".join(roots) or "none were given; the host is started with --root DIR"
    raise _fault(Kind.PERMISSION_DENIED, f"{member} {path} is not under the folders you may use ({known})", member)


def found(path: str, member: str) -> str:
    """The folder, which must be there: an agent cannot be started in one that is not."""
    if not os.path.isdir(path):
        raise _fault(Kind.INVALID_PARAMS, f"{member} {path} is not a folder on the host", member)
    return path


def known(server: McpServer, configured: Mapping[str, McpServer]) -> McpServer | None:
    """The server of that name as the house has it; None where the house has none, or another command for it."""
    ours = configured.get(server.name)
    if ours is None or _started(ours) != _started(server):
        return None
    return msgspec.structs.replace(ours)


def _started(server: McpServer) -> tuple[object, ...]:
    return (server.command or None, tuple(server.args or ()), server.url or None)


def _fault(kind: str, message: str, member: str) -> ProtocolError:
    return ProtocolError(kind, message, {"errors": [{"path": member, "message": message}]})
