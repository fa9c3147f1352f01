"""Between a client and an agent: pass every byte on, and record each frame with its time and direction.

`python tap.py LOG [HIDDEN...] -- CMD ARG...`; lines of the log: `{"t": seconds, "dir": "c2a" | "a2c" | "note", "raw":
text}`. The client does not learn of HIDDEN session capabilities, so it can be seen what it does without; the log does.
Stays in the process group it was started in, so whoever ends the agent ends both. Imports nothing of ours.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable
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


def without(hidden: list[str]) -> Callable[[bytes], bytes]:
    """Return a function that removes the hidden capabilities from a line of the agent."""

    def change(line: bytes) -> bytes:
        if b'"sessionCapabilities"' not in line:
            return line
        try:
            message = json.loads(line)
            offered = message["result"]["agentCapabilities"]["sessionCapabilities"]
            for name in hidden:
                offered.pop(name, None)
        except (ValueError, LookupError, TypeError, AttributeError):
            return line  # not an initialize result
        return json.dumps(message).encode()

    return change


def pass_on(
    source: int, sink: IO[bytes], direction: str, log: Log, change: Callable[[bytes], bytes] | None = None
) -> None:
    """Pass everything on at once (line by line if lines are changed), and record complete lines."""
    rest = b""
    while data := os.read(source, READ):
        *lines, rest = (rest + data).split(b"\n")
        try:
            sink.write(data if change is None else b"".join(change(line) + b"\n" for line in lines))
            sink.flush()
        except OSError:
            break  # the other end is closed
        for line in lines:
            log.note(direction, line.decode("utf-8", "replace"))
    if rest:
        if change is not None:
            _finish(sink, rest)
        log.note(direction, rest.decode("utf-8", "replace"))


def _finish(sink: IO[bytes], rest: bytes) -> None:
    try:
        sink.write(rest)
        sink.flush()
    except OSError:
        pass  # the other end is closed


def main(arguments: list[str]) -> int:
    """Start the agent and pass messages on until it ends."""
    log = Log(arguments[0])
    mark = arguments.index("--")
    hidden = arguments[1:mark]
    agent = subprocess.Popen(arguments[mark + 1 :], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert agent.stdin is not None
    assert agent.stdout is not None
    out = agent.stdout.fileno()
    forth = threading.Thread(target=forward, args=(agent.stdin, log), daemon=True)
    forth.start()
    pass_on(out, sys.stdout.buffer, "a2c", log, without(hidden) if hidden else None)
    code = agent.wait()
    log.note("note", f"the agent ended with exit code {code}")
    return code if code >= 0 else 128 - code


def forward(sink: IO[bytes], log: Log) -> None:
    """Pass messages from the client to the agent, then the end of input."""
    pass_on(0, sink, "c2a", log)
    log.note("note", "the client closed its end")
    try:
        sink.close()
    except OSError:
        pass


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
