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
_KINDS = ("dependencies", "optionalDependencies", "peerDependencies")
# What a package says about the machines that it is for: a name, or several.
_PLATFORMS = ("os", "cpu", "libc")
# The strongest first.
_HASHES = ("sha512", "sha384", "sha256", "sha1")
_PROCESSORS = {"x86_64": "x64", "amd64": "x64", "aarch64": "arm64", "i686": "ia32", "i386": "ia32"}

# Where npm puts packages; a lock of somebody else could name any other place.
_PATH = re.compile(r"(?:(?:^|/)node_modules/(?:@[\w.~-]+/)?(?!\.\.?(?:/|$))[\w.~-]+)+")

# What npm takes for a name, a version or a range; everything else is an address, a folder, or a repository of git, in
# which npm runs programs that the repository configures, with --ignore-scripts too.
_NAME = re.compile(r"(?:@[\w~-][\w.~-]*/)?[\w~-][\w.~-]*", re.A)
_VERSION = re.compile(r"(?:[0-9][0-9A-Za-z.+-]*)?")
_RANGE = re.compile(rf"(?:npm:{_NAME.pattern}@?)?(?!\.)[^/:\\@#%]*(?<!\.tgz)(?<!\.tar)(?<!\.tar\.gz)", re.A)
_ADDRESS = re.compile(r"https?://(?:www\.)?([a-z0-9.-]+)(?::[0-9]+)?(/[\w./@~+%=&?,-]*)", re.A)
# Hosts of which npm takes an address for a repository, besides gitlab.com; but not for these archives.
_GIT_HOSTS = {"github.com", "gist.github.com", "bitbucket.org", "git.sr.ht"}
_GITHUB_ARCHIVE = re.compile(r"/[\w.-]+/[\w.-]+/(?:archive|tarball|releases/download)/[\w./@~+-]+", re.A)

Row = dict[str, Any]


class _Lock(msgspec.Struct):
    packages: dict[str, Row]


def read_lock(tree: bytes) -> dict[str, Row]:
    """Return the packages of a lock by path; raise RegistryFault if one has no hash, or is more than a package."""
    try:
        packages = msgspec.json.decode(tree, type=_Lock).packages
    except msgspec.DecodeError as error:
        raise RegistryFault("hash", f"the list of packages is not readable: {error}") from None
    rows = {path: row for path, row in packages.items() if path}
    for path, row in rows.items():
        if _PATH.fullmatch(path) is None or "/../" in f"{path}/":
            raise RegistryFault("hash", f"the list of packages names a place outside node_modules: {path!r}")
        if not row.get("integrity") and not (row.get("inBundle") and _has_bundler(rows, path)):
            raise RegistryFault("hash", f"npm has no hash for {package_name(path)}; nothing was installed")
        if fault := _row_fault(row):
            raise RegistryFault(
                "hash", f"the list of packages: {package_name(path)} {fault}; choose another version of the agent"
            )
    return rows


def _has_bundler(rows: dict[str, Row], path: str) -> bool:
    """Tell whether a package that a path leads through says that it brings others with it."""
    parents = [path[: match.start()] for match in re.finditer("/node_modules/", path)]
    return any(rows.get(each, {}).get("bundleDependencies") for each in parents)


def _row_fault(row: Row) -> str:
    """Return what npm would take from elsewhere than its registry or an address of an archive; "" if nothing."""
    if row.get("link"):
        return "is a link"
    resolved = row.get("resolved") or ""
    if resolved and not _is_archive(resolved):
        return f"comes from {ascii(resolved)[:80]}, which is not an archive"
    for member, pattern in (("name", _NAME), ("version", _VERSION)):
        value = row.get(member)
        if value is not None and not (isinstance(value, str) and pattern.fullmatch(value)):
            return f"has the {member} {ascii(value)[:80]}"
    for member in _PLATFORMS:
        value = row.get(member)
        names = value if isinstance(value, list) else [value]
        if value is not None and not all(isinstance(name, str) for name in names):
            return f"has the {member} {ascii(value)[:80]}"
    for kind in _KINDS:
        needs = row.get(kind)
        for name, wanted in needs.items() if isinstance(needs, dict) else ():
            is_plain = isinstance(wanted, str) and (_RANGE.fullmatch(wanted) or _is_archive(wanted))
            if not is_plain and not (kind == "peerDependencies" and _is_optional_peer(row, name)):
                return f"needs {ascii(name)[:80]} from {ascii(wanted)[:80]}, which is no version"
    return ""


def _is_optional_peer(row: Row, name: str) -> bool:
    """Tell whether npm leaves a package out unless another one needs it."""
    meta = row.get("peerDependenciesMeta")
    about = meta.get(name) if isinstance(meta, dict) else None
    return isinstance(about, dict) and about.get("optional") is True


def _is_archive(address: object) -> bool:
    """Tell whether npm downloads an address as one file, instead of cloning a repository."""
    match = _ADDRESS.fullmatch(address) if isinstance(address, str) else None
    if match is None or ".." in match[2]:
        return False
    if match[1] == "gitlab.com":
        return "/-/" in match[2]  # its registry of packages
    return match[1] not in _GIT_HOSTS or (match[1] == "github.com" and _GITHUB_ARCHIVE.fullmatch(match[2]) is not None)


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
    return [name for kind in _KINDS if isinstance(row.get(kind), dict) for name in row[kind]]


def _resolve(rows: dict[str, Row], path: str, name: str) -> str:
    """Return where a package finds another one: below itself, else beside it or above."""
    while True:
        place = f"{path}/node_modules/{name}" if path else f"node_modules/{name}"
        if place in rows:
            return place
        if not path:
            return ""
        path = path[: path.rindex("node_modules/")].removesuffix("/")


def missing_part(rows: dict[str, Row], package: str) -> str:
    """Return the package with the program for this machine, if npm has none of the optional packages; else ""."""
    named = rows.get(f"node_modules/{package}", {}).get("optionalDependencies")
    names = sorted(named, key=len) if isinstance(named, dict) else []
    if any(package_name(path) in names for path in rows):
        return ""
    words = {sys.platform, _processor()}
    return next((name for name in names if words <= set(re.split(r"[^a-z0-9]+", name))), "")


def _processor() -> str:
    machine = platform.machine().lower()
    return _PROCESSORS.get(machine, machine)


def _fits(row: Row) -> bool:
    libc = ("glibc" if has_glibc() else "musl") if sys.platform == "linux" else ""
    own = {"os": sys.platform, "cpu": _processor(), "libc": libc}
    return all(_is_listed(value, row[member]) for member, value in own.items() if row.get(member))


def _is_listed(value: str, wanted: str | list[str]) -> bool:
    """Whether a list of npm allows a value: no negated entry names it, and one that is not negated does."""
    names = [wanted] if isinstance(wanted, str) else wanted
    if names == ["any"]:
        return True
    refused = [name[1:] for name in names if name.startswith("!")]
    return value not in refused and (value in names or len(refused) == len(names))
