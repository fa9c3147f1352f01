"""The example of a sandbox, run as its reader would run it."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import dragoman
from dragoman.transport import bubblewrap, landlock

EXAMPLE = Path(__file__).parents[2] / "docs" / "examples" / "sandboxed.py"
SOURCES = str(Path(dragoman.__file__).parents[1])

# A handful of interpreters on a busy machine. Seconds.
PATIENCE = 60


def test_the_agent_writes_in_its_folder_and_not_beside_it(tmp_path: Path) -> None:
    work = tmp_path / "work"
    work.mkdir()
    words = [sys.executable, str(EXAMPLE), SOURCES, sys.executable, "-m", "dragoman", "agent", "everything"]
    ran = subprocess.run(words, cwd=work, capture_output=True, text=True, timeout=PATIENCE, check=True)
    if landlock.version() < landlock.FILES_SINCE and bubblewrap.find()[0] is None:
        assert ran.stdout.startswith("not started: no sandbox can be had")
        return
    first, second = ran.stdout.splitlines()
    assert first == "Created `note.txt`."
    assert "ended with exit code" in second  # bubblewrap gives it a folder above that is not the real one
    assert (work / "note.txt").read_text() == "hello"
    assert not (tmp_path / "outside.txt").exists()
