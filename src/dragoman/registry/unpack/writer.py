"""Write the members of an archive into a new folder, each through descriptors, with bounds that are counted here.

Files and folders are written as they come, links when all else is there. So nothing is written through a link.
"""

from __future__ import annotations

import os
from typing import IO

from dragoman.registry.unpack.names import FILE, FOLDER, LINK, MemberNames, member_parts, refuse

# Bytes that an archive may have when it is unpacked, and how much larger than itself it may become.
MAX_UNPACKED = 2 * 1024**3
MAX_RATIO = 200
# Small archives of empty or repetitive files may have any ratio. Bytes.
RATIO_FREE = 16 * 1024**2

_DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_NEW_FILE = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
_OLD_FILE = os.O_WRONLY | os.O_TRUNC | os.O_NOFOLLOW | os.O_CLOEXEC
_CHUNK = 256 * 1024


class TreeWriter:
    """Writes below one folder that nobody else uses."""

    def __init__(self, folder: str, archive_size: int) -> None:
        self.names = MemberNames()
        self._root = os.open(folder, _DIRECTORY)
        self._limit = min(MAX_UNPACKED, max(RATIO_FREE, archive_size * MAX_RATIO))
        self._written = 0
        self._links: list[tuple[tuple[str, ...], str]] = []
        # Members of one folder follow each other: it is opened once for all of them.
        self._folder: tuple[tuple[str, ...], int] | None = None

    def add_folder(self, name: str) -> None:
        """Make a folder."""
        self._open_folder(self.names.add(name, FOLDER))

    def add_file(self, name: str, content: IO[bytes], *, is_executable: bool) -> None:
        """Write a file."""
        parts = self.names.add(name, FILE)
        if not parts:
            raise refuse(name, "it has no name")
        self._write(parts, content, _NEW_FILE, is_executable=is_executable)

    def replace_file(self, name: str, content: IO[bytes], *, is_executable: bool) -> None:
        """Write a file again that was written before."""
        parts = member_parts(name)
        if self.names.kind_of(parts) != FILE:
            raise refuse(name, "it is no file that was written before")
        self._write(parts, content, _OLD_FILE, is_executable=is_executable)

    def _write(self, parts: tuple[str, ...], content: IO[bytes], flags: int, *, is_executable: bool) -> None:
        folder = self._open_folder(parts[:-1])
        fd = os.open(parts[-1], flags, 0o755 if is_executable else 0o644, dir_fd=folder)
        with open(fd, "wb") as file:
            while chunk := content.read(_CHUNK):
                self.count(len(chunk), parts[-1])
                file.write(chunk)
            os.fchmod(fd, 0o755 if is_executable else 0o644)  # whatever the umask says

    def add_link(self, name: str, target: str) -> None:
        """Note a symbolic link; it is made at the end."""
        self._links.append((self.names.add(name, LINK, target), target))

    def add_copy(self, name: str, of: str, *, is_executable: bool) -> None:
        """Write a hard link as a copy of an earlier member."""
        source = member_parts(of)
        if not source or self.names.kind_of(source) != FILE:
            raise refuse(name, f"it is a hard link to {of!r}, which is no file before it")
        folder = self._open_folder(source[:-1])
        fd = os.open(source[-1], os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=folder)
        with open(fd, "rb") as content:
            executable = is_executable or bool(os.fstat(fd).st_mode & 0o111)
            self.add_file(name, content, is_executable=executable)

    def count(self, size: int, name: str) -> None:
        """Count bytes that were unpacked."""
        self._written += size
        if self._written > self._limit:
            raise refuse(name, f"it unpacks to more than {self._limit >> 20} MiB")

    def finish(self) -> None:
        """Check and make the links."""
        self.names.check_links()
        for parts, target in self._links:
            os.symlink(target, parts[-1], dir_fd=self._open_folder(parts[:-1]))

    def close(self) -> None:
        """Close the folders."""
        self._close_folder()
        os.close(self._root)

    def _close_folder(self) -> None:
        if self._folder is not None:
            os.close(self._folder[1])
            self._folder = None

    def _open_folder(self, parts: tuple[str, ...]) -> int:
        """Return a descriptor of a folder, which is made if it is missing; it stays open until the next one."""
        if self._folder is not None and self._folder[0] == parts:
            return self._folder[1]
        self._close_folder()
        fd = os.dup(self._root)
        for part in parts:
            try:
                try:
                    os.mkdir(part, 0o755, dir_fd=fd)
                except FileExistsError:
                    pass
                inner = os.open(part, _DIRECTORY, dir_fd=fd)
            finally:
                os.close(fd)
            fd = inner
        self._folder = parts, fd
        return fd
