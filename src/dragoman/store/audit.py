"""The audit log: who wanted what, what was decided and why; append-only, each entry sealed to the one before it.

One JSON text a line. An entry's hash is over all its members and the hash before it, so a changed, removed or moved
entry is found, and where. A small file beside it knows the last entry, so a cut end is found too. Takes entries whose
secrets are already taken out; any number of processes may append. What is written is on the disk when append returns.
"""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from hashlib import sha256
from typing import Any, NamedTuple

import msgspec

from dragoman.errors import DragomanError

# What the first entry is sealed to.
START_HASH = "0" * 64

# The last line is looked for in this much of the end, and in all of it only where a line is longer. Bytes.
_TAIL_BYTES = 64 * 1024

_HEAD_SUFFIX = ".head"


class AuditEvent:
    """What an entry tells."""

    ASKED = "asked"  # the user was asked
    DECIDED = "decided"
    DONE = "done"  # what was allowed was done, or failed
    GAP = "gap"  # found when going on: entries that had been written were gone
    MODE = "mode"  # the user changed the policy mode
    GRANTED = "granted"
    REVOKED = "revoked"


class AuditEntry(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One thing that happened, before it has its number."""

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
    """The last entry of a log: its number and its hash. Kept elsewhere, it proves the log up to there."""

    seq: int
    hash: str


class AuditFault(NamedTuple):
    """Something that is not as it was written, and where."""

    line: int
    what: str


class VerifyResult(NamedTuple):
    """What a check found."""

    entries: int
    last: Checkpoint
    faults: list[AuditFault]


class AuditDamaged(DragomanError):
    """The end of the log cannot be continued."""


class AuditLog:
    """One audit log."""

    def __init__(self, path: str, *, durable: bool = True) -> None:
        self._path = path
        self._durable = durable
        # What the log looked like after our own last write: while it still does, its end need not be read.
        self._last: tuple[int, int, Checkpoint] | None = None

    @property
    def path(self) -> str:
        """Where it is."""
        return self._path

    def append(self, entries: Sequence[AuditEntry], *, durable: bool = True) -> Checkpoint:
        """Add entries in order; they are on the disk when this returns, unless that is not wanted."""
        with self._open_locked() as fd:
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
        """Find out whether entries can be added, without adding any; OSError or Damaged when not."""
        with self._open_locked() as fd:
            self._read_end(fd)
            os.close(os.open(self._path + _HEAD_SUFFIX, os.O_WRONLY | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600))

    @contextmanager
    def _open_locked(self) -> Iterator[int]:
        """The log, open for adding, while nobody else adds."""
        os.makedirs(os.path.dirname(self._path), mode=0o700, exist_ok=True)
        fd = os.open(self._path, os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(fd, fcntl.LOCK_EX)
            yield fd
        finally:
            os.close(fd)

    def entries(self) -> Iterator[dict[str, Any]]:
        """All entries that can be read, in the order of the file."""
        for _, line in self._read_lines():
            try:
                entry = msgspec.json.decode(line)
            except msgspec.DecodeError:
                continue
            if isinstance(entry, dict):
                yield entry

    def verify(self, expected: Iterable[Checkpoint] = ()) -> VerifyResult:
        """Check every seal; `expected` are marks that were kept elsewhere."""
        faults: list[AuditFault] = []
        last = Checkpoint(0, START_HASH)
        seen: dict[int, str] = {}
        number = count = 0
        # The mark first: what is added while we read is not missed.
        size, kept = self._snapshot()
        for number, line in self._read_lines(size):
            try:
                entry = msgspec.json.decode(line)
                told = Checkpoint(int(entry["seq"]), str(entry["hash"]))
                before = str(entry["before"])
            except (msgspec.DecodeError, KeyError, TypeError, ValueError):
                faults.append(AuditFault(number, "this is no entry: torn by a crash, or changed"))
                continue
            count += 1
            faults += [AuditFault(number, what) for what in _differences(entry, line, told, before, last)]
            last = told
            seen[told.seq] = told.hash
        for mark in (*kept, *expected):
            if mark.seq and seen.get(mark.seq) != mark.hash:
                gone = f"entry {mark.seq} was written and is not here any more"
                faults.append(
                    AuditFault(number, gone if mark.seq not in seen else f"entry {mark.seq} is another than it was")
                )
        return VerifyResult(count, last, faults)

    # --- the file ---------------------------------------------------------------------------------------------

    def _snapshot(self) -> tuple[int, list[Checkpoint]]:
        """How long the log is now, and the mark that is kept of its end; of one moment, though others add to it."""
        try:
            fd = os.open(self._path, os.O_RDONLY | os.O_CLOEXEC)
        except FileNotFoundError:
            return 0, self._load_checkpoint()
        try:
            fcntl.flock(fd, fcntl.LOCK_SH)
            return os.fstat(fd).st_size, self._load_checkpoint()
        finally:
            os.close(fd)

    def _read_lines(self, size: int | None = None) -> Iterator[tuple[int, bytes]]:
        try:
            file = open(self._path, "rb")  # noqa: SIM115
        except FileNotFoundError:
            return
        with file:
            for number, line in enumerate(file, 1):
                if size is not None and (size := size - len(line)) < 0:
                    return
                if line.strip():
                    yield number, line

    def _read_end(self, fd: int) -> tuple[Checkpoint, list[AuditEntry]]:
        """The last entry; and an entry that tells so, where the mark that is kept says that there were more."""
        status = os.fstat(fd)
        if self._last is not None and self._last[:2] == (status.st_ino, status.st_size):
            return self._last[2], []
        last = self._read_last(fd, status.st_size)
        gone = [
            mark for mark in self._load_checkpoint() if mark.seq > last.seq or (mark.seq == last.seq and mark != last)
        ]
        return last, [_gap_entry(mark) for mark in gone]

    def _read_last(self, fd: int, size: int) -> Checkpoint:
        """The last entry. A line that a crash tore was never promised to anybody: it is taken away."""
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
                        f"{self._path} has no entry that can be continued; move it away, and it begins anew"
                    )
                return Checkpoint(0, START_HASH)
            reach *= 16

    def _save_checkpoint(self, checkpoint: Checkpoint) -> None:
        """Remember the last entry. Not forced to the disk: a mark that lags behind proves less, nothing wrong."""
        fd = os.open(self._path + _HEAD_SUFFIX, os.O_WRONLY | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
        try:
            os.pwrite(fd, f"{checkpoint.seq:020d} {checkpoint.hash}\n".encode(), 0)
        finally:
            os.close(fd)

    def _load_checkpoint(self) -> list[Checkpoint]:
        try:
            with open(self._path + _HEAD_SUFFIX, encoding="ascii", errors="replace") as file:
                seq, _, hash = file.readline().strip().partition(" ")
        except FileNotFoundError:
            return []
        return [Checkpoint(int(seq), hash)] if seq.isdigit() else []


def _gap_entry(checkpoint: Checkpoint) -> AuditEntry:
    """Entries were cut off, or lost with the power: that is never forgotten, though the log goes on."""
    return AuditEntry(
        who="dragoman",
        what=AuditEvent.GAP,
        time=datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z"),
        reason=f"entry {checkpoint.seq} was written before this one and is not here any more",
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
    told = {name: value for name, value in members.items() if name != "hash"}
    return sha256(msgspec.json.encode(told, order="sorted")).hexdigest()


def _differences(
    entry: dict[str, Any], line: bytes, checkpoint: Checkpoint, before: str, last: Checkpoint
) -> Iterator[str]:
    # Compared as it is written too: a member that stands there twice is read as one.
    if _hash_members(entry) != checkpoint.hash or msgspec.json.encode(entry) != line.rstrip(b"\n"):
        yield f"entry {checkpoint.seq} was changed"
    elif entry.get("what") == AuditEvent.GAP:
        yield str(entry.get("reason", ""))
    if checkpoint.seq == last.seq + 1:
        if before != last.hash:
            yield f"entry {checkpoint.seq} does not follow the entry {last.seq} that stands before it"
    elif checkpoint.seq > last.seq + 1:
        missing = (
            f"entry {last.seq + 1}"
            if checkpoint.seq == last.seq + 2
            else f"entries {last.seq + 1} to {checkpoint.seq - 1}"
        )
        yield f"{missing} missing before entry {checkpoint.seq}"
    else:
        yield f"entry {checkpoint.seq} stands after entry {last.seq}: out of order or twice"


def _write(fd: int, data: bytes) -> None:
    rest = memoryview(data)
    while rest:
        rest = rest[os.write(fd, rest) :]
