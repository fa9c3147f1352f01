"""Power cuts and failing syncs: everything that a store acknowledged is there, although only synced data survives.

The disk is a shim (power_shim.c) that is loaded into the writer: at each sync it copies the file, and at a cut the
copies are all that is left. Needs Linux and a C compiler.
"""

from __future__ import annotations

import asyncio
import os
import random
import shutil
import signal
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

from dragoman.errors import StoreFault
from dragoman.store.contract import Draft
from dragoman.store.sqlite import SqliteStore
from tests.store.kill_run.paths import ROOT

SHIM = Path(__file__).with_name("power_shim.c")
SESSION = "s"

# The most that is acknowledged before a cut.
MOST = 60

# A writer that says nothing for so long hangs. Seconds.
PATIENCE = 60


class Outcome(NamedTuple):
    """Cuts, acknowledged and refused entries, and what was lost."""

    cuts: int
    acknowledged: int
    refused: int
    lost: list[str]


def compiled(folder: Path) -> Path:
    """Return the shim as a library."""
    library = folder / "power_shim.so"
    subprocess.run(["cc", "-shared", "-fPIC", "-O1", "-o", str(library), str(SHIM)], check=True)
    return library


def power_run(folder: Path, cuts: int, seed: str, *, fails: int = 0, lies: bool = False) -> Outcome:
    """Cut the power so many times while a writer writes; of 1000 syncs, so many fail."""
    dice = random.Random(seed)
    library, disk = compiled(folder), folder / "disk"
    disk.mkdir()
    acknowledged: set[int] = set()
    refused, lost = 0, []
    for cut in range(cuts):
        environ = {
            **os.environ,
            "LD_PRELOAD": str(library),
            "POWER_FOLDER": str(disk),
            "POWER_FAILS": str(fails),
            "POWER_SEED": str(dice.randrange(1 << 30)),
            **({"POWER_LIES": "1"} if lies else {}),
        }
        words = [sys.executable, "-m", "tests.store.kill_run.power_cut", str(disk), str(10_000 * cut)]
        writer = subprocess.Popen(words, cwd=ROOT, env=environ, stdout=subprocess.PIPE, text=True)
        assert writer.stdout is not None
        wanted = dice.randint(1, MOST)
        for line in writer.stdout:
            if line.startswith("refused"):
                refused += 1
            else:
                acknowledged.add(int(line))
            wanted -= 1
            if wanted <= 0:
                break
        writer.send_signal(signal.SIGKILL)
        acknowledged |= {int(line) for line in writer.stdout if line.strip().isdigit()}  # said before the cut
        writer.wait(PATIENCE)
        _lose_power(disk)
        found = asyncio.run(_stored(disk))
        lost += [f"{number} after cut {cut}" for number in sorted(acknowledged - found)]
        acknowledged &= found
    return Outcome(cuts, len(acknowledged), refused, lost)


def _lose_power(disk: Path) -> None:
    """Keep only what was synced; files that were removed before stay removed."""
    for path in list(disk.iterdir()):
        if path.suffix == ".durable":
            continue
        durable = Path(f"{path}.durable")
        path.unlink()
        if durable.exists():
            shutil.copy(durable, path)
    for durable in list(disk.glob("*.durable")):
        if not durable.with_suffix("").exists():
            durable.unlink()


async def _stored(disk: Path) -> set[int]:
    if not (disk / "store.db").exists():
        return set()
    store = await SqliteStore.open(str(disk / "store.db"))
    try:
        entries = await store.read(SESSION) if await store.sessions() else []
        return {int(entry.body["number"]) for entry in entries}
    finally:
        await store.close()
        for path in list(disk.iterdir()):  # all that is left is on the disk now
            if path.suffix == ".durable":
                path.unlink()
        for path in list(disk.iterdir()):
            shutil.copy(path, f"{path}.durable")


async def write(disk: str, number: int) -> None:
    """Append entries without end; print each number after its commit, and each error."""
    store: SqliteStore | None = None
    while True:
        number += 1
        try:
            if store is None:
                store = await SqliteStore.open(os.path.join(disk, "store.db"))
            draft = Draft(kind="update", actor="agent", time="2026-01-01T00:00:00Z", body={"number": number})
            await store.append(SESSION, [draft])
            print(number, flush=True)
        except StoreFault as fault:
            print("refused", fault.kind, flush=True)
            failed, store = store, None
            if failed is not None:
                await failed.close()


if __name__ == "__main__":
    asyncio.run(write(sys.argv[1], int(sys.argv[2])))
