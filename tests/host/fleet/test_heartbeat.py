"""The watchdog: a process that kills agents whose node is silent, with real processes."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator

import pytest

from dragoman.host.fleet.heartbeat import HeartbeatWatchdog
from dragoman.transport.process.process_tree import MARKER
from dragoman.transport.process.watchdog import WATCHDOG

# Longer than anything takes on a busy machine. Seconds.
TIMEOUT = 90.0


@pytest.fixture
def watchdog() -> Iterator[HeartbeatWatchdog]:
    started = HeartbeatWatchdog()
    started.start()
    yield started
    started.close()


def start_tree(token: str) -> subprocess.Popen[bytes]:
    """Start an agent that starts a command in a session of its own, as shells and tools do."""
    script = (
        "import subprocess, sys, time;"
        "child = subprocess.Popen(['sleep', '600'], start_new_session=True);"
        "print(child.pid, flush=True); time.sleep(600)"
    )
    environ = {**os.environ, MARKER: token}
    tree = subprocess.Popen([sys.executable, "-c", script], env=environ, stdout=subprocess.PIPE, start_new_session=True)
    WATCHDOG.guard(token, tree.pid)
    return tree


def is_running(pid: int) -> bool:
    try:
        with open(f"/proc/{pid}/stat") as file:
            return file.read().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def wait_gone(*pids: int) -> float:
    """Wait until these processes are gone; return when that was."""
    deadline = time.monotonic() + TIMEOUT
    while any(map(is_running, pids)):
        assert time.monotonic() < deadline, "they were not killed"
        time.sleep(0.01)
    return time.monotonic()


@pytest.mark.item("FL-09")
def test_agents_and_their_commands_die_when_the_heartbeat_is_silent(watchdog: HeartbeatWatchdog) -> None:
    tree = start_tree("0123456789abcdef")
    try:
        assert tree.stdout is not None
        child = int(tree.stdout.readline())
        deadline = time.monotonic() + 1.0
        watchdog.beat(deadline)
        assert wait_gone(tree.pid, child) >= deadline, "they live until the deadline"
    finally:
        WATCHDOG.unguard("0123456789abcdef")
        tree.kill()
        tree.wait()


def test_heartbeats_keep_agents_alive_and_a_killed_watchdog_is_replaced(watchdog: HeartbeatWatchdog) -> None:
    tree = start_tree("fedcba9876543210")
    try:
        assert tree.stdout is not None
        child = int(tree.stdout.readline())
        first = time.monotonic() + 1.0
        watchdog.beat(first)
        watchdog.beat(first + TIMEOUT)
        time.sleep(first + 0.3 - time.monotonic())
        assert tree.poll() is None, "it lived longer than the first deadline"
        assert watchdog._process is not None
        os.kill(watchdog._process.pid, signal.SIGKILL)
        watchdog._process.wait()
        deadline = time.monotonic() + 0.5
        watchdog.beat(deadline)
        assert wait_gone(tree.pid, child) >= deadline
    finally:
        WATCHDOG.unguard("fedcba9876543210")
        tree.kill()
        tree.wait()
