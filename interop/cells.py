"""The cells of an agent: what each prompts, and which outcome passes. Pure functions over outcomes of the driver.

A cell that the agent does not advertise is not run. A cell returns a short note for the matrix, or raises Failed with a
reason that is clear without the log.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from interop.drive import Outcome

SENTENCE = "The quick brown fox jumps over the lazy dog"
WORD = "heron"
WRITTEN = "written for the matrix"

# Exit codes of `dragoman run`.
CANCELLED = 5
REFUSED = 6

NO_METHOD = -32601

# Takes a prompt and options. Each cell runs in its own folder.
Drive = Callable[..., Outcome]


class Failed(Exception):
    """The cell did not pass; the message says why."""


@dataclass(frozen=True)
class Cell:
    """A column of the matrix."""

    name: str
    title: str
    run: Callable[[Drive, Path], str]
    is_advertised: Callable[[dict[str, Any]], bool] = lambda introduction: True


def expect(condition: Any, reason: str) -> None:
    """Fail with this reason unless the condition holds."""
    if not condition:
        raise Failed(reason)


def check_end(outcome: Outcome, stop_reason: str = "end_turn", code: int = 0) -> None:
    """Check that the run ended for this reason, logged everything, and left no process."""
    expect(outcome.code is not None, f"the run did not end within its {outcome.seconds:.0f} s")
    why = outcome.error_text
    expect(outcome.stop_reason == stop_reason, f"stop reason {outcome.stop_reason}, exit {outcome.code}: {why}")
    expect(outcome.code == code, f"exit code {outcome.code}, not {code}: {why}")
    check_entries(outcome)
    expect(not outcome.left, f"left running: {'; '.join(outcome.left)[:300]}")


def check_entries(outcome: Outcome) -> None:
    """Check that the entries belong to one session and have no gaps, and that the last line agrees with them."""
    first = outcome.numbers[0]
    expect(outcome.numbers == list(range(first, first + len(outcome.numbers))), f"entries {outcome.numbers}")
    expect(len(outcome.sessions) == 1, f"entries of the sessions {sorted(map(str, outcome.sessions))}")
    line = outcome.result_line
    result = (line.get("exitCode"), line.get("stopReason"), line.get("text"))
    expect(result == (outcome.code, outcome.stop_reason, outcome.text), f"the result is {result}")


def prompt(drive: Drive, folder: Path) -> str:
    """All streamed text arrives in order."""
    outcome = drive(f"[[say {SENTENCE}]]")
    check_end(outcome)
    expect(SENTENCE in outcome.text, f"the text was {outcome.text[-200:]!r}")
    return f"{len(outcome.chunks)} chunks"


def allowed(drive: Drive, folder: Path) -> str:
    """A tool call asks for permission and gets it, and the file exists."""
    path = folder / "note.txt"
    outcome = drive(f"[[write {path} {WRITTEN}]]", allow=True)
    check_end(outcome)
    check_permission_request(outcome)
    expect(path.is_file(), "permission was granted, but the file does not exist")
    expect(path.read_text().strip() == WRITTEN, f"the file contains {path.read_text()[:100]!r}")
    through = "our files" if outcome.requests("fs/write_text_file") else "its own files"
    return f"through {through}"


def refused(drive: Drive, folder: Path) -> str:
    """A tool call asks for permission, the policy refuses it, no file is written, and the turn ends."""
    path = folder / "note.txt"
    outcome = drive(f"[[write {path} {WRITTEN}]]", allow=False)
    # An agent may end the turn at a refusal. Then the stop reason is cancelled.
    if outcome.stop_reason == "cancelled":
        check_end(outcome, "cancelled", CANCELLED)
    else:
        check_end(outcome, "end_turn", REFUSED)
    check_permission_request(outcome)
    expect(all(is_refusal(outcome, decided) for decided in outcome.bodies("decided")), "the run did not refuse")
    expect("refused (there is nobody to ask)" in outcome.stderr, "the run did not report that its policy refused")
    expect(not path.exists(), "permission was refused, but the file exists")
    return f"{outcome.stop_reason}, exit {outcome.code}"


def is_refusal(outcome: Outcome, decided: dict[str, Any]) -> bool:
    """Whether a decision is one of the offered reject options, or cancelled if there was none."""
    questions = [body for body in outcome.bodies("asked") if body["toolCall"]["toolCallId"] == decided["toolCallId"]]
    kinds = {option["optionId"]: option["kind"] for body in questions for option in body["options"]}
    chosen = decided["outcome"]
    if chosen["outcome"] == "cancelled":
        return not any(kind.startswith("reject") for kind in kinds.values())
    return str(kinds.get(chosen["optionId"])).startswith("reject")


def command(drive: Drive, folder: Path) -> str:
    """A command asks for permission and gets it, and the command runs."""
    path = folder / "ran.txt"
    outcome = drive(f"[[run touch {path}]]", allow=True)
    check_end(outcome)
    check_permission_request(outcome)
    expect(path.is_file(), "permission was granted, but the command did not run")
    through = "our terminal" if outcome.requests("terminal/create") else "its own shell"
    return f"in {through}"


def check_permission_request(outcome: Outcome) -> None:
    """Check that the agent sent a permission request, and that the run logged it with its decision."""
    expect(
        outcome.requests("session/request_permission"),
        f"the agent sent no permission request; its text: {outcome.text[-200:]!r}",
    )
    expect(outcome.bodies("asked"), "the run did not log the permission request")
    expect(outcome.bodies("decided"), "the run did not log the decision")


def cancel(drive: Drive, folder: Path) -> str:
    """Ctrl-C during a slow answer ends the turn as cancelled."""
    outcome = drive("[[slow 60]]", interrupt=True)
    check_end(outcome, "cancelled", CANCELLED)
    expect(outcome.requests("session/cancel"), "no session/cancel was sent")
    return f"after {outcome.after_interrupt or 0:.1f} s"


def load(drive: Drive, folder: Path) -> str:
    """A named session continues by session/load. The cell hides resume, which a run prefers."""
    return continue_session(drive, "session/load", ("resume",))


def resume(drive: Drive, folder: Path) -> str:
    """A named session continues by session/resume, or by session/load if the agent lacks what it advertises."""
    return continue_session(drive, "session/resume")


def continue_session(drive: Drive, way: str, hidden: tuple[str, ...] = ()) -> str:
    """A named session continues in another process, and the model gets the earlier messages."""
    before = drive(f"[[say {WORD}]]", session=way, hidden=hidden)
    check_end(before)
    outcome = drive("[[recall]]", session=way, hidden=hidden)
    check_end(outcome)
    method = outcome.bodies("opened")[0]["by"]
    is_missing = outcome.error(way).get("code") == NO_METHOD
    expect(method == ("session/load" if is_missing else way), f"it continued by {method}: {outcome.error_text}")
    expect(outcome.result(method) is not None, f"the run reports {method}, but the agent did not answer it")
    expect(outcome.sessions == before.sessions, "it continued in the log of another session")
    expect(outcome.numbers[0] == before.numbers[-1] + 1, f"the log continued at entry {outcome.numbers[0]}")
    expect(WORD in outcome.text, f"the earlier message is missing; the text: {outcome.text[-200:]!r}")
    return f"by {method}" + (f" ({way} is missing)" if is_missing else "")


def can_load(introduction: dict[str, Any]) -> bool:
    """Whether initialize offered to load sessions; v2 has only resume."""
    return bool((introduction.get("agentCapabilities") or {}).get("loadSession"))


def can_resume(introduction: dict[str, Any]) -> bool:
    """Whether initialize offered to resume sessions; in v2 every agent with sessions can."""
    if "session" in (introduction.get("capabilities") or {}):
        return True
    offered = (introduction.get("agentCapabilities") or {}).get("sessionCapabilities") or {}
    return offered.get("resume") is not None


CELLS: tuple[Cell, ...] = (
    Cell("prompt", "prompt", prompt),
    Cell("allowed", "tool, allowed", allowed),
    Cell("refused", "tool, refused", refused),
    Cell("command", "command, allowed", command),
    Cell("cancel", "cancel", cancel),
    Cell("load", "load", load, can_load),
    Cell("resume", "resume", resume, can_resume),
)
