"""The same run with a full disk and with failing writes, repeatedly; sometimes a process is killed.

    unshare -rm python -m tests.store.kill_run.full_disk "disk full" ROUNDS SEED

The disk is a small one in memory, in a mount namespace of its own, and filled by a file that is removed afterwards.
Writes fail because of a limit that is set for the running processes. Prints findings as JSON.
"""

from __future__ import annotations

import asyncio
import os
import random
import resource
import subprocess
import sys
import tempfile
from collections.abc import Callable, Collection, Iterator
from contextlib import AbstractContextManager, contextmanager
from functools import partial

import msgspec

from tests.store.kill_run.comparison import Findings
from tests.store.kill_run.paths import ROOT, processes
from tests.store.kill_run.processes import ROLES, KillRun

# How large the disk is, and what is left of it when it is full: less than a commit needs. Bytes.
DISK = 96 << 20
LEFT = 8 << 10

# So many of a hundred rounds somebody is killed in while nothing can be written.
KILLED = 40

# So often it is only one of them whose writes fail.
ALONE = 0.6

# A round of one kind or the other that takes longer hangs. Seconds.
TIMEOUT = 60.0


@contextmanager
def _full(stage: KillRun, dice: random.Random) -> Iterator[set[str]]:
    """Fill the disk until no process can write."""
    ballast = os.path.join(stage.folder, "ballast")
    with open(ballast, "wb", buffering=0) as file:
        while (room := _room(stage.folder)) > LEFT:
            try:
                file.write(bytes(min(room - LEFT // 2, 1 << 20)))
            except OSError:
                break  # somebody was faster
    try:
        yield set(ROLES)
    finally:
        os.unlink(ballast)


def _room(folder: str) -> int:
    disk = os.statvfs(folder)
    return disk.f_bavail * disk.f_frsize


@contextmanager
def _failing(stage: KillRun, dice: random.Random) -> Iterator[set[str]]:
    """Make all writes of some or all processes fail; an agent that is started meanwhile inherits its client's limit."""
    whom = {dice.choice(ROLES)} if dice.random() < ALONE else set(ROLES)
    _limit(stage, 0, whom)
    try:
        yield whom
    finally:
        _limit(stage, resource.RLIM_INFINITY)


def _limit(stage: KillRun, soft: int, whom: Collection[str] = ROLES) -> None:
    for pid, words in processes(stage.mark).items():
        if any(f"kill_run.{role} " in words for role in whom):
            try:
                resource.prlimit(pid, resource.RLIMIT_FSIZE, (soft, resource.RLIM_INFINITY))
            except ProcessLookupError:
                continue


FULL = "disk full"

# How `unshare` gives a process its own view of the disks; who is not root becomes root of that.
OWN_DISKS = ["-m"] if os.geteuid() == 0 else ["-rm"]

KINDS: dict[str, Callable[[KillRun, random.Random], AbstractContextManager[set[str]]]] = {
    FULL: _full,
    "writes fail": _failing,
}


async def shortage_run(folder: str, kind: str, rounds: int, seed: str) -> Findings:
    """Make writes fail for a while, several times; every process must report it and continue afterwards."""
    dice = random.Random(f"{seed} {kind}")
    async with KillRun(folder) as stage:
        for _ in range(rounds):
            await stage.until(lambda: all(map(stage.has_begun, ROLES)), "a turn of everybody")
            await asyncio.sleep(dice.random() * 0.1)
            before = dict(stage.refused)
            with KINDS[kind](stage, dice) as whom:
                await stage.until(partial(_are_refused, stage, before, whom), f"that {kind} is said to {whom}")
                if dice.randrange(100) < KILLED:
                    role = dice.choice(ROLES)
                    if role in stage.alive:
                        await stage.kill(role)
            stage.began.clear()  # what happens from now on shows that they went on
            _limit(stage, resource.RLIM_INFINITY)
        await stage.until(lambda: all(map(stage.has_begun, ROLES)), "a turn of everybody after the last shortage")
        findings = await stage.end()
    if sum(findings.refused.values()) < rounds:
        findings.faults.append("hardly anything was refused")
    return findings


def _are_refused(stage: KillRun, before: dict[str, int], whom: set[str]) -> bool:
    """Whether the writer and the client got the error, from their own store or from the agent's."""
    new = {who for who, count in stage.refused.items() if count > before.get(who, 0)}
    return ("writer" in new or "writer" not in whom) and bool(new - {"writer"} or whom == {"writer"})


def apart(kind: str, rounds: int, seed: str) -> Findings:
    """Start the run in its own process and mount namespace."""
    words = [sys.executable, "-m", "tests.store.kill_run.full_disk", kind, str(rounds), seed]
    if kind == FULL:
        words = ["unshare", *OWN_DISKS, *words]
    done = subprocess.run(words, cwd=ROOT, stdout=subprocess.PIPE, timeout=TIMEOUT * (rounds + 2))
    if done.returncode:
        return Findings(faults=[f"the run ended with {done.returncode}: {' '.join(words)}"])
    return msgspec.json.decode(done.stdout, type=Findings)


def main(kind: str, rounds: str, seed: str) -> None:
    """The command."""
    with tempfile.TemporaryDirectory() as folder:
        if kind == FULL:
            subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={DISK}", "kill-run", folder], check=True)
        try:
            findings = asyncio.run(shortage_run(folder, kind, int(rounds), seed))
        finally:
            if kind == FULL:
                subprocess.run(["umount", "-l", folder], check=True)
    print(msgspec.json.encode(findings).decode())


if __name__ == "__main__":
    main(*sys.argv[1:])
