"""Nodes of a fleet as processes, with real agents, on one database."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from dragoman import connect
from tests.cli.process import DRAGOMAN, EVERYTHING, TIMEOUT
from tests.host.fleet.run.agent import NODE_VARIABLE

ROOT = str(Path(__file__).parents[3])

# The agent that says at which node it runs.
ECHO = [sys.executable, "-m", "tests.host.fleet.run.agent"]

# The lease of the nodes: short for a test, long enough for a busy machine. Seconds.
LEASE = 6.0


class NodeProcess:
    """One node as a process."""

    def __init__(
        self,
        folder: Path,
        name: str,
        store: str,
        *arguments: str,
        agent: Sequence[str] = EVERYTHING,
        prefix: Sequence[str] = (),
        lease: float = LEASE,
        connect_options: dict[str, Any] | None = None,
        program: Sequence[str] = DRAGOMAN,
    ) -> None:
        """`prefix` begins its command; `connect_options` are how clients connect to it."""
        self.folder, self.name, self.store = folder, name, store
        self._connect_options = connect_options or {}
        home = folder / name
        (home / "config" / "dragoman").mkdir(parents=True, exist_ok=True)
        (home / "config" / "dragoman" / "config.toml").write_text(f"[host]\nlease = {lease}\n")
        key = folder / "key"
        if not key.exists():
            key.write_text("0f" * 32 + "\n")
            key.chmod(0o600)
        self._environ = {
            **os.environ,
            NODE_VARIABLE: name,
            "XDG_CONFIG_HOME": str(home / "config"),
            "XDG_STATE_HOME": str(home / "state"),
            "PYTHONPATH": ROOT,
        }
        self.program = program  # may become another version, from the next start on
        self._prefix = prefix
        self._arguments = [
            "serve", "--json", "--verbose", "--bind", "127.0.0.1:0", "--store", store,
            "--secrets-key", str(key),
            "--node", name, *(arguments or ("--labels", "shared:all=/")), "--", *agent,
        ]  # fmt: skip
        self.log = home / "log"
        self.start()

    def start(self) -> None:
        """Start it, and wait until it is ready."""
        self._output = self.log.open("ab")
        self.process = subprocess.Popen(
            [*self._prefix, *self.program, *self._arguments],
            env=self._environ,
            stdout=subprocess.PIPE,
            stderr=self._output,
            text=True,
            cwd=self.folder,
        )
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        started = json.loads(line) if line else {}
        assert "url" in started, self.log.read_text()
        self.url = str(started["url"])

    def connect(self, **options: Any) -> connect:
        """Connect as the owner."""
        url = self.url.replace("http", "ws", 1)
        return connect(url, reconnect_timeout=0, **self._connect_options, **options)

    def kill(self, number: int = signal.SIGKILL) -> None:
        """Send it a signal."""
        self.process.send_signal(number)

    def end(self) -> None:
        """End it, whatever its state."""
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGCONT)
            self.process.terminate()
            try:
                self.process.wait(TIMEOUT / 4)
            except subprocess.TimeoutExpired:
                self.process.kill()
        self.process.wait(TIMEOUT)
        self._output.close()

    def agent_pids(self) -> list[int]:
        """Return the processes of its agents: those that have its log as ancestor are its children."""
        found = []
        for name in os.listdir("/proc"):
            if name.isdigit():
                try:
                    with open(f"/proc/{name}/stat") as file:
                        parent = int(file.read().rpartition(")")[2].split()[1])
                    with open(f"/proc/{name}/cmdline", "rb") as file:
                        is_agent = b"\0agent\0everything" in file.read()
                except OSError:
                    continue
                if parent == self.process.pid and is_agent:
                    found.append(int(name))
        return found
