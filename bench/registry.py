"""What the registry costs: search in a new process, starting an installed agent, installing one that is cached.

Takes an interpreter, our command and an empty folder; gives figures. The install needs npm, and a network the first
time. Above is measure.
"""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from statistics import median
from time import perf_counter

from bench.setup import ROOT, environment

DEADLINE = 300.0  # seconds for one process; the first install downloads
PROMPT = "/echo hello"
TOOLS = Path(sys.executable).parent
BARE = ROOT / "bench" / "peers" / "bare.py"
PACKAGE = ("pi", "pi-acp")  # a small agent: its word, and its package
PROJECT = "mcp-server-time==2026.10.19"  # small enough to be installed often, with compiled dependencies


def search(dragoman: str, count: int, folder: Path) -> dict[str, float]:
    """Milliseconds of `dragoman agents search` over the whole index, a new process each time."""
    times = [_duration([dragoman, "agents", "search", "--offline"], folder) for _ in range(count + 1)]
    return {"search_ms": median(times[1:]) * 1e3}


def start(python: str, dragoman: str, count: int, folder: Path) -> dict[str, float]:
    """Milliseconds of one prompt to an agent by its word, and to its program with a bare client, in turns."""
    _duration([dragoman, "agents", "add", "named", "--", dragoman, "agent", "everything"], folder)
    by_word, direct = [], []
    for _ in range(count + 1):
        by_word.append(_duration([dragoman, "run", "-a", "named", "--quiet", "--no-store", PROMPT], folder))
        direct.append(_duration([python, str(BARE), PROMPT, dragoman, "agent", "everything"], folder))
    ours, theirs = median(by_word[1:]) * 1e3, median(direct[1:]) * 1e3
    return {"word_ms": ours, "program_ms": theirs, "ratio": max(0.0, ours - 100) / theirs}


def install(dragoman: str, count: int, folder: Path) -> dict[str, float]:
    """Seconds of an install from the cache by its word, by its lock, and of npm alone, in turns; and the ratios."""
    word, package = PACKAGE
    by_word = [dragoman, "agents", "install", word, "--offline", "--yes", "--no-try"]
    _duration([dragoman, "agents", "install", word, "--yes", "--no-try"], folder)
    lock = str(folder / "agents.lock")
    _duration([dragoman, "agents", "lock", lock], folder)
    version = json.loads(_output([dragoman, "agents", "update", word, "--check", "--json"], folder))[0]["version"]
    npm = ["npm", "install", f"{package}@{version}", "--offline", "--ignore-scripts", "--no-audit", "--no-fund"]
    words, locks, theirs = [], [], []
    for number in range(count):
        _duration([dragoman, "agents", "remove", word, "--yes"], folder)
        words.append(_duration(by_word, folder))
        _duration([dragoman, "agents", "remove", word, "--yes"], folder)
        locks.append(
            _duration([dragoman, "agents", "install", "--lock", lock, "--offline", "--yes", "--no-try"], folder)
        )
        alone = folder / f"npm-{number}"
        alone.mkdir()
        theirs.append(_duration([*npm, "--prefix", str(alone)], folder))
        shutil.rmtree(alone)
    ours, bound, single = median(words), median(locks), median(theirs)
    return {"install_s": ours, "lock_s": bound, "npm_s": single, "ratio": ours / single, "lock_ratio": bound / single}


def install_pypi(dragoman: str, count: int, folder: Path) -> dict[str, float]:
    """Seconds of an install of a PyPI package from the cache, of uv with the same options, in turns; and the ratio.

    The same options: files of its own instead of links into uv's cache, and bytecode for every module. The first
    install fills both caches.
    """
    project = PROJECT.partition("==")[0]
    entry = {"id": "timed", "name": "Timed", "version": "1.0.0", "description": "A package with 30 dependencies"}
    index = folder / "registry.json"
    entries = [{**entry, "distribution": {"uvx": {"package": PROJECT}}}]
    index.write_text(json.dumps({"version": "1.0.0", "agents": entries}))
    ours = [dragoman, "agents", "install", "timed", "--registry", str(index), "--yes", "--no-try"]
    _duration(ours, folder)
    [python] = (folder / "data" / "dragoman" / "agents" / "timed").glob("*/files/bin/python")
    uv = str(TOOLS / "uv")
    alone = [uv, "tool", "install", PROJECT, "--offline", "--quiet", "--compile-bytecode", "--link-mode", "copy"]
    alone += ["--python", os.path.realpath(python)]
    times, theirs = [], []
    for _ in range(count):
        _duration([dragoman, "agents", "remove", "timed", "--yes"], folder)
        times.append(_duration([*ours, "--offline"], folder))
        theirs.append(_duration(alone, folder))
        _duration([uv, "tool", "uninstall", "--quiet", project], folder)
    return {"install_s": median(times), "uv_s": median(theirs), "ratio": median(times) / median(theirs)}


def _duration(command: list[str], folder: Path) -> float:
    started = perf_counter()
    _output(command, folder)
    return perf_counter() - started


def _output(command: list[str], folder: Path) -> str:
    places = {f"XDG_{name}_HOME": str(folder / name.lower()) for name in ("CONFIG", "STATE", "DATA", "CACHE")}
    tools = {"UV_TOOL_DIR": str(folder / "uv-tools"), "UV_TOOL_BIN_DIR": str(folder / "uv-bin")}
    env = environment() | places | tools | {"HOME": os.path.expanduser("~")}
    env["PATH"] = os.pathsep.join([env.get("PATH", os.defpath), str(TOOLS)])  # uv is there
    ran = subprocess.run(
        command,
        cwd=folder,
        env=env,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=DEADLINE,
        check=True,
    )
    return ran.stdout
