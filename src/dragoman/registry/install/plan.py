"""What an install would do, before it does anything: exact artifacts, their hashes, and who vouches for them."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from typing import NamedTuple

import msgspec

from dragoman.config.paths import UserPaths
from dragoman.config.registry_section import RegistrySection
from dragoman.registry.fetch.http import Http
from dragoman.registry.index.entry import Entry
from dragoman.registry.tools.find import Node, Program

# What a folder of `lock --fetch` has: archives and tarballs by their hash, wheels by their name.
DOWNLOADS, WHEELS = "downloads", "wheels"


class Wishes(msgspec.Struct, frozen=True, kw_only=True):
    """What the user asked for."""

    version: str = ""  # "" for that of the index; "latest" for the newest of npm or PyPI
    kind: str = ""
    preview: bool = False
    allow_scripts: tuple[str, ...] = ()
    at_most: bool = False  # an older version if the wanted one is too young
    tries: bool = True
    sandbox: bool = False


class Workshop(NamedTuple):
    """What an install works with: folders, network, and where it reports its steps."""

    paths: UserPaths
    section: RegistrySection
    http: Http
    report: Callable[[str], None]  # the step that begins
    progress: Callable[[int, int | None], None]
    ca: str = ""
    given: str = ""  # a folder that `lock --fetch` filled; packages and archives come from it alone

    @property
    def tools(self) -> str:
        """The folder of tools that were brought as wheels."""
        return self.paths.tools

    @property
    def downloads(self) -> str:
        """The folder of downloads, by their SHA-256."""
        return f"{self.paths.cache}/downloads"

    @property
    def given_wheels(self) -> str:
        """The wheels of the given folder."""
        return os.path.join(self.given, WHEELS) if self.given else ""

    def find_given(self, name: str) -> str:
        """Return a file of the given folder by its hash; "" if there is none."""
        path = os.path.join(self.given, DOWNLOADS, name) if self.given else ""
        return path if path and os.path.exists(path) else ""

    @property
    def is_offline(self) -> bool:
        """Whether nothing may be fetched."""
        return self.http.offline


class Plan(msgspec.Struct, frozen=True, kw_only=True):
    """One install, resolved to its artifacts."""

    entry: Entry
    kind: str
    version: str
    by: str  # who vouches for the bytes: registry, github, npm, pypi, first-use
    digest: str  # SHA-256 that stands for all artifacts; "" until a first use
    args: tuple[str, ...] = ()
    env: Mapping[str, str] = {}
    cmd: str = ""
    source: str = ""  # the index
    # packages
    package: str = ""
    integrity: str = ""
    tree: bytes = b""  # the file with all packages and their hashes
    packages: int = 0
    size: int | None = None
    scripts: tuple[str, ...] = ()  # packages with install scripts
    runs_scripts: tuple[str, ...] = ()  # those that may run
    publisher: str = ""
    node: Node | None = None
    uv: Program | None = None
    python: Program | None = None
    # binaries
    archive: str = ""
    # both
    notes: tuple[str, ...] = ()
    wishes: Wishes = Wishes()

    @property
    def folder_name(self) -> str:
        """The name of the folder of this version."""
        scripts = "-scripts" if self.runs_scripts else ""  # other files than without them
        return f"{self.version.replace('/', '_')}-{self.digest[:8]}{scripts}"
