"""Permission questions for a tool call: one for each file, command, URL or tool that it names.

Takes the merged tool call, gives questions without session and agent, which the roles add. If an agent names a resource
in several places, all are asked about. Pure: the caller passes `resolve`.
"""

from __future__ import annotations

import shlex
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from dragoman.policy.question import FILE_OPERATIONS, OPERATIONS, Operation, Question
from dragoman.policy.shell_commands import canonical_command

# The operation of a tool of this kind on the files it names. An unknown kind may write.
FILE_OPERATION_BY_KIND: dict[str, str] = {
    "read": Operation.FILE_READ,
    "search": Operation.FILE_READ,
    "delete": Operation.FILE_DELETE,
}

# The operation of a call that names no file, command or URL.
OPERATION_BY_KIND: dict[str, str] = {
    "read": Operation.FILE_READ,
    "search": Operation.FILE_READ,
    "edit": Operation.FILE_WRITE,
    "move": Operation.FILE_WRITE,
    "delete": Operation.FILE_DELETE,
    "execute": Operation.TERMINAL_EXECUTE,
    "fetch": Operation.NETWORK_ACCESS,
    "switch_mode": Operation.SWITCH_MODE,
}

# Members of a tool's input that name files, commands and URLs, as real agents spell them.
_PATH_MEMBERS = (
    "path", "file_path", "filePath", "filepath", "abs_path", "absolute_path", "notebook_path", "file", "paths",
    "destination", "new_path",
)  # fmt: skip
_COMMAND_MEMBERS = ("command", "cmd")
_URL_MEMBERS = ("url", "uri")
_FOLDERS = ("cwd", "workdir", "working_directory", "workingDirectory", "directory", "dir_path")

# Agents name the tools of MCP servers mcp__SERVER__TOOL.
_MCP_PREFIX = "mcp__"

Resolve = Callable[[str], str]
Absolute = Callable[[str], str]


def questions_for_call(call: Any, side: dict[str, Any], resolve: Resolve, absolute: Absolute) -> list[Question]:
    """Return all questions of a tool call, the draft's side data first; never empty."""
    operation = side.get("operation")
    about: dict[str, Any] = {"kind": call.kind or "", "title": call.title or "", **_tool_and_server(call.name or "")}
    named: Iterable[tuple[str, Any]]
    if isinstance(operation, str):
        named = [(operation if operation in OPERATIONS else Operation.OTHER, side.get("resource"))]
    elif about["server"]:
        return [Question(operation=Operation.MCP_TOOL, **about)]
    else:
        named = _named_resources(call)
    found = [_question(name, resource, about, resolve, absolute, call) for name, resource in named]
    return list(dict.fromkeys(found)) or [
        Question(operation=OPERATION_BY_KIND.get(call.kind, Operation.OTHER), **about)
    ]


def _question(
    operation: str, resource: Any, about: dict[str, Any], resolve: Resolve, absolute: Absolute, call: Any
) -> Question:
    name = resource if isinstance(resource, str) else ""
    if operation == Operation.TERMINAL_EXECUTE:
        line = canonical_command(name)
        given = name if name != line else ""
        return Question(operation=operation, resource=line, requested_line=given, cwd=_folder(call, resolve), **about)
    if operation not in FILE_OPERATIONS or not name:
        tool = about["tool"] or (name if operation == Operation.MCP_TOOL else "")
        return Question(operation=operation, resource=name, **{**about, "tool": tool})
    real, spelled = resolve(name), absolute(name)
    return Question(operation=operation, resource=real, requested_path=spelled if spelled != real else "", **about)


def _tool_and_server(name: str) -> dict[str, str]:
    """Return the name of a tool, and its MCP server."""
    if name.startswith(_MCP_PREFIX):
        server, _, tool = name[len(_MCP_PREFIX) :].partition("__")
        if server and tool:
            return {"tool": tool, "server": server}
    return {"tool": name, "server": ""}


def _named_resources(call: Any) -> Iterator[tuple[str, str]]:
    """Return operation and resource of everything that a call names."""
    given = call.raw_input if isinstance(call.raw_input, dict) else {}
    for line in _named_commands(given):
        yield Operation.TERMINAL_EXECUTE, line
    for block in call.content:
        if hasattr(block, "new_text"):
            yield Operation.FILE_WRITE, block.path
    if call.kind == "fetch":
        for name in _URL_MEMBERS:
            if isinstance(given.get(name), str) and given[name]:
                yield Operation.NETWORK_ACCESS, given[name]
    if call.kind == "execute":
        return  # the locations of a command are where it runs, not what it touches
    operation = FILE_OPERATION_BY_KIND.get(call.kind, Operation.FILE_WRITE)
    for path in _named_paths(call, given):
        yield operation, path


def _folder(call: Any, resolve: Resolve) -> str:
    """Return the folder that a command starts in, if the call names it."""
    given = call.raw_input if isinstance(call.raw_input, dict) else {}
    folders = (given.get(name) for name in _FOLDERS)
    return next((resolve(folder) for folder in folders if isinstance(folder, str) and folder), "")


def _named_paths(call: Any, given: dict[str, Any]) -> Iterator[str]:
    for location in call.locations:
        if location.path:
            yield location.path
    for name in _PATH_MEMBERS:
        value = given.get(name)
        for path in value if isinstance(value, list) else [value]:
            if isinstance(path, str) and path:
                yield path


def _named_commands(given: dict[str, Any]) -> Iterator[str]:
    args = given.get("args")
    arguments = [word for word in args if isinstance(word, str)] if isinstance(args, list) else []
    for name in _COMMAND_MEMBERS:
        value = given.get(name)
        if isinstance(value, list) and value and all(isinstance(word, str) for word in value):
            yield shlex.join(value)
        elif isinstance(value, str) and value:
            yield shlex.join([value, *arguments]) if arguments else value
