"""The processes that belong to one spawned command: who they are, and ending them.

Takes the leader's pid and the token that stands in the environment of all its descendants; finds group,
session, children of children and those that left (double fork, setsid), and signals them. Knows no pipes
and no frames. Where there is no /proc only the process group is known.
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
_FIRST_LOOK, _LAST_LOOK = 0.01, 0.1


class Patience(NamedTuple):
    """How long each step of ending a process may take, in seconds."""

    eof: float = 2.0
    term: float = 2.0
    kill: float = 2.0


class Process(NamedTuple):
    """One line of the process table; pid and start together name a process for good."""

    pid: int
    parent: int
    group: int
    session: int
    start: int
    alive: bool


def look(pid: int) -> Process | None:
    """This process, or None when there is none (or no /proc)."""
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            line = file.read()
    except OSError:
        return None
    fields = line[line.rindex(b")") + 2 :].split()  # the name may contain anything, also brackets
    return Process(
        pid, int(fields[1]), int(fields[2]), int(fields[3]), int(fields[19]), fields[0] not in (b"Z", b"X")
    )


def survey(leader: int, start: int, token: str) -> set[int]:
    """The living processes of the tree; a negative number stands for a whole group where /proc is missing."""
    try:
        pids = [int(name) for name in os.listdir("/proc") if name.isdigit()]
    except OSError:
        return {-leader} if _signal(-leader, 0) else set()
    table = {process.pid: process for pid in pids if (process := look(pid)) is not None}
    ours = os.getpid()
    first = table.get(leader)
    # Group and session say something only while the leader holds its pid, if only as a zombie.
    own = leader if first is not None and first.start == start else 0
    members = set()
    for process in table.values():
        if process.start < start or process.pid == ours:
            continue
        in_group = own and own in (process.group, process.session)
        if in_group or _marked(process.pid, token):
            members.add(process.pid)
    grown = -1
    while grown != len(members):  # children of children, also of those that cleared their environment
        grown = len(members)
        members |= {process.pid for process in table.values() if process.parent in members}
    return {pid for pid in members if table[pid].alive}


def strike(members: set[int], number: int) -> None:
    """Send one signal to each."""
    for pid in members:
        _signal(pid, number)


async def end(leader: int, start: int, token: str, patience: Patience) -> bool:
    """TERM, then KILL, each with its patience; True when nothing is left."""
    for number, seconds in ((signal.SIGTERM, patience.term), (signal.SIGKILL, patience.kill)):
        struck: set[int] = set()
        deadline = time.monotonic() + seconds
        pause = _FIRST_LOOK
        while members := survey(leader, start, token):
            strike(members - struck, number)
            struck |= members
            if time.monotonic() >= deadline:
                break
            await asyncio.sleep(pause)
            pause = min(2 * pause, _LAST_LOOK)
        else:
            return True
    return not survey(leader, start, token)


def end_now(leader: int, start: int, token: str) -> list[int]:
    """KILL without waiting, for when there is no time left; twice, for those that were just forking."""
    struck: set[int] = set()
    for _ in range(2):
        members = survey(leader, start, token)
        strike(members, signal.SIGKILL)
        struck |= members
    return sorted(struck)


def _marked(pid: int, token: str) -> bool:
    try:
        with open(f"/proc/{pid}/environ", "rb") as file:
            environ = file.read()
    except OSError:
        return False
    marker = MARKER.encode() + b"="
    return any(
        entry.startswith(marker) and token.encode() in entry for entry in environ.split(b"\0") if entry
    )


def _signal(pid: int, number: int) -> bool:
    try:
        os.kill(pid, number)
    except (ProcessLookupError, PermissionError):
        return False
    return True
