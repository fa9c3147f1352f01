"""What a tool call wants leave for, as questions: one for each file, command, address or tool that it names.

Takes the merged picture of a tool call (what was told of it, in v1's spelling), gives questions without session and
agent, which the roles add. An agent's own words are data: what it names in several places is asked for in all of them.
Pure: `resolve` is passed in.
"""

from __future__ import annotations

import shlex
from collections.abc import Callable, Iterator
from typing import Any

from dragoman.policy.question import FILE_OPERATIONS, OPERATIONS, Operation, Question
from dragoman.policy.shell_commands import canonical_command

# The operation that a tool of a kind does to the files it names. What is not known may write.
FILE_OPERATION_BY_KIND: dict[str, str] = {
    "read": Operation.FILE_READ,
    "search": Operation.FILE_READ,
    "delete": Operation.FILE_DELETE,
}

# The operation of a call that names neither file, command nor address.
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

# Members of a tool's input that name files, commands and addresses, as the tools of real agents spell them.
_PATH_MEMBERS = (
    "path", "file_path", "filePath", "filepath", "abs_path", "absolute_path", "notebook_path", "file", "paths",
    "destination", "new_path",
)  # fmt: skip
_COMMAND_MEMBERS = ("command", "cmd")
_URL_MEMBERS = ("url", "uri")
_FOLDERS = ("cwd", "workdir", "working_directory", "workingDirectory", "directory", "dir_path")

# mcp__SERVER__TOOL is how agents name the tools of MCP servers.
_MCP_PREFIX = "mcp__"

Resolve = Callable[[str], str]
Absolute = Callable[[str], str]


def questions_for_call(call: Any, side: dict[str, Any], resolve: Resolve, absolute: Absolute) -> list[Question]:
    """All that a tool call asks for, the side data of the draft first; never empty."""
    said = side.get("operation")
    about: dict[str, Any] = {"kind": call.kind or "", "title": call.title or "", **_tool_and_server(call.name or "")}
    found: list[Question]
    if isinstance(said, str):
        resource = side.get("resource")
        found = [_question(said if said in OPERATIONS else Operation.OTHER, resource, about, resolve, absolute, call)]
    elif about["server"]:
        found = [Question(operation=Operation.MCP_TOOL, **about)]
    else:
        found = [_question(name, resource, about, resolve, absolute, call) for name, resource in _named_resources(call)]
    return list(dict.fromkeys(found)) or [
        Question(operation=OPERATION_BY_KIND.get(call.kind, Operation.OTHER), **about)
    ]


def _question(
    operation: str, resource: Any, about: dict[str, Any], resolve: Resolve, absolute: Absolute, call: Any
) -> Question:
    told = resource if isinstance(resource, str) else ""
    if operation == Operation.TERMINAL_EXECUTE:
        return Question(operation=operation, resource=canonical_command(told), cwd=_folder(call, resolve), **about)
    if operation not in FILE_OPERATIONS or not told:
        tool = about["tool"] or (told if operation == Operation.MCP_TOOL else "")
        return Question(operation=operation, resource=told, **{**about, "tool": tool})
    real, spelled = resolve(told), absolute(told)
    return Question(operation=operation, resource=real, requested_path=spelled if spelled != real else "", **about)


def _tool_and_server(name: str) -> dict[str, str]:
    """The name of a tool, and the MCP server it is of."""
    if name.startswith(_MCP_PREFIX):
        server, _, tool = name[len(_MCP_PREFIX) :].partition("__")
        if server and tool:
            return {"tool": tool, "server": server}
    return {"tool": name, "server": ""}


def _named_resources(call: Any) -> Iterator[tuple[str, str]]:
    """Operation and resource of everything that a call names."""
    given = call.raw_input if isinstance(call.raw_input, dict) else {}
    commands = list(_named_commands(given))
    for line in commands:
        yield Operation.TERMINAL_EXECUTE, line
    for block in call.content:
        if hasattr(block, "new_text"):
            yield Operation.FILE_WRITE, block.path
    if call.kind == "fetch":
        for name in _URL_MEMBERS:
            if isinstance(given.get(name), str) and given[name]:
                yield Operation.NETWORK_ACCESS, given[name]
    if call.kind == "execute":
        return  # the places of a command are where it runs, not what it touches
    operation = FILE_OPERATION_BY_KIND.get(call.kind, Operation.FILE_WRITE)
    for path in _named_paths(call, given):
        yield operation, path


def _folder(call: Any, resolve: Resolve) -> str:
    """Where a command starts, if the call says so."""
    given = call.raw_input if isinstance(call.raw_input, dict) else {}
    said = (given.get(name) for name in _FOLDERS)
    return next((resolve(folder) for folder in said if isinstance(folder, str) and folder), "")


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
    words = [word for word in args if isinstance(word, str)] if isinstance(args, list) else []
    for name in _COMMAND_MEMBERS:
        value = given.get(name)
        if isinstance(value, list) and value and all(isinstance(word, str) for word in value):
            yield shlex.join(value)
        elif isinstance(value, str) and value:
            yield shlex.join([value, *words]) if words else value
