"""The sandbox example, run as a process."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

import dragoman
from dragoman.transport.sandbox import bubblewrap, landlock
from tests.examples.run_example import DRAGOMAN, EXAMPLES, TIMEOUT

SOURCES = str(Path(dragoman.__file__).parents[1])
EVERYTHING = (*DRAGOMAN, "agent", "everything")


def behind(dialect: str) -> tuple[str, ...]:
    """The everything agent in this dialect behind `dragoman translate`, which is in the sandbox too."""
    return (*DRAGOMAN, "translate", "--", *EVERYTHING, "--dialect", dialect)


@pytest.mark.parametrize("command", [EVERYTHING, behind("draft"), behind("crow")], ids=["v1", "draft", "crow"])
def test_the_agent_can_write_only_in_its_folder(command: tuple[str, ...], tmp_path: Path) -> None:
    work = tmp_path / "work"
    work.mkdir()
    words = [sys.executable, str(EXAMPLES / "sandbox.py"), SOURCES, *command]
    ran = subprocess.run(words, cwd=work, capture_output=True, text=True, timeout=TIMEOUT, check=True)
    if landlock.abi_version() < landlock.FILES_MIN_ABI and bubblewrap.find_bubblewrap()[0] is None:
        assert ran.stdout.startswith("not started: no sandbox is available")
        return
    first, second = ran.stdout.splitlines()
    assert first == "Created `note.txt`."
    assert "ended with exit code" in second  # bubblewrap gives it a folder above that is not the real one
    assert (work / "note.txt").read_text() == "hello"
    assert not (tmp_path / "outside.txt").exists()
