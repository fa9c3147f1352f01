"""Where sessions may be opened, and with which MCP servers: what a visitor's words from the wire may start and read.

The owner on this machine may name any folder unless roots were given; everybody else only what lies under the roots
that they were given, links resolved. A folder that was admitted is checked again before each start of an agent: it must
still be the same one. A server that a remote user brings must be one that the house names itself, with the same
command, or be allowed by policy. Takes words, gives resolved folders and servers, or refuses.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import msgspec

from dragoman.errors import Kind, ProtocolError
from dragoman.schema.mcp import McpServer
from dragoman.transport.sandbox.spec import holds

if TYPE_CHECKING:
    from dragoman.store.session_state import Standing
    from dragoman.transport.remote.server.auth import Visitor


def own_roots(visitor: Visitor) -> Sequence[str] | None:
    """The owner on this machine may open sessions anywhere; everybody else nowhere, until somebody says where."""
    return None if visitor.local else ()


def admitted(path: str, roots: Sequence[str] | None, member: str) -> str:
    """The folder as it really is; refused where it is outside the roots. None for roots: any folder is good."""
    real = real_path(path, member)
    if roots is None:
        return os.path.abspath(path)
    if is_under(real, roots):
        return real
    known = ", ".join(roots) or "none were given; the host is started with --root DIR"
    raise _fault(Kind.PERMISSION_DENIED, f"{member} {path} is not under the folders you may use ({known})", member)


def real_path(path: str, member: str) -> str:
    """Where an absolute path leads, links followed."""
    if not path.startswith("/") or "\0" in path:
        raise _fault(Kind.INVALID_PARAMS, f"{member} must be an absolute path, not {path!r}", member)
    try:
        return os.path.realpath(path)
    except ValueError:
        raise _fault(Kind.INVALID_PARAMS, f"{member} {path!r} cannot be the name of a folder", member) from None


def is_under(real: str, roots: Sequence[str] | None) -> bool:
    """Whether a resolved folder lies under one of the roots. None for roots: any folder does."""
    return roots is None or any(holds(os.path.realpath(root), real) for root in roots)


def check_same(path: str, real: str) -> None:
    """Refuse a folder of a session that is not the one that was admitted: somebody put a link in its way since."""
    if real_path(path, "the folder of the session") != real:
        message = (
            f"{path} leads to another folder than when the session was opened: it is a link now, or lies behind one; "
            "put the folder back, or open a new session in the folder that you mean"
        )
        raise ProtocolError(Kind.PERMISSION_DENIED, message, {"path": path})


def check_copy(standing: Standing, roots: Sequence[str] | None) -> None:
    """Refuse a copy of a session for somebody who could not open a session in its folders."""
    for path in filter(None, (standing.cwd, *standing.directories)):
        if not is_under(standing.resolved.get(path, path), roots):
            known = ", ".join(roots or ()) or "none were given; the host is started with --root DIR"
            message = (
                f"a fork of this session would work in {path}, which is not under the folders you may use ({known}); "
                "open a new session under one of them"
            )
            raise _fault(Kind.PERMISSION_DENIED, message, "sessionId")


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
