"""Find and end all processes of one spawned command.

Finds the group, the sessions, children of children, and daemons (double fork, setsid) by a token in their environment.
Without /proc only the process group is known. A daemon that cleared its environment, began its own session and lost its
parents, all unseen, cannot be found: being a subreaper would adopt the orphans of the embedding program too. A sandbox
with its own process table is the way to be certain.
"""

from __future__ import annotations

import asyncio
import os
import signal
import time
from typing import NamedTuple

# The environment variable that marks descendants, whatever group or session they moved to. An agent that spawns agents
# passes on all tokens, outermost first, so each owner finds its own.
MARKER = "DRAGOMAN_SPAWN"

# How often a dying tree is checked: starts with the first, doubles up to the second. Seconds.
_FIRST_POLL_DELAY, _MAX_POLL_DELAY = 0.01, 0.1


def marker_variable(token: str) -> dict[str, str]:
    """Return the variable that marks a process and its descendants, also for the owners around us."""
    outer = os.environ.get(MARKER)
    return {MARKER: f"{outer}:{token}" if outer else token}


class StopTimeouts(NamedTuple):
    """How long each step of stopping a process may take, in seconds."""

    eof: float = 2.0
    term: float = 2.0
    kill: float = 2.0


class ProcessStat(NamedTuple):
    """One row of the process table; pid and start time together identify a process."""

    pid: int
    parent: int
    group: int
    session: int
    start_time: int
    is_alive: bool


def read_process_stat(pid: int) -> ProcessStat | None:
    """Return this process, or None when there is none (or no /proc)."""
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            line = file.read()
    except OSError:
        return None
    fields = line[line.rindex(b")") + 2 :].split()  # the name may contain anything, also brackets
    return ProcessStat(
        pid, int(fields[1]), int(fields[2]), int(fields[3]), int(fields[19]), fields[0] not in (b"Z", b"X")
    )


class ProcessTree:
    """All processes of one spawned command; remembers those it saw, since the links are lost when parents exit.

    Without a leader (0): the processes of all commands that were started with the token.
    """

    def __init__(self, leader: int, start_time: int, token: str) -> None:
        self._leader = leader
        self._start_time = start_time
        self._token = token
        self._seen: dict[int, int] = {}  # pid: start time
        # The sessions of those it saw: a process that was forked since, by one that then ended, is found by them. A
        # command begins its own session and nobody can join another's; its id is not used again while it has members.
        self._sessions: set[int] = set()

    def living_members(self) -> set[int]:
        """Return the living members; a negative number stands for a whole group where /proc is missing."""
        try:
            pids = [int(name) for name in os.listdir("/proc") if name.isdigit()]
        except OSError:
            return {-self._leader} if self._leader and _signal(-self._leader, 0) else set()
        table = {process.pid: process for pid in pids if (process := read_process_stat(pid)) is not None}
        members = self._known_members(table)
        last_count = -1
        while last_count != len(members):  # children of children, also of those that cleared their environment
            last_count = len(members)
            members |= {process.pid for process in table.values() if process.parent in members}
        members.discard(os.getpid())
        self._seen = {pid: table[pid].start_time for pid in members}
        self._sessions = {table[pid].session for pid in members} - {0, os.getsid(0)}  # 0: not in our process table
        return {pid for pid in members if table[pid].is_alive}

    async def terminate(self, timeouts: StopTimeouts) -> bool:
        """Send TERM, then KILL, each with its timeout; return whether nothing is left."""
        for number, seconds in ((signal.SIGTERM, timeouts.term), (signal.SIGKILL, timeouts.kill)):
            signalled: set[int] = set()
            deadline = time.monotonic() + seconds
            delay = _FIRST_POLL_DELAY
            while members := self.living_members():
                _signal_all(members - signalled, number)
                signalled |= members
                if time.monotonic() >= deadline:
                    break
                await asyncio.sleep(delay)
                delay = min(2 * delay, _MAX_POLL_DELAY)
            else:
                return True
        return not self.living_members()

    def kill(self) -> list[int]:
        """Send KILL without waiting; twice, for processes that were just forking."""
        signalled: set[int] = set()
        for _ in range(2):
            members = self.living_members()
            _signal_all(members, signal.SIGKILL)
            signalled |= members
        return sorted(signalled)

    def _known_members(self, table: dict[int, ProcessStat]) -> set[int]:
        """Return the members known without parent links: the group, the marked, those seen and their sessions."""
        leader = table.get(self._leader)
        # Group and session are reliable only while the leader holds its pid, be it as a zombie.
        leader_pid = self._leader if leader is not None and leader.start_time == self._start_time else 0
        roots = set()
        for process in table.values():
            if process.start_time < self._start_time:
                continue
            in_group = leader_pid and leader_pid in (process.group, process.session)
            was_seen = self._seen.get(process.pid) == process.start_time or process.session in self._sessions
            if in_group or was_seen or _has_marker(process.pid, self._token):
                roots.add(process.pid)
        return roots


def _has_marker(pid: int, token: str) -> bool:
    try:
        with open(f"/proc/{pid}/environ", "rb") as file:
            environ = file.read()
    except OSError:
        return False
    marker = MARKER.encode() + b"="
    return any(entry.startswith(marker) and token.encode() in entry for entry in environ.split(b"\0") if entry)


def _signal(pid: int, number: int) -> bool:
    try:
        os.kill(pid, number)
    except (ProcessLookupError, PermissionError):
        return False
    return True


def _signal_all(pids: set[int], number: int) -> None:
    for pid in pids:
        _signal(pid, number)
