"""What an agent wants leave for, as policy sees it: one operation on one resource, and everything a rule can look at.

Made by the roles from tool calls and from uses of what is lent; read by rules, modes and grants. A plain value: paths
come resolved, nothing is looked up here.
"""

from __future__ import annotations

import os

import msgspec


class Operation:
    """What is done: the six operations of seed 004 section 5.2.1, and what else needs leave."""

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
    """May this agent do this to that?"""

    operation: str
    resource: str = ""  # the resolved path, the command line, the URL; "" when the agent does not say
    requested_path: str = ""  # the path as the agent spelled it, made absolute, where that is not the resolved one
    agent: str = ""
    kind: str = ""  # of the tool call
    tool: str = ""  # the name of the tool
    server: str = ""  # the MCP server that the tool or the start is of, by the name that the client gives it
    url: str = ""  # the address of a server that is to be reached
    title: str = ""  # the agent's own words; shown, never matched by rules
    cwd: str = ""  # the folder that a command starts in, resolved; "" when the agent does not say
    env: tuple[str, ...] = ()  # names of variables set for a command or server that can change what it does
    session: str = ""
    roots: tuple[str, ...] = ()  # the folders of the session, resolved; the first is the workspace
    mode: str = "default"  # the policy mode, which only the user sets
    agent_mode: str = ""  # the agent's own mode; can make things stricter, never looser

    @property
    def workspace(self) -> str:
        """The folder that the session is about."""
        return self.roots[0] if self.roots else ""

    @property
    def folder(self) -> str:
        """Where a command starts: in the session's folder, where the agent does not say."""
        return self.cwd or self.workspace

    def is_inside(self, extra_roots: tuple[str, ...] = ()) -> bool:
        """Whether a path lies in one of the session's folders or of these, by its resolved and by its given name."""
        folders = (*self.roots, *extra_roots)
        return bool(self.resource) and all(
            is_under(path, folders) for path in (self.resource, self.requested_path) if path
        )


def names_below(path: str, roots: tuple[str, ...]) -> list[str]:
    """The names of a path from the folder on that it lies in, the innermost of these; all of them if it lies in none.

    Folders above a session's own are none of its business, whatever they are called.
    """
    inside = [root for root in roots if is_under(path, (root,))]
    above = os.path.dirname(max(inside, key=len)) if inside else ""
    return path[len(above) :].split("/")


def is_under(path: str, roots: tuple[str, ...]) -> bool:
    """Whether a path is one of these folders or in one."""
    return any(path == root or path.startswith(root.rstrip("/") + "/") for root in roots)
