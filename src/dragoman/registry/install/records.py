"""What is installed where: one folder for each version of an agent, with a record of what it is.

<agents>/<id>/<version>-<hash>/install.json    the record
                               manifest.json   every file with mode and SHA-256
                               files/          the agent
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator, Mapping

import msgspec

from dragoman.config.config_file import NamedAgent
from dragoman.config.private_files import read_bytes

RECORD_FILE, MANIFEST_FILE, FILES = "install.json", "manifest.json", "files"
# 100,000 files with long names. Bytes.
MAX_MANIFEST = 64 * 1024 * 1024
# Folders whose install has not ended begin with this; nothing lists them, and the next install removes them.
UNFINISHED = ".new-"


class Record(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One installed version of an agent."""

    id: str
    version: str
    kind: str
    by: str  # who vouches for the bytes: registry, github, npm, pypi, first-use
    date: str
    command: tuple[str, ...]  # with absolute paths
    env: Mapping[str, str] = {}
    cmd: str = ""
    args: tuple[str, ...] = ()
    package: str = ""  # npx, uvx: the package with its version
    integrity: str = ""  # npx: that of the package itself
    tree: str = ""  # npx, uvx: SHA-256 of the file with all packages and their hashes
    archive: str = ""  # binary
    sha256: str = ""
    size: int = 0
    python: str = ""  # uvx: the version of Python
    scripts: tuple[str, ...] = ()  # packages whose install scripts ran
    publisher: str = ""
    registry: str = ""  # the index
    name: str = ""  # the name in config.toml


class Installed(msgspec.Struct, frozen=True):
    """A record and its folder."""

    folder: str
    record: Record

    @property
    def files(self) -> str:
        """The folder with the agent itself."""
        return os.path.join(self.folder, FILES)


def read_installed(folder: str) -> Installed | None:
    """Return what is installed in a folder; None if it is nothing, or not finished."""
    try:
        data = read_bytes(os.path.join(folder, RECORD_FILE))
        return None if data is None else Installed(folder, msgspec.json.decode(data, type=Record))
    except (OSError, msgspec.DecodeError):
        return None


def all_installed(agents: str, id: str = "") -> Iterator[Installed]:
    """Return every finished installation, or those of one id."""
    for each in [id] if id else _folder_names(agents):
        for name in _folder_names(os.path.join(agents, each)):
            found = None if name.startswith(".") else read_installed(os.path.join(agents, each, name))
            if found is not None:
                yield found


def folder_of(agents: str, agent: NamedAgent) -> str:
    """Return the installation that a configured agent is started from; "" if it was not installed by us."""
    root = agents.rstrip(os.sep) + os.sep
    for word in agent.argv:
        if word.startswith(root):
            return os.path.join(root, *word[len(root) :].split(os.sep)[:2])
    return ""


def configured_installs(agents: str, configured: Mapping[str, NamedAgent]) -> dict[str, Installed]:
    """Return the installation of each configured agent that has one, by name."""
    found = {}
    for name, agent in configured.items():
        folder = folder_of(agents, agent)
        installed = read_installed(folder) if folder else None
        if installed is not None:
            found[name] = installed
    return found


def remove_tree(folder: str) -> None:
    """Remove a folder of ours, also where permissions were taken away."""
    shutil.rmtree(folder, ignore_errors=True)
    for parent, folders, _ in os.walk(folder):
        for name in folders:
            path = os.path.join(parent, name)
            if not os.path.islink(path):
                os.chmod(path, 0o700)
    if os.path.isdir(folder):
        os.chmod(folder, 0o700)
        shutil.rmtree(folder, ignore_errors=True)


def _folder_names(path: str) -> list[str]:
    try:
        return sorted(os.listdir(path))
    except (FileNotFoundError, NotADirectoryError):
        return []
