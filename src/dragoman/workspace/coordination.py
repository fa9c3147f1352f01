"""Coordinate the sessions that write one tree: compare before write, leases, and changes from outside.

A session may replace a file only as it last read or wrote it, and while it writes in a turn, others wait or are refused
with its name. This applies as soon as two sessions of one process use overlapping folders. Safe to use from any thread.
"""

from __future__ import annotations

import asyncio
import os
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

from dragoman.errors import Kind, ProtocolError
from dragoman.workspace.leases import Lease, LeaseTable
from dragoman.workspace.tree_member import MISSING, Change, Refusal, Signatures, TreeMember, digest_at, digest_of

# How long a write waits for the lease of another session before it is refused. Agents and clients commonly allow a
# file call 30 seconds or more. Seconds.
LEASE_WAIT = 20.0

# Changes that are remembered for all sessions; older ones are attributed to another program.
MAX_CHANGES = 10_000

# How long a command waits for writes under way before it starts. A write takes milliseconds. Seconds.
COMMAND_WAIT = 5.0

# Locks for all files; two files may share one.
_STRIPES = 64

OUTSIDE = "another program"


class FileCoordinator:
    """The sessions of one process and the files that they write."""

    def __init__(self, *, wait: float = LEASE_WAIT, clock: Callable[[], float] = time.monotonic) -> None:
        """`wait` is how long a write waits for another session; 0 refuses it at once."""
        self.wait = wait
        self._clock = clock
        self._state_lock = threading.Lock()
        self._plain_writes = threading.Condition()  # of files that no command can write
        self._plain_write_count = 0
        self._commanding: set[TreeMember] = set()  # those that run a command, or did a moment ago
        self._stripes = [threading.Lock() for _ in range(_STRIPES)]
        self._leases = LeaseTable()
        self._by_root: dict[str, set[TreeMember]] = {}
        self._by_ancestor: dict[str, set[TreeMember]] = {}
        self._last_change: dict[str, Change] = {}
        self._changes: deque[Change] = deque(maxlen=MAX_CHANGES)
        self._refusals: deque[Refusal] = deque(maxlen=MAX_CHANGES)
        self._refusal_count = 0
        self.listeners: list[Callable[[], None]] = []  # called after each change and refusal, from any thread
        self._signatures = Signatures()
        self._seq = 0
        self._waiters: set[tuple[asyncio.AbstractEventLoop, asyncio.Future[None]]] = set()

    # --- sessions ---------------------------------------------------------------------------------------------

    def join(self, member: TreeMember) -> None:
        """Add a session; sessions with overlapping folders are coordinated from now on."""
        found: set[TreeMember] = set()
        for root in member.roots:
            found |= self._sharing(root)
            with self._state_lock:
                self._by_root.setdefault(root, set()).add(member)
                for each in _ancestors(root):
                    self._by_ancestor.setdefault(each, set()).add(member)
        found.discard(member)
        for other in [member, *found] if found else ():
            if not other.is_shared:
                other.is_shared = True
                other.on_shared()

    def leave(self, member: TreeMember) -> None:
        """Remove a session and its leases."""
        with self._state_lock:
            for root in member.roots:
                for table, places in ((self._by_root, [root]), (self._by_ancestor, _ancestors(root))):
                    for place in places:
                        members = table.get(place, set())
                        members.discard(member)
                        if not members:
                            table.pop(place, None)
        self.release(member)

    def members_at(self, path: str) -> set[TreeMember]:
        """Return the sessions whose folders have this path."""
        with self._state_lock:
            return set().union(*(self._by_root.get(each, ()) for each in (path, *_ancestors(path))))

    # --- leases -----------------------------------------------------------------------------------------------

    async def lease(self, member: TreeMember, paths: Sequence[str]) -> None:
        """Take the leases of all these files, or none; wait for other sessions, or raise with the holder's name."""
        conflict = self._take(member, paths)
        if conflict is None:
            return
        deadline = self._clock() + self.wait
        try:
            while conflict is not None:
                member.waits_for = conflict.holder  # type: ignore[assignment]
                remaining = min(deadline - self._clock(), conflict.remaining(self._clock()) or self.wait)
                if deadline - self._clock() <= 0 or _waits_in_circle(member):
                    raise self._refused(member, _held_error(conflict, paths))
                await self._wait_release(max(remaining, 0.001))
                conflict = self._take(member, paths)
        finally:
            member.waits_for = None

    def _take(self, member: TreeMember, paths: Sequence[str]) -> Lease | None:
        with self._state_lock:
            return self._leases.take(member, sorted(paths), self._clock())

    def release(self, member: TreeMember, paths: Sequence[str] | None = None) -> None:
        """Give up leases of a session, all of them unless paths are given, and wake those who wait."""
        with self._state_lock:
            self._leases.release(member, paths)
        self._wake()

    def move_leases(self, giver: TreeMember, taker: TreeMember) -> None:
        """Hand the leases of one session to another."""
        with self._state_lock:
            self._leases.move(giver, taker, self._clock())
        self._wake()

    def leases(self) -> list[Lease]:
        """Return the current leases."""
        with self._state_lock:
            return self._leases.current(self._clock())

    async def _wait_release(self, seconds: float) -> None:
        loop = asyncio.get_running_loop()
        waiter = (loop, loop.create_future())
        self._waiters.add(waiter)
        try:
            async with asyncio.timeout(seconds):
                await waiter[1]
        except TimeoutError:
            pass
        finally:
            self._waiters.discard(waiter)

    def _wake(self) -> None:
        for loop, future in list(self._waiters):
            try:
                loop.call_soon_threadsafe(_finish, future)
            except RuntimeError:  # its loop is closed
                self._waiters.discard((loop, future))

    # --- comparing --------------------------------------------------------------------------------------------

    def lock(self, paths: Sequence[str]) -> list[threading.Lock]:
        """Let no other thread check and write these files until the locks are released; return them."""
        if len(paths) == 1:
            held = [self._stripes[hash(paths[0]) % _STRIPES]]
        else:  # in one order, so that no two threads wait for each other
            held = [self._stripes[number] for number in sorted({hash(path) % _STRIPES for path in paths})]
        for each in held:
            each.acquire()
        return held

    @contextmanager
    def locked(self, paths: Sequence[str]) -> Iterator[None]:
        """Let no other thread check and write these files in the block."""
        held = self.lock(paths)
        try:
            yield
        finally:
            for each in held:
                each.release()

    def note_read(self, member: TreeMember, path: str, data: bytes) -> None:
        """Note what a session has read."""
        member.remember(path, digest_of(data), is_read=True)

    def note_written(self, member: TreeMember, path: str, data: bytes) -> None:
        """Note what a session has written."""
        digest = digest_of(data)
        member.remember(path, digest)
        self._add_change(path, member.name, digest, member)

    def check(self, member: TreeMember, path: str, current: bytes | None) -> None:
        """Raise if a session would replace a file that it does not know as it is now."""
        if not member.is_shared:
            return
        digest = MISSING if current is None else digest_of(current)
        seen = member.seen(path)
        if seen == digest or (seen is None and current is None):
            return
        if seen is None or not member.reads_here:
            member.remember(path, digest)  # it was told, so the next write may replace what is there now
        change = self._change_of(path, digest, seen is not None)
        raise self._refused(member, _stale_error(path, change, seen is not None))

    def begin_write(self, member: TreeMember, path: str) -> bool:
        """Return whether a command may write this file meanwhile; if not, none starts before `end_write`."""
        with self._plain_writes:
            is_contested = bool(self._commanding) and member.is_shared and self._is_contested(path)
            self._plain_write_count += not is_contested
        return is_contested

    def end_write(self, is_contested: bool) -> None:
        """End what `begin_write` began."""
        if not is_contested:
            with self._plain_writes:
                self._plain_write_count -= 1
                self._plain_writes.notify_all()

    def _is_contested(self, path: str) -> bool:
        now = self._clock()
        self._commanding = {each for each in self._commanding if each.runs_command(now)}
        return bool(self._commanding) and not self._commanding.isdisjoint(self.members_at(path))

    async def begin_command(self, member: TreeMember, key: object) -> None:
        """Note that a command is about to run, after the writes that do not expect one."""
        with self._plain_writes:
            member.start_command(key)
            self._commanding.add(member)
            is_busy = self._plain_write_count > 0
        if is_busy and member.is_shared:
            await asyncio.to_thread(self._wait_plain_writes)

    def _wait_plain_writes(self) -> None:
        with self._plain_writes:
            self._plain_writes.wait_for(lambda: self._plain_write_count == 0, COMMAND_WAIT)

    def _change_of(self, path: str, digest: bytes, is_known: bool) -> Change | None:
        """Return the change that made a file what it is; a new one if it was not made through the workspace."""
        last = self._last_change.get(path)
        if last is not None and last.digest == digest:
            return last
        return self._add_outside_change(path, digest) if is_known else None

    # --- changes ----------------------------------------------------------------------------------------------

    def find_outside_changes(self, member: TreeMember) -> list[Change]:
        """Return the files of a session that changed outside the workspace since it last used them, each once.

        Reads files, so it belongs in a thread.
        """
        found: list[Change] = []
        for path in member.paths:
            if not member.is_touched(path):
                continue
            with self.locked([path]):
                digest = digest_at(path)
                last = self._last_change.get(path)
                if digest is None or digest == member.seen(path):
                    continue
                if last is None or last.digest != digest:
                    found.append(self._add_outside_change(path, digest))
                elif last.is_outside:  # another session noticed it first
                    found.append(last)
        return [change for change in found if change.writer is not member]

    def settle_command(self, member: TreeMember) -> None:
        """Attribute the changes of a command that has just ended, before others are suspected. Reads files."""
        others = set().union(*(self._sharing(root) for root in member.roots))
        for path in {path for each in others for path in each.paths}:
            if not self._signatures.is_touched(path):
                continue
            with self.locked([path]):
                digest, last = digest_at(path), self._last_change.get(path)
                known = {each.seen(path) for each in others}
                if digest is not None and digest not in known and (last is None or last.digest != digest):
                    self._add_outside_change(path, digest)

    def _sharing(self, root: str) -> set[TreeMember]:
        """Return the sessions whose folders overlap with this one."""
        with self._state_lock:
            above = (self._by_root.get(each, ()) for each in (root, *_ancestors(root)))
            return set(self._by_ancestor.get(root, ())).union(*above)

    @property
    def last_change(self) -> int:
        """The number of the latest change."""
        return self._seq

    @property
    def last_refusal(self) -> int:
        """The number of the latest refusal."""
        return self._refusal_count

    def changes(self, after: int = 0) -> list[Change]:
        """Return the latest changes in order, from a number on."""
        return [each for each in list(self._changes) if each.seq > after]

    def refusals(self, after: int = 0) -> list[Refusal]:
        """Return the latest writes that were refused, from a number on."""
        return [each for each in list(self._refusals) if each.seq > after]

    def _refused(self, member: TreeMember, error: ProtocolError) -> ProtocolError:
        """Note a refusal, and return its error."""
        data = error.data or {}
        with self._state_lock:
            self._refusal_count += 1
            by = str(data.get("heldBy") or data.get("changedBy", ""))
            self._refusals.append(Refusal(self._refusal_count, str(data.get("path", "")), by, error.message, member))
        for listener in tuple(self.listeners):
            listener()
        return error

    def now(self) -> float:
        """Return the time of this coordinator."""
        return self._clock()

    def _add_outside_change(self, path: str, digest: bytes) -> Change:
        """Note a change that no file call made. If one session runs a command there, that one is named."""
        now = self._clock()
        running = [each for each in self.members_at(path) if each.runs_command(now)]
        if len(running) == 1:
            return self._add_change(path, f"a command of {running[0].name}", digest, running[0], is_outside=True)
        names = " or ".join(sorted({each.name for each in running}))
        by = f"a command of {names}, or {OUTSIDE}" if names else OUTSIDE
        return self._add_change(path, by, digest, None, is_outside=True)

    def _add_change(
        self, path: str, by: str, digest: bytes, writer: TreeMember | None, *, is_outside: bool = False
    ) -> Change:
        with self._state_lock:
            self._seq += 1
            change = Change(self._seq, path, by, digest, writer, is_outside)
            self._changes.append(change)
            self._last_change.pop(path, None)
            self._last_change[path] = change
            if len(self._last_change) > MAX_CHANGES:
                del self._last_change[next(iter(self._last_change))]
        for listener in tuple(self.listeners):
            listener()
        return change


class MemberFiles:
    """Passes what one session reads and writes to the coordinator; a `FileTracker` of `Files`."""

    def __init__(self, coordinator: FileCoordinator, member: TreeMember) -> None:
        self._coordinator = coordinator
        self.member = member

    def note_read(self, path: str, data: bytes) -> None:
        """Note what was read."""
        self._coordinator.note_read(self.member, path, data)

    def writing(self, contents: Sequence[tuple[str, bytes]]) -> _Writing:
        """Write these files in the block; they are noted if it succeeds."""
        return _Writing(self._coordinator, self.member, contents)

    def check(self, path: str, current: bytes | None) -> None:
        """Raise if this content may not be replaced."""
        self._coordinator.check(self.member, path, current)

    @property
    def compares(self) -> bool:
        """Whether the old content is needed before a write."""
        return self.member.is_shared


class _Writing:
    """A block in which files are written. Every write passes here, so this is no generator."""

    __slots__ = ("_contents", "_coordinator", "_held", "_is_contested", "_member")

    def __init__(self, coordinator: FileCoordinator, member: TreeMember, contents: Sequence[tuple[str, bytes]]) -> None:
        self._coordinator = coordinator
        self._member = member
        self._contents = contents

    def __enter__(self) -> bool:
        contents, coordinator = self._contents, self._coordinator
        self._held = coordinator.lock([path for path, _ in contents])
        self._is_contested = coordinator.begin_write(self._member, contents[0][0] if contents else "")
        return self._is_contested

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        coordinator = self._coordinator
        try:
            if kind is None:
                for path, data in self._contents:
                    coordinator.note_written(self._member, path, data)
        finally:
            coordinator.end_write(self._is_contested)
            for each in self._held:
                each.release()


# All sessions of this process, unless a workspace has a coordinator of its own.
PROCESS_COORDINATOR = FileCoordinator()


def _ancestors(path: str) -> list[str]:
    found = []
    while (parent := os.path.dirname(path)) != path:
        found.append(parent)
        path = parent
    return found


def _finish(future: asyncio.Future[None]) -> None:
    if not future.done():
        future.set_result(None)


def _waits_in_circle(member: TreeMember) -> bool:
    """Tell whether the holder that a session waits for waits for that session."""
    seen: set[TreeMember] = set()
    other = member.waits_for
    while other is not None and other not in seen:
        if other is member:
            return True
        seen.add(other)
        other = other.waits_for
    return False


def _held_error(lease: Lease, paths: Sequence[str]) -> ProtocolError:
    holder: TreeMember = lease.holder  # type: ignore[assignment]
    nothing = "; nothing was written" if len(paths) > 1 else ""
    message = f"{lease.path} is being changed by {holder.name}{nothing}; try again when its turn is over"
    return ProtocolError(Kind.INVALID_STATE, message, {"path": lease.path, "heldBy": holder.name})


def _stale_error(path: str, change: Change | None, was_known: bool) -> ProtocolError:
    by = change.by if change is not None else ""
    data = {"path": path, "changedBy": by or OUTSIDE, **({"sinceSeq": change.seq} if change is not None else {})}
    if was_known:
        message = f"{path} was changed by {by or OUTSIDE} since this session last read it; read it again, then write it"
    elif by:
        message = f"{path} was written by {by}, and this session has not read it; read it, then write it"
    else:
        message = f"{path} exists, and this session has not read it; read it, then write it"
    return ProtocolError(Kind.INVALID_STATE, message, data)
