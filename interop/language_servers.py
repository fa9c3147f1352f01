"""Install real language servers and use each: diagnostics after an edit, references and a rename by symbol name.

`python -m interop.language_servers [NAME...]`, part of `make interop`. Prints one line for each server; exits with 1 if
one failed. gopls is used if it is on PATH. ruff and ty are in the tests too.
"""

from __future__ import annotations

import asyncio
import os
import shutil
import subprocess
import sys
import tempfile
import time
import venv
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import msgspec

from dragoman.bridge.lsp.language_servers import LanguageServers
from dragoman.bridge.lsp.navigation import Navigation
from dragoman.bridge.lsp.server_table import BUILT_IN, ServerRow
from interop.install import CACHE, INSTALLING, node

# The first diagnostics of pyright on a busy machine. Seconds.
PATIENCE = 60.0


class Project(NamedTuple):
    """Two files: one defines `greet`, the other uses it; and a wrong line for the second."""

    marker: tuple[str, str]
    definition: tuple[str, str]
    use: tuple[str, str]
    wrong: str


PYTHON = Project(
    ("pyproject.toml", ""),
    ("a.py", "def greet(name: str) -> str:\n    return name\n"),
    ("b.py", 'from a import greet\n\nx: str = greet("é😀")\n'),
    'y: int = greet("x")\n',
)
SCRIPT = Project(
    ("tsconfig.json", '{"compilerOptions": {"strict": true}}'),
    ("a.ts", "export function greet(name: string): string { return name; }\n"),
    ("b.ts", 'import { greet } from "./a";\nexport const x: string = greet("é😀");\n'),
    'export const y: number = greet("x");\n',
)
GO = Project(
    ("go.mod", "module x\n\ngo 1.22\n"),
    ("a.go", "package x\n\nfunc greet(name string) string { return name }\n"),
    ("b.go", 'package x\n\nvar X string = greet("é😀")\n'),
    'var Y int = greet("x")\n',
)


class Source(NamedTuple):
    """Where a server comes from: packages of PyPI or npm, or PATH."""

    project: Project
    packages: tuple[str, ...] = ()
    is_npm: bool = False


SOURCES = {
    "ty": Source(PYTHON, ("ty",)),
    "basedpyright": Source(PYTHON, ("basedpyright",)),
    "pyright": Source(PYTHON, ("pyright",), is_npm=True),
    "typescript": Source(SCRIPT, ("typescript@7",), is_npm=True),
    "typescript-language-server": Source(SCRIPT, ("typescript-language-server", "typescript@5"), is_npm=True),
    "gopls": Source(GO),
}


def install(name: str, source: Source, npm: Path) -> str | None:
    """Install a server into the cache; return the folder of its program, or None if it is not there."""
    row = next(row for row in BUILT_IN if row.name == name)
    if not source.packages:
        found = shutil.which(row.command[0])
        return None if found is None else os.path.dirname(found)
    folder = CACHE / "language-servers" / name
    programs = folder / ("node_modules/.bin" if source.is_npm else "bin")
    if not (programs / row.command[0]).exists():
        folder.mkdir(parents=True, exist_ok=True)
        if source.is_npm:
            command = [str(npm / "npm"), "install", "--no-audit", "--no-fund", "--prefix", str(folder)]
        else:
            venv.create(folder, with_pip=True)
            command = [str(folder / "bin" / "python"), "-m", "pip", "install", "--quiet"]
        subprocess.run([*command, *source.packages], check=True, timeout=INSTALLING, stdout=subprocess.DEVNULL)
    return str(programs)


async def use_server(row: ServerRow, source: Source, folder: Path) -> str:
    """Use one server; return its figures. Raise AssertionError if it does not do what users expect."""
    project, notices = source.project, list[str]()
    for name, text in (project.marker, project.definition, project.use):
        (folder / name).write_text(text, encoding="utf-8")
    definition, use = str(folder / project.definition[0]), str(folder / project.use[0])
    servers = LanguageServers([str(folder)], [row], report=notices.append)
    try:
        start = time.monotonic()
        before = (await servers.diagnose({use: project.use[1]}, PATIENCE))[0]
        first = time.monotonic() - start
        wrong = project.use[1] + project.wrong
        (folder / project.use[0]).write_text(wrong, encoding="utf-8")
        start = time.monotonic()
        after = (await servers.diagnose({use: wrong}, PATIENCE))[0]
        edit = time.monotonic() - start
        assert not before.late, "no diagnostics before the edit"
        new = [each for index, each in enumerate(after.after) if index in after.new and each.severity == 1]
        assert [each.line for each in new] == [len(wrong.splitlines())], f"new errors: {new}"
        navigation = Navigation(servers, PATIENCE)
        places = await navigation.references(definition, "greet")
        assert len(places) >= 3, f"references: {places}"
        plan = await navigation.plan_rename(definition, "greet", "welcome")
        assert {definition, use} == plan.changes.keys(), f"renamed files: {list(plan.changes)}"
        assert plan.changes[use].new == wrong.replace("greet", "welcome"), plan.changes[use].new
        encoding = servers.status()[0]["encoding"]
        assert notices == [], notices
    finally:
        await servers.close()
    return f"first diagnostics {first:.2f} s, after an edit {edit:.3f} s, {encoding}"


def main(names: list[str], show: Callable[[str], None] = print) -> int:
    """Use all servers, or those named."""
    npm = node(show)
    os.environ["PATH"] = f"{npm}{os.pathsep}{os.environ['PATH']}"  # the programs of npm start node
    failed = 0
    for name in names or SOURCES:
        source = SOURCES[name]
        try:
            programs = install(name, source, npm)
            if programs is None:
                show(f"{name}: not on PATH, skipped")
                continue
            row = next(row for row in BUILT_IN if row.name == name)
            row = msgspec.structs.replace(row, command=(os.path.join(programs, row.command[0]), *row.command[1:]))
            with tempfile.TemporaryDirectory(prefix="dragoman-lsp-") as folder:
                show(f"{name}: {asyncio.run(use_server(row, source, Path(os.path.realpath(folder))))}")
        except (AssertionError, LookupError, OSError, subprocess.SubprocessError) as error:
            failed += 1
            show(f"{name}: FAILED: {error}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
