"""The cells of an agent: what each asks, and what must come of it. Pure judgements over outcomes of the driver.

A cell that the agent does not advertise is not run. A judgement gives a short note for the matrix, or raises Failed
with a reason that can be read without the log.
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

# Give: prompt, and how it is driven. The cell runs in a folder of its own.
Drive = Callable[..., Outcome]


class Failed(Exception):
    """The cell did not pass; the message says why."""


@dataclass(frozen=True)
class Cell:
    """A column of the matrix."""

    name: str
    title: str
    play: Callable[[Drive, Path], str]
    is_advertised: Callable[[dict[str, Any]], bool] = lambda introduction: True


def expect(condition: Any, reason: str) -> None:
    """Fail with this reason unless the condition holds."""
    if not condition:
        raise Failed(reason)


def ended_well(outcome: Outcome, stop_reason: str = "end_turn", code: int = 0) -> None:
    """The run ended by itself, for this reason, told everything, and left nothing behind."""
    expect(outcome.code is not None, f"the run did not end within its {outcome.seconds:.0f} s")
    why = outcome.complaint
    expect(outcome.stop_reason == stop_reason, f"stop reason {outcome.stop_reason}, exit {outcome.code}: {why}")
    expect(outcome.code == code, f"exit code {outcome.code}, not {code}: {why}")
    told_everything(outcome)
    expect(not outcome.left, f"left running: {'; '.join(outcome.left)[:300]}")


def told_everything(outcome: Outcome) -> None:
    """The entries are of one session and have no gaps, and the last line sums up what they and the exit code say."""
    first = outcome.numbers[0]
    expect(outcome.numbers == list(range(first, first + len(outcome.numbers))), f"entries {outcome.numbers}")
    expect(len(outcome.sessions) == 1, f"entries of the sessions {sorted(map(str, outcome.sessions))}")
    told = outcome.summing_up
    summed = (told.get("exitCode"), told.get("stopReason"), told.get("text"))
    expect(summed == (outcome.code, outcome.stop_reason, outcome.text), f"the result is {summed}")


def prompt(drive: Drive, folder: Path) -> str:
    """Streamed text arrives, all of it, in order."""
    outcome = drive(f"[[say {SENTENCE}]]")
    ended_well(outcome)
    expect(SENTENCE in outcome.text, f"the text was {outcome.text[-200:]!r}")
    return f"{len(outcome.pieces)} pieces"


def allowed(drive: Drive, folder: Path) -> str:
    """A tool that asks first; leave is given, and the file is there."""
    path = folder / "note.txt"
    outcome = drive(f"[[write {path} {WRITTEN}]]", allow=True)
    ended_well(outcome)
    asked(outcome)
    expect(path.is_file(), "leave was given, and there is no file")
    expect(path.read_text().strip() == WRITTEN, f"the file holds {path.read_text()[:100]!r}")
    through = "our files" if outcome.requests("fs/write_text_file") else "its own files"
    return f"through {through}"


def refused(drive: Drive, folder: Path) -> str:
    """A tool that asks first; the policy has nobody to ask and refuses, there is no file, and the turn ends."""
    path = folder / "note.txt"
    outcome = drive(f"[[write {path} {WRITTEN}]]", allow=False)
    # An agent may take a refusal for the end of the turn; then it is cancelled, and the run says that.
    if outcome.stop_reason == "cancelled":
        ended_well(outcome, "cancelled", CANCELLED)
    else:
        ended_well(outcome, "end_turn", REFUSED)
    asked(outcome)
    expect(all(is_refusal(outcome, decided) for decided in outcome.bodies("decided")), "the run did not say no")
    expect("refused, for there is nobody to ask" in outcome.stderr, "the run did not say that its policy refused")
    expect(not path.exists(), "leave was refused, and the file is there")
    return f"{outcome.stop_reason}, exit {outcome.code}"


def is_refusal(outcome: Outcome, decided: dict[str, Any]) -> bool:
    """Whether a decision is one of the ways to say no that its question offered; without any, it is cancelled."""
    questions = [body for body in outcome.bodies("asked") if body["toolCall"]["toolCallId"] == decided["toolCallId"]]
    kinds = {option["optionId"]: option["kind"] for body in questions for option in body["options"]}
    chosen = decided["outcome"]
    if chosen["outcome"] == "cancelled":
        return not any(kind.startswith("reject") for kind in kinds.values())
    return str(kinds.get(chosen["optionId"])).startswith("reject")


def command(drive: Drive, folder: Path) -> str:
    """A command that needs leave; it is given, and the command ran."""
    path = folder / "ran.txt"
    outcome = drive(f"[[run touch {path}]]", allow=True)
    ended_well(outcome)
    asked(outcome)
    expect(path.is_file(), "leave was given, and the command did not run")
    through = "our terminal" if outcome.requests("terminal/create") else "its own shell"
    return f"in {through}"


def asked(outcome: Outcome) -> None:
    """The agent asked on the wire, and the run told of question and decision."""
    expect(outcome.requests("session/request_permission"), f"the agent did not ask; it said {outcome.text[-200:]!r}")
    expect(outcome.bodies("asked"), "the agent asked, and the run did not tell")
    expect(outcome.bodies("decided"), "the agent asked, and the run told no decision")


def cancel(drive: Drive, folder: Path) -> str:
    """Ctrl-C in the middle of a slow answer ends the turn as cancelled."""
    outcome = drive("[[slow 60]]", interrupt=True)
    ended_well(outcome, "cancelled", CANCELLED)
    expect(outcome.requests("session/cancel"), "no session/cancel was sent")
    return f"after {outcome.after_interrupt or 0:.1f} s"


def load(drive: Drive, folder: Path) -> str:
    """A named session goes on by session/load; a run would rather resume, so it does not learn of that."""
    return go_on(drive, "session/load", ("resume",))


def resume(drive: Drive, folder: Path) -> str:
    """A named session goes on by session/resume; by session/load, if the agent has not what it advertises."""
    return go_on(drive, "session/resume")


def go_on(drive: Drive, way: str, hidden: tuple[str, ...] = ()) -> str:
    """A named session goes on in another process, and the model hears what was said before."""
    before = drive(f"[[say {WORD}]]", session=way, hidden=hidden)
    ended_well(before)
    outcome = drive("[[recall]]", session=way, hidden=hidden)
    ended_well(outcome)
    told = outcome.bodies("opened")[0]["by"]
    has_not = outcome.error(way).get("code") == NO_METHOD
    expect(told == ("session/load" if has_not else way), f"it went on by {told}: {outcome.complaint}")
    expect(outcome.result(told) is not None, f"the run says {told}, and the agent answered none")
    expect(outcome.sessions == before.sessions, "it went on in the log of another session")
    expect(outcome.numbers[0] == before.numbers[-1] + 1, f"the log went on at entry {outcome.numbers[0]}")
    expect(WORD in outcome.text, f"it does not remember; it said {outcome.text[-200:]!r}")
    return f"by {told}" + (f", for {way} is not there" if has_not else "")


def can_load(introduction: dict[str, Any]) -> bool:
    """Whether initialize offered to load sessions."""
    return bool((introduction.get("agentCapabilities") or {}).get("loadSession"))


def can_resume(introduction: dict[str, Any]) -> bool:
    """Whether initialize offered to resume sessions."""
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
