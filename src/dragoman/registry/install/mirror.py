"""Fill a folder with everything that a lock names for this platform, so that others install it without a network.

downloads/  archives by SHA-256, tarballs of npm as ALGORITHM-DIGEST
wheels/     wheels of PyPI by their name
"""

from __future__ import annotations

import os
import re
import shutil
import tempfile
from collections.abc import Iterator
from typing import NamedTuple

from dragoman.registry.fault import RegistryFault
from dragoman.registry.index.entry import BINARY, NPX
from dragoman.registry.install.binary import fetch_archive
from dragoman.registry.install.npm import fetch_packages, write_project
from dragoman.registry.install.npm_lock import LOCK_FILE, hash_of, needed_here, package_name, read_lock
from dragoman.registry.install.plan import DOWNLOADS, WHEELS, Plan, Workshop
from dragoman.registry.install.pypi import PIN, normal_name
from dragoman.registry.install.tarballs import find_tarball
from dragoman.registry.tools.wheels import MAX_PAGE, fits_python, package_index, parse_links
from dragoman.registry.versions import parse_version

_HASH = re.compile(r"--hash=sha256:([0-9a-f]{64})")


def fill(plan: Plan, folder: str, workshop: Workshop) -> list[str]:
    """Put the artifacts of a locked agent into a folder; return their names. Raise RegistryFault if one is missing."""
    if plan.kind == BINARY:
        archive, sha256, _ = fetch_archive(plan, workshop)
        return [_copy(archive, folder, sha256)]
    if plan.kind == NPX:
        return _fill_npm(plan, folder, workshop)
    return list(_fill_pypi(plan, folder, workshop))


def _copy(source: str, folder: str, name: str) -> str:
    """Copy a file into the folder, whole or not at all."""
    target = os.path.join(folder, DOWNLOADS, name)
    os.makedirs(os.path.dirname(target), exist_ok=True)
    shutil.copyfile(source, f"{target}.part")
    os.replace(f"{target}.part", target)
    return name


def _fill_npm(plan: Plan, folder: str, workshop: Workshop) -> list[str]:
    rows = needed_here(read_lock(plan.tree), plan.package.rpartition("@")[0]) or {}
    needed = {path: row for path, row in rows.items() if not row.get("inBundle")}
    if not needed:
        raise RegistryFault("platform", f"{plan.package}: its packages are not for this platform")
    if not all(find_tarball(row, workshop) for row in needed.values()):
        workshop.report(f"downloading the packages of {plan.package}")
        with tempfile.TemporaryDirectory(prefix="dragoman-npm-") as files:
            _write_project(plan, files)
            fetch_packages(plan, workshop, files)
    copied = []
    for path, row in needed.items():
        tarball = find_tarball(row, workshop)
        if not tarball:
            raise RegistryFault("network", f"npm did not keep {package_name(path)} in its cache; try again")
        copied.append(_copy(tarball, folder, "-".join(hash_of(row))))
    return copied


def _write_project(plan: Plan, files: str) -> None:
    write_project(files, plan.package.rpartition("@")[0], plan.version)
    with open(os.path.join(files, LOCK_FILE), "wb") as file:
        file.write(plan.tree)


class _Pin(NamedTuple):
    """One package of a list for uv: its version, and the hashes of all its files."""

    name: str
    version: str
    hashes: frozenset[str]


def _read_pins(tree: bytes) -> list[_Pin]:
    text = tree.decode()
    starts = [*PIN.finditer(text)]
    ends = [*(match.start() for match in starts[1:]), len(text)]
    return [
        _Pin(match[1], match[2], frozenset(_HASH.findall(text, match.start(), end)))
        for match, end in zip(starts, ends, strict=True)
    ]


def _fill_pypi(plan: Plan, folder: str, workshop: Workshop) -> Iterator[str]:
    assert plan.python is not None
    minor = parse_version(plan.python.version)[1]
    os.makedirs(os.path.join(folder, WHEELS), exist_ok=True)
    for pin in _read_pins(plan.tree):
        page = f"{package_index()}/{normal_name(pin.name)}/"
        workshop.report(f"downloading {pin.name} {pin.version}")
        files = parse_links(workshop.http.get(page, limit=MAX_PAGE).body or b"", page)
        wheels = [file for file in files if file[2] in pin.hashes and fits_python(file[0], minor)]
        if not wheels:
            raise RegistryFault("version", f"{page} has no wheel of {pin.name} {pin.version} that the lock names")
        for name, url, sha256 in wheels:
            yield _download(url, os.path.join(folder, WHEELS, os.path.basename(name)), sha256, workshop)


def _download(url: str, target: str, sha256: str, workshop: Workshop) -> str:
    part = f"{target}.part"
    found, _ = workshop.http.download(url, part, progress=workshop.progress)
    if found != sha256:
        os.unlink(part)
        raise RegistryFault("hash", f"{os.path.basename(target)}: PyPI says SHA-256 {sha256}, the file has {found}")
    os.replace(part, target)
    return os.path.basename(target)
