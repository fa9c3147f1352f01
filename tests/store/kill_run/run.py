"""The kill run: agent, client and writer are killed with -9 at random moments; nothing acknowledged may be lost.

    python -m tests.store.kill_run.run --kills 200 --shortages 12

A separate process records every delivery and compares at the end. Then the same with a disk that is full again and
again, with writes that fail, and with power cuts. Prints the counts; exits 1 when anything is wrong. `make kill-run`
runs the long form, the tests a short one. Needs Linux.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import random
import sys
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

from tests.store.kill_run import full_disk
from tests.store.kill_run.comparison import Findings
from tests.store.kill_run.power_cut import power_run
from tests.store.kill_run.processes import ROLES, KillRun

# Of 1000 syncs, where they fail: often enough for each writer to be refused.
FAILING_SYNCS = 100

# The longest that somebody is left alone after their first turn began. Seconds.
LIFE = 0.4

# So many kills of a hundred come at once, whatever their victims do: while they start, open the files, load a session.
AT_ONCE = 10

# So many kills must fall into the middle of a turn; of a few kills the share says little.
SHARE = 0.8
MANY = 50


async def kill_run(folder: str, kills: int, seed: str) -> Findings:
    """Kill so many times, and compare."""
    dice = random.Random(seed)
    async with KillRun(folder) as stage:
        done = 0
        while done < kills:
            role = dice.choice(ROLES)
            at_once = dice.randrange(100) < AT_ONCE
            happens = stage.is_here if at_once else stage.has_begun
            await stage.until(partial(happens, role), f"{'the start' if at_once else 'a turn'} of the {role}")
            await asyncio.sleep(dice.random() * LIFE)
            if role in stage.alive:
                done += await stage.kill(role)
        findings = await stage.end()
    share = sum(findings.in_turn.values()) / max(sum(findings.killed.values()), 1)
    if sum(findings.killed.values()) != kills:
        findings.faults.append(f"{findings.killed} kills were recorded, not {kills}")
    if kills >= MANY and share < SHARE:
        findings.faults.append(f"only {share:.0%} of the kills fell into a turn")
    return findings


def table(rows: dict[str, Findings]) -> str:
    """The counts of some runs side by side."""
    whys = sorted({why for each in rows.values() for why in each.refused})
    lines: dict[str, Callable[[Findings], object]] = {
        "killed": lambda each: sum(each.killed.values()),
        "  agent, client, writer": lambda each: " ".join(str(each.killed.get(role, 0)) for role in ROLES),
        "  in the middle of a turn": lambda each: sum(each.in_turn.values()),
        "refused": lambda each: sum(each.refused.values()),
        **{f"  {why}": partial(_refused, why) for why in whys},
        "acknowledged": lambda each: each.acknowledged,
        "entries found": lambda each: each.found,
        "turns begun": lambda each: each.turns,
        "turns answered": lambda each: each.answered,
        "questions": lambda each: each.questions,
        "sessions": lambda each: each.sessions,
        "  loaded by a fresh process": lambda each: each.loaded,
        "lost": lambda each: each.lost,
        "doubled": lambda each: each.doubled,
        "out of order": lambda each: each.disordered,
        "other faults": lambda each: max(len(each.faults) - each.lost - each.doubled - each.disordered, 0),
    }
    received = [["", *rows], *([name, *(str(count(each)) for each in rows.values())] for name, count in lines.items())]
    widths = [max(len(line[column]) for line in received) for column in range(len(received[0]))]
    return "\n".join(
        "  ".join(cell.ljust(width) if not column else cell.rjust(width) for column, (cell, width) in enumerate(pairs))
        for pairs in (list(zip(line, widths, strict=True)) for line in received)
    )


def _refused(why: str, findings: Findings) -> int:
    return findings.refused.get(why, 0)


def main() -> int:
    """The command."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kills", type=int, default=200)
    parser.add_argument("--shortages", type=int, default=12, help="how often the disk is full, and writes fail")
    parser.add_argument("--cuts", type=int, default=40, help="how often the power is cut")
    parser.add_argument("--failing", type=int, default=100, help="how often it is cut while syncs fail")
    parser.add_argument("--seed", default=os.urandom(4).hex())
    options = parser.parse_args()
    began = time.monotonic()
    print(f"seed {options.seed}", flush=True)
    rows: dict[str, Findings] = {}
    with tempfile.TemporaryDirectory() as folder:
        rows["kill -9"] = asyncio.run(kill_run(folder, options.kills, options.seed))
    if options.shortages:
        for kind in full_disk.KINDS:
            rows[kind] = full_disk.apart(kind, options.shortages, options.seed)
    print(table(rows))
    losses = []
    for cuts, fails in ((options.cuts, 0), (options.failing, FAILING_SYNCS)):
        with tempfile.TemporaryDirectory() as folder:
            power = power_run(Path(os.path.realpath(folder)), cuts, options.seed, fails=fails)
        print(
            f"{cuts} power cuts, {fails} of 1000 syncs fail: {power.acknowledged} acknowledged, {power.refused} refused"
        )
        losses += [f"power cut, {fails} of 1000 syncs fail: lost {each}" for each in power.lost]
    faults = losses + [f"{name}: {fault}" for name, findings in rows.items() for fault in findings.faults]
    print("\n".join(faults) or f"no faults, in {time.monotonic() - began:.0f} seconds")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
