"""Find processes that a test left running: each inherits a mark in its environment, at any depth."""

from __future__ import annotations

import os
import time
from pathlib import Path

MARK = "DRAGOMAN_INTEROP"
TIMEOUT = 90.0  # machines are shared; what ends, mostly ends at once


def marked(value: str) -> dict[int, str]:
    """The command lines of the living processes that were started with this mark."""
    wanted = f"{MARK}={value}".encode()
    found: dict[int, str] = {}
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit() or entry.name == str(os.getpid()):
            continue
        try:
            if wanted in (entry / "environ").read_bytes():
                found[int(entry.name)] = (entry / "cmdline").read_bytes().replace(b"\0", b" ").decode()
        except OSError:
            continue  # gone meanwhile, or not ours
    return found


def assert_nothing_left(value: str, besides: set[int]) -> None:
    """Wait for everything with this mark to end, except what was there before."""
    deadline = time.monotonic() + TIMEOUT
    while left := {pid: line for pid, line in marked(value).items() if pid not in besides}:
        assert time.monotonic() < deadline, f"still running: {left}"
        time.sleep(0.02)
