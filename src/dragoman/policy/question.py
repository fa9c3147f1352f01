"""A permission question: one operation on one resource, with everything that a rule can match.

Roles build it from tool calls and workspace requests; rules, modes and grants read it. Paths are already resolved.
"""

from __future__ import annotations

import os

import msgspec


class Operation:
    """The six operations of docs/protocol/draft.md#request-permission, and others that need permission."""

    FILE_READ = "file_read"
    FILE_WRITE = "file_write"
    FILE_DELETE = "file_delete"
    TERMINAL_EXECUTE = "terminal_execute"
    NETWORK_ACCESS = "network_access"
    MCP_TOOL = "mcp_tool"
    MCP_START = "mcp_start"
    SWITCH_MODE = "switch_mode"
    OTHER = "other"


OPERATIONS: tuple[str, ...] = tuple(value for name, value in vars(Operation).items() if name.isupper())

# Operations whose resource is a path.
FILE_OPERATIONS = frozenset({Operation.FILE_READ, Operation.FILE_WRITE, Operation.FILE_DELETE})
WRITE_OPERATIONS = frozenset({Operation.FILE_WRITE, Operation.FILE_DELETE})


class Question(msgspec.Struct, frozen=True, kw_only=True):
    """May this agent perform this operation on this resource?"""

    operation: str
    resource: str = ""  # the resolved path, the command line or the URL; "" if the agent does not say
    requested_path: str = ""  # the absolute path as the agent gave it, if it is not the resolved one
    requested_line: str = ""  # the command line as the agent gave it, if it is not the resource; never shown
    agent: str = ""
    kind: str = ""  # the kind of the tool call
    tool: str = ""  # the name of the tool
    server: str = ""  # the MCP server of the tool or the start, by the name that the client gives it
    url: str = ""  # the URL of a server to connect to
    title: str = ""  # the agent's own text; shown, never matched by rules
    cwd: str = ""  # the folder that a command starts in, resolved; "" if the agent does not say
    env: tuple[str, ...] = ()  # names of variables that can change what a command or server does
    session: str = ""
    roots: tuple[str, ...] = ()  # the session's folders, resolved; the first is the workspace
    mode: str = "default"  # the policy mode, which only the user sets
    agent_mode: str = ""  # the agent's own mode; can make things stricter, never looser

    @property
    def workspace(self) -> str:
        """The session's main folder."""
        return self.roots[0] if self.roots else ""

    @property
    def folder(self) -> str:
        """The folder that a command starts in; the workspace if the agent does not say."""
        return self.cwd or self.workspace

    def is_inside(self, extra_roots: tuple[str, ...] = ()) -> bool:
        """Return whether both the resolved and the requested path are in the session's folders or in `extra_roots`."""
        folders = (*self.roots, *extra_roots)
        return bool(self.resource) and all(
            is_under(path, folders) for path in (self.resource, self.requested_path) if path
        )


def names_below(path: str, roots: tuple[str, ...]) -> list[str]:
    """Return the names of a path from its innermost root on; all names if it is in no root.

    Folders above a session's own are ignored, whatever their names.
    """
    inside = [root for root in roots if is_under(path, (root,))]
    above = os.path.dirname(max(inside, key=len)) if inside else ""
    return path[len(above) :].split("/")


def is_under(path: str, roots: tuple[str, ...]) -> bool:
    """Return whether a path is one of these folders or inside one."""
    for root in roots:  # noqa: SIM110  (any() with a generator takes twice as long, and every decision asks this)
        if path == root or path.startswith(root.rstrip("/") + "/"):
            return True
    return False
