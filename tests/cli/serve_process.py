"""`dragoman serve` as a process, with its own folders, on a free port."""

from __future__ import annotations

import json
import os
import signal
import subprocess
from collections.abc import Sequence
from pathlib import Path

from tests.cli.process import DRAGOMAN, EVERYTHING, TIMEOUT


class Served:
    """A host as a process with its own folders."""

    def __init__(self, folder: Path, *arguments: str, agent: Sequence[str] = EVERYTHING) -> None:
        self.folder = folder
        self.agent = agent
        self.environ = {
            **os.environ,
            "XDG_CONFIG_HOME": str(folder / "config"),
            "XDG_STATE_HOME": str(folder / "state"),
            "TERM": "xterm-256color",
        }
        self.arguments = arguments
        self.start()

    def start(self) -> None:
        self.process = subprocess.Popen(
            [*DRAGOMAN, "serve", "--json", *self.arguments, "--", *self.agent],
            cwd=self.folder,
            env=self.environ,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        assert line, self.process.communicate()[1]
        self.info = json.loads(line)
        self.url = str(self.info["url"]).removesuffix("/acp")

    def end(self, number: int = signal.SIGTERM) -> int:
        self.process.send_signal(number)
        return self.process.wait(TIMEOUT)
