"""Known ways to escape a folder: each a path, and what must exist for it to work.

A place has a folder `inside`, which is shared, and next to it `outside`, which has the canary. `PATHS` are refused for
every operation; `HARMLESS` may do something inside, and nothing else. Nothing here knows how paths are walked.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import NamedTuple

CANARY = "canary"


class Place(NamedTuple):
    """The two folders, and the one that they are in."""

    top: Path
    inside: Path
    outside: Path

    @classmethod
    def make(cls, top: Path) -> Place:
        """Create both folders with content."""
        place = cls(top, top / "inside", top / "outside")
        for folder in (place.inside, place.inside / "sub", place.outside, place.outside / "sub", top / "inside-too"):
            folder.mkdir()
        for file in (place.outside / "file", place.outside / "sub" / "file", top / "file", top / "inside-too" / "file"):
            file.write_text(CANARY)
        (place.inside / "file").write_text("inside")
        (place.inside / "sub" / "file").write_text("inside")
        return place

    def spelled(self, path: str) -> str:
        """A path with {in}, {out} and {top} filled in."""
        return (
            path.replace("{in}", str(self.inside)).replace("{out}", str(self.outside)).replace("{top}", str(self.top))
        )

    def beyond(self) -> dict[str, tuple[int, int, int, str]]:
        """Return everything outside the shared folder, which must not change."""
        found = {}
        for path in [self.top, *self.top.rglob("*")]:
            if path == self.inside or self.inside in path.parents:
                continue
            status = path.lstat()
            changed = status.st_mtime_ns if path != self.top else 0
            text = path.read_text() if path.is_file() and not path.is_symlink() else ""
            found[str(path)] = (status.st_mode, status.st_ino, changed, text)
        return found


Setup = Callable[[Place], object]


class Attack(NamedTuple):
    """A path, the links that it needs (name inside -> target), and what else must be there."""

    path: str
    links: Mapping[str, str] = MappingProxyType({})
    setup: Setup | None = None

    def prepare(self, place: Place) -> str:
        """Create the links of an attack; return the path to use."""
        for name, target in self.links.items():
            os.symlink(place.spelled(target), place.inside / name)
        if self.setup is not None:
            self.setup(place)
        return place.spelled(self.path)


def fifo(path: str) -> Setup:
    return lambda place: os.mkfifo(place.spelled(path))


def hard_link(path: str) -> Setup:
    return lambda place: os.link(place.outside / "file", place.spelled(path))


def open_outside(name: str, flags: int) -> Setup:
    """Keep a descriptor of something outside open, with a link inside that names it."""

    def leave(place: Place) -> None:
        fd = os.open(place.outside / ("sub" if flags & os.O_DIRECTORY else "file"), flags)
        OPENED.append(fd)
        os.symlink(f"/proc/self/fd/{fd}", place.inside / name)

    return leave


OPENED: list[int] = []  # closed by the test

LONG = "n" * 300

PATHS: dict[str, list[Attack]] = {
    "dot-dot": [
        Attack("{in}/../outside/file"),
        Attack("{in}/sub/../../outside/file"),
        Attack("{in}/./.././outside/./file"),
        Attack("{in}//..//outside//file"),
        Attack("{in}/missing/../../outside/file"),
        Attack("{in}/up/../../outside/file", {"up": "sub"}),
        Attack("{in}/../inside/../outside/sub/../file"),
        Attack("{in}/../outside/new"),
    ],
    "absolute": [
        Attack("{out}/file"),
        Attack("{top}/file"),
        Attack("{top}/inside-too/file"),
        Attack("/etc/passwd"),
        Attack("//etc/passwd"),
        Attack("{out}/new"),
    ],
    "link to a file": [
        Attack("{in}/link", {"link": "{out}/file"}),
        Attack("{in}/link", {"link": "../outside/file"}),
        Attack("{in}/a", {"a": "b", "b": "c", "c": "{out}/file"}),
        Attack("{in}/link", {"link": "sub/../../outside/file"}),
        Attack("{in}/sub/link", {"sub/link": "../../outside/file"}),
        Attack("{in}/link", {"link": "/etc/passwd"}),
    ],
    "link to a folder": [
        Attack("{in}/link/file", {"link": "{out}"}),
        Attack("{in}/link/sub/file", {"link": "../outside"}),
        Attack("{in}/link/new", {"link": "{out}"}),
        Attack("{in}/a/file", {"a": "b", "b": "{out}/sub"}),
        Attack("{in}/link/../file", {"link": "{out}/sub"}),
        Attack("{in}/root{out}/file", {"root": "/"}),
        Attack("{in}/up/outside/file", {"up": ".."}),
    ],
    "dangling link": [
        Attack("{in}/link", {"link": "{out}/new"}),
        Attack("{in}/link", {"link": "../outside/new"}),
        Attack("{in}/link", {"link": "{out}/missing/new"}),
        Attack("{in}/a", {"a": "b", "b": "{out}/sub/new"}),
        Attack("{in}/link/new", {"link": "{out}/missing"}),
    ],
    "ring of links": [
        Attack("{in}/a", {"a": "b", "b": "a"}),
        Attack("{in}/a/file", {"a": "a"}),
        Attack("{in}/a", {"a": "sub/../a"}),
        Attack("{in}/a/x", {"a": "b/c", "b": "a"}),
    ],
    "/proc": [
        Attack("/proc/self/root{out}/file"),
        Attack("/proc/self/environ"),
        Attack("{in}/link{out}/file", {"link": "/proc/self/root"}),
        Attack("{in}/link", {"link": "/proc/self/environ"}),
        Attack("{in}/link/file", {"link": "/proc/self/cwd"}),
        Attack("{in}/fd", setup=open_outside("fd", os.O_RDWR)),
        Attack("{in}/fd/file", setup=open_outside("fd", os.O_RDONLY | os.O_DIRECTORY)),
    ],
    "device": [
        Attack("/dev/zero"),
        Attack("{in}/link", {"link": "/dev/zero"}),
        Attack("{in}/link", {"link": "/dev/null"}),
        Attack("{in}/link", {"link": "/dev/stdin"}),
        Attack("{in}/link/null", {"link": "/dev"}),
    ],
    "FIFO": [
        Attack("{in}/fifo/file", setup=fifo("{in}/fifo")),
        Attack("{in}/link", {"link": "{out}/fifo"}, fifo("{out}/fifo")),
        Attack("{in}/link", {"link": "../outside/fifo"}, fifo("{out}/fifo")),
        Attack("{out}/fifo", setup=fifo("{out}/fifo")),
        Attack("{in}/../outside/fifo", setup=fifo("{out}/fifo")),
    ],
    "Unicode and case": [
        Attack("{in}/..\0/outside/file"),
        Attack("{in}/\ud800"),
        Attack("{top}/INSIDE/file"),
        Attack("{top}/ｉnside/file"),
        Attack("{top}/inside\u200b/../outside/file"),
        Attack("{top}/INSIDE/../outside/file"),
        Attack("..\\outside\\file"),
        Attack("file:///etc/passwd"),
        Attack("~/file"),
    ],
    "long names": [
        Attack("{in}/" + LONG),
        Attack("{in}/" + LONG + "/../../outside/file"),
        Attack("{in}/" + "a/" * 3000 + "file"),
        Attack("{in}/" + "sub/../" * 500 + "../outside/file"),
        Attack("{in}/" + "./" * 1500 + "../outside/file"),
        Attack("{in}" + "/" * 3000 + "../outside/file"),
        Attack("{in}/" + "../" * 200 + "etc/passwd"),
    ],
}  # fmt: skip

# Names that only look like a way out; what they do, they do inside.
HARMLESS: dict[str, list[Attack]] = {
    "Unicode and case": [
        Attack("{in}/．．"),
        Attack("{in}/‥"),
        Attack("{in}/..\u200b"),
        Attack("{in}/%2e%2e%2foutside%2ffile"),
        Attack("{in}/..\\outside\\file"),
        Attack("{in}/cafe\u0301"),
        Attack("{in}/FILE"),
        Attack("{in}/... "),
    ],
    "hard link": [
        Attack("{in}/hard", setup=hard_link("{in}/hard")),
        Attack("{in}/sub/hard", setup=hard_link("{in}/sub/hard")),
        Attack("{in}/link", {"link": "hard"}, hard_link("{in}/hard")),
        Attack("{in}/link/hard", {"link": "sub"}, hard_link("{in}/sub/hard")),
        Attack("{in}/sub/../hard", setup=hard_link("{in}/hard")),
    ],
    "FIFO": [
        Attack("{in}/fifo", setup=fifo("{in}/fifo")),
        Attack("{in}/sub/fifo", setup=fifo("{in}/sub/fifo")),
        Attack("{in}/link", {"link": "fifo"}, fifo("{in}/fifo")),
        Attack("{in}/link/fifo", {"link": "sub"}, fifo("{in}/sub/fifo")),
    ],
    "link inside": [
        Attack("{in}/link", {"link": "file"}),
        Attack("{in}/link/file", {"link": "{in}/sub"}),
        Attack("{in}/link/../file", {"link": "sub"}),
        Attack("{in}/link", {"link": "{in}/../inside/new"}),
        Attack("{in}/../inside/file"),
    ],
}


def each(table: dict[str, list[Attack]]) -> list[tuple[str, Attack]]:
    """Return the rows of a table as named test parameters."""
    return [(f"{kind} {number}", attack) for kind, attacks in table.items() for number, attack in enumerate(attacks)]
