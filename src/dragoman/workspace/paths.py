"""Confine paths to the roots of a workspace, by opening one path component at a time.

The kernel never follows a link or goes up: both are done here and must stay inside the roots. So the object that is
opened is the object that was checked, whatever changes meanwhile.
"""

from __future__ import annotations

import errno
import os
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from copy import copy
from typing import Any, TypeVar

from dragoman.errors import Kind, ProtocolError

T = TypeVar("T")

# The limit of Linux before ELOOP.
MAX_LINKS = 40

# PATH_MAX of Linux in bytes.
MAX_PATH = 4096

# Walks when a name becomes a link between check and open; more often is an attack.
MAX_ATTEMPTS = 8

# How long a file that is being written is waited for, and how often it is tried. A write takes milliseconds. Seconds.
OPEN_TIMEOUT, OPEN_PAUSE = 5.0, 0.0005

# O_PATH needs only search permission, like an ordinary lookup; without it, read permission is needed.
_DIRECTORY_FLAGS = getattr(os, "O_PATH", os.O_RDONLY) | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC

_NOT_A_DIRECTORY = (errno.ENOTDIR, errno.ELOOP)

# errno -> error kind, and the text after the path.
_OS_ERRORS: dict[int, tuple[str, str]] = {
    errno.ENOENT: (Kind.RESOURCE_NOT_FOUND, "does not exist"),
    errno.ENOTDIR: (Kind.RESOURCE_NOT_FOUND, "does not exist: a part of the path is not a folder"),
    errno.EISDIR: (Kind.INVALID_PARAMS, "is a folder, not a file"),
    errno.EEXIST: (Kind.INVALID_PARAMS, "exists already"),
    errno.ELOOP: (Kind.INVALID_PARAMS, "goes through too many links"),
    errno.ENAMETOOLONG: (Kind.INVALID_PARAMS, "has a name that is too long"),
    errno.ENXIO: (Kind.INVALID_PARAMS, "is not a regular file"),
    errno.EACCES: (Kind.ACCESS_DENIED, "is closed to the user that this client runs as"),
    errno.EPERM: (Kind.ACCESS_DENIED, "is closed to the user that this client runs as"),
    errno.EROFS: (Kind.ACCESS_DENIED, "is on a read-only file system"),
    errno.EFBIG: (Kind.TOO_LARGE, "is larger than the file system allows"),
}


class WouldWait(Exception):
    """What was asked for cannot be done without waiting for a disk or for another writer."""


class Roots:
    """The root folders of a workspace; links in their own paths are resolved once, by `resolve`.

    `protected` is never written: paths, and names without a slash, anywhere in a root or as the name of a root.
    `approved` has the canonical paths of requested ones that were approved; only these are then walked to.
    """

    __slots__ = ("_normalized_paths", "_protected_names", "_protected_paths", "_root_by_path", "approved", "real_paths")

    def __init__(
        self, paths: Sequence[str], protected: Sequence[str] = (), resolve: Callable[[str], str] = os.path.realpath
    ) -> None:
        self._protected_paths = tuple(_normalize(os.path.realpath(path)) for path in protected if "/" in path)
        self._protected_names = frozenset(_normalize(name) for name in protected if "/" not in name)
        spellings: dict[str, str] = {}
        for path in paths:
            validate_path(path)
            real = resolve(path)
            spellings.setdefault(real, real)
            # The path as given stays valid too: on macOS /tmp/x is really /private/tmp/x. Not with '..',
            # which means something else once the links before it are resolved.
            parts = [part for part in path.split("/") if part not in ("", ".")]
            if ".." not in parts:
                spellings.setdefault("/" + "/".join(parts), real)
        self._root_by_path = spellings
        self.approved: Mapping[str, str] = {}
        self.real_paths: tuple[str, ...] = tuple(dict.fromkeys(spellings.values()))
        self._normalized_paths = tuple(map(_normalize, self.real_paths))

    def with_approved(self, paths: Mapping[str, str]) -> Roots:
        """Return the same roots, where each of these requested paths leads to its approved canonical path."""
        roots = copy(self)
        roots.approved = {_without_slashes(requested): path for requested, path in paths.items()}
        return roots

    def approved_path(self, requested: str) -> str | None:
        """Return the canonical path that was approved for a requested one, if any."""
        return self.approved.get(_without_slashes(requested))

    def check_writable(self, path: str, requested: str) -> None:
        """Refuse a canonical path that is protected, or in a protected folder."""
        if not self._protected_paths and not self._protected_names:
            return
        plain = _normalize(path)
        if not self._protected_names.isdisjoint(self._names_below_root(plain)) or any(
            _is_inside(plain, place) for place in self._protected_paths
        ):
            message = f"{requested} belongs to the client and is protected from agents"
            raise ProtocolError(Kind.ACCESS_DENIED, message, file_error_data(requested))

    def _names_below_root(self, normalized: str) -> list[str]:
        """Return the names of a path from its root on; the folders above a root were chosen by the user."""
        above = max(
            (len(os.path.dirname(root)) for root in self._normalized_paths if _is_inside(normalized, root)), default=0
        )
        return normalized[above:].split("/")

    def locate(self, parts: Sequence[str]) -> tuple[str, list[str]] | None:
        """Return the root that an absolute path enters, and the remaining parts; None if it enters none."""
        seen: list[str] = []
        for index, part in enumerate(parts):
            if part == "..":
                del seen[-1:]
            elif part not in ("", "."):
                seen.append(part)
            root = self._root_by_path.get("/" + "/".join(seen))
            if root is not None:
                return root, list(parts[index + 1 :])
        return None


class PathTarget:
    """The target of a path: an open directory inside the roots, and a name in it that was not a link."""

    __slots__ = ("directory", "name", "path", "requested")

    def __init__(self, directory: int, name: str, path: str, requested: str) -> None:
        self.directory = directory
        self.name = name
        self.path = path
        self.requested = requested

    def __enter__(self) -> PathTarget:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def detach(self) -> PathTarget:
        """Return the same target, which stays open when this one is closed."""
        directory, self.directory = self.directory, -1
        return PathTarget(directory, self.name, self.path, self.requested)

    def open(self, flags: int, mode: int = 0o666, *, waits: bool = True) -> int:
        """Open the name, never a link; raises OSError."""
        return self.open_name(self.name, flags | os.O_NOCTTY, mode, waits=waits)

    def open_name(self, name: str, flags: int, mode: int = 0o666, *, waits: bool = True) -> int:
        """Open any name in the folder, never a link. Wait for a file that another session is writing, or raise
        WouldWait.
        """
        quiet = os.O_NOFOLLOW | os.O_CLOEXEC
        deadline = 0.0
        while True:
            try:
                return os.open(name, flags | quiet, mode, dir_fd=self.directory)
            except BlockingIOError:  # leased: see atomic_write
                if not waits:
                    raise WouldWait from None
                deadline = deadline or time.monotonic() + OPEN_TIMEOUT
                if time.monotonic() > deadline:
                    raise
            time.sleep(OPEN_PAUSE)

    def stat(self) -> os.stat_result | None:
        """Return the status of the name without following links; None if it does not exist."""
        try:
            return os.stat(self.name, dir_fd=self.directory, follow_symlinks=False)
        except FileNotFoundError:
            return None

    def close(self) -> None:
        """Close the directory."""
        if self.directory >= 0:
            os.close(self.directory)
            self.directory = -1


def find_target(
    roots: Roots,
    path: str,
    *,
    base: str | None = None,
    make_directories: bool = False,
    made_directories: list[str] | None = None,
) -> PathTarget:
    """Walk to the target of a path; the name may be missing, its folder only with `make_directories`.

    Created folders are added to `made_directories`, even if the walk fails.
    """
    asked = validate_path(path, base)
    with translate_os_errors(asked):
        return _PathWalk(roots, asked, make_directories=make_directories, made_directories=made_directories).run(
            roots.approved_path(path)
        )


def with_target(
    roots: Roots,
    path: str,
    use: Callable[[PathTarget], T],
    *,
    base: str | None = None,
    make_directories: bool = False,
    made_directories: list[str] | None = None,
) -> T:
    """Call `use` with the target of a path; walk again if the name became a link meanwhile."""
    for attempt in range(MAX_ATTEMPTS):
        target = find_target(
            roots, path, base=base, make_directories=make_directories, made_directories=made_directories
        )
        with target, translate_os_errors(target.requested):
            try:
                return use(target)
            except OSError as error:
                if error.errno != errno.ELOOP or attempt == MAX_ATTEMPTS - 1:  # ELOOP: it became a link
                    raise
    raise AssertionError("unreachable")


def resolve_inside(roots: Roots, path: str, *, base: str | None = None) -> str:
    """Return the canonical path, for permission questions; it need not exist."""
    asked = validate_path(path, base)
    with translate_os_errors(asked), _PathWalk(roots, asked, allow_missing=True).run() as target:
        return target.path


def validate_path(path: str, base: str | None = None) -> str:
    """Return the absolute path, or raise invalid_params; a relative one needs a base."""
    if not path:
        raise ProtocolError(Kind.INVALID_PARAMS, "the path is empty")
    if "\0" in path:
        raise ProtocolError(Kind.INVALID_PARAMS, "the path contains a NUL character")
    if not path.startswith("/"):
        if base is None:
            message = f"the path must be absolute: {path[:MAX_PATH]}"
            raise ProtocolError(Kind.INVALID_PARAMS, message, {"path": path[:MAX_PATH]})
        path = f"{base}/{path}"
    try:
        size = len(os.fsencode(path))
    except UnicodeEncodeError:
        message = "the path cannot be written in the file system's encoding"
        raise ProtocolError(Kind.INVALID_PARAMS, message) from None
    if size > MAX_PATH:
        raise ProtocolError(Kind.INVALID_PARAMS, f"the path is longer than {MAX_PATH} bytes")
    return path


def _without_slashes(path: str) -> str:
    return path.rstrip("/") or path


def _is_inside(path: str, folder: str) -> bool:
    return path == folder or path.startswith(folder.rstrip("/") + "/")


def _normalize(path: str) -> str:
    """Return one form for all names that a file system may treat as equal (case, Unicode composition)."""
    import unicodedata

    return path if path.isascii() and path.islower() else unicodedata.normalize("NFC", path).casefold()


@contextmanager
def translate_os_errors(path: str) -> Iterator[None]:
    """Raise errors of the operating system as protocol errors."""
    try:
        yield
    except OSError as error:
        code = error.errno or 0
        kind, words = _OS_ERRORS.get(code, (Kind.INTERNAL_ERROR, f"cannot be used: {os.strerror(code)}"))
        raise ProtocolError(kind, f"{path} {words}", file_error_data(path)) from error


def file_error_data(path: str) -> dict[str, Any]:
    """Return the data of an error about a file: its uri, as peers expect it (docs/protocol/peers.md#missing-files)."""
    from urllib.parse import quote

    return {"uri": "file://" + quote(os.fsencode(path))}


class _PathWalk:
    """One walk: the current directory, its names below the root, and the remaining parts (last first)."""

    def __init__(
        self,
        roots: Roots,
        path: str,
        *,
        make_directories: bool = False,
        made_directories: list[str] | None = None,
        allow_missing: bool = False,
    ) -> None:
        self.roots = roots
        self.path = path
        self.make_directories = make_directories
        self.made_directories = [] if made_directories is None else made_directories
        self.allow_missing = allow_missing
        self.allow_links = True
        self.link_count = 0
        self.fd = -1
        self.root = ""
        self.names: list[str] = []
        self.remaining: list[str] = []

    def run(self, approved: str | None = None) -> PathTarget:
        """Walk the path, or its approved canonical form, in which nothing may have become a link since."""
        try:
            parts = self.path.split("/")
            if approved is not None:
                self.allow_links = False
                parts = [*approved.split("/"), *([""] if parts[-1] in ("", ".", "..") else ())]
            self._enter_root(parts)
            while self.remaining:
                part = self.remaining.pop()
                if part in ("", "."):
                    continue
                if part == "..":
                    self._ascend()
                elif self.remaining:  # an empty part counts: before a slash there must be a folder
                    if not self._descend(part):
                        return self._finish("/".join([part, *reversed(self.remaining)]))
                elif not self._follow_link(part):
                    return self._finish(part)
            return self._finish(".")
        except BaseException:
            self._close_fd()
            raise

    def _finish(self, name: str) -> PathTarget:
        directory = self._current_fd()
        self.fd = -1
        path = os.path.normpath("/".join([self.root.rstrip("/"), *self.names, name]))
        return PathTarget(directory, name, path, self.path)

    def _enter_root(self, parts: Sequence[str]) -> None:
        """Start again from the root that an absolute path enters."""
        found = self.roots.locate(parts)
        if found is None:
            shared = ", ".join(self.roots.real_paths) or "none"
            message = f"{self.path} is outside the folders shared with the agent ({shared})"
            raise ProtocolError(Kind.ACCESS_DENIED, message, file_error_data(self.path))
        self._close_fd()
        self.root, rest = found
        self.names.clear()
        self.remaining = rest[::-1]

    def _ascend(self) -> None:
        """Go up by the names walked so far: '..' of a folder that was moved could lead anywhere."""
        if self.names:
            self.names.pop()
            self._close_fd()
        else:  # outside this root; the path may enter a root again
            self._enter_root([*os.path.dirname(self.root).split("/"), *reversed(self.remaining)])

    def _descend(self, name: str) -> bool:
        """Enter a folder, or follow a link; return False if it is missing and that is allowed."""
        try:
            inner = self._open_directory(name)
        except OSError as error:
            if error.errno in _NOT_A_DIRECTORY and self._follow_link(name):
                return True
            if error.errno != errno.ENOENT:
                raise
            if self.allow_missing and ".." not in self.remaining:
                return False
            folder = "/".join([self.root.rstrip("/"), *self.names, name])
            message = f"{self.path} does not exist: there is no folder {folder}, create it first"
            raise ProtocolError(Kind.RESOURCE_NOT_FOUND, message, file_error_data(self.path)) from error
        self._close_fd()
        self.fd = inner
        self.names.append(name)
        return True

    def _open_directory(self, name: str) -> int:
        here = self._current_fd()
        try:
            return os.open(name, _DIRECTORY_FLAGS, dir_fd=here)
        except FileNotFoundError:
            if not self.make_directories:
                raise
        folder = "/".join([self.root.rstrip("/"), *self.names, name])
        self.roots.check_writable(folder, self.path)
        try:
            os.mkdir(name, dir_fd=here)
            self.made_directories.append(folder)
        except FileExistsError:
            pass  # created meanwhile; checked like any other
        return os.open(name, _DIRECTORY_FLAGS, dir_fd=here)

    def _follow_link(self, name: str) -> bool:
        """If the name is a link, put its target before the remaining parts."""
        try:
            target = os.readlink(name, dir_fd=self._current_fd())
        except OSError as error:
            if error.errno in (errno.EINVAL, errno.ENOENT):
                return False
            raise
        if not self.allow_links:
            message = f"{self.path} is not the file that was approved: it leads to {target} now; ask for it again"
            raise ProtocolError(Kind.PERMISSION_DENIED, message, file_error_data(self.path))
        self.link_count += 1
        if self.link_count > MAX_LINKS:
            raise OSError(errno.ELOOP, os.strerror(errno.ELOOP))
        parts = target.split("/")
        if target.startswith("/"):
            self._enter_root([*parts, *reversed(self.remaining)])
        else:
            self.remaining.extend(reversed(parts))
        return True

    def _current_fd(self) -> int:
        """Return the current directory; after going up, open it again from the top, without links."""
        if self.fd < 0:
            fd = os.open("/", _DIRECTORY_FLAGS)
            for name in [*self.root.split("/"), *self.names]:
                if not name:
                    continue
                outer = fd
                try:
                    fd = os.open(name, _DIRECTORY_FLAGS, dir_fd=outer)
                finally:
                    os.close(outer)
            self.fd = fd
        return self.fd

    def _close_fd(self) -> None:
        if self.fd >= 0:
            os.close(self.fd)
            self.fd = -1
