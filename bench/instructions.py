"""Counts instructions of the hottest paths with callgrind: figures that do not depend on what else the machine does.

Each path runs twice, with few and with many repetitions; the difference belongs to the repetitions alone.
"""

import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from bench.peers.hot_paths import PATHS
from bench.setup import ROOT, environment

FEW, MANY = 500, 2500
DEADLINE = 300.0  # seconds for one run: callgrind is about fifty times as slow

# A different seed makes other dictionaries, and so other counts.
FIXED = {"PYTHONHASHSEED": "0"}


def count_all(python: str) -> dict[str, float]:
    """Instructions of one repetition of each path; nothing where the machine has no valgrind."""
    if shutil.which("valgrind") is None:
        return {}
    return {name: count(python, name) for name in PATHS}


def count(python: str, name: str) -> float:
    """Instructions of one repetition of a path."""
    _run([python], name, 1)  # an interpreter compiles what it imports the first time
    few, many = (_total(python, name, repetitions) for repetitions in (FEW, MANY))
    return (many - few) / (MANY - FEW)


def _total(python: str, name: str, repetitions: int) -> int:
    """Instructions of a whole process."""
    with tempfile.TemporaryDirectory(prefix="bench-") as folder:
        path = Path(folder, "counts")
        _run(["valgrind", "--tool=callgrind", f"--callgrind-out-file={path}", python], name, repetitions)
        return read_total(path.read_text(errors="replace"))


def _run(python: list[str], name: str, repetitions: int) -> None:
    subprocess.run(
        [*python, "-m", "bench.peers.hot_paths", name, str(repetitions)],
        check=True, capture_output=True, cwd=ROOT, env={**environment(), **FIXED}, timeout=DEADLINE,
    )  # fmt: skip


def read_total(counts: str) -> int:
    """The sum that a file of callgrind ends with."""
    totals = [line.split()[1] for line in counts.splitlines() if line.startswith(("totals:", "summary:"))]
    return int(totals[-1])


def table(counts: dict[str, float], before: dict[str, float]) -> str:
    """The counts as Markdown, next to those of an earlier run."""
    lines = ["| path | instructions | before | change |", "| --- | ---: | ---: | ---: |"]
    for name, instructions in counts.items():
        earlier = before.get(name)
        title = " ".join((PATHS[name].__doc__ or name).rstrip(".").split())
        change = f"{instructions / earlier - 1:+.1%}" if earlier else "–"
        shown = f"{earlier:,.0f}" if earlier else "–"
        lines.append(f"| {title} | {instructions:,.0f} | {shown} | {change} |")
    return "\n".join(lines)


if __name__ == "__main__":
    print(table(count_all(sys.executable), {}))
