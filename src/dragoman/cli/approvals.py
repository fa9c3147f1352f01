"""One answer for one thing: what the user said to a question, kept for the operation that the question was about.

Agents ask for leave (session/request_permission) and then use what is lent (fs/write_text_file, terminal/create); both
are questions to the same person about the same thing. The answer to the first covers the first operation that matches
it, in the same session, until the turn ends. Pure: paths come resolved, nothing is asked here.
"""

from __future__ import annotations

import shlex
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

READ, WRITE, EXECUTE = "read", "write", "execute"

# What a tool call of these kinds does to the paths it names: nothing but look.
LOOKING = frozenset({"read", "search"})

# Members of a tool's input that name files and commands, as the tools of real agents spell them.
_PATHS = ("path", "file_path", "filePath", "filepath", "abs_path", "absolute_path", "notebook_path", "file")
_COMMANDS = ("command", "cmd")

_SHELLS = frozenset({"sh", "bash", "zsh", "dash"})

# Variables that agents set so that programs neither page nor colour; others can change what a command does.
HARMLESS = frozenset({"CI", "COLUMNS", "FORCE_COLOR", "GIT_PAGER", "LINES", "NO_COLOR", "PAGER", "TERM"})


class Operation(NamedTuple):
    """Something done to a resource: a resolved path, or a command line."""

    name: str
    resource: str


class Approvals:
    """The answers of one user that still cover something."""

    def __init__(self) -> None:
        self._answers: dict[tuple[str, Operation], tuple[bool, bool]] = {}

    def note(self, session: str, operations: Iterable[Operation], allowed: bool, *, lasting: bool = False) -> None:
        """The user answered a question about these operations; a lasting answer covers all of the turn."""
        for operation in operations:
            self._answers[session, operation] = (allowed, lasting)

    def recall(self, session: str, operation: Operation) -> bool | None:
        """What the user said about this; None if nothing. An answer that is not lasting is used up."""
        found = self._answers.get((session, operation))
        if found is None:
            return None
        allowed, lasting = found
        if not lasting:
            del self._answers[session, operation]
        return allowed

    def forget(self, session: str) -> None:
        """The turn ended: no answer reaches into the next one."""
        self._answers = {key: value for key, value in self._answers.items() if key[0] != session}


def operations(call: Any, resolve: Callable[[str], str]) -> list[Operation]:
    """What a tool call (the merged picture) is going to do, as far as it tells."""
    found = [Operation(EXECUTE, line) for line in commands(call)]
    name = READ if call.kind in LOOKING else WRITE
    found += [Operation(name, resolve(path)) for path in paths(call)]
    return list(dict.fromkeys(found))


def paths(call: Any) -> list[str]:
    """The files that a tool call names, in its places, its changes and its input."""
    found = [location.path for location in call.locations]
    found += [block.path for block in call.content if hasattr(block, "new_text")]
    if isinstance(call.raw_input, dict):
        found += [value for name in _PATHS if isinstance(value := call.raw_input.get(name), str)]
    return list(dict.fromkeys(path for path in found if path))


def commands(call: Any) -> list[str]:
    """The command lines that a tool call names in its input."""
    if not isinstance(call.raw_input, dict):
        return []
    args = call.raw_input.get("args")
    words = [word for word in args if isinstance(word, str)] if isinstance(args, list) else []
    found = []
    for name in _COMMANDS:
        value = call.raw_input.get(name)
        if isinstance(value, list) and value and all(isinstance(word, str) for word in value):
            found.append(command_line(value[0], value[1:]))
        elif isinstance(value, str) and value:
            found.append(command_line(value, words))
    return found


def command_line(command: str, args: Iterable[str] = ()) -> str:
    """A command as the line that a shell would be given; a shell that is only there to read the line is left out."""
    words = [command, *args]
    if len(words) == 1:
        try:
            words = shlex.split(command)
        except ValueError:
            return command.strip()
        if not _is_shell(words):
            return command.strip()
    if _is_shell(words):
        return words[2].strip()
    return shlex.join(words)


def _is_shell(words: list[str]) -> bool:
    return len(words) == 3 and words[0].rpartition("/")[2] in _SHELLS and words[1] in ("-c", "-lc")
