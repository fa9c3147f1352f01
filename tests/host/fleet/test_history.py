"""The checker of fleet runs: content with a correct history, and notices each mutant of it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec
import pytest

from tests.host.fleet.run.history import (
    ANSWERED,
    FAILED,
    ClaimRecord,
    History,
    LogEntry,
    Prompt,
    Reading,
    check_history,
)
from tests.host.fleet.run.record import EngineRecord, _add_message


def correct_history() -> History:
    log: list[LogEntry] = []
    claims: list[ClaimRecord] = []
    for number, text in enumerate(("one", "two", "three")):
        turn = f"t{number}"
        base = len(log)
        log += [
            LogEntry(base + 1, "turn_started", "", turn, epoch=number + 1),
            LogEntry(base + 2, "prompt", text, turn, epoch=number + 1),
            LogEntry(base + 3, "update", text, turn, author=f"n{number}", epoch=number + 1),
            LogEntry(base + 4, "turn_ended", "", turn),  # how it was stored is not known
        ]
        claims.append(ClaimRecord(number + 1, f"n{number}", base))
    shown = [(entry.seq, entry.text) for entry in log if entry.kind in ("prompt", "update")]
    prompts = [
        Prompt("s", "one", 1.0, 2.0, ANSWERED),
        Prompt("s", "two", 3.0, 4.0, ANSWERED),
        Prompt("s", "three", 3.5, 6.0, FAILED),
        Prompt("s", "never run", 7.0),
    ]
    readings = [
        Reading("s", 0, list(shown)),
        Reading("s", 4, [each for each in shown if each[0] > 4 and each[0] != 6], ["two"]),
    ]
    return History({"s": log}, prompts, readings, {"s": claims})


def change(history: History, at: int, **changes: Any) -> None:
    history.logs["s"][at] = msgspec.structs.replace(history.logs["s"][at], **changes)


def lower_epoch(history: History) -> None:
    history.claims = {}
    change(history, 9, epoch=1)


def swap(history: History) -> None:
    log = history.logs["s"]
    texts = {"one": "two", "two": "one"}
    history.logs["s"] = [msgspec.structs.replace(entry, text=texts.get(entry.text, entry.text)) for entry in log]
    history.readings = []


MUTANTS: dict[str, Callable[[History], object]] = {
    "an entry is missing": lambda history: history.logs["s"].pop(5),
    "the last answered prompt is missing": lambda history: history.logs.update(s=history.logs["s"][:4]),
    "a prompt ran twice": lambda history: history.logs["s"].extend(
        [
            LogEntry(13, "turn_started", "", "t9"),
            LogEntry(14, "prompt", "one", "t9"),
            LogEntry(15, "turn_ended", "", "t9"),
        ]
    ),
    "an answer is doubled": lambda history: history.logs["s"].append(LogEntry(13, "update", "one")),
    "a prompt nobody sent": lambda history: history.prompts.pop(2),
    "two prompts changed places": swap,
    "two turns at once": lambda history: history.logs["s"].__setitem__(3, LogEntry(4, "update", "")),
    "an entry of a turn that is over": lambda history: history.logs["s"].append(LogEntry(13, "update", "late", "t0")),
    "a client was sent what is not stored": lambda history: history.readings[0].received.append((13, "ghost")),
    "a client was sent another text": lambda history: history.readings[0].received.__setitem__(0, (2, "other")),
    "a client was not sent an entry": lambda history: history.readings[0].received.pop(2),
    "a client was sent an entry twice": lambda history: history.readings[0].received.append((11, "three")),
    "a client was sent entries out of order": lambda history: history.readings[0].received.reverse(),
    "an entry of an epoch that was over": lambda history: change(history, 5, epoch=1),
    "an entry of an epoch that had not begun": lambda history: change(history, 2, epoch=2),
    "an epoch falls": lower_epoch,
    "an entry of a node that did not claim": lambda history: change(history, 2, author="n2"),
    "two nodes with one epoch": lambda history: history.claims["s"].append(ClaimRecord(2, "n7", 4)),
    "an answer without its text": lambda history: history.logs["s"].__setitem__(2, LogEntry(3, "update", "", "t0")),
}


def test_a_correct_history_has_no_faults() -> None:
    assert check_history(correct_history()) == []


@pytest.mark.parametrize("name", MUTANTS)
def test_each_mutant_is_noticed(name: str) -> None:
    history = correct_history()
    MUTANTS[name](history)
    assert check_history(history), name


def test_a_release_is_no_claim_in_the_record_of_an_engine() -> None:
    record = EngineRecord()
    for epoch, node, count in ((1, "a", 0), (1, "a", 2), (2, "", 0), (3, "b", 0)):
        head = {"epoch": epoch, "node": node, "entries": 2, "size": 0, "updated_at": "", "first": 1, "count": count}
        _add_message(record, "s", msgspec.json.encode(head) + b"\n")
    assert record.claims == {"s": [ClaimRecord(1, "a", 2), ClaimRecord(3, "b", 2)]}
    assert record.epochs == {"s": {1: 1, 2: 1}}
