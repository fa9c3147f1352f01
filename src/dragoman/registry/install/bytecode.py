"""Bytecode of installed modules: made at install time, so that the manifest covers it, and kept by its source.

Most packages of an update are those of the version before, and need not be compiled again. What is kept comes from our
own run of Python's compiler over one source, never from a package: what a package brings is removed before that run.
"""

from __future__ import annotations

import errno
import hashlib
import os
import shlex
import stat
import tempfile
import time
from collections.abc import Iterator

from dragoman.registry.fault import RegistryFault
from dragoman.registry.install.records import remove_tree
from dragoman.registry.tools.find import Program
from dragoman.registry.tools.run import TIMEOUT, Access, run_tool

# What is kept and was not used for this long is removed. Seconds.
MAX_AGE = 60 * 86400.0
# The header of a file of bytecode: magic number, flags, then the time and the size of its source.
_HEADER_LENGTH, _CHECKED_BY_TIME = 16, b"\0\0\0\0"
_FOLDER = "__pycache__"
_DIGEST = 32
# Part of the name of the cache's folder: after a change of this number, nothing that was kept before is used. Version 1
# could contain bytecode that a package brought.
_CACHE_VERSION = 2

# Compiles the modules of a list. What is no Python, or has too long a name, gets no bytecode; other errors end it.
_COMPILER = """\
import errno, os, py_compile, sys
with open(sys.argv[1], "rb") as file:
    paths = file.read().split(bytes(1))[:-1]
for path in map(os.fsdecode, paths):
    try:
        py_compile.compile(path, doraise=True, invalidation_mode=py_compile.PycInvalidationMode.TIMESTAMP)
    except py_compile.PyCompileError:
        pass
    except OSError as error:
        if error.errno != errno.ENAMETOOLONG:
            raise
"""


def compile_modules(files: str, python: Program, read: list[str], cache: str) -> None:
    """Write the bytecode of every module, from `cache` where it was kept; one that does not compile has none."""
    real = os.path.realpath(python.path)
    key = hashlib.sha256(f"{_CACHE_VERSION}\n{real}\n{python.version}".encode()).hexdigest()[:16]
    kept = os.path.join(cache, "bytecode", key)
    tag = f"cpython-{''.join(python.version.split('.')[:2])}"
    _remove_packaged_bytecode(files, tag)
    sources = {path: _digest(path) for path in _modules(files)}
    new = [path for path, digest in sources.items() if not _restore(os.path.join(kept, digest), path, tag)]
    if not new:
        return
    _compile(files, new, real, read)
    os.makedirs(kept, mode=0o700, exist_ok=True)
    for path in new:
        _keep(os.path.join(kept, sources[path]), _target(path, tag))
    _remove_old(os.path.join(cache, "bytecode"))


def _remove_packaged_bytecode(files: str, tag: str) -> None:
    """Remove the bytecode that packages bring: Python would run it without comparing it with its source."""
    for parent, folders, names in os.walk(files):
        for name in [each for each in (*folders, *names) if each.lower() == _FOLDER]:
            path = os.path.join(parent, name)
            if os.path.isdir(path) and not os.path.islink(path):
                remove_tree(path)
            else:
                os.unlink(path)
            if os.path.lexists(path):
                raise RegistryFault("disk", f"{path} cannot be removed; nothing was installed")
        folders[:] = [each for each in folders if each.lower() != _FOLDER]
    for path in _modules(files):  # a file system may have more names for one folder
        try:
            os.unlink(_target(path, tag))
        except OSError as error:
            if error.errno not in (errno.ENOENT, errno.ENAMETOOLONG):
                raise


def _modules(files: str) -> Iterator[str]:
    for parent, _, names in os.walk(os.path.join(files, "lib")):
        for name in names:
            path = os.path.join(parent, name)
            if name.endswith(".py") and os.path.isfile(path) and not os.path.islink(path):
                yield path


def _digest(path: str) -> str:
    with open(path, "rb") as file:
        return hashlib.sha256(file.read()).hexdigest()


def _target(path: str, tag: str) -> str:
    parent, name = os.path.split(path)
    return os.path.join(parent, _FOLDER, f"{name.removesuffix('.py')}.{tag}.pyc")


def _restore(entry: str, path: str, tag: str) -> bool:
    """Write the bytecode of a module from what was kept; return whether that was possible."""
    try:
        with open(entry, "rb") as file:
            digest, code = file.read(_DIGEST), file.read()
    except OSError:
        return False
    if hashlib.sha256(code).digest() != digest:  # half of it, after a power cut
        return False
    status = os.stat(path)
    source = (int(status.st_mtime) & 0xFFFFFFFF, status.st_size & 0xFFFFFFFF)
    header = code[:8] + b"".join(number.to_bytes(4, "little") for number in source)
    target = _target(path, tag)
    os.makedirs(os.path.dirname(target), exist_ok=True)
    try:
        with open(target, "xb") as file:
            file.write(header + code[_HEADER_LENGTH:])
    except OSError as error:
        if error.errno != errno.ENAMETOOLONG:
            raise
        return False
    os.utime(entry)  # it was used
    return True


def _compile(files: str, modules: list[str], python: str, read: list[str]) -> None:
    """Compile modules in as many processes as there are processors, without a network; nothing of them is run."""
    count = min(os.cpu_count() or 1, len(modules))
    with tempfile.TemporaryDirectory(prefix="dragoman-modules-") as folder:  # a package may have files of any name
        lines = []
        for number in range(count):
            path = os.path.join(folder, str(number))
            with open(path, "wb") as file:
                file.writelines(os.fsencode(module) + b"\0" for module in modules[number::count])
            words = [python, "-I", "-S", "-W", "ignore", "-c", _COMPILER, path]
            lines.append(f"{shlex.join(words)} & started{number}=$!")
        lines += [f"wait $started{number} || failed=1" for number in range(count)]
        script = "\n".join(["failed=0", *lines, "exit $failed"])
        access = Access(write=[files], read=[*read, folder], network=False)
        ended = run_tool(["/bin/sh", "-c", script], files, access, {}, timeout=TIMEOUT)
    if ended.status:
        why = "disk" if "No space left" in ended.stderr else "archive"
        raise RegistryFault(why, f"Python failed to compile the modules; nothing was kept:\n{ended.tail}")


def _keep(entry: str, target: str) -> None:
    """Keep a file that our run wrote: there was none of this name before it."""
    try:
        fd = os.open(target, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
    except OSError:
        return
    with open(fd, "rb") as file:
        status = os.fstat(fd)
        code = file.read() if stat.S_ISREG(status.st_mode) and status.st_nlink == 1 else b""
    if code[4:8] == _CHECKED_BY_TIME and len(code) > _HEADER_LENGTH:
        part = f"{entry}.part"
        with open(part, "wb", opener=lambda path, flags: os.open(path, flags, 0o600)) as file:
            file.write(hashlib.sha256(code).digest() + code)
        os.replace(part, entry)


def _remove_old(folder: str) -> None:
    """Remove what no interpreter used for long."""
    oldest = time.time() - MAX_AGE
    for parent, _, names in os.walk(folder):
        for name in names:
            path = os.path.join(parent, name)
            if os.lstat(path).st_mtime < oldest:
                os.unlink(path)
