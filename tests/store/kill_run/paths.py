"""The files of a kill run, and how its processes are found."""

from __future__ import annotations

import os
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]

CLIENT_FILE = "client.db"
AGENT_FILE = "agent.db"
FILES = (CLIENT_FILE, AGENT_FILE)

# Stands in the environment of every process of a run, with the run's own name.
MARK = "KILLING_RUN"


def store_file(folder: str, name: str) -> str:
    """A file of sessions in the folder of a run."""
    return os.path.join(folder, name)


def command(module: str, *words: str) -> list[str]:
    """How one of the processes is started."""
    return [sys.executable, "-m", f"tests.store.kill_run.{module}", *words]


def processes(mark: str) -> dict[int, str]:
    """The running processes of a run: their ids and commands."""
    found: dict[int, str] = {}
    for folder in Path("/proc").iterdir():
        if not folder.name.isdigit():
            continue
        try:
            if f"{MARK}={mark}".encode() in (folder / "environ").read_bytes().split(b"\0"):
                found[int(folder.name)] = (folder / "cmdline").read_text().replace("\0", " ").strip()
        except OSError:
            continue  # it ended meanwhile, or is somebody else's
    return found
