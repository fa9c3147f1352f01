"""The kill run of the store: a writing process is killed with -9 again and again; nothing acknowledged may be missing.

    python -m tests.store.kill_run --kills 200

This process starts the writer, records what was acknowledged to it, kills it at a random moment, and compares with what
is in the file then: every acknowledged entry is there, once, under its number, in order. Prints the counts; exits 1
when anything is wrong. `make kill-run` runs the long form, the tests a short one.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import random
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import NamedTuple

from dragoman.store.contract import Entry
from dragoman.store.sqlite import SqliteStore

SCRIBE = Path(__file__).with_name("scribe.py")

# A writer that acknowledges nothing in this time hangs. Seconds.
PATIENCE = 60.0

# The longest a writer is left alone after its first words; most are killed in the middle of a commit. Seconds.
LIFE = 0.08

SESSIONS = 4


class Counts(NamedTuple):
    """What a run saw."""

    kills: int
    acknowledged: int
    found: int
    faults: list[str]


def run(path: str, kills: int, seed: str) -> Counts:
    """Kill a writer so many times, and compare after each."""
    dice = random.Random(seed)
    known: dict[str, dict[int, str]] = {}
    faults: list[str] = []
    for number in range(kills):
        for line in _killed(path, f"w{number}", dice.random() * LIFE).splitlines():
            session, seq, text = line.split()
            if known.setdefault(session, {}).setdefault(int(seq), text) != text:
                faults.append(f"{session} {seq} was acknowledged twice")
        found = asyncio.run(_read(path, list(known)))
        faults += _compared(known, found)
        if faults:
            break
    total = sum(map(len, known.values()))
    return Counts(number + 1, total, sum(map(len, asyncio.run(_read(path, list(known))).values())), faults)


def _killed(path: str, name: str, life: float) -> str:
    """Start a writer, let it live for a while, kill it; gives what it said."""
    with subprocess.Popen([sys.executable, str(SCRIBE), path, name, str(SESSIONS)], stdout=subprocess.PIPE) as writer:
        assert writer.stdout is not None
        first = writer.stdout.read(1)
        try:
            writer.wait(life)
        except subprocess.TimeoutExpired:
            pass
        writer.kill()
        rest = writer.stdout.read()
    # A line that the kill cut in two was not said.
    return (first + rest).rpartition(b"\n")[0].decode()


async def _read(path: str, sessions: list[str]) -> dict[str, list[Entry]]:
    async with asyncio.timeout(PATIENCE):
        store = await SqliteStore.open(path)
        found = {session: await store.read(session) for session in sessions}
        await store.close()
        return found


def _compared(known: dict[str, dict[int, str]], found: dict[str, list[Entry]]) -> list[str]:
    faults = []
    for session, acknowledged in known.items():
        entries = found[session]
        if [entry.seq for entry in entries] != list(range(1, len(entries) + 1)):
            faults.append(f"{session} has gaps or is out of order")
        texts = [entry.body for entry in entries]
        if len(set(texts)) != len(texts):
            faults.append(f"{session} has something twice")
        kept = {entry.seq: entry.body for entry in entries}
        faults += [
            f"{session} {seq}: acknowledged {text}, found {kept.get(seq)}"
            for seq, text in acknowledged.items()
            if kept.get(seq) != text
        ]
    return faults


def main() -> int:
    """The command."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kills", type=int, default=200)
    parser.add_argument("--seed", default=os.urandom(4).hex())
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        counts = run(os.path.join(folder, "sessions.db"), options.kills, options.seed)
    print(f"seed {options.seed}: killed {counts.kills} times, {counts.acknowledged} entries acknowledged,")
    print(f"{counts.found} found, {len(counts.faults)} faults")
    for fault in counts.faults[:20]:
        print(f"  {fault}")
    return 1 if counts.faults or not counts.acknowledged else 0


if __name__ == "__main__":
    sys.exit(main())
