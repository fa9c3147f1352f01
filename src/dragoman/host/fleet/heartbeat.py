"""A process that kills the agents of a node whose heartbeat is silent: a node that is paused cannot do it itself.

It reads a pipe: heartbeats with the time until which agents may live, and which process groups there are.
"""

from __future__ import annotations

import os
import subprocess
import sys

from dragoman.transport.process.process_tree import MARKER
from dragoman.transport.process.watchdog import WATCHDOG

# CLOCK_MONOTONIC is the same for all processes of a machine. After a strike the watchdog waits for the next heartbeat.
_SCRIPT = """
import os, select, signal, sys, time
marker = sys.argv[1].encode() + b"="
guarded, deadline, rest = {}, None, b""
signal.signal(signal.SIGINT, signal.SIG_IGN)
signal.signal(signal.SIGTERM, signal.SIG_IGN)
def marked(token):
    for name in os.listdir("/proc"):
        if name.isdigit() and int(name) != os.getpid():
            try:
                with open("/proc/" + name + "/environ", "rb") as file:
                    if any(item.startswith(marker) and token in item for item in file.read().split(b"\\0")):
                        yield int(name)
            except OSError:
                pass
def strike():
    for token, group in guarded.items():
        try:
            if group:
                os.killpg(group, signal.SIGKILL)
        except OSError:
            pass
        for pid in marked(token):
            try:
                os.kill(pid, signal.SIGKILL)
            except OSError:
                pass
while True:
    wait = None if deadline is None else max(0.0, deadline - time.monotonic())
    if select.select([0], [], [], wait)[0]:
        data = os.read(0, 65536)
        if not data:
            break
        *lines, rest = (rest + data).split(b"\\n")
        for line in lines:
            sign, first, *more = line.split(b" ")
            if sign == b"beat":
                deadline = float(first)
            elif sign == b"+":
                guarded[first] = int(more[0])
            elif sign == b"-":
                guarded.pop(first, None)
    elif deadline is not None and time.monotonic() >= deadline:
        strike()
        strike()
        deadline = None
"""


class HeartbeatWatchdog:
    """Our end of the pipe. Start it before agents are started."""

    def __init__(self) -> None:
        self._process: subprocess.Popen[bytes] | None = None
        self._deadline: float | None = None

    def start(self) -> None:
        """Start the process, and tell it of every process tree from now on."""
        self._start_process()
        WATCHDOG.observers.append(self._on_change)

    def beat(self, deadline: float) -> None:
        """Let the agents live until this time of the monotonic clock."""
        self._deadline = deadline
        self._write(f"beat {deadline!r}")

    def close(self) -> None:
        """End the process. The agents live on until they are closed."""
        if self._on_change in WATCHDOG.observers:
            WATCHDOG.observers.remove(self._on_change)
        process, self._process = self._process, None
        if process is not None and process.stdin is not None:
            process.stdin.close()
            process.wait()

    def _on_change(self, token: str, group: int | None) -> None:
        self._write(f"- {token}" if group is None else f"+ {token} {group}")

    def _start_process(self) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-I", "-S", "-c", _SCRIPT, MARKER],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            cwd="/",
            start_new_session=True,  # signals to our group must not reach it
        )
        assert self._process.stdin is not None
        os.set_blocking(self._process.stdin.fileno(), False)
        for token, group in WATCHDOG.guarded().items():
            self._write(f"+ {token} {group}")
        if self._deadline is not None:
            self._write(f"beat {self._deadline!r}")

    def _write(self, line: str) -> None:
        process = self._process
        if process is None or process.stdin is None:
            return
        try:
            os.write(process.stdin.fileno(), line.encode() + b"\n")
        except BlockingIOError:
            pass  # it is stopped; a full pipe means that it has not read for hours
        except OSError:  # it was killed: start it again with the whole list
            process.wait()
            self._start_process()
