"""Our answers, as a client, to the requests of an agent for files, terminals and forms."""

from __future__ import annotations

import os
from collections.abc import Callable
from io import TextIOWrapper

from dragoman.config.private_files import open_regular
from dragoman.conformance.harness.peer import Json, ReceivedFrame


def _read(frame: ReceivedFrame) -> Json:
    try:
        with TextIOWrapper(open_regular(str(frame.params.get("path"))), encoding="utf-8") as file:
            lines = file.read().splitlines(keepends=True)
    except OSError as error:
        return {"refused": -32002, "why": f"Resource not found: {error.strerror}"}
    start = max(int(frame.params.get("line") or 1) - 1, 0)
    limit = frame.params.get("limit")
    return {"content": "".join(lines[start : None if limit is None else start + int(limit)])}


def _open_at_once(path: str, flags: int) -> int:
    """Open without waiting for the reader of a FIFO: without one the open fails."""
    return os.open(path, flags | os.O_NONBLOCK, 0o666)


def _write(frame: ReceivedFrame) -> Json:
    try:
        with open(str(frame.params.get("path")), "w", encoding="utf-8", opener=_open_at_once) as file:
            file.write(str(frame.params.get("content")))
    except OSError as error:
        return {"refused": -32603, "why": f"cannot write: {error.strerror}"}
    return {}


# By method. Terminals are simulated, so that no process is left running.
ANSWERS: dict[str, Callable[[ReceivedFrame], Json]] = {
    "fs/read_text_file": _read,
    "fs/write_text_file": _write,
    "terminal/create": lambda _: {"terminalId": "terminal-1"},
    "terminal/output": lambda _: {"output": "hello", "truncated": False, "exitStatus": {"exitCode": 0, "signal": None}},
    "terminal/wait_for_exit": lambda _: {"exitCode": 0, "signal": None},
    "terminal/kill": lambda _: {},
    "terminal/release": lambda _: {},
    "elicitation/create": lambda _: {"action": "decline"},
}
