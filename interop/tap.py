"""Between a client and an agent: passes every byte on, and writes down each frame with its time and direction.

`python tap.py LOG -- CMD ARG...`; lines of the log: `{"t": seconds, "dir": "c2a" | "a2c" | "note", "raw": text}`.
Stays in the process group it was started in, so whoever ends the agent ends both. Imports nothing of ours.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
import time
from typing import IO

READ = 65536


class Log:
    """The file of frames; two threads write to it."""

    def __init__(self, path: str) -> None:
        self._file = open(path, "a", encoding="utf-8")  # noqa: SIM115
        self._lock = threading.Lock()
        self._begun = time.monotonic()

    def note(self, direction: str, text: str) -> None:
        """Write one line."""
        line = {"t": round(time.monotonic() - self._begun, 4), "dir": direction, "raw": text}
        with self._lock:
            self._file.write(json.dumps(line) + "\n")
            self._file.flush()


def carry(source: int, sink: IO[bytes], direction: str, log: Log) -> None:
    """Pass everything on at once, and log what became a whole line."""
    rest = b""
    while data := os.read(source, READ):
        try:
            sink.write(data)
            sink.flush()
        except OSError:
            break  # the other end is gone
        *lines, rest = (rest + data).split(b"\n")
        for line in lines:
            log.note(direction, line.decode("utf-8", "replace"))
    if rest:
        log.note(direction, rest.decode("utf-8", "replace"))


def main(arguments: list[str]) -> int:
    """Start the agent and carry until it ends."""
    log = Log(arguments[0])
    agent = subprocess.Popen(arguments[2:], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert agent.stdin is not None
    assert agent.stdout is not None
    out = agent.stdout.fileno()
    forth = threading.Thread(target=forward, args=(agent.stdin, log), daemon=True)
    forth.start()
    carry(out, sys.stdout.buffer, "a2c", log)
    code = agent.wait()
    log.note("note", f"the agent ended with exit code {code}")
    return code if code >= 0 else 128 - code


def forward(sink: IO[bytes], log: Log) -> None:
    """From the client to the agent, and then the end of input."""
    carry(0, sink, "c2a", log)
    log.note("note", "the client closed its end")
    try:
        sink.close()
    except OSError:
        pass


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
