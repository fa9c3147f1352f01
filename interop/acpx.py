"""The cells of acpx, a real client: it uses `dragoman agent everything`, and we check its output.

Takes the place acpx was installed into; gives a row for the matrix. Sessions of acpx live in a process of its own that
outlives each command, so the row ends by closing the session and looking for whatever stayed.
"""

from __future__ import annotations

import json
import os
import shlex
import shutil
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from interop.cells import Failed, expect
from interop.counterparts import Counterpart, Place
from interop.drive import MARK, TAP, leftovers
from interop.install import CACHE
from interop.page import Row, Verdict

TIMEOUT = 60.0  # seconds for one command of acpx; each takes two or three
START_TIMEOUT = 30.0  # seconds until a slow prompt appears in the output of acpx
TTL = "20"  # seconds after which acpx's own process ends by itself, if it is not closed


@dataclass
class Acpx:
    """acpx with its agent, in a folder; keeps the output of every command."""

    command: list[str]
    env: dict[str, str]
    folder: Path
    log: Path
    output: list[str] = field(default_factory=list)

    def line(self, *words: str) -> list[str]:
        """A complete command line."""
        agent = [sys.executable, str(TAP), str(self.log / "wire.ndjson"), "--"]
        agent += [sys.executable, "-m", "dragoman", "agent", "everything"]
        return [*self.command, "--agent", shlex.join(agent), "--approve-all", "--ttl", TTL, "--format", "json", *words]

    def __call__(self, *words: str) -> list[dict[str, Any]]:
        """Run one command to its end; return its JSON lines."""
        try:
            ended = subprocess.run(
                self.line(*words),
                cwd=self.folder,
                env=self.env,
                stdin=subprocess.DEVNULL,
                capture_output=True,
                text=True,
                timeout=TIMEOUT,
            )
        except subprocess.TimeoutExpired:
            raise Failed(f"acpx {shlex.join(words)} did not end within {TIMEOUT:g} s") from None
        self.output.append(f"$ acpx {shlex.join(words)}\n{ended.stdout}{ended.stderr}[exit code {ended.returncode}]\n")
        if ended.returncode:
            last = (ended.stdout + ended.stderr).strip().splitlines()[-1:] or ["no output"]
            raise Failed(f"acpx {shlex.join(words)} ended with {ended.returncode}: {last[0][:300]}")
        return parsed(ended.stdout)

    def begin(self, *words: str) -> subprocess.Popen[bytes]:
        """Start a command whose output goes to a separate file."""
        output = (self.log / "slow.ndjson").open("wb")
        with output:
            return subprocess.Popen(
                self.line(*words), cwd=self.folder, env=self.env, stdin=subprocess.DEVNULL, stdout=output, stderr=output
            )


def parsed(output: str) -> list[dict[str, Any]]:
    """The lines that are JSON objects."""
    found: list[dict[str, Any]] = []
    for line in output.splitlines():
        try:
            one = json.loads(line)
        except ValueError:
            continue
        if isinstance(one, dict):
            found.append(one)
    return found


def text_of(lines: list[dict[str, Any]]) -> str:
    """The text of the agent in this output."""
    updates = [(one.get("params") or {}).get("update") or {} for one in lines if one.get("method") == "session/update"]
    return "".join(
        str((update.get("content") or {}).get("text", ""))
        for update in updates
        if update.get("sessionUpdate") == "agent_message_chunk"
    )


def stop_reason(lines: list[dict[str, Any]]) -> str | None:
    """The stop reason of the last turn in this output."""
    reasons = [one["result"]["stopReason"] for one in lines if "stopReason" in (one.get("result") or {})]
    return str(reasons[-1]) if reasons else None


def exec_(acpx: Acpx) -> str:
    """One-shot prompts: text, and a file that needs permission."""
    lines = acpx("exec", "/echo hello world")
    expect(text_of(lines) == "hello world", f"it showed {text_of(lines)!r}")
    expect(stop_reason(lines) == "end_turn", f"stop reason {stop_reason(lines)}")
    lines = acpx("exec", "/write note.txt hello")
    expect(
        any(one.get("method") == "session/request_permission" for one in lines), "the agent sent no permission request"
    )
    expect((acpx.folder / "note.txt").read_text() == "hello", "the file has the wrong content")
    return ""


def sessions(acpx: Acpx) -> str:
    """A session that outlives the command that opened it."""
    acpx("sessions", "new")
    lines = acpx("prompt", "/option model loud")
    expect(stop_reason(lines) == "end_turn", f"stop reason {stop_reason(lines)}")
    lines = acpx("prompt", "quietly")
    expect("QUIETLY" in text_of(lines), f"the second prompt went to another session: {text_of(lines)!r}")
    status = acpx("status")
    expect(status and status[-1].get("status") == "alive", f"status: {status}")
    return "two prompts, one session"


def set_mode(acpx: Acpx) -> str:
    """The mode of that session is set and stays: the same prompt needs no permission."""
    lines = acpx("set-mode", "code")
    expect(lines and lines[-1].get("modeId") == "code", f"it printed {lines}")
    lines = acpx("prompt", "/write free.txt hello")
    expect(
        not any(one.get("method") == "session/request_permission" for one in lines),
        "the agent asked for permission in mode code",
    )
    expect((acpx.folder / "free.txt").exists(), "the file does not exist")
    try:
        acpx("set-mode", "nonsense")
    except Failed as refused:
        expect("nonsense" in str(refused), f"the refusal is {refused}")
        return "and an unknown mode refused"
    raise Failed("an unknown mode was accepted")


def cancel(acpx: Acpx) -> str:
    """A turn in that session is cancelled from another command."""
    output = acpx.log / "slow.ndjson"
    slow = acpx.begin("prompt", "/slow 60")
    try:
        _await(
            lambda: "in_progress" in output.read_text(errors="replace"), START_TIMEOUT, "the slow prompt did not start"
        )
        begun = time.monotonic()
        lines = acpx("cancel")
        expect(lines and lines[-1].get("cancelled") is True, f"it printed {lines}")
        try:
            slow.wait(TIMEOUT)
        except subprocess.TimeoutExpired:
            raise Failed(f"the prompt did not end within {TIMEOUT:g} s after the cancel") from None
        reason = stop_reason(parsed(output.read_text(errors="replace")))
        expect(reason == "cancelled", f"stop reason {reason}")
        return f"after {time.monotonic() - begun:.1f} s"
    finally:
        slow.kill()
        slow.wait()


def close(acpx: Acpx) -> str:
    """The session is closed, and no process is left."""
    acpx("sessions", "close")
    left = leftovers(acpx.env[MARK])
    expect(not left, f"left running: {'; '.join(left)[:300]}")
    return ""


CELLS: tuple[tuple[str, Callable[[Acpx], str]], ...] = (
    ("exec", exec_),
    ("sessions", sessions),
    ("set-mode", set_mode),
    ("cancel", cancel),
    ("close", close),
)
TITLES = [title for title, _ in CELLS]


def judge(
    counterpart: Counterpart, where: Place, home: Path, env: dict[str, str], tell: Callable[[str], None], keep: bool
) -> Row:
    """Run all cells in order: most need the session of the cells before."""
    folder, log = home / "work", CACHE / "logs" / counterpart.name
    for made in (folder, log):
        made.mkdir(parents=True, exist_ok=True)
    mark = f"{os.getpid()}-{time.monotonic_ns()}"
    acpx = Acpx(counterpart.command(where), {**env, MARK: mark}, folder, log)
    row = Row(counterpart.name, counterpart.version)
    for title, run in CELLS:
        begun = time.monotonic()
        try:
            verdict = Verdict("passed", run(acpx))
        except (Failed, OSError) as error:
            verdict = Verdict("failed", str(error))
        verdict.seconds = time.monotonic() - begun
        row.cells[title] = verdict
        tell(f"{counterpart.name:18} {title:18} {verdict.progress_line}")
    leftovers(mark)
    (log / "output.txt").write_text("\n".join(acpx.output))
    if row.passes and not keep:
        shutil.rmtree(log)
    return row


def _await(condition: Callable[[], bool], timeout: float, error: str) -> None:
    deadline = time.monotonic() + timeout
    while not condition():
        if time.monotonic() > deadline:
            raise Failed(error)
        time.sleep(0.05)
