"""`dragoman serve` as people use it: a process of its own, with folders of its own, at a free port."""

from __future__ import annotations

import json
import os
import signal
import subprocess
from collections.abc import Sequence
from pathlib import Path

from tests.cli.process import DRAGOMAN, EVERYTHING, PATIENCE


class Served:
    """A host as a process of its own, with folders of its own."""

    def __init__(self, folder: Path, *words: str, agent: Sequence[str] = EVERYTHING) -> None:
        self.folder = folder
        self.agent = agent
        self.environ = {
            **os.environ,
            "XDG_CONFIG_HOME": str(folder / "config"),
            "XDG_STATE_HOME": str(folder / "state"),
            "TERM": "xterm-256color",
        }
        self.words = words
        self.start()

    def start(self) -> None:
        self.process = subprocess.Popen(
            [*DRAGOMAN, "serve", "--json", *self.words, "--", *self.agent],
            cwd=self.folder,
            env=self.environ,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        assert line, self.process.communicate()[1]
        self.told = json.loads(line)
        self.url = str(self.told["url"]).removesuffix("/acp")

    def end(self, number: int = signal.SIGTERM) -> int:
        self.process.send_signal(number)
        return self.process.wait(PATIENCE)
