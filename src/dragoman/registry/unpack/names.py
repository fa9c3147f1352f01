"""The rules for the names and links of an archive's members. Pure."""

from __future__ import annotations

import re
import unicodedata

from dragoman.registry.fault import RegistryFault

# The limit of nearly all file systems for one name, and one for the whole path that leaves room for our folder. Bytes.
MAX_PART, MAX_NAME = 255, 1024
MAX_DEPTH = 40
# More than the largest agent (a JVM with its modules) has.
MAX_MEMBERS = 100_000

FILE, FOLDER, LINK = "file", "folder", "link"

_DRIVE = re.compile(r"[A-Za-z]:")


def refuse(member: str, rule: str) -> RegistryFault:
    """Return the fault for a member that breaks a rule."""
    shown = member.encode("utf-8", "backslashreplace").decode()[:200]
    return RegistryFault("archive", f"the archive was refused: {shown!r}: {rule}; nothing was kept", member=shown)


def member_parts(name: str) -> tuple[str, ...]:
    """Return the parts of a member's name; () is the archive's own root. Raise RegistryFault if it breaks a rule."""
    path = name.removesuffix("/")
    while path.startswith("./"):
        path = path[2:]
    if path in ("", "."):
        return ()
    try:
        encoded = path.encode()
    except UnicodeEncodeError:
        raise refuse(name, "its name is not UTF-8") from None
    if "\0" in path:
        raise refuse(name, "its name has a zero byte")
    if path.startswith("/") or _DRIVE.match(path):
        raise refuse(name, "its name is absolute")
    if "\\" in path:
        raise refuse(name, "its name has a backslash")
    parts = tuple(path.split("/"))
    if any(part in ("", ".", "..") for part in parts):
        raise refuse(name, "its name has an empty part, . or ..")
    if len(encoded) > MAX_NAME or any(len(part.encode()) > MAX_PART for part in parts):
        raise refuse(name, f"its name is longer than {MAX_NAME} bytes, or a part of it than {MAX_PART}")
    if len(parts) > MAX_DEPTH:
        raise refuse(name, f"it is deeper than {MAX_DEPTH} folders")
    return parts


class MemberNames:
    """The names of an archive so far: each once, also where a file system ignores case or Unicode form."""

    def __init__(self) -> None:
        self._kinds: dict[tuple[str, ...], str] = {}
        self._spellings: dict[tuple[str, ...], tuple[str, ...]] = {}
        self._links: dict[tuple[str, ...], str] = {}
        self._members = 0

    def add(self, name: str, kind: str, target: str = "") -> tuple[str, ...]:
        """Take a member; return its parts. Raise RegistryFault if it breaks a rule."""
        self._members += 1
        if self._members > MAX_MEMBERS:
            raise refuse(name, f"there are more than {MAX_MEMBERS} members")
        parts = member_parts(name)
        if not parts:
            if kind != FOLDER:
                raise refuse(name, "it has no name")
            return parts
        for end in range(1, len(parts)):
            self._add_path(name, parts[:end], FOLDER, is_parent=True)
        self._add_path(name, parts, kind)
        if kind == LINK:
            self._links[_folded(parts)] = target
        return parts

    def kind_of(self, parts: tuple[str, ...]) -> str:
        """Return the kind of a member; "" if there is none."""
        return self._kinds.get(_folded(parts), "")

    def check_links(self) -> None:
        """Check that every link leads to a place inside the archive, by names alone."""
        for parts, target in self._links.items():
            self._resolve(self._spellings[parts], target)

    def _add_path(self, name: str, parts: tuple[str, ...], kind: str, *, is_parent: bool = False) -> None:
        key = _folded(parts)
        known = self._kinds.get(key)
        if known is None:
            self._kinds[key], self._spellings[key] = kind, parts
        elif self._spellings[key] != parts:
            raise refuse(name, f"its name differs from {'/'.join(self._spellings[key])!r} only in case or Unicode form")
        elif known != FOLDER or kind != FOLDER:
            raise refuse(name, "a file or link is where it needs a folder" if is_parent else "its name occurs twice")

    def _resolve(self, parts: tuple[str, ...], target: str) -> None:
        """Follow a link by names, through other links; raise RegistryFault if it leaves the archive."""
        name = "/".join(parts)
        if not target or target.startswith("/") or "\\" in target or "\0" in target or _DRIVE.match(target):
            raise refuse(name, f"it links to {target!r}")
        place = list(parts[:-1])
        pending = target.split("/")
        for _ in range(MAX_DEPTH * MAX_DEPTH):
            if not pending:
                return
            part = pending.pop(0)
            if part == "..":
                if not place:
                    raise refuse(name, f"it links out of the archive, to {target!r}")
                place.pop()
            elif part not in ("", "."):
                place.append(part)
                inner = self._links.get(_folded(tuple(place)))
                if inner is not None:
                    if inner.startswith("/"):
                        raise refuse(name, f"it links out of the archive, through {'/'.join(place)!r}")
                    place.pop()
                    pending = [*inner.split("/"), *pending]
        raise refuse(name, "its links do not end")


def _folded(parts: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(unicodedata.normalize("NFC", unicodedata.normalize("NFC", part).casefold()) for part in parts)
