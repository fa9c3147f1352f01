"""The processes that belong to one spawned command: who they are, and ending them.

Takes the leader's pid and the token that stands in the environment of all its descendants; finds group,
session, children of children and those that left (double fork, setsid), and signals them. Knows no pipes
and no frames. Where there is no /proc only the process group is known.

A daemon that also cleared its environment, and whose parents ended before anybody looked, cannot be told from a
stranger. To adopt all orphans (as a subreaper) would take those of whoever embeds us too, and open files prove nothing:
a client hands its own to a server that runs already. Who needs certainty takes a sandbox with its own process table.
"""

from __future__ import annotations

import asyncio
import os
import signal
import time
from typing import NamedTuple

# The environment variable by which descendants are recognised, whatever group or session they moved to. An
# agent that spawns agents hands down all tokens, outermost first, so each owner finds its own.
MARKER = "DRAGOMAN_SPAWN"

# How often a dying tree is looked at: starts here, doubles to the second. Seconds.
_FIRST_POLL_DELAY, _MAX_POLL_DELAY = 0.01, 0.1


class StopTimeouts(NamedTuple):
    """How long each step of ending a process may take, in seconds."""

    eof: float = 2.0
    term: float = 2.0
    kill: float = 2.0


class ProcessStat(NamedTuple):
    """One line of the process table; pid and start together name a process for good."""

    pid: int
    parent: int
    group: int
    session: int
    start_time: int
    is_alive: bool


def read_process_stat(pid: int) -> ProcessStat | None:
    """This process, or None when there is none (or no /proc)."""
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
    """All processes of one spawned command; remembers whom it saw, for parents die and links with them."""

    def __init__(self, leader: int, start_time: int, token: str) -> None:
        self._leader = leader
        self._start_time = start_time
        self._token = token
        self._seen: dict[int, int] = {}  # pid: start

    def living_members(self) -> set[int]:
        """The living members; a negative number stands for a whole group where /proc is missing."""
        try:
            pids = [int(name) for name in os.listdir("/proc") if name.isdigit()]
        except OSError:
            return {-self._leader} if _signal(-self._leader, 0) else set()
        table = {process.pid: process for pid in pids if (process := read_process_stat(pid)) is not None}
        members = self._known_members(table)
        grown = -1
        while grown != len(members):  # children of children, also of those that cleared their environment
            grown = len(members)
            members |= {process.pid for process in table.values() if process.parent in members}
        members.discard(os.getpid())
        self._seen = {pid: table[pid].start_time for pid in members}
        return {pid for pid in members if table[pid].is_alive}

    async def terminate(self, timeouts: StopTimeouts) -> bool:
        """TERM, then KILL, each with its patience; True when nothing is left."""
        for number, seconds in ((signal.SIGTERM, timeouts.term), (signal.SIGKILL, timeouts.kill)):
            struck: set[int] = set()
            deadline = time.monotonic() + seconds
            pause = _FIRST_POLL_DELAY
            while members := self.living_members():
                _signal_all(members - struck, number)
                struck |= members
                if time.monotonic() >= deadline:
                    break
                await asyncio.sleep(pause)
                pause = min(2 * pause, _MAX_POLL_DELAY)
            else:
                return True
        return not self.living_members()

    def kill(self) -> list[int]:
        """KILL without waiting, for when there is no time left; twice, for those that were just forking."""
        struck: set[int] = set()
        for _ in range(2):
            members = self.living_members()
            _signal_all(members, signal.SIGKILL)
            struck |= members
        return sorted(struck)

    def _known_members(self, table: dict[int, ProcessStat]) -> set[int]:
        """Whom we know without asking for parents: the group, the marked, and those seen before."""
        first = table.get(self._leader)
        # Group and session say something only while the leader holds its pid, if only as a zombie.
        own = self._leader if first is not None and first.start_time == self._start_time else 0
        roots = set()
        for process in table.values():
            if process.start_time < self._start_time:
                continue
            in_group = own and own in (process.group, process.session)
            if in_group or self._seen.get(process.pid) == process.start_time or _has_marker(process.pid, self._token):
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
