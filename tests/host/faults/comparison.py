"""Compare what clients saw with the logs: nothing acknowledged is lost, repeated or out of order.

Acknowledged is what was sent to a client, and every answered prompt.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence

import msgspec

from dragoman.store.contract import Entry, EntryKind
from dragoman.store.sqlite import SqliteStore
from tests.host.faults.view import AGENT, USER, View, read

# This many faults are reported; the rest is repetition.
TOLD = 20


class Findings(msgspec.Struct):
    """What a comparison found, and what was done before."""

    clients: int = 0
    sessions: int = 0
    done: dict[str, int] = {}  # injected faults: cuts, stalls, kills
    lines: int = 0
    entries: int = 0
    acknowledged: int = 0
    prompts: int = 0
    answered: int = 0
    questions: int = 0
    refused: dict[str, int] = {}
    slow: int = 0  # clients disconnected because they did not read
    lost: int = 0
    doubled: int = 0
    disordered: int = 0
    faults: list[str] = []

    def fault(self, what: str, sentence: str) -> None:
        """Add one finding. `what` is the counter for it, or "" for others."""
        if what:
            setattr(self, what, getattr(self, what) + 1)
        self.faults.append(sentence)


class Log:
    """The log of one session, as a view must show it."""

    def __init__(self, id: str, entries: Sequence[Entry]) -> None:
        self.id = id
        self.entries = entries
        self.shown: dict[int, tuple[str, str]] = {}  # what can be seen, by number
        self.prompts: dict[str, list[int]] = {}
        self.texts: dict[str, list[str]] = {}  # by prompt
        self.ends: dict[str, list[object]] = {}
        self.questions = 0
        turns: dict[str | None, str] = {}
        for entry in entries:
            match entry.kind:
                case EntryKind.PROMPT:
                    text = entry.body["prompt"][-1]["text"].strip()
                    turns[entry.turn] = text
                    self.prompts.setdefault(text, []).append(entry.seq)
                    self.shown[entry.seq] = (USER, text)
                case EntryKind.UPDATE:
                    kind, text = read(entry.body)
                    self.shown[entry.seq] = (kind, text)
                    if kind == AGENT:
                        self.texts.setdefault(text.partition(":")[0], []).append(text)
                case EntryKind.ASKED:
                    self.questions += 1
                case EntryKind.TURN_ENDED if entry.turn in turns:
                    self.ends.setdefault(turns[entry.turn], []).append(entry.body.get("stopReason"))


async def logs(path: str, findings: Findings) -> dict[str, Log]:
    """Return all logs of a store, complete."""
    store = await SqliteStore.open(path)
    found = {}
    try:
        for summary in await store.sessions():
            report = await store.verify(summary.session_id)
            if not report.is_intact:
                findings.fault("", f"{summary.session_id} is damaged: {report.lost}")
            found[summary.session_id] = Log(summary.session_id, await store.read(summary.session_id, intact=True))
    finally:
        await store.close()
    return found


def compare(views: Iterable[View], stored: dict[str, Log], findings: Findings) -> Findings:
    """Compare every view with its log, and check every log."""
    views = list(views)
    for log in stored.values():
        _whole(log, findings)
    for view in views:
        log = stored.get(view.session, Log(view.session, ()))
        _order(view, findings)
        _contents(view, log, findings)
        _answers(view, log, findings)
    findings.clients = len({view.name.partition("-")[0] for view in views})
    findings.sessions = len(stored)
    findings.entries = sum(len(log.entries) for log in stored.values())
    findings.questions = sum(log.questions for log in stored.values())
    findings.prompts = sum(len(view.begun) for view in views)
    findings.answered = sum(len(view.answered) for view in views)
    findings.acknowledged = sum(len(view.seen) for view in views) + findings.answered
    refused: Counter[str] = Counter()
    for view in views:
        refused.update(view.refused)
    findings.refused = dict(refused)
    findings.slow = sum("slow_consumer" in report for view in views for report in view.reports)
    del findings.faults[TOLD:]
    return findings


def _whole(log: Log, findings: Findings) -> None:
    """Check numbers without gaps, each prompt once, and the pieces of each turn in order."""
    if [entry.seq for entry in log.entries] != list(range(1, len(log.entries) + 1)):
        findings.fault("disordered", f"{log.id} has gaps, or is out of order")
    for prompt, places in log.prompts.items():
        if len(places) > 1:
            findings.fault("doubled", f"{log.id}: the prompt {prompt} is there {len(places)} times, at {places}")
    for prompt, texts in log.texts.items():
        if [text.partition("+")[0] for text in texts] != [f"{prompt}:{number}" for number in range(len(texts))]:
            findings.fault("disordered", f"{log.id}: the pieces of {prompt} are {texts[:5]}...")


def _order(view: View, findings: Findings) -> None:
    """Check that each entry comes once, and in order."""
    before = 0
    known: set[int] = set()
    for seen in view.seen:
        if seen.seq in known:
            findings.fault("doubled", f"{view.name}: entry {seen.seq} of {view.session} came twice ({seen.text})")
        elif seen.seq < before:
            findings.fault("disordered", f"{view.name}: entry {seen.seq} of {view.session} came after {before}")
        known.add(seen.seq)
        before = max(before, seen.seq)


def _contents(view: View, log: Log, findings: Findings) -> None:
    """Check that the view matches the log and misses nothing up to its end."""
    seen = {one.seq: one for one in view.seen}
    for one in view.seen:
        stored = log.shown.get(one.seq)
        if stored is None and one.seq <= len(log.entries) and log.entries[one.seq - 1].kind == EntryKind.AGENT_EXITED:
            continue  # sent as a notice
        if stored != (one.kind, one.text):
            findings.fault("lost", f"{view.name} saw {one} in {view.session}, which has {stored}")
    end = len(log.entries) if view.is_whole else view.last
    missing = [
        seq
        for seq, (kind, text) in log.shown.items()
        if seq <= end and seq not in seen and not (kind == USER and text in view.begun)
    ]
    if missing:
        findings.fault(
            "lost",
            f"{view.name} did not see {len(missing)} entries of {view.session}, "
            f"the first {missing[0]} {log.shown[missing[0]]}, of {len(log.entries)}",
        )


def _answers(view: View, log: Log, findings: Findings) -> None:
    """Check that an answered prompt is stored with its end, and was sent completely before the answer."""
    for prompt, given in view.answered.items():
        if prompt not in log.prompts:
            findings.fault("lost", f"{view.name}: {prompt} was answered, and is not in {view.session}")
            continue
        if log.ends.get(prompt) != ["end_turn"]:
            findings.fault("lost", f"{view.name}: {prompt} was answered, its log has {log.ends.get(prompt)}")
        if given != log.texts.get(prompt, []):
            findings.fault(
                "lost",
                f"{view.name}: {prompt} was answered after {len(given)} pieces, of {len(log.texts.get(prompt, []))}",
            )
