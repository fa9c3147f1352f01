"""The manifest of an installation: every file with mode and SHA-256, every link with its target; and what differs."""

from __future__ import annotations

import hashlib
import os
import stat
from collections.abc import Iterator, Mapping
from typing import NamedTuple

import msgspec

# Bytecode of a Python that is newer than at install time; it is checked against its source when it is loaded.
_BYTECODE = "__pycache__"
# A file of this size is read at once. Bytes.
_SMALL = 4 * 1024 * 1024


class Difference(NamedTuple):
    """One path that is not as it was installed."""

    path: str
    what: str  # changed, missing, added


class FileFact(msgspec.Struct, frozen=True, omit_defaults=True):
    """What is known of one path."""

    mode: int = 0
    size: int = 0
    sha256: str = ""
    link: str = ""


Manifest = Mapping[str, FileFact]


def make_manifest(folder: str) -> dict[str, FileFact]:
    """Return the manifest of a folder."""
    return {path: _read_fact(os.path.join(folder, path)) for path in _walk(folder)}


def compare_manifest(folder: str, manifest: Manifest) -> list[Difference]:
    """Return what differs from the manifest: content, mode, target, files that are missing or new."""
    found = []
    seen = set()
    for path in sorted(_walk(folder)):
        seen.add(path)
        known = manifest.get(path)
        if known is None:
            if _BYTECODE not in path.split("/"):
                found.append(Difference(path, "added"))
        elif _read_fact(os.path.join(folder, path)) != known:
            found.append(Difference(path, "changed"))
    found += [Difference(path, "missing") for path in sorted(manifest.keys() - seen)]
    return found


def encode_manifest(manifest: Manifest) -> bytes:
    """Return the manifest as JSON, always the same for the same files."""
    return msgspec.json.encode(dict(sorted(manifest.items())))


def decode_manifest(data: bytes) -> dict[str, FileFact]:
    """Return a manifest from JSON; raise msgspec.DecodeError."""
    return msgspec.json.decode(data, type=dict[str, FileFact])


def _walk(folder: str) -> Iterator[str]:
    """Yield every file and link, by its path below the folder; folders count only by what is in them."""
    waiting = [""]
    while waiting:
        parent = waiting.pop()
        with os.scandir(os.path.join(folder, parent)) as entries:
            for entry in entries:
                path = f"{parent}{entry.name}"
                if entry.is_dir(follow_symlinks=False):
                    waiting.append(f"{path}/")
                else:
                    yield path


def _read_fact(path: str) -> FileFact:
    status = os.lstat(path)
    if stat.S_ISLNK(status.st_mode):
        return FileFact(link=os.readlink(path))
    if not stat.S_ISREG(status.st_mode):
        return FileFact(link="(no regular file)")
    with open(path, "rb", buffering=0) as file:
        if status.st_size > _SMALL:
            digest = hashlib.file_digest(file, "sha256").hexdigest()
        else:  # most of thousands of files: reading them at once takes a third of the time
            digest = hashlib.sha256(file.readall()).hexdigest()
    return FileFact(mode=stat.S_IMODE(status.st_mode) & 0o777, size=status.st_size, sha256=digest)
