"""The list of packages of an npm agent: a package-lock.json, its hashes, and which packages this machine needs."""

from __future__ import annotations

import base64
import binascii
import platform
import re
import sys
from typing import Any

import msgspec

from dragoman.registry.fault import RegistryFault
from dragoman.registry.platforms import has_glibc

LOCK_FILE = "package-lock.json"
# The strongest first.
_HASHES = ("sha512", "sha384", "sha256", "sha1")
_PROCESSORS = {"x86_64": "x64", "amd64": "x64", "aarch64": "arm64", "i686": "ia32", "i386": "ia32"}

# Where npm puts packages; a lock of somebody else could name any other place.
_PATH = re.compile(r"(?:(?:^|/)node_modules/(?:@[\w.~-]+/)?(?!\.\.?(?:/|$))[\w.~-]+)+")

Row = dict[str, Any]


class _Lock(msgspec.Struct):
    packages: dict[str, Row]


def read_lock(tree: bytes) -> dict[str, Row]:
    """Return the packages of a lock by path; raise RegistryFault if one has no hash."""
    try:
        packages = msgspec.json.decode(tree, type=_Lock).packages
    except msgspec.DecodeError as error:
        raise RegistryFault("hash", f"the list of packages is not readable: {error}") from None
    rows = {path: row for path, row in packages.items() if path}
    for path, row in rows.items():
        if _PATH.fullmatch(path) is None or "/../" in f"{path}/":
            raise RegistryFault("hash", f"the list of packages names a place outside node_modules: {path!r}")
        if not row.get("integrity") and not row.get("inBundle"):
            raise RegistryFault("hash", f"npm has no hash for {package_name(path)}; nothing was installed")
    return rows


def package_name(path: str) -> str:
    """Return the name of the package at a path of a lock."""
    return path.rpartition("node_modules/")[2]


def wanted_node(tree: bytes, package: str) -> str:
    """Return the versions of node that a package of a lock wants."""
    own = read_lock(tree).get(f"node_modules/{package.rpartition('@')[0]}", {})
    engines = own.get("engines")
    return str(engines.get("node") or "*") if isinstance(engines, dict) else "*"


def hash_of(row: Row) -> tuple[str, str]:
    """Return the strongest hash of a package: algorithm and hex digits; ("", "") if it cannot be read."""
    found = dict(each.partition("-")[::2] for each in str(row.get("integrity", "")).split())
    for name in _HASHES:
        if name in found:
            try:
                return name, base64.b64decode(found[name].partition("?")[0], validate=True).hex()
            except (binascii.Error, ValueError):
                return "", ""
    return "", ""


def needed_here(rows: dict[str, Row], package: str) -> dict[str, Row] | None:
    """Return the packages that npm installs on this machine for a package; None if that is not clear without npm.

    Optional packages of other platforms are left out, with what only they need.
    """
    found: dict[str, Row] = {}
    waiting = [f"node_modules/{package}"]
    while waiting:
        path = waiting.pop()
        row = rows.get(path)
        if row is None or row.get("link"):
            return None
        if path in found:
            continue
        if not _fits(row):
            if row.get("optional"):
                continue
            return None
        found[path] = row
        for name in _dependencies(row):
            if place := _resolve(rows, path, name):  # optional ones that npm does not have are not in the lock
                waiting.append(place)
    return found


def _dependencies(row: Row) -> list[str]:
    kinds = ("dependencies", "optionalDependencies", "peerDependencies")
    return [name for kind in kinds if isinstance(row.get(kind), dict) for name in row[kind]]


def _resolve(rows: dict[str, Row], path: str, name: str) -> str:
    """Return where a package finds another one: below itself, else beside it or above."""
    while True:
        place = f"{path}/node_modules/{name}" if path else f"node_modules/{name}"
        if place in rows:
            return place
        if not path:
            return ""
        path = path[: path.rindex("node_modules/")].removesuffix("/")


def _fits(row: Row) -> bool:
    machine = platform.machine().lower()
    libc = ("glibc" if has_glibc() else "musl") if sys.platform == "linux" else ""
    own = {"os": sys.platform, "cpu": _PROCESSORS.get(machine, machine), "libc": libc}
    return all(_is_listed(value, row[member]) for member, value in own.items() if row.get(member))


def _is_listed(value: str, wanted: str | list[str]) -> bool:
    """Whether a list of npm allows a value: no negated entry names it, and one that is not negated does."""
    names = [wanted] if isinstance(wanted, str) else wanted
    if names == ["any"]:
        return True
    refused = [name[1:] for name in names if name.startswith("!")]
    return value not in refused and (value in names or len(refused) == len(names))
