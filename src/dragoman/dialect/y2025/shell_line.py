"""terminal/create of 2025.1: one line for a shell, where v1 has a program, its arguments and its environment.

Wire params in, v1 params out, and back (reference 5.14-25).
"""

from __future__ import annotations

import shlex
from typing import Final

from dragoman.dialect.reshape import Json, Lifted, Lowered, Object

SHELL: Final = "/bin/sh"
_SHELLS: Final = frozenset({"sh", SHELL})


def lift_create(params: Object) -> Object:
    """A shell line becomes a shell that runs it; the line itself stays beside it."""
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
    """A program with arguments becomes a line that a shell reads as just that."""
    low = Lowered(params)
    line = low.take_side_data("line")
    if isinstance(line, str):
        low.take("args")
        low.take("command")
    else:
        line = _build_shell_line(low)
    low.put("command", line)
    return low.build(("sessionId", "args", "env", "outputByteLimit"))


def _build_shell_line(lowered: Lowered) -> Json:
    """Command, arguments and environment, taken as one line; what is no command passes as it is."""
    command, args, env = lowered.take("command"), lowered.rest.get("args"), lowered.rest.get("env")
    words = [command, *args] if isinstance(args, list) else [command]
    if not all(isinstance(word, str) for word in words):
        return command
    if isinstance(args, list):
        lowered.take("args")
    settings = _env_assignments(env) if isinstance(env, list) else None
    if settings is not None:
        lowered.take("env")
    # A setting before a line would hold for its first command only, so the shell is then kept around it.
    if not settings and command in _SHELLS and len(words) == 3 and words[1] == "-c":
        return words[2]
    return " ".join([*(settings or ()), shlex.join(words)])


def _env_assignments(env: list[Json]) -> list[str] | None:
    """[{name, value}] as words before a command; None when an item is something else."""
    words: list[str] = []
    odd = False
    for pair in env:
        name, value = (pair.get("name"), pair.get("value")) if isinstance(pair, dict) else (None, None)
        if not isinstance(name, str) or not isinstance(value, str):
            return None
        odd = odd or not (name.isascii() and name.isidentifier())
        words.append(f"{name}={shlex.quote(value)}" if not odd else shlex.quote(f"{name}={value}"))
    # A shell takes no assignment to a name like `A-B`, but env does.
    return ["env", *words] if odd else words
