"""Find node, npm, uv and Python: on PATH, in the usual places of version managers, and among our own wheels."""

from __future__ import annotations

import glob
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from typing import NamedTuple

from dragoman.registry.tools.wheels import NODE, UV, tool_program
from dragoman.registry.versions import satisfies_npm_range, sort_key

# `node --version` answers at once; a network file system may be slow. Seconds.
VERSION_TIMEOUT = 20.0
# Programs that are asked for their version at once; a machine with version managers has twenty Pythons.
_STARTS = 8

# Where version managers put node; a program started from a desktop has none of them on its PATH.
_NODE_PLACES = (
    "~/.nvm/versions/node/*/bin/node", "~/.local/share/fnm/node-versions/*/installation/bin/node",
    "~/.volta/tools/image/node/*/bin/node", "~/.asdf/installs/nodejs/*/bin/node",
    "~/.local/share/mise/installs/node/*/bin/node", "/opt/homebrew/bin/node", "/usr/local/bin/node", "/usr/bin/node",
)  # fmt: skip
_UV_PLACES = ("~/.local/bin/uv", "~/.cargo/bin/uv", "/opt/homebrew/bin/uv", "/usr/local/bin/uv")
_PYTHON_PLACES = (
    "~/.pyenv/versions/*/bin/python3", "~/.local/share/uv/python/cpython-*/bin/python3", "/opt/homebrew/bin/python3.*",
    "/usr/local/bin/python3.[0-9]*", "/usr/bin/python3.[0-9]*",
)  # fmt: skip


class Program(NamedTuple):
    """A program and its version."""

    path: str
    version: str


class Node(NamedTuple):
    """A node with its npm."""

    path: str
    version: str
    npm: str  # the script of npm


def find_nodes(tools: str, configured: str = "", environ: Mapping[str, str] = os.environ) -> list[Node]:
    """Return the nodes of this machine: the configured one, that on PATH, our own, then the newest others."""
    paths = [configured] if configured else []
    paths += filter(None, [shutil.which("node", path=environ.get("PATH")), tool_program(tools, NODE)])
    others = _expand(_NODE_PLACES)
    found = {}
    for path in [*paths, *others]:
        real = os.path.realpath(os.path.expanduser(path))
        if real in found:
            continue
        version, npm = program_version(real), _find_npm(os.path.expanduser(path), real)
        if version and npm:
            found[real] = Node(os.path.abspath(os.path.expanduser(path)), version, npm)
    first = [node for real, node in found.items() if real in {os.path.realpath(path) for path in paths}]
    rest = [node for node in found.values() if node not in first]
    return [*first, *sorted(rest, key=lambda node: sort_key(node.version), reverse=True)]


def choose_node(nodes: list[Node], wanted: str) -> Node | None:
    """Return the first node whose version a package accepts."""
    return next((node for node in nodes if satisfies_npm_range(node.version, wanted or "*")), None)


def _find_npm(path: str, real: str) -> str:
    """Return the script of the npm that belongs to a node."""
    for folder in (os.path.dirname(path), os.path.dirname(real)):
        library = os.path.join(os.path.dirname(folder), "lib", "node_modules", "npm", "bin", "npm-cli.js")
        npm = os.path.join(folder, "npm")
        for candidate in (library, os.path.realpath(npm)):
            if candidate.endswith(".js") and os.path.isfile(candidate):
                return candidate
    on_path = shutil.which("npm")
    script = os.path.realpath(on_path) if on_path else ""
    return script if script.endswith(".js") else ""


def find_uv(tools: str, environ: Mapping[str, str] = os.environ) -> Program | None:
    """Return uv: beside our own Python, on PATH, in the usual places, or our own wheel."""
    beside = os.path.join(os.path.dirname(sys.executable), "uv")
    candidates = [beside, shutil.which("uv", path=environ.get("PATH")), tool_program(tools, UV), *_expand(_UV_PLACES)]
    for path in filter(None, candidates):
        if os.access(path, os.X_OK) and (version := program_version(path)):
            return Program(path, version.removeprefix("uv ").split()[0])
    return None


def find_pythons(environ: Mapping[str, str] = os.environ, *, only: str = "") -> list[Program]:
    """Return the Pythons of this machine that agents can use, the newest first; `only` is a version such as "3.12"."""
    folders = environ.get("PATH", os.defpath).split(os.pathsep)
    on_path = [path for folder in folders for path in glob.glob(os.path.join(glob.escape(folder), "python3.[0-9]*"))]
    named = f"python{only}" if only else ""
    found: dict[str, str] = {}
    for path in [_base_python(), *on_path, *_expand(_PYTHON_PLACES)]:
        name = os.path.basename(path)
        fits = not named or name in (named, "python3")  # the name tells: others need not be started
        if fits and re.fullmatch(r"python3(\.\d+)?", name) and os.access(path, os.X_OK):
            found.setdefault(os.path.realpath(path), path)
    with ThreadPoolExecutor(_STARTS) as pool:
        versions = [text.removeprefix("Python ") for text in pool.map(program_version, found.values())]
    programs = [Program(path, version) for path, version in zip(found.values(), versions, strict=True) if version]
    fitting = [each for each in programs if not only or each.version.startswith(f"{only}.")]
    return sorted(fitting, key=lambda program: sort_key(program.version), reverse=True)


def _base_python() -> str:
    base = getattr(sys, "_base_executable", "") or sys.executable
    return os.path.realpath(base)


@cache
def program_version(path: str) -> str:
    """Return what a program says to --version; "" if it does not start."""
    try:
        ended = subprocess.run(
            [path, "--version"], capture_output=True, text=True, timeout=VERSION_TIMEOUT, stdin=subprocess.DEVNULL
        )
    except (OSError, subprocess.SubprocessError, UnicodeDecodeError):
        return ""
    lines = ended.stdout.strip().splitlines()
    return lines[0].strip() if ended.returncode == 0 and lines else ""


def _expand(patterns: tuple[str, ...]) -> Iterator[str]:
    for pattern in patterns:
        yield from sorted(glob.glob(os.path.expanduser(pattern)), reverse=True)
