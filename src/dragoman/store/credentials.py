"""Credentials of sessions: a file of their own that only its owner can read, apart from every log.

Takes what a session was given to sign in elsewhere with (environment and headers of MCP servers, tokens), by the id of
the session. Written all at once, by one process at a time. Blocks; stores call it from a thread.
"""

from __future__ import annotations

import fcntl
import os
from collections.abc import Callable, Iterable
from typing import Any

import msgspec

Contents = dict[str, dict[str, Any]]


class CredentialsFile:
    """The file."""

    def __init__(self, path: str) -> None:
        self.path = path

    def read(self, session_id: str) -> dict[str, Any]:
        """What was kept for a session; empty if nothing was."""
        return self._load().get(session_id, {})

    def save(self, session_id: str, credentials: dict[str, Any]) -> None:
        """Keep this for a session, in place of what was kept before."""

        def change(contents: Contents) -> None:
            contents[session_id] = credentials
            if not credentials:
                del contents[session_id]

        self._edit(change)

    def copy(self, session_id: str, to: str) -> None:
        """Another session goes on with the same."""
        if os.path.exists(self.path) and (known := self.read(session_id)):
            self.save(to, known)

    def delete(self, session_ids: Iterable[str]) -> None:
        """Nothing is kept for these any more."""
        gone = set(session_ids)
        if gone and os.path.exists(self.path) and gone & self._load().keys():
            self._edit(lambda contents: [contents.pop(session_id, None) for session_id in gone])

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
            raise OSError(f"it is damaged ({error}); move it away and give the credentials again") from None

    def _edit(self, change: Callable[[Contents], object]) -> None:
        lock = os.open(f"{self.path}.lock", os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(lock, fcntl.LOCK_EX)
            contents = self._load()
            change(contents)
            self._write(msgspec.json.encode(contents))
        finally:
            os.close(lock)  # which lets go of it

    def _write(self, data: bytes) -> None:
        beside = f"{self.path}.{os.urandom(6).hex()}"
        fd = os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
        try:
            with open(fd, "wb") as file:
                file.write(data)
                file.flush()
                os.fsync(file.fileno())
            os.replace(beside, self.path)
        except BaseException:
            os.unlink(beside)
            raise
