"""The 2025.1 terminal/create: one shell line; v1 has a program, arguments and environment
(docs/protocol/dialect-matrix.md#terminal-forms).
"""

from __future__ import annotations

import shlex
from typing import Final

from dragoman.dialect.reshape import Json, Lifted, Lowered, Object

SHELL: Final = "/bin/sh"
_SHELLS: Final = frozenset({"sh", SHELL})


def lift_create(params: Object) -> Object:
    """Lift a shell line to a shell that runs it; the line itself becomes side data."""
    lifted = Lifted(params)
    line = lifted.take("command")
    if isinstance(line, str) and "args" not in params:
        lifted.put("command", SHELL)
        lifted.put("args", ["-c", line])
        lifted.side_data["line"] = line
    else:
        lifted.put("command", line)
    if "sessionId" not in params:
        lifted.infer("sessionId", "")
    return lifted.build()


def lower_create(params: Object) -> Object:
    """Lower a program with arguments to an equivalent shell line."""
    lowered = Lowered(params)
    line = lowered.take_side_data("line")
    if isinstance(line, str):
        lowered.take("args")
        lowered.take("command")
    else:
        line = _build_shell_line(lowered)
    lowered.put("command", line)
    return lowered.build(("sessionId", "args", "env", "outputByteLimit"))


def _build_shell_line(lowered: Lowered) -> Json:
    """Return command, arguments and environment as one line; an invalid command is unchanged."""
    command, args, env = lowered.take("command"), lowered.rest.get("args"), lowered.rest.get("env")
    words = [command, *args] if isinstance(args, list) else [command]
    if not all(isinstance(word, str) for word in words):
        return command
    if isinstance(args, list):
        lowered.take("args")
    settings = _env_assignments(env) if isinstance(env, list) else None
    if settings is not None:
        lowered.take("env")
    # An assignment before a line applies only to its first command, so keep the shell around it.
    if not settings and command in _SHELLS and len(words) == 3 and words[1] == "-c":
        return words[2]
    return " ".join([*(settings or ()), shlex.join(words)])


def _env_assignments(env: list[Json]) -> list[str] | None:
    """Return [{name, value}] as assignments before a command; None for any other item."""
    words: list[str] = []
    odd = False
    for pair in env:
        name, value = (pair.get("name"), pair.get("value")) if isinstance(pair, dict) else (None, None)
        if not isinstance(name, str) or not isinstance(value, str):
            return None
        odd = odd or not (name.isascii() and name.isidentifier())
        words.append(f"{name}={shlex.quote(value)}" if not odd else shlex.quote(f"{name}={value}"))
    # A shell does not assign to a name like `A-B`, but env does.
    return ["env", *words] if odd else words
