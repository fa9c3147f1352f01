"""What `dragoman run` costs beyond a bare client: one prompt to the same agent, whole processes, in turns.

The command reads config and policy, guards, audits and keeps the session in a store; the bare client asks and prints.
Takes an interpreter, our command and an empty folder; gives figures. Above is measure.
"""

import subprocess
from pathlib import Path
from statistics import median
from time import perf_counter

from bench.setup import ROOT, environment

DEADLINE = 60.0  # seconds for one of them; it takes less than one
PROMPT = "/echo hello"
BARE = ROOT / "bench" / "peers" / "bare.py"


def start(python: str, dragoman: str, count: int, folder: Path) -> dict[str, float]:
    """Milliseconds of both, the difference, and the ratio; the first pair makes the files and is not counted."""
    agent = [dragoman, "agent", "everything"]
    ways = {
        "run": [dragoman, "run", "--quiet", "--prompt", PROMPT, "--", *agent],
        "unkept": [dragoman, "run", "--quiet", "--no-store", "--prompt", PROMPT, "--", *agent],
        "bare": [python, str(BARE), PROMPT, *agent],
    }
    times: dict[str, list[float]] = {name: [] for name in ways}
    for _ in range(count + 1):
        for name, command in ways.items():
            times[name].append(_duration(command, folder))
    run, unkept, bare = (median(times[name][1:]) * 1e3 for name in ways)
    return {"run_ms": run, "bare_ms": bare, "added_ms": run - bare, "store_ms": run - unkept, "ratio": run / bare}


def _duration(command: list[str], folder: Path) -> float:
    places = {name: str(folder / name) for name in ("XDG_CONFIG_HOME", "XDG_STATE_HOME", "XDG_DATA_HOME")}
    started = perf_counter()
    ran = subprocess.run(
        command,
        cwd=folder,
        env=environment() | places,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=DEADLINE,
        check=True,
    )
    elapsed = perf_counter() - started
    if ran.stdout != "hello\n":
        raise subprocess.SubprocessError(f"the answer was {ran.stdout[:100]!r}")
    return elapsed
