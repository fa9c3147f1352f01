"""The files and terminals of a client as tools, for agents without fs/* and terminal/*, such as those of v2.

Each tool ends in the client's own methods, so its policy, its audit log and its unsaved buffers apply.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from typing import Any

from dragoman.errors import ConnectionFailed, ProtocolError
from dragoman.mcp.tool_table import ToolRow, ToolTable

# The name of the server.
SERVER_NAME = "workspace"

# How long a command may run if the agent gives no limit: a build or a test run. Seconds.
COMMAND_TIMEOUT = 120

# The longest limit that an agent may give: a tool call that nobody ends must end somewhere. Seconds.
MAX_COMMAND_TIMEOUT = 3600

# The end of the output of a command that is kept, in bytes: more fills the context of any model.
OUTPUT_LIMIT = 256 * 1024

# Calls a method of the client by its name in the vocabulary, with JSON params; returns JSON.
CallClient = Callable[[str, dict[str, Any]], Awaitable[Any]]

_PATH = {"type": "string", "description": "absolute path of the file"}

_READ = ToolRow(
    name="read_text_file",
    description="Read a text file as the user's editor has it, with changes that are not saved yet.",
    properties={
        "path": _PATH,
        "line": {"type": "integer", "description": "first line to read, from 1"},
        "limit": {"type": "integer", "description": "number of lines to read"},
    },
    required=("path",),
)
_WRITE = ToolRow(
    name="write_text_file",
    description="Write a whole text file; the user's editor shows the change.",
    properties={"path": _PATH, "content": {"type": "string", "description": "the new text of the whole file"}},
    required=("path", "content"),
    is_read_only=False,
)
_RUN = ToolRow(
    name="run_command",
    description="Run a program in a terminal of the user and return its output and how it ended.",
    properties={
        "command": {"type": "string", "description": "the program"},
        "args": {"type": "array", "items": {"type": "string"}, "description": "its arguments"},
        "cwd": {"type": "string", "description": "absolute path of the folder to run in"},
        "timeout": {"type": "integer", "description": f"seconds after which it is ended, {COMMAND_TIMEOUT} if absent"},
    },
    required=("command",),
    is_read_only=False,
)


def workspace_table(call: CallClient, *, reads: bool, writes: bool, runs: bool) -> ToolTable | None:
    """Return the tools for what the client offers; None if it offers nothing."""
    rows = tuple(row for row, is_offered in ((_READ, reads), (_WRITE, writes), (_RUN, runs)) if is_offered)
    if not rows:
        return None
    calls = {_READ.name: _read, _WRITE.name: _write, _RUN.name: _run}

    async def call_tool(session_id: str, name: str, arguments: Mapping[str, Any]) -> str:
        return await calls[name](call, session_id, arguments)

    return ToolTable(name=SERVER_NAME, rows=rows, call=call_tool)


async def _read(call: CallClient, session_id: str, arguments: Mapping[str, Any]) -> str:
    answer = await call("fs/read_text_file", {"sessionId": session_id, **arguments})
    return str(answer.get("content", ""))


async def _write(call: CallClient, session_id: str, arguments: Mapping[str, Any]) -> str:
    await call("fs/write_text_file", {"sessionId": session_id, **arguments})
    return f"wrote {arguments['path']}"


async def _run(call: CallClient, session_id: str, arguments: Mapping[str, Any]) -> str:
    """Run a command to its end, or kill it after its limit; the terminal is released in any case."""
    limit = min(max(1, arguments.get("timeout", COMMAND_TIMEOUT)), MAX_COMMAND_TIMEOUT)
    given = {name: value for name, value in arguments.items() if name != "timeout"}
    created = await call("terminal/create", {"sessionId": session_id, "outputByteLimit": OUTPUT_LIMIT, **given})
    terminal = {"sessionId": session_id, "terminalId": created["terminalId"]}
    end = ""
    try:
        try:
            async with asyncio.timeout(limit):
                await call("terminal/wait_for_exit", terminal)
        except TimeoutError:
            await call("terminal/kill", terminal)
            end = f"ended after {limit} s"
        output = await call("terminal/output", terminal)
    finally:
        with suppress(ProtocolError, ConnectionFailed):  # the client may have released it
            await asyncio.shield(call("terminal/release", terminal))
    return "\n".join(part for part in (str(output.get("output", "")).rstrip("\n"), end or _end_text(output)) if part)


def _end_text(output: Mapping[str, Any]) -> str:
    status = output.get("exitStatus") or {}
    ended = f"killed by {status['signal']}" if status.get("signal") else f"exit code {status.get('exitCode')}"
    return f"{ended}; only the end of the output is shown" if output.get("truncated") else ended
