"""Tools as a table of names, descriptions, schemas and one function, offered as an MCP server to each session.

The agent chooses the id of a session, so a server is declared before its session is known: a SessionSlot gets it later.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

import msgspec

from dragoman.errors import DragomanError, Kind, ProtocolError
from dragoman.mcp.limits import OPEN_TIMEOUT
from dragoman.mcp.offers import OfferedServer

# Calls a tool for a session: its id, the name of the tool, the arguments. Returns text, or raises DragomanError.
CallTool = Callable[[str, str, Mapping[str, Any]], Awaitable[str]]

_TYPES: dict[str, type] = {"string": str, "integer": int, "array": list}


class ToolRow(msgspec.Struct, frozen=True, kw_only=True):
    """One tool."""

    name: str
    description: str
    properties: Mapping[str, Any]
    required: tuple[str, ...]
    is_read_only: bool = True

    @property
    def schema(self) -> dict[str, Any]:
        """The JSON schema of its arguments."""
        return {"type": "object", "properties": dict(self.properties), "required": list(self.required)}


class ToolTable(msgspec.Struct, frozen=True, kw_only=True):
    """The tools of a server, and the function that calls them."""

    name: str
    rows: tuple[ToolRow, ...]
    call: CallTool


class SessionSlot:
    """The session that a server belongs to."""

    def __init__(self) -> None:
        self._known = asyncio.Event()
        self._id = ""

    def bind(self, session_id: str) -> None:
        """Set the id of the session, once."""
        self._id = session_id
        self._known.set()

    async def session_id(self) -> str:
        """Return the id of the session; wait until the agent has said it."""
        try:
            async with asyncio.timeout(OPEN_TIMEOUT):
                await self._known.wait()
        except TimeoutError:
            raise ProtocolError(Kind.INVALID_STATE, "the session of this tool is not open; open it first") from None
        return self._id


def build_table_server(table: ToolTable, slot: SessionSlot) -> OfferedServer:
    """Return the server of a table for one session. The SDK is imported: call it in a thread."""
    import mcp_types as types
    from mcp.server.lowlevel import Server

    tools = [
        types.Tool(
            name=row.name,
            description=row.description,
            input_schema=row.schema,
            annotations=types.ToolAnnotations(read_only_hint=row.is_read_only),
        )
        for row in table.rows
    ]

    async def list_tools(_: Any, __: Any) -> types.ListToolsResult:
        return types.ListToolsResult(tools=tools)

    async def call_tool(_: Any, params: types.CallToolRequestParams) -> types.CallToolResult:
        try:
            arguments = params.arguments or {}
            check_arguments(find_row(table.rows, params.name), arguments)
            text, is_error = await table.call(await slot.session_id(), params.name, arguments), False
        except DragomanError as error:
            text, is_error = str(error), True
        return types.CallToolResult(content=[types.TextContent(text=text)], is_error=is_error)

    return OfferedServer(table.name, Server(table.name, on_list_tools=list_tools, on_call_tool=call_tool))


def find_row(rows: tuple[ToolRow, ...], name: str) -> ToolRow:
    """Return the tool of a name; raise invalid_params."""
    row = next((row for row in rows if row.name == name), None)
    if row is None:
        known = ", ".join(row.name for row in rows)
        raise ProtocolError(Kind.INVALID_PARAMS, f"there is no tool {name!r}; there are {known}")
    return row


def check_arguments(row: ToolRow, arguments: Mapping[str, Any]) -> None:
    """Raise invalid_params, naming what is wrong or missing."""
    wrong = [name for name in row.required if name not in arguments]
    wrong += [
        name
        for name, value in arguments.items()
        if name not in row.properties or not isinstance(value, _TYPES[row.properties[name]["type"]])
    ]
    if wrong:
        expected = ", ".join(row.properties)
        raise ProtocolError(Kind.INVALID_PARAMS, f"{row.name}: wrong or missing {', '.join(wrong)}; give {expected}")
