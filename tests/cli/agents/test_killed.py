"""An install that is killed with SIGKILL at any change of the disk, and the install after it.

DRAGOMAN_KILLS=all kills at every change; by default a few are chosen, other ones each day.
"""

from __future__ import annotations

import datetime
import os
import random
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cli.agents.test_install import answer_of
from tests.registry.home import User, set_environment
from tests.registry.packages import binary_entry
from tests.registry.stand_in import serve

# How many moments the suite tries; each is a process.
KILLS = 4

# Runs the command and kills its own process before the Nth change of the disk; prints how many there were.
PROGRAM = """
import os, signal, sys
at, count = int(sys.argv[1]), 0
CHANGES = {"os.rename", "os.mkdir", "os.remove", "os.rmdir", "os.link", "os.symlink", "os.chmod", "subprocess.Popen"}
WRITES = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC

def before(event, values):
    global count
    if event == "open":
        path, _, flags = values
        if not (flags or 0) & WRITES or "__pycache__" in str(path) or str(path).startswith("/dev/"):
            return
    elif event not in CHANGES:
        return
    count += 1
    if count == at:
        os.kill(os.getpid(), signal.SIGKILL)

from dragoman.cli.main import main
sys.dont_write_bytecode = True
sys.addaudithook(before)
code = main(sys.argv[2:])
print(count)
sys.exit(code)
"""


@pytest.fixture
def user(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Iterator[User]:
    with serve() as site:
        set_environment(tmp_path, site, monkeypatch)
        yield User(tmp_path, site, capsys)


def install(user: User, at: int) -> subprocess.CompletedProcess[str]:
    """Install in a process that kills itself before a change; 0 lets it live."""
    command = [sys.executable, "-c", PROGRAM, str(at), "agents", "install", "small", "--yes", "--refresh"]
    env = {**os.environ, "TMPDIR": str(user.folder)}  # what a killed process leaves there
    return subprocess.run([*command, "--registry", user.index], capture_output=True, text=True, timeout=120, env=env)


def publish(user: User, number: int) -> str:
    """Publish a new version; return it."""
    version = f"{number}.0.0"
    user.publish(binary_entry(user.site, version=version))
    return version


def chosen_moments(changes: int) -> list[int]:
    """Return the changes before which to kill."""
    if os.environ.get("DRAGOMAN_KILLS") == "all":
        return list(range(1, changes + 1))
    day = random.Random(datetime.date.today().isoformat())
    return sorted({1, changes, *day.sample(range(2, changes), min(KILLS - 2, changes - 2))})


@pytest.mark.item("RG-09")
def test_killed_at_any_change_of_the_disk_the_next_install_finishes(user: User) -> None:
    publish(user, 1)
    assert user.install("small") == 0, user.err
    before = publish(user, 2)
    alive = install(user, 0)
    assert alive.returncode == 0, alive.stderr
    changes = int(alive.stdout.split()[-1])
    assert changes > 10
    for number, at in enumerate(chosen_moments(changes), 3):
        version = publish(user, number)
        killed = install(user, at)
        if at < changes - 2:  # the number of temporary files may differ by one or two
            assert killed.returncode == -signal.SIGKILL, (at, killed.stderr)
        running = answer_of(user.agent("small").argv)["agentInfo"]["version"]
        assert running in (before, version), f"killed before change {at}"
        (row,) = user.json("verify", "small")
        assert row["files"] == "ok" or "an install did not finish" in str(row["notes"]), (at, row)
        assert user.install("small") == 0, (at, user.err)
        assert not [name for name in user.listed() if ".new" in name], f"killed before change {at}"
        assert answer_of(user.agent("small").argv)["agentInfo"]["version"] == version, f"killed before change {at}"
        before = version
