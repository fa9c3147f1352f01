"""Credentials of sessions (values of env and headers, tokens) in a file that only its owner can read, outside all logs.

Blocks; stores call it from a thread.
"""

from __future__ import annotations

import fcntl
import os
from collections.abc import Callable, Iterable
from typing import Any

import msgspec

Contents = dict[str, dict[str, Any]]


class CredentialsFile:
    """The credentials file."""

    def __init__(self, path: str) -> None:
        self.path = path

    def read(self, session_id: str) -> dict[str, Any]:
        """Return the credentials of a session; empty if there are none."""
        return self._load().get(session_id, {})

    def save(self, session_id: str, credentials: dict[str, Any]) -> None:
        """Replace the credentials of a session."""

        def change(contents: Contents) -> None:
            contents[session_id] = credentials
            if not credentials:
                del contents[session_id]

        self._edit(change)

    def copy(self, session_id: str, to: str) -> None:
        """Copy the credentials of a session to another one."""
        if os.path.exists(self.path) and (credentials := self.read(session_id)):
            self.save(to, credentials)

    def delete(self, session_ids: Iterable[str]) -> None:
        """Delete the credentials of these sessions."""
        deleted = set(session_ids)
        if deleted and os.path.exists(self.path) and deleted & self._load().keys():
            self._edit(lambda contents: [contents.pop(session_id, None) for session_id in deleted])

    def _load(self) -> Contents:
        try:
            fd = os.open(self.path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
        except FileNotFoundError:
            return {}
        with open(fd, "rb") as file:
            data = file.read()
        try:
            return msgspec.json.decode(data, type=Contents)
        except msgspec.DecodeError as error:
            raise OSError(f"the file is damaged ({error}); move it away and enter the credentials again") from None

    def _edit(self, change: Callable[[Contents], object]) -> None:
        lock = os.open(f"{self.path}.lock", os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(lock, fcntl.LOCK_EX)
            contents = self._load()
            change(contents)
            self._write(msgspec.json.encode(contents))
        finally:
            os.close(lock)  # releases the lock

    def _write(self, data: bytes) -> None:
        temporary = f"{self.path}.{os.urandom(6).hex()}"
        fd = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
        try:
            with open(fd, "wb") as file:
                file.write(data)
                file.flush()
                os.fsync(file.fileno())
            os.replace(temporary, self.path)
        except BaseException:
            os.unlink(temporary)
            raise
