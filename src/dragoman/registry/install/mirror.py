"""Fill a folder with everything that a lock names for this platform, so that others install it without a network.

downloads/  archives by SHA-256, tarballs of npm as ALGORITHM-DIGEST
wheels/     wheels of PyPI by their name; sources of packages that are built, and the wheels that build them
"""

from __future__ import annotations

import os
import re
import shutil
import tempfile
from collections.abc import Iterator
from typing import Any, NamedTuple

from dragoman.registry.fault import RegistryFault
from dragoman.registry.index.entry import BINARY, NPX
from dragoman.registry.install.binary import fetch_archive
from dragoman.registry.install.npm import fetch_packages, write_project
from dragoman.registry.install.npm_lock import LOCK_FILE, hash_of, needed_here, package_name, read_lock
from dragoman.registry.install.plan import DOWNLOADS, WHEELS, Plan, Workshop
from dragoman.registry.install.pypi import BUILDERS_FILE, SOURCES, lock_builders, normal_name
from dragoman.registry.install.pypi_list import PIN, REQUIREMENT, check_list
from dragoman.registry.install.tarballs import find_tarball
from dragoman.registry.tools.wheels import MAX_PAGE, fits_python, package_index, parse_links
from dragoman.registry.versions import parse_version

# What builds a package that does not say what builds it.
_SETUPTOOLS = ["setuptools >= 40.8.0"]
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
    text = check_list(tree, "the list of packages")
    starts = [*PIN.finditer(text)]
    ends = [*(match.start() for match in starts[1:]), len(text)]
    return [
        _Pin(match[1], match[2], frozenset(_HASH.findall(text, match.start(), end)))
        for match, end in zip(starts, ends, strict=True)
    ]


def _fill_pypi(plan: Plan, folder: str, workshop: Workshop) -> Iterator[str]:
    assert plan.python is not None
    minor = parse_version(plan.python.version)[1]
    wheels = os.path.join(folder, WHEELS)
    os.makedirs(wheels, exist_ok=True)
    built = {normal_name(name) for name in plan.runs_scripts}
    builders: list[str] = []
    for pin in _read_pins(plan.tree):
        is_built = normal_name(pin.name) in built
        for file in _fetch_files(pin, minor, wheels, workshop, is_built=is_built):
            builders += builders_of(os.path.join(wheels, file)) if is_built else []
            yield file
    if not builders:
        return
    tree = lock_builders(plan, sorted(set(builders)), workshop)
    for pin in _read_pins(tree):
        yield from _fetch_files(pin, minor, wheels, workshop)
    with open(os.path.join(wheels, BUILDERS_FILE), "wb") as list_file:
        list_file.write(tree)
    yield BUILDERS_FILE


def _fetch_files(pin: _Pin, minor: int, folder: str, workshop: Workshop, *, is_built: bool = False) -> Iterator[str]:
    """Download the wheels of a package that run here, or its source if it is built."""
    page = f"{package_index()}/{normal_name(pin.name)}/"
    workshop.report(f"downloading {pin.name} {pin.version}")
    files = parse_links(workshop.http.get(page, limit=MAX_PAGE).body or b"", page)
    fits = (lambda file: file.endswith(SOURCES)) if is_built else (lambda file: fits_python(file, minor))
    found = [file for file in files if file[2] in pin.hashes and fits(file[0])]
    if not found:
        kind = "source archive" if is_built else "wheel"
        raise RegistryFault("version", f"{page} has no {kind} of {pin.name} {pin.version} that the lock names")
    for name, url, sha256 in found:
        yield _download(url, os.path.join(folder, os.path.basename(name)), sha256, workshop)


def builders_of(archive: str) -> list[str]:
    """Return what a source archive needs to be built, as its pyproject.toml says; raise RegistryFault if it says more.

    uv reads each as a line of a file, in which a line can also be an option or an address.
    """
    import tarfile
    import tomllib

    try:
        with tarfile.open(archive) as members:
            for member in members:
                if re.fullmatch(r"[^/]+/pyproject\.toml", member.name) and (file := members.extractfile(member)):
                    system = tomllib.loads(file.read(MAX_PAGE).decode()).get("build-system", {})
                    return _check_builders(system.get("requires", _SETUPTOOLS), os.path.basename(archive))
    except (tarfile.TarError, OSError, ValueError, AttributeError):
        pass  # a zip, or a file that only the builder understands
    return _SETUPTOOLS


def _check_builders(requires: Any, archive: str) -> list[str]:
    wrong = [each for each in requires if not _is_requirement(each)] if isinstance(requires, list) else [requires]
    if wrong:
        raise RegistryFault(
            "archive",
            f"{archive} is built with {ascii(wrong[0])[:80]}, as its pyproject.toml says, which is not a package with "
            "versions; choose another version of the agent",
        )
    return list(requires)


def _is_requirement(value: object) -> bool:
    return isinstance(value, str) and REQUIREMENT.fullmatch(value) is not None


def _download(url: str, target: str, sha256: str, workshop: Workshop) -> str:
    part = f"{target}.part"
    found, _ = workshop.http.download(url, part, progress=workshop.progress)
    if found != sha256:
        os.unlink(part)
        raise RegistryFault("hash", f"{os.path.basename(target)}: PyPI says SHA-256 {sha256}, the file has {found}")
    os.replace(part, target)
    return os.path.basename(target)
