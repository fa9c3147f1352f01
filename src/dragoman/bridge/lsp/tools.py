"""The tools of a session's language servers for a model: a table of names, descriptions, schemas and functions.

Whoever offers them (an MCP server, an agent) calls `LanguageTools.call`; the answer is text. Reading is approved by
file, a rename is written through the policy as one change.
"""

from __future__ import annotations

import os
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from dragoman.bridge.lsp.diagnostics import format_report, shown_path
from dragoman.bridge.lsp.language_servers import LanguageServers
from dragoman.bridge.lsp.navigation import Navigation, Place, RenamePlan, TextChange
from dragoman.errors import Kind, ProtocolError
from dragoman.mcp.tool_table import ToolRow, check_arguments, find_row

# Approves reading a file; raises permission_denied.
ApproveRead = Callable[[str], Awaitable[None]]

# Writes all changes or none, through the policy; raises if a file changed meanwhile.
WriteChanges = Callable[[Mapping[str, TextChange]], Awaitable[None]]

_PATH = {"type": "string", "description": "path of the file, absolute or from the folder of the session"}
_SYMBOL = {"type": "string", "description": "name of the symbol, such as greet or Greeter.greet"}
_LINE = {"type": "integer", "description": "line (from 1) on which the symbol is, if the file has several"}
_AT = {"path": _PATH, "symbol": _SYMBOL, "line": _LINE}


TOOLS: tuple[ToolRow, ...] = (
    ToolRow(
        name="diagnostics",
        description="Errors and warnings of a file, as language servers see them now.",
        properties={"path": _PATH},
        required=("path",),
    ),
    ToolRow(
        name="definition",
        description="Where a symbol that a file uses or defines is defined.",
        properties=_AT,
        required=("path", "symbol"),
    ),
    ToolRow(
        name="references",
        description="All places in the project where a symbol is used.",
        properties=_AT,
        required=("path", "symbol"),
    ),
    ToolRow(
        name="hover",
        description="Type and documentation of a symbol.",
        properties=_AT,
        required=("path", "symbol"),
    ),
    ToolRow(
        name="symbols",
        description="The symbols of a file; with query, those of the whole project whose names contain it.",
        properties={"path": _PATH, "query": {"type": "string"}},
        required=("path",),
    ),
    ToolRow(
        name="rename",
        description="Rename a symbol in all files, as one change; nothing is written if a file changed meanwhile.",
        properties={**_AT, "new_name": {"type": "string"}},
        required=("path", "symbol", "new_name"),
        is_read_only=False,
    ),
)


class LanguageTools:
    """The tools of one session."""

    def __init__(self, servers: LanguageServers, approve_read: ApproveRead, write: WriteChanges) -> None:
        self._servers = servers
        self._navigation = Navigation(servers)
        self._approve_read = approve_read
        self._write = write
        self._calls: dict[str, Callable[..., Awaitable[str]]] = {
            "diagnostics": self._diagnostics,
            "definition": self._definition,
            "references": self._references,
            "hover": self._navigation.hover,
            "symbols": self._symbols,
            "rename": self._rename,
        }

    async def call(self, name: str, arguments: Mapping[str, Any]) -> str:
        """Call a tool; raise ProtocolError with what to do."""
        check_arguments(find_row(TOOLS, name), arguments)
        try:
            # The tools answer with paths from the first folder, so they take such paths too.
            path = self._servers.files.resolve(os.path.join(self._servers.folders[0], arguments["path"]))
        except ValueError as error:
            raise ProtocolError(Kind.INVALID_PARAMS, f"path: {error}") from None
        await self._approve_read(path)
        try:
            return await self._calls[name](**{**arguments, "path": path})
        except LookupError as error:
            raise ProtocolError(Kind.RESOURCE_NOT_FOUND, str(error)) from None

    async def _diagnostics(self, path: str) -> str:
        reports = await self._navigation.diagnostics(path)
        return format_report(reports, self._servers.folders[0]) or "no problems"

    async def _definition(self, path: str, symbol: str, line: int | None = None) -> str:
        return self._list_places(await self._navigation.definition(path, symbol, line))

    async def _references(self, path: str, symbol: str, line: int | None = None) -> str:
        return self._list_places(await self._navigation.references(path, symbol, line))

    async def _symbols(self, path: str, query: str = "") -> str:
        found = await self._navigation.symbols(path, query)
        lines = [
            f"{self._relative(each.path)}:{each.line}:{each.column} {each.kind} {each.full_name}" for each in found
        ]
        return "\n".join(lines) or "no symbols"

    async def _rename(self, path: str, symbol: str, new_name: str, line: int | None = None) -> str:
        plan: RenamePlan = await self._navigation.plan_rename(path, symbol, new_name, line)
        await self._write(plan.changes)
        names = ", ".join(self._relative(name) for name in plan.changes)
        return f"renamed {symbol} to {new_name} in {len(plan.changes)} files: {names}"

    def _list_places(self, places: list[Place]) -> str:
        return "\n".join(f"{self._relative(each.path)}:{each.line}:{each.column}" for each in places) or "not found"

    def _relative(self, path: str) -> str:
        return shown_path(path, self._servers.folders[0])
