"""Checks what clients of a fleet saw against the logs, in one pass over each: a log is its own total order. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

import msgspec

ANSWERED, FAILED, UNKNOWN = "answered", "failed", "unknown"

# Kinds of entries that every reader is sent.
SHOWN_KINDS = ("prompt", "update")


class LogEntry(msgspec.Struct, frozen=True):
    """One entry of a log, as far as it matters: its number, kind, turn and text."""

    seq: int
    kind: str
    text: str
    turn: str | None = None
    is_interrupted: bool = False
    author: str = ""  # the node whose agent said it
    epoch: int = 0  # under which the engine stored it; 0 if that is not known


class ClaimRecord(msgspec.Struct, frozen=True):
    """A claim as the engine stored it: its epoch, its node, and the last number of the log then."""

    epoch: int
    node: str
    seq: int


class Prompt(msgspec.Struct):
    """One prompt of a client: its unique text, when it was sent and answered, and how."""

    session: str
    text: str
    sent: float
    answered: float = float("inf")
    outcome: str = UNKNOWN


class Reading(msgspec.Struct):
    """What one connection was sent of one session: after which number it asked, then numbers and texts in order."""

    session: str
    after: int
    received: list[tuple[int, str]] = []
    own_prompts: list[str] = []  # not sent back to the connection that sent them


class History(msgspec.Struct):
    """Everything that a run recorded."""

    logs: dict[str, list[LogEntry]] = {}
    prompts: list[Prompt] = []
    readings: list[Reading] = []
    claims: dict[str, list[ClaimRecord]] = {}


def check_history(history: History) -> list[str]:
    """Return every fault: what was lost, doubled, reordered, written by two nodes, or sent before it was stored."""
    faults: list[str] = []
    for session, log in history.logs.items():
        faults += _check_log(session, log)
        faults += _check_epochs(session, log, history.claims.get(session, []))
        faults += _check_prompts(session, log, [each for each in history.prompts if each.session == session])
    for reading in history.readings:
        faults += _check_reading(reading, history.logs.get(reading.session, []))
    return faults


def _check_log(session: str, log: Sequence[LogEntry]) -> list[str]:
    """Numbers are dense, and one turn ends before the next starts: two nodes never write one log."""
    faults = []
    open_turn: str | None = None
    for number, entry in enumerate(log, 1):
        if entry.seq != number:
            return [f"{session}: entry {number} has the number {entry.seq}"]
        if entry.kind == "turn_started":
            if open_turn is not None:
                faults.append(f"{session}: turn {entry.turn} starts at {entry.seq} while {open_turn} is open")
            open_turn = entry.turn
        elif entry.kind == "turn_ended":
            if open_turn is None or entry.turn != open_turn:
                faults.append(f"{session}: turn {entry.turn} ends at {entry.seq}, but {open_turn} is open")
            open_turn = None
        elif entry.kind == "update" and entry.turn is not None and entry.turn != open_turn:
            faults.append(f"{session}: entry {entry.seq} is of turn {entry.turn}, but {open_turn} is open")
    return faults


def _check_epochs(session: str, log: Sequence[LogEntry], claims: Sequence[ClaimRecord]) -> list[str]:
    """No entry is before the claim of its epoch, after the next claim, or of another node than the claim."""
    faults, by_epoch, last = [], dict[int, ClaimRecord](), 0
    for claim in claims:
        known = by_epoch.setdefault(claim.epoch, claim)
        if known.node != claim.node:
            faults.append(f"{session}: nodes {known.node} and {claim.node} both have the epoch {claim.epoch}")
    for entry in log:
        if not entry.epoch:
            continue
        if entry.epoch < last:
            faults.append(f"{session}: entry {entry.seq} is of epoch {entry.epoch}, after one of {last}")
        last = max(last, entry.epoch)
        own, later = by_epoch.get(entry.epoch), by_epoch.get(entry.epoch + 1)
        if own is not None and entry.seq <= own.seq:
            faults.append(f"{session}: entry {entry.seq} is of epoch {entry.epoch}, which was claimed after {own.seq}")
        if later is not None and entry.seq > later.seq:
            faults.append(f"{session}: entry {entry.seq} of epoch {entry.epoch} was stored after the next claim")
        if own is not None and entry.author not in ("", own.node):
            faults.append(f"{session}: entry {entry.seq} is of {entry.author}, but {own.node} has epoch {own.epoch}")
    return faults


def _check_prompts(session: str, log: Sequence[LogEntry], prompts: Sequence[Prompt]) -> list[str]:
    """Every answered prompt is there once with its echo, every other once or never, causes before effects."""
    faults = []
    positions = {entry.text: entry.seq for entry in log if entry.kind == "prompt"}
    counts = Counter(entry.text for entry in log if entry.kind == "prompt")
    echoes = Counter(entry.text for entry in log if entry.kind == "update")
    sent = {prompt.text: prompt for prompt in prompts}
    for text, count in counts.items():
        if count > 1:
            faults.append(f"{session}: the prompt {text!r} ran {count} times")
        if text not in sent:
            faults.append(f"{session}: the prompt {text!r} was never sent")
    for prompt in prompts:
        if prompt.outcome == ANSWERED and not counts[prompt.text]:
            faults.append(f"{session}: the prompt {prompt.text!r} was answered and is lost")
        if prompt.outcome == ANSWERED and echoes[prompt.text] != 1:
            faults.append(f"{session}: the answer to {prompt.text!r} is there {echoes[prompt.text]} times")
        elif echoes[prompt.text] > 1:
            faults.append(f"{session}: the agent answered {prompt.text!r} {echoes[prompt.text]} times")
    return faults + _check_order(session, positions, prompts)


def _check_order(session: str, positions: Mapping[str, int], prompts: Sequence[Prompt]) -> list[str]:
    """If one prompt was answered before another was sent, it stands before it."""
    faults = []
    answered = sorted((each.answered, positions[each.text]) for each in prompts if each.text in positions)
    highest, at = 0, 0
    for prompt in sorted((each for each in prompts if each.text in positions), key=lambda each: each.sent):
        while at < len(answered) and answered[at][0] < prompt.sent:
            highest = max(highest, answered[at][1])
            at += 1
        if positions[prompt.text] < highest:
            faults.append(f"{session}: {prompt.text!r} stands before a prompt that was answered before it was sent")
    return faults


def _check_reading(reading: Reading, log: Sequence[LogEntry]) -> list[str]:
    """What a reader got is a part of the log without gaps, in order, and nothing else."""
    session, faults, last = reading.session, [], reading.after
    known = {entry.seq: entry for entry in log}
    for seq, text in reading.received:
        entry = known.get(seq)
        if entry is None or entry.kind not in SHOWN_KINDS or entry.text != text:
            faults.append(f"{session}: a client was sent {text!r} as entry {seq}, which the log does not have")
            continue
        if seq <= last:
            faults.append(f"{session}: a client was sent entry {seq} after {last} (it began after {reading.after})")
            continue
        skipped = [
            each
            for number in range(last + 1, seq)
            if (each := known.get(number)) is not None
            and each.kind in SHOWN_KINDS
            and each.text
            and not (each.kind == "prompt" and each.text in reading.own_prompts)
        ]
        if skipped:
            faults.append(f"{session}: a client was not sent entry {skipped[0].seq}, but entry {seq}")
        last = seq
    return faults
