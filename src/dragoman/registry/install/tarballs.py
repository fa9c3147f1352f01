"""npm packages that are at hand: found by their hashes in npm's cache or a folder, and unpacked as npm does.

npm itself is not started, so an agent that was downloaded before is installed faster than npm would do it.
"""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Iterator, Mapping

from dragoman.registry.fault import RegistryFault
from dragoman.registry.install.npm_lock import Row, hash_of, package_name
from dragoman.registry.install.plan import Workshop
from dragoman.registry.unpack.npm_package import unpack_npm_package

_CACHE_LINE = re.compile(r"^\s*cache\s*=\s*(.+?)\s*$", re.M)


def npm_caches(environ: Mapping[str, str] = os.environ) -> list[str]:
    """Return the folders that npm may keep its downloads in, without asking npm."""
    variables = {name.lower(): value for name, value in environ.items()}
    settings = variables.get("npm_config_userconfig") or os.path.expanduser("~/.npmrc")
    try:
        with open(settings, encoding="utf-8", errors="replace") as file:
            named = _CACHE_LINE.findall(file.read())
    except OSError:
        named = []
    known = [variables.get("npm_config_cache", ""), *named, os.path.expanduser("~/.npm")]
    return [os.path.expanduser(path) for path in dict.fromkeys(known) if path]


def find_tarball(row: Row, workshop: Workshop) -> str:
    """Return the tarball of a package, compared with its hash; "" if it is not at hand. Raise RegistryFault."""
    algorithm, digest = hash_of(row)
    if not digest:
        return ""
    given = workshop.find_given(f"{algorithm}-{digest}")
    if given:
        if (found := _digest(given, algorithm)) != digest:
            raise RegistryFault("hash", f"{given}: the lock says {algorithm} {digest}, the file has {found}")
        return given
    for cache in npm_caches():
        path = os.path.join(cache, "_cacache", "content-v2", algorithm, digest[:2], digest[2:4], digest[4:])
        if os.path.exists(path) and _digest(path, algorithm) == digest:
            return path
    return ""


def _digest(path: str, algorithm: str) -> str:
    with open(path, "rb") as file:
        return hashlib.file_digest(file, algorithm).hexdigest()


def unpack_kept(needed: dict[str, Row], files: str, workshop: Workshop) -> bool:
    """Install packages of a lock that are all at hand; return False, with nothing changed, if one is not."""
    own = {path: row for path, row in needed.items() if not row.get("inBundle")}
    tarballs = {path: find_tarball(row, workshop) for path, row in own.items()}
    if missing := [path for path, tarball in tarballs.items() if not tarball]:
        if workshop.given:
            raise RegistryFault("unknown", f"{workshop.given} has no {package_name(missing[0])} of the lock")
        return False
    for path, tarball in sorted(tarballs.items()):
        unpack_npm_package(tarball, os.path.join(files, path))
    for path, row in sorted(needed.items()):
        for name, program in _programs(path, row):
            _link_program(os.path.join(files, path), name, program)
    return True


def _programs(path: str, row: Row) -> Iterator[tuple[str, str]]:
    programs = row.get("bin")
    short = package_name(path).rpartition("/")[2]
    table = {short: programs} if isinstance(programs, str) else programs if isinstance(programs, dict) else {}
    for name, program in table.items():
        parts = [part for part in str(program).split("/") if part not in ("", ".", "..")]  # as npm reads it
        if os.path.basename(name) not in ("", ".", "..") and parts:
            yield os.path.basename(name), "/".join(parts)


def _link_program(package: str, name: str, program: str) -> None:
    """Make a program of a package executable and link it in `.bin`, as npm does."""
    path = os.path.join(package, program)
    if os.path.realpath(path) != os.path.join(os.path.realpath(package), program) or not os.path.isfile(path):
        return
    os.chmod(path, 0o755)
    modules = package[: package.rindex("node_modules") + len("node_modules")]
    link = os.path.join(modules, ".bin", name)
    os.makedirs(os.path.dirname(link), exist_ok=True)
    if os.path.lexists(link):
        os.unlink(link)
    os.symlink(os.path.relpath(path, os.path.dirname(link)), link)
