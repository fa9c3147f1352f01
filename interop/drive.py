"""The driver: sends one prompt with `dragoman run --json`, reads its lines, and finds leftover processes.

Takes a command of an agent, its variables and what to ask; gives an Outcome. The only place that knows how the command
line of `run` looks and how its JSON is read. Above are the cells.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

TAP = Path(__file__).parent / "tap.py"
MARK = "DRAGOMAN_INTEROP_CELL"
RESULT = "result"  # the kind of the last line of a run; all others are entries of the session's log

TIMEOUT = 150.0  # seconds for one prompt: agents need up to 20 to start
EXIT_TIMEOUT = 15.0  # seconds that processes may outlive the run
POLL = 0.05


@dataclass
class Outcome:
    """The outcome of one run: exit code (None if it was killed), entries, stderr, frames, leftover processes."""

    code: int | None = None
    entries: list[dict[str, Any]] = field(default_factory=list)
    stderr: str = ""
    frames: list[tuple[str, Any]] = field(default_factory=list)
    left: list[str] = field(default_factory=list)
    seconds: float = 0.0
    after_interrupt: float | None = None

    def bodies(self, kind: str) -> list[Any]:
        """The bodies of the entries of a kind, in order."""
        return [entry["body"] for entry in self.entries if entry["kind"] == kind]

    @property
    def numbers(self) -> list[int]:
        """The numbers of the entries in their session; the last line has none."""
        return [entry["seq"] for entry in self.entries if entry["kind"] != RESULT]

    @property
    def sessions(self) -> set[str | None]:
        """The sessions of the entries."""
        return {entry["session"] for entry in self.entries}

    @property
    def chunks(self) -> list[str]:
        """The text chunks of the agent."""
        return [text for body in self.bodies("update") if (text := message_text(body))]

    @property
    def text(self) -> str:
        """The whole text of the agent."""
        return "".join(self.chunks)

    @property
    def stop_reason(self) -> str | None:
        """The stop reason in the log."""
        ended = self.bodies("turn_ended")
        return ended[-1].get("stopReason") if ended else None

    @property
    def result_line(self) -> dict[str, Any]:
        """The result, which is the last line of a run: exit code, stop reason, text, and the error if there was one."""
        return next((dict(entry["body"]) for entry in self.entries[-1:] if entry["kind"] == RESULT), {})

    @property
    def error_text(self) -> str:
        """The error of the run, or else the last line of its stderr."""
        error = self.result_line.get("error") or {}
        return str(error.get("message") or (self.stderr.strip().splitlines() or [""])[-1])[:300]

    def requests(self, method: str) -> list[Any]:
        """The params of the frames that had this method, in either direction."""
        return [frame.get("params") for _, frame in self.frames if frame.get("method") == method]

    def result(self, method: str) -> Any:
        """The result of the client's last request of this method; None without one."""
        return self._answer(method).get("result")

    def error(self, method: str) -> dict[str, Any]:
        """The error that answered the client's last request of this method; empty without one."""
        return dict(self._answer(method).get("error") or {})

    def _answer(self, method: str) -> dict[str, Any]:
        ids = [frame.get("id") for way, frame in self.frames if way == "c2a" and frame.get("method") == method]
        for way, frame in reversed(self.frames):
            if way == "a2c" and "method" not in frame and ids and frame.get("id") == ids[-1]:
                return dict(frame)
        return {}


def message_text(body: Any) -> str:
    """The text of an update, if it is one of the agent's messages."""
    if body.get("sessionUpdate") != "agent_message_chunk":
        return ""
    return str(body["content"].get("text") or "")


def command_line(prompt: str, cwd: Path, *, allow: bool, session: str | None, command: list[str]) -> list[str]:
    """The command line of a run; --verbose puts the stderr of the agent into the log."""
    line = [sys.executable, "-m", "dragoman", "run", "--json", "--verbose", "--prompt", prompt, "--cwd", str(cwd)]
    line += ["--yes"] if allow else []
    line += ["--session", session] if session else []
    return [*line, "--", *command]


def drive(
    prompt: str,
    command: list[str],
    *,
    env: dict[str, str],
    cwd: Path,
    log: Path,
    allow: bool = False,
    session: str | None = None,
    interrupt: bool = False,
    hidden: tuple[str, ...] = (),
) -> Outcome:
    """Send one prompt; with `interrupt`, send Ctrl-C after the first text of the answer.

    The `hidden` session capabilities of the agent are removed from its initialize result.
    """
    log.mkdir(parents=True, exist_ok=True)
    wire = log / "wire.ndjson"
    mark = f"{os.getpid()}-{time.monotonic_ns()}"
    tapped = [sys.executable, str(TAP), str(wire), *hidden, "--", *command]
    line = command_line(prompt, cwd, allow=allow, session=session, command=tapped)
    outcome = Outcome()
    begun = time.monotonic()
    with (log / "stderr.txt").open("wb") as errors, (log / "stdout.ndjson").open("wb") as copy:
        run = subprocess.Popen(
            line,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=errors,
            env={**env, MARK: mark},
            start_new_session=True,
        )
        alarm = threading.Timer(TIMEOUT, run.kill)
        alarm.start()
        interrupted: float | None = None
        assert run.stdout is not None
        for raw in run.stdout:
            copy.write(raw)
            entry = _parsed(raw)
            if entry is not None:
                outcome.entries.append(entry)
            if interrupt and interrupted is None and outcome.chunks:
                interrupted = time.monotonic()
                run.send_signal(signal.SIGINT)
        code = run.wait()
        alarm.cancel()
    outcome.code = None if code == -signal.SIGKILL else code
    outcome.seconds = time.monotonic() - begun
    outcome.after_interrupt = time.monotonic() - interrupted if interrupted is not None else None
    outcome.stderr = (log / "stderr.txt").read_text(errors="replace")
    outcome.frames = frames(wire)
    outcome.left = leftovers(mark)
    return outcome


def _parsed(raw: bytes) -> dict[str, Any] | None:
    try:
        entry = json.loads(raw)
    except ValueError:
        return None
    return entry if isinstance(entry, dict) else None


def frames(wire: Path) -> list[tuple[str, Any]]:
    """The recorded frames, as (direction, message), without lines that are not messages."""
    found: list[tuple[str, Any]] = []
    for line in wire.read_text().splitlines() if wire.exists() else ():
        noted = json.loads(line)
        message = _parsed(noted["raw"].encode())
        if noted["dir"] != "note" and message is not None:
            found.append((noted["dir"], message))
    return found


def leftovers(mark: str, patience: float = EXIT_TIMEOUT) -> list[str]:
    """Wait for all processes with the mark to end; kill the others, and return their command lines."""
    deadline = time.monotonic() + patience
    while (alive := marked(mark)) and time.monotonic() < deadline:
        time.sleep(POLL)
    for pid in alive:
        try:
            os.kill(pid, signal.SIGKILL)
        except OSError:
            pass
    return [f"{pid} {line}" for pid, line in alive.items()]


def marked(mark: str) -> dict[int, str]:
    """The running processes with this mark in their environment, and their command lines."""
    wanted = f"{MARK}={mark}".encode()
    found: dict[int, str] = {}
    for entry in Path("/proc").iterdir():
        try:
            if entry.name.isdigit() and wanted in (entry / "environ").read_bytes().split(b"\0"):
                found[int(entry.name)] = (entry / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
        except OSError:
            continue  # it ended meanwhile, or is not ours
    return found
