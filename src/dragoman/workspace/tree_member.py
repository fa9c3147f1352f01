"""One session that uses a tree: the files as it knows them by digest, the commands that it runs, and its changes."""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Iterator, Sequence
from hashlib import blake2b
from typing import NamedTuple

# Files that are remembered for one session. The oldest are dropped: the session then has to read the file again.
MAX_SEEN = 10_000

# A change is still attributed to a command that ended this long ago. Seconds.
COMMAND_LINGER = 1.0

MISSING = b""  # the digest of a file that does not exist


class Change(NamedTuple):
    """A file that changed: who wrote it, and whether that went through the workspace."""

    seq: int
    path: str
    by: str
    digest: bytes
    writer: TreeMember | None = None  # None: from outside
    is_outside: bool = False


class Refusal(NamedTuple):
    """A write that was refused: who is in the way, why, and whose write it was."""

    seq: int
    path: str
    by: str
    reason: str
    member: TreeMember


class TreeMember:
    """One session that uses the files of a tree: what it has read and written, and the commands that it runs."""

    def __init__(
        self,
        name: Callable[[], str],
        roots: Sequence[str],
        *,
        activity: Callable[[], int | None] = lambda: None,
        on_shared: Callable[[], None] = lambda: None,
    ) -> None:
        """`on_shared` is called, from any thread, when another session uses the tree too."""
        self._name = name
        self.roots = tuple(roots)
        self._activity = activity
        self.on_shared = on_shared
        self.is_shared = False  # whether another session uses the tree, or did
        self.asker: TreeMember | None = None  # the session that waits for this one's answer
        self.waits_for: TreeMember | None = None  # the holder of the lease that this one waits for
        self._has_read = False
        self._seen: dict[str, bytes] = {}
        self._signatures = Signatures()
        self._commands: dict[object, float | None] = {}  # when each ended; None while it runs

    @property
    def name(self) -> str:
        """What others are told when this session is in their way."""
        return self._name() or "another agent"

    @property
    def activity(self) -> int | None:
        """A number that grows with each sign of life of the running turn; None if no turn runs."""
        return self._activity()

    @property
    def lenders(self) -> Iterator[TreeMember]:
        """The sessions that wait for this one, whose leases it may use."""
        asker = self.asker
        while asker is not None:
            yield asker
            asker = asker.asker

    @property
    def paths(self) -> list[str]:
        """The files that this session has read or written."""
        return list(self._seen)

    def seen(self, path: str) -> bytes | None:
        """Return the digest of a file as this session knows it."""
        return self._seen.get(path)

    def remember(self, path: str, digest: bytes, *, is_read: bool = False) -> None:
        """Note how a file looks that this session has read or written."""
        self._has_read = self._has_read or is_read
        self._seen.pop(path, None)
        self._seen[path] = digest
        if len(self._seen) > MAX_SEEN:
            self._seen.pop(next(iter(self._seen)), None)

    @property
    def reads_here(self) -> bool:
        """Whether this session reads files through the workspace at all."""
        return self._has_read

    def start_command(self, key: object) -> None:
        """Note that a command of this session runs: it may write anything."""
        self._commands[key] = None

    def end_command(self, key: object, now: float) -> None:
        """Note that a command has ended."""
        self._commands[key] = now

    def runs_command(self, now: float) -> bool:
        """Tell whether a command runs, or ended just now."""
        if not self._commands:
            return False
        for key, ended in list(self._commands.items()):
            if ended is not None and now - ended > COMMAND_LINGER:
                del self._commands[key]
        return bool(self._commands)

    def is_touched(self, path: str) -> bool:
        """Tell whether a file may have changed since the last call, by its status."""
        return self._signatures.is_touched(path)


class Signatures:
    """The status of files when they were last looked at."""

    def __init__(self) -> None:
        self._known: dict[str, tuple[int, ...] | None] = {}

    def is_touched(self, path: str) -> bool:
        """Tell whether a file may have changed since the last call."""
        signature = _signature(path)
        known = self._known.pop(path, ())
        self._known[path] = signature
        if len(self._known) > MAX_SEEN:
            del self._known[next(iter(self._known))]
        return signature != known


def digest_of(data: bytes) -> bytes:
    """Return a short digest of the content of a file."""
    return blake2b(data, digest_size=16).digest()


def _signature(path: str) -> tuple[int, ...] | None:
    try:
        status = os.stat(path, follow_symlinks=False)
    except OSError:
        return None
    return status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns


def digest_at(path: str) -> bytes | None:
    """Return the digest of a file, for one that is gone that of a missing file; None if it cannot be told."""
    from dragoman.workspace.files import MAX_BYTES

    try:
        fd = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW | os.O_CLOEXEC)
    except FileNotFoundError:
        return MISSING
    except OSError:
        return None
    with open(fd, "rb") as file:
        if not stat.S_ISREG(os.fstat(fd).st_mode):
            return None
        return digest_of(file.read(MAX_BYTES + 1))
