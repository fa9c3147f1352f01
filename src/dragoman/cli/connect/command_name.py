"""The name of an agent that is given as a command line: what the program does, not what runs it."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence

from dragoman.config.config_file import NAME_PATTERN

# Programs that run a script or a package, and their options that take a value.
_PYTHON_VALUES = frozenset({"-X", "-W"})
_NODE_VALUES = frozenset({"-r", "--require", "--import", "--loader"})
_UV_VALUES = frozenset({"--from", "--with", "--python", "-p", "--project", "--directory", "--index", "--env-file"})
_RUNNERS = {
    "python": _PYTHON_VALUES,
    "pypy": _PYTHON_VALUES,
    "node": _NODE_VALUES,
    "bun": frozenset[str](),
    "deno": frozenset[str](),
    "npx": frozenset({"-p", "--package"}),
    "bunx": frozenset({"-p", "--package"}),
    "uvx": _UV_VALUES,
    "uv": _UV_VALUES,
    "pipx": frozenset({"--spec", "--python"}),
    "npm": frozenset({"--package"}),
}

# Words of a runner between it and what it runs.
_RUN_WORDS = frozenset({"run", "exec", "x", "tool"})

# Names of files and modules that say nothing, and of folders around them: the folder above names the program.
_VAGUE = frozenset({"__main__", "main", "index", "cli", "app", "server", "dist", "build", "src", "lib", "bin", "out"})


def command_name(command: Sequence[str]) -> str:
    """Return a name for the agent that a command line starts; the name of the program if nothing says more."""
    program = os.path.basename(command[0])
    name = _own_name(program, list(command[1:]))
    return name if NAME_PATTERN.fullmatch(name) else program


def _own_name(program: str, rest: list[str]) -> str:
    if program == "dragoman" and rest[:1] == ["agent"]:
        return rest[1] if len(rest) > 1 and not rest[1].startswith("-") else program
    runner = re.sub(r"[\d.]*(\.exe)?$", "", program)
    if runner not in _RUNNERS:
        return program
    if runner in ("uv", "pipx", "npm") and not _RUN_WORDS.intersection(rest[:1]):
        return program
    if runner in ("uv", "pipx", "npm", "bun", "deno"):
        rest = _without_run_words(rest)
    while rest and rest[0].startswith("-") and rest[0] != "-":
        option, rest = rest[0], rest[1:]
        if option == "-m" and rest:
            return _own_name(_clear_part(rest[0].split(".")), rest[1:])
        if option in ("-c", "-e", "--eval"):
            return program
        rest = rest[1:] if option in _RUNNERS[runner] else rest
    if not rest or rest[0] == "-":
        return program
    return _own_name(_target_name(rest[0]), rest[1:])


def _without_run_words(words: list[str]) -> list[str]:
    while words and words[0] in _RUN_WORDS:
        words = words[1:]
    return words


def _target_name(target: str) -> str:
    """Return the name of a script, or of a package without its scope, version and extras."""
    if target.startswith("@") and "/" in target:
        target = target.partition("/")[2]
    elif "://" not in target and (os.path.splitext(target)[1] or "/" in target):
        folder, file = os.path.split(os.path.abspath(target))
        stem = re.sub(r"\.(py|pyz|js|mjs|cjs|ts|mts|tsx)$", "", file)
        if stem != file or "/" in target:
            return _clear_part([*folder.split("/"), stem])
    target = target.rstrip("/").rpartition("/")[2].removesuffix(".git")
    return re.split(r"[@\[=<>~!;]", target)[0]


def _clear_part(parts: Sequence[str]) -> str:
    """Return the last part that says something; the last one if none does."""
    return next((part for part in reversed(parts) if part and part not in _VAGUE), parts[-1])
