"""Connections are cut and stalled, agents and the host are killed with -9: every client's view still equals the log.

The short form of `make fault-run`; and tests that its comparison detects faults.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from dragoman.store.contract import Entry, EntryKind
from tests.host.faults.comparison import Findings, Log, compare
from tests.host.faults.run import Plan, fault_run, table
from tests.host.faults.view import Seen, View

SHORT = Plan(seconds=2.0, cuts=8, stalls=2, agent_kills=1, kills=1, clients=6, sessions=2)


@pytest.mark.skipif(sys.platform != "linux", reason="needs /proc")
def test_whatever_is_cut_or_killed_every_view_equals_the_log(tmp_path: Path) -> None:
    findings = asyncio.run(fault_run(tmp_path, SHORT, "short"))
    assert findings.faults == [], table(findings)
    assert (findings.lost, findings.doubled, findings.disordered) == (0, 0, 0)
    assert findings.done == {"cut": 8, "stalled": 2, "agent killed": 1, "host killed": 1}
    assert (findings.clients, findings.sessions) == (6, 2)
    assert findings.lines > SHORT.clients + SHORT.cuts
    assert findings.acknowledged > 50
    assert findings.answered > 0


# --- the comparison can fail ----------------------------------------------------------------------------------

TURN = "c1-1.0"
OTHER = "c2-1.0"

# Changes to the entries of the log, and to the view of a client that saw all of it.
Change = Callable[[list[Entry], View], object]


def entry(seq: int, kind: str, body: object, turn: str | None = "t") -> Entry:
    return Entry(seq=seq, kind=kind, actor="agent", time="2026-01-01T00:00:00Z", body=body, turn=turn)


def text_update(seq: int, text: str) -> Entry:
    body = {"sessionUpdate": "agent_message_chunk", "content": {"type": "text", "text": f"{text} "}}
    return entry(seq, EntryKind.UPDATE, body)


def prompted(seq: int, text: str, turn: str) -> Entry:
    return entry(seq, EntryKind.PROMPT, {"prompt": [{"type": "text", "text": text}]}, turn)


def compared(change: Change) -> Findings:
    """Return the findings of a comparison of two short turns after a change."""
    entries = [
        entry(1, EntryKind.OPENED, {}, None),
        prompted(2, TURN, "t"),
        *(text_update(3 + number, f"{TURN}:{number}") for number in range(3)),
        entry(6, EntryKind.TURN_ENDED, {"stopReason": "end_turn"}),
        prompted(7, OTHER, "u"),
        text_update(8, f"{OTHER}:0"),
        entry(9, EntryKind.TURN_ENDED, {"stopReason": "end_turn"}, "u"),
    ]
    view = View("c1-1")
    view.session, view.is_whole = "s", True
    view.begun.append(TURN)
    view.answered[TURN] = [f"{TURN}:{number}" for number in range(3)]
    view.seen = [Seen(3 + number, "agent_message_chunk", f"{TURN}:{number}") for number in range(3)]
    view.seen += [Seen(7, "user_message_chunk", OTHER), Seen(8, "agent_message_chunk", f"{OTHER}:0")]
    change(entries, view)
    return compare([view], {"s": Log("s", entries)}, Findings())


def test_a_clean_run_has_no_faults() -> None:
    findings = compared(lambda entries, view: None)
    assert findings.faults == []
    assert (findings.acknowledged, findings.entries, findings.prompts, findings.answered) == (6, 9, 1, 1)


def test_a_client_that_left_early_may_miss_the_rest() -> None:
    def leave(entries: list[Entry], view: View) -> None:
        view.is_whole = False
        del view.seen[3:]

    assert compared(leave).faults == []


def test_a_returning_client_may_get_its_own_prompt() -> None:
    entry = Seen(2, "user_message_chunk", TURN)
    assert compared(lambda entries, view: view.seen.insert(0, entry)).faults == []


WRONG: dict[str, tuple[str, Change]] = {
    "the last one was not seen": ("lost", lambda entries, view: view.seen.pop()),
    "one in the middle was not seen": ("lost", lambda entries, view: view.seen.pop(1)),
    "the prompt of somebody else was not seen": ("lost", lambda entries, view: view.seen.pop(3)),
    "something was seen that is not kept": ("lost", lambda entries, view: entries.__delitem__(slice(7, None))),
    "something else was seen than is kept": (
        "lost",
        lambda entries, view: view.seen.__setitem__(1, Seen(4, "agent_message_chunk", f"{TURN}:9")),
    ),
    "one was seen twice": ("doubled", lambda entries, view: view.seen.insert(2, view.seen[1])),
    "one was seen again later": ("doubled", lambda entries, view: view.seen.append(view.seen[0])),
    "two were seen in another order": ("disordered", lambda entries, view: view.seen.insert(0, view.seen.pop(1))),
    "the log lacks a number": ("disordered", lambda entries, view: entries.pop(2)),
    "a prompt is kept twice": ("doubled", lambda entries, view: entries.append(prompted(10, TURN, "t"))),
    "a prompt was answered that is not kept": ("lost", lambda entries, view: view.answered.update({"c1-1.1": []})),
    "a prompt was answered before all of it was given": ("lost", lambda entries, view: view.answered[TURN].pop()),
    "a turn that was answered never ended": (
        "lost",
        lambda entries, view: entries.__setitem__(5, text_update(6, "c1-1.0:3")),
    ),
}


@pytest.mark.parametrize("what", WRONG)
def test_the_comparison_detects(what: str) -> None:
    count, change = WRONG[what]
    findings = compared(change)
    assert getattr(findings, count) > 0, findings
    assert findings.faults
