"""The table of language servers: which serves a file, how it is started, and in which folder.

The servers below are built in; [lsp.NAME] in config.toml changes them, adds others or turns them off. Nothing is
downloaded, and programs of a project are not executed: a server must be on PATH or named with its path.
"""

from __future__ import annotations

import fnmatch
import os
import shutil
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from dragoman.config.lsp_section import ServerSection
from dragoman.errors import ConfigFault


class ServerRow(msgspec.Struct, frozen=True, kw_only=True):
    """One language server. Of the rows with the same group only the first that is installed and starts is used."""

    name: str
    group: str
    command: tuple[str, ...]
    files: tuple[str, ...]
    roots: tuple[str, ...] = ()  # files that mark the folder in which it is started
    settings: Mapping[str, Any] = {}
    env: Mapping[str, str] = {}
    install: str = ""

    def serves(self, path: str) -> bool:
        """Return whether it serves this file."""
        return any(fnmatch.fnmatchcase(os.path.basename(path), pattern) for pattern in self.files)

    def find_program(self, environ: Mapping[str, str] = os.environ) -> str | None:
        """Return the path of its program, or None if it is not installed."""
        program = os.path.expanduser(self.command[0])
        path = {**environ, **self.env}.get("PATH", os.defpath)
        return shutil.which(program, path=path)

    @property
    def argv(self) -> list[str]:
        """The command line that starts it."""
        return [os.path.expanduser(self.command[0]), *self.command[1:]]


_PYTHON = ("*.py", "*.pyi")
_PYTHON_ROOTS = ("pyproject.toml", "setup.py", "setup.cfg", "pyrightconfig.json", "ty.toml", "requirements.txt")
_SCRIPT = ("*.ts", "*.tsx", "*.mts", "*.cts", "*.js", "*.jsx", "*.mjs", "*.cjs")
_SCRIPT_ROOTS = ("tsconfig.json", "jsconfig.json", "package.json")

# In the order in which they are tried: ty answers in hundredths of a second where pyright takes seconds to start
# (docs/decisions/0019); TypeScript 7 is a language server itself, older ones need typescript-language-server.
BUILT_IN: tuple[ServerRow, ...] = (
    ServerRow(
        name="ruff",
        group="python-lint",
        command=("ruff", "server"),
        files=_PYTHON,
        roots=("pyproject.toml", "ruff.toml", ".ruff.toml"),
        install="PyPI ruff",
    ),
    ServerRow(
        name="ty", group="python", command=("ty", "server"), files=_PYTHON, roots=_PYTHON_ROOTS, install="PyPI ty"
    ),
    ServerRow(
        name="basedpyright",
        group="python",
        command=("basedpyright-langserver", "--stdio"),
        files=_PYTHON,
        roots=_PYTHON_ROOTS,
        install="PyPI basedpyright",
    ),
    ServerRow(
        name="pyright",
        group="python",
        command=("pyright-langserver", "--stdio"),
        files=_PYTHON,
        roots=_PYTHON_ROOTS,
        install="npm pyright",
    ),
    ServerRow(
        name="typescript",
        group="typescript",
        command=("tsc", "--lsp", "--stdio"),
        files=_SCRIPT,
        roots=_SCRIPT_ROOTS,
        install="npm typescript (7 or newer)",
    ),
    ServerRow(
        name="typescript-language-server",
        group="typescript",
        command=("typescript-language-server", "--stdio"),
        files=_SCRIPT,
        roots=_SCRIPT_ROOTS,
        install="npm typescript-language-server typescript@5",
    ),
    ServerRow(
        name="gopls", group="go", command=("gopls",), files=("*.go",), roots=("go.work", "go.mod"), install="go gopls"
    ),
)

# The ids of languages by the end of a file's name; another language is called by that end.
_LANGUAGES = {
    ".py": "python",
    ".pyi": "python",
    ".ts": "typescript",
    ".mts": "typescript",
    ".cts": "typescript",
    ".tsx": "typescriptreact",
    ".js": "javascript",
    ".mjs": "javascript",
    ".cjs": "javascript",
    ".jsx": "javascriptreact",
    ".rs": "rust",
    ".sh": "shellscript",
    ".md": "markdown",
    ".rb": "ruby",
    ".yml": "yaml",
}


def language_id(path: str) -> str:
    """Return the language of a file, as LSP calls it."""
    end = os.path.splitext(path)[1].lower()
    return _LANGUAGES.get(end, end[1:] or "plaintext")


def build_table(sections: Mapping[str, ServerSection], built_in: Sequence[ServerRow] = BUILT_IN) -> list[ServerRow]:
    """Return the table: the built-in servers as the user changed them, with the user's own.

    A section with the name of a built-in server changes it. Any other is a server of its own; if it is called like a
    group ("python"), it replaces that group, or turns it off. Raise ConfigFault for a section that makes no sense.
    """
    names = {row.name for row in built_in}
    groups = {row.group for row in built_in}
    rows = []
    for name, section in sections.items():
        if section.on and name not in names:
            if not section.command or not section.files:
                raise ConfigFault([f'lsp.{name}: give command and files, as in files = ["*.py"]'])
            rows.append(
                ServerRow(
                    name=name,
                    group=name,
                    command=section.command,
                    files=section.files,
                    roots=section.roots,
                    settings=section.settings,
                    env=section.env,
                )
            )
    for row in built_in:
        changes = sections.get(row.name)
        if row.group in groups - names and row.group in sections:
            continue
        if changes is None:
            rows.append(row)
        elif changes.on:
            members = ("command", "files", "roots", "settings", "env")
            rows.append(msgspec.structs.replace(row, **{m: v for m in members if (v := getattr(changes, m))}))
    return rows


def rows_for(table: Sequence[ServerRow], path: str) -> dict[str, list[ServerRow]]:
    """Return the servers for a file by group, in the order in which they are tried."""
    found: dict[str, list[ServerRow]] = {}
    for row in table:
        if row.serves(path):
            found.setdefault(row.group, []).append(row)
    return found


def find_root(path: str, markers: Sequence[str], folders: Sequence[str]) -> str | None:
    """Return the folder in which the server of a file is started: the nearest with a marker, else the session's folder.

    None if the file is in none of the session's folders.
    """
    inside = [folder for folder in folders if path.startswith(folder.rstrip(os.sep) + os.sep)]
    if not inside:
        return None
    top = max(inside, key=len)
    folder = os.path.dirname(path)
    while True:
        if any(os.path.exists(os.path.join(folder, marker)) for marker in markers):
            return folder
        if folder == top or len(folder) <= len(top):
            return top
        folder = os.path.dirname(folder)
