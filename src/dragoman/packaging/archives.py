"""Release archives from folders of built programs: one for each platform, with the same bytes each time."""

from __future__ import annotations

import bz2
import gzip
import hashlib
import io
import os
import stat
import tarfile
import zipfile
from collections.abc import Iterator

from dragoman.packaging.faults import Findings
from dragoman.packaging.manifest import ARCHIVES

# What a program of each system begins with; a script begins with "#!" everywhere but on Windows.
_MAGIC = {
    "linux": (b"\x7fELF", b"#!"),
    "darwin": (b"\xcf\xfa\xed\xfe", b"\xce\xfa\xed\xfe", b"\xca\xfe\xba\xbe", b"#!"),
    "windows": (b"MZ",),
}
# Where each format says for which machine it is, and how.
_MACHINES = (
    (b"\x7fELF", 18, {b"\x3e\x00": "x86_64", b"\xb7\x00": "aarch64"}),
    (b"\xcf\xfa\xed\xfe", 4, {b"\x07\x00": "x86_64", b"\x0c\x00": "aarch64"}),
)

MAX_FILES = 100_000  # what installers accept
_ZIP_TIME = (1980, 1, 1, 0, 0, 0)  # the first that zip knows; the same each time


def pack_folder(folder: str, name: str) -> bytes:
    """Return the archive of a folder in the format that its name says; a name without one is the bare program."""
    members = list(_members(folder))
    if name.endswith((".tar.gz", ".tgz")):
        return gzip.compress(_tar(members), mtime=0)
    if name.endswith((".tar.bz2", ".tbz2")):
        return bz2.compress(_tar(members))
    if name.endswith(".zip"):
        return _zip(members)
    (path, _), *more = [(path, member) for path, member in members if not os.path.isdir(path)] or [("", "")]
    if more or not path:
        raise ValueError(f"{name} is no archive, so {folder} must have one file; use one of {', '.join(ARCHIVES)}")
    with open(path, "rb") as file:
        return file.read()


def check_program(folder: str, platform: str, cmd: str, findings: Findings) -> None:
    """Check that the program of a target is in its folder, and is one of its platform."""
    relative = cmd.removeprefix("./").replace("\\", "/")
    path = os.path.join(folder, *relative.split("/"))
    if not os.path.isfile(path):
        fix = f"build it there, or correct the cmd of {platform}"
        findings.add_fault("binary.cmd", f"{folder} has no {relative}", fix)
        return
    with open(path, "rb") as file:
        head = file.read(20)
    system, _, machine = platform.partition("-")
    if not head.startswith(_MAGIC[system]):
        fix = f"put the build for {platform} there"
        findings.add_fault("binary.program", f"{relative} in {folder} is no program for {system}", fix)
        return
    for magic, at, machines in _MACHINES:
        found = machines.get(head[at : at + 2], machine)
        if head.startswith(magic) and found != machine:
            fix = f"put the build for {platform} there"
            findings.add_fault("binary.program", f"{relative} in {folder} is for {found}", fix)


def sha256(data: bytes) -> str:
    """Return the digest that manifests have."""
    return hashlib.sha256(data).hexdigest()


def _members(folder: str) -> Iterator[tuple[str, str]]:
    """Return path and name of everything in a folder, in the order of names."""
    count = 0
    for top, folders, files in os.walk(folder):
        folders.sort()
        for name in sorted([*folders, *files]):
            path = os.path.join(top, name)
            kind = os.lstat(path).st_mode
            if not (stat.S_ISREG(kind) or stat.S_ISDIR(kind) or stat.S_ISLNK(kind)):
                raise ValueError(f"{path} is a special file; remove it")
            if stat.S_ISLNK(kind) and not _stays_inside(folder, path):
                raise ValueError(f"{path} is a link that leaves the folder; installers refuse it")
            count += 1
            if count > MAX_FILES:
                raise ValueError(f"{folder} has more than {MAX_FILES} files; installers refuse such an archive")
            yield path, os.path.relpath(path, folder).replace(os.sep, "/")


def _stays_inside(folder: str, path: str) -> bool:
    target = os.readlink(path)
    resolved = os.path.normpath(os.path.join(os.path.dirname(path), target))
    return not os.path.isabs(target) and resolved.startswith(os.path.join(os.path.normpath(folder), ""))


def _mode(path: str) -> int:
    return 0o755 if os.path.isdir(path) or os.lstat(path).st_mode & 0o111 else 0o644


def _tar(members: list[tuple[str, str]]) -> bytes:
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w", format=tarfile.PAX_FORMAT) as archive:
        for path, name in members:
            entry = tarfile.TarInfo(name)
            entry.mode = _mode(path)
            if os.path.islink(path):
                entry.type, entry.linkname = tarfile.SYMTYPE, os.readlink(path)
                archive.addfile(entry)
            elif os.path.isdir(path):
                entry.type = tarfile.DIRTYPE
                archive.addfile(entry)
            else:
                entry.size = os.path.getsize(path)
                with open(path, "rb") as file:
                    archive.addfile(entry, file)
    return out.getvalue()


def _zip(members: list[tuple[str, str]]) -> bytes:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as archive:
        for path, name in members:
            is_link, is_folder = os.path.islink(path), os.path.isdir(path) and not os.path.islink(path)
            entry = zipfile.ZipInfo(f"{name}/" if is_folder else name, _ZIP_TIME)
            entry.create_system = 3  # Unix: the modes count
            kind = stat.S_IFLNK if is_link else stat.S_IFDIR if is_folder else stat.S_IFREG
            entry.external_attr = (kind | _mode(path)) << 16
            entry.compress_type = zipfile.ZIP_STORED if is_folder else zipfile.ZIP_DEFLATED
            if is_link:
                archive.writestr(entry, os.readlink(path))
            elif is_folder:
                archive.writestr(entry, b"")
            else:
                with open(path, "rb") as file:
                    archive.writestr(entry, file.read())
    return out.getvalue()
