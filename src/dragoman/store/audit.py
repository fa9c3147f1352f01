"""The audit log: each request, its decision and the reason, one JSON object per line, append-only.

Each hash covers the entry and the previous hash, so a change is detected; a file next to the log detects truncation.
"""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from hashlib import sha256
from typing import Any, NamedTuple

import msgspec

from dragoman.errors import DragomanError
from dragoman.ids import now

# The hash before the first entry.
START_HASH = "0" * 64

# How much of the end is searched for the last line before the whole file is read. Bytes.
_TAIL_BYTES = 64 * 1024

_HEAD_SUFFIX = ".head"


class AuditEvent:
    """What an entry reports."""

    ASKED = "asked"  # the user was asked
    DECIDED = "decided"
    DONE = "done"  # an allowed operation was performed, or failed
    GAP = "gap"  # written entries were missing when the log was continued
    MODE = "mode"  # the user changed the policy mode
    GRANTED = "granted"
    REVOKED = "revoked"


class AuditEntry(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One event, before it has a number."""

    who: str
    what: str
    time: str
    operation: str = ""
    resource: str = ""
    decision: str = ""
    reason: str = ""
    session: str = ""
    workspace: str = ""
    mode: str = ""
    detail: dict[str, Any] = {}


class Checkpoint(NamedTuple):
    """Number and hash of the last entry. Kept elsewhere, it proves the log up to that entry."""

    seq: int
    hash: str


class AuditFault(NamedTuple):
    """A line that differs from what was written."""

    line: int
    what: str


class VerifyResult(NamedTuple):
    """The result of verifying a log."""

    entries: int
    last: Checkpoint
    faults: list[AuditFault]


class AuditDamaged(DragomanError):
    """The log has no entry to continue from."""


class AuditLog:
    """One audit log, to which any number of processes may append. Callers redact secrets first."""

    def __init__(self, path: str, *, durable: bool = True) -> None:
        self.path = path
        self._durable = durable
        # Inode, size and checkpoint after our own last write: while they match, the end need not be read.
        self._last: tuple[int, int, Checkpoint] | None = None

    def append(self, entries: Sequence[AuditEntry], *, durable: bool = True, waits: bool = True) -> Checkpoint:
        """Append entries in order; they are on the disk when this returns, unless `durable` is False.

        Raises BlockingIOError if another process is writing and this call `waits` not.
        """
        with self._open_locked(0 if waits else fcntl.LOCK_NB) as fd:
            mark, gap = self._read_end(fd)
            lines = bytearray()
            for entry in (*gap, *entries):
                line, mark = _seal_entry(entry, mark)
                lines += line
            _write(fd, bytes(lines))
            if durable and self._durable:
                os.fdatasync(fd)
            self._save_checkpoint(mark)
            after = os.fstat(fd)
            self._last = (after.st_ino, after.st_size, mark)
            return mark

    def check(self) -> None:
        """Raise OSError or AuditDamaged if entries cannot be appended; append nothing."""
        with self._open_locked() as fd:
            self._read_end(fd)
            os.close(os.open(self.path + _HEAD_SUFFIX, os.O_WRONLY | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600))

    @contextmanager
    def _open_locked(self, flags: int = 0) -> Iterator[int]:
        """Open the log for appending, with an exclusive lock."""
        os.makedirs(os.path.dirname(self.path), mode=0o700, exist_ok=True)
        fd = os.open(self.path, os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | flags)
            yield fd
        finally:
            os.close(fd)

    def head(self) -> Checkpoint:
        """Return number and hash of the last entry, from the file next to the log."""
        return next(iter(self._load_checkpoint()), Checkpoint(0, START_HASH))

    def entries(self) -> Iterator[dict[str, Any]]:
        """Return all readable entries, in the order of the file."""
        for _, line in self._read_lines():
            try:
                entry = msgspec.json.decode(line)
            except msgspec.DecodeError:
                continue
            if isinstance(entry, dict):
                yield entry

    def verify(self, expected: Iterable[Checkpoint] = ()) -> VerifyResult:
        """Verify every hash; `expected` are checkpoints that were kept elsewhere."""
        faults: list[AuditFault] = []
        last = Checkpoint(0, START_HASH)
        seen: dict[int, str] = {}
        number = count = 0
        # Read the checkpoint first, so that entries appended meanwhile are not reported as missing.
        size, checkpoints = self._snapshot()
        for number, line in self._read_lines(size):
            try:
                entry = msgspec.json.decode(line)
                checkpoint = Checkpoint(int(entry["seq"]), str(entry["hash"]))
                before = str(entry["before"])
            except (msgspec.DecodeError, KeyError, TypeError, ValueError):
                faults.append(AuditFault(number, "not an entry: incomplete after a crash, or changed"))
                continue
            count += 1
            faults += [AuditFault(number, what) for what in _differences(entry, line, checkpoint, before, last)]
            last = checkpoint
            seen[checkpoint.seq] = checkpoint.hash
        for mark in (*checkpoints, *expected):
            if mark.seq and seen.get(mark.seq) != mark.hash:
                missing = f"entry {mark.seq} was written and is missing"
                faults.append(
                    AuditFault(
                        number, missing if mark.seq not in seen else f"entry {mark.seq} differs from what was written"
                    )
                )
        return VerifyResult(count, last, faults)

    # --- the file ---------------------------------------------------------------------------------------------

    def _snapshot(self) -> tuple[int, list[Checkpoint]]:
        """Return size and checkpoint of the log at the same moment, though other processes may append."""
        try:
            fd = os.open(self.path, os.O_RDONLY | os.O_CLOEXEC)
        except FileNotFoundError:
            return 0, self._load_checkpoint()
        try:
            fcntl.flock(fd, fcntl.LOCK_SH)
            return os.fstat(fd).st_size, self._load_checkpoint()
        finally:
            os.close(fd)

    def _read_lines(self, size: int | None = None) -> Iterator[tuple[int, bytes]]:
        try:
            file = open(self.path, "rb")  # noqa: SIM115
        except FileNotFoundError:
            return
        with file:
            for number, line in enumerate(file, 1):
                if size is not None and (size := size - len(line)) < 0:
                    return
                if line.strip():
                    yield number, line

    def _read_end(self, fd: int) -> tuple[Checkpoint, list[AuditEntry]]:
        """Return the last entry, and a gap entry if the checkpoint says that there were more."""
        status = os.fstat(fd)
        if self._last is not None and self._last[:2] == (status.st_ino, status.st_size):
            return self._last[2], []
        last = self._read_last(fd, status.st_size)
        missing = [
            mark for mark in self._load_checkpoint() if mark.seq > last.seq or (mark.seq == last.seq and mark != last)
        ]
        return last, [_gap_entry(mark) for mark in missing]

    def _read_last(self, fd: int, size: int) -> Checkpoint:
        """Return the last entry. Remove an incomplete line: append never returned for it."""
        reach = _TAIL_BYTES
        while True:
            start = max(0, size - reach)
            whole, newline, torn = os.pread(fd, size - start, start).rpartition(b"\n")
            if torn and (newline or start == 0):
                os.ftruncate(fd, size - len(torn))
                size -= len(torn)
            for line in reversed(whole.split(b"\n") if start == 0 else whole.split(b"\n")[1:]):
                mark = _parse_checkpoint(line)
                if mark is not None:
                    return mark
            if start == 0:
                if whole.strip():
                    raise AuditDamaged(
                        f"{self.path} has no readable entry to continue from; move the file away to start a new log"
                    )
                return Checkpoint(0, START_HASH)
            reach *= 16

    def _save_checkpoint(self, checkpoint: Checkpoint) -> None:
        """Save the checkpoint. It is not synced: an older checkpoint proves less, but nothing false."""
        fd = os.open(self.path + _HEAD_SUFFIX, os.O_WRONLY | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
        try:
            os.pwrite(fd, f"{checkpoint.seq:020d} {checkpoint.hash}\n".encode(), 0)
        finally:
            os.close(fd)

    def _load_checkpoint(self) -> list[Checkpoint]:
        try:
            with open(self.path + _HEAD_SUFFIX, encoding="ascii", errors="replace") as file:
                seq, _, hash = file.readline().strip().partition(" ")
        except FileNotFoundError:
            return []
        return [Checkpoint(int(seq), hash)] if seq.isdigit() else []


def _gap_entry(checkpoint: Checkpoint) -> AuditEntry:
    """Record that entries were cut off or lost in a power failure, so that the log keeps the fact."""
    return AuditEntry(
        who="dragoman",
        what=AuditEvent.GAP,
        time=now(),
        reason=f"entry {checkpoint.seq} was written before this one and is missing",
        detail={"seq": checkpoint.seq, "hash": checkpoint.hash},
    )


def _parse_checkpoint(line: bytes) -> Checkpoint | None:
    try:
        entry = msgspec.json.decode(line)
        return Checkpoint(int(entry["seq"]), str(entry["hash"]))
    except (msgspec.DecodeError, KeyError, TypeError, ValueError):
        return None


def _seal_entry(entry: AuditEntry, before: Checkpoint) -> tuple[bytes, Checkpoint]:
    members = {**msgspec.to_builtins(entry), "seq": before.seq + 1, "before": before.hash}
    seal = _hash_members(members)
    line = msgspec.json.encode({"seq": members.pop("seq"), **members, "hash": seal})
    return line + b"\n", Checkpoint(before.seq + 1, seal)


def _hash_members(members: dict[str, Any]) -> str:
    hashed = {name: value for name, value in members.items() if name != "hash"}
    return sha256(msgspec.json.encode(hashed, order="sorted")).hexdigest()


def _differences(
    entry: dict[str, Any], line: bytes, checkpoint: Checkpoint, before: str, last: Checkpoint
) -> Iterator[str]:
    # Compare the text too: JSON decoding hides a duplicate member.
    if _hash_members(entry) != checkpoint.hash or msgspec.json.encode(entry) != line.rstrip(b"\n"):
        yield f"entry {checkpoint.seq} was changed"
    elif entry.get("what") == AuditEvent.GAP:
        yield str(entry.get("reason", ""))
    if checkpoint.seq == last.seq + 1:
        if before != last.hash:
            yield f"entry {checkpoint.seq} does not follow entry {last.seq}"
    elif checkpoint.seq > last.seq + 1:
        missing = (
            f"entry {last.seq + 1}"
            if checkpoint.seq == last.seq + 2
            else f"entries {last.seq + 1} to {checkpoint.seq - 1}"
        )
        yield f"{missing} missing before entry {checkpoint.seq}"
    else:
        yield f"entry {checkpoint.seq} comes after entry {last.seq}: out of order or duplicated"


def _write(fd: int, data: bytes) -> None:
    rest = memoryview(data)
    while rest:
        rest = rest[os.write(fd, rest) :]
