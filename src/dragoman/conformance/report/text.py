"""A report as lines for a terminal: failures with their reasons first, inconclusive results, the counts by chapter."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from dragoman.conformance.report.model import Report, Row, titles
from dragoman.conformance.verdict import Outcome

# How much of a frame is shown with a failure. Characters.
SHOWN = 300


# How a reason names the purpose of the prompt that was missing (`Peer.assume`).
_PURPOSE = re.compile(r"add a prompt for '(\w+)'")


class Line(NamedTuple):
    """A line and its style."""

    text: str
    style: str = ""


def lines(report: Report) -> Iterator[Line]:
    """Return the whole summary."""
    for title, style, rows in (
        ("Broken (MUST)", "red", [row for row in report.rows if row.is_broken]),
        ("Not as it should be (SHOULD, MAY)", "yellow", [row for row in _failed(report) if not row.is_broken]),
    ):
        if rows:
            yield Line(title, f"bold {style}")
            for row in rows:
                yield from _failure(row, style)
            yield Line("")
    doubtful = [row for row in report.rows if row.outcome is Outcome.INCONCLUSIVE]
    if doubtful:
        yield Line("Inconclusive: the peer did not do what the probe needs", "bold")
        yield from (Line(f"  {row.id:20} {' '.join(row.why.split())}", "dim") for row in doubtful)
        if purposes := Counter(found[1] for row in doubtful if (found := _PURPOSE.search(row.why))):
            listed = ", ".join(f"{purpose} ({count})" for purpose, count in purposes.most_common())
            yield Line(f"Prompts to write into the file of --script, if the agent can do it: {listed}")
        yield Line("")
    yield from _table(report)
    yield Line("")
    if loudest := max(report.rows, key=lambda row: row.stderr, default=None):
        written = sum(row.stderr for row in report.rows)
        if written:
            yield Line(f"{written} bytes on stderr in all, at most {loudest.stderr} in one probe ({loudest.id})", "dim")
    yield total_line(report)


def _failed(report: Report) -> Iterable[Row]:
    return [row for row in report.rows if row.outcome is Outcome.FAIL]


def _failure(row: Row, style: str) -> Iterator[Line]:
    yield Line(f"  {row.id:20} {row.sentence}", style)
    first, *rest = row.why.splitlines() or [""]
    yield Line(f"  {'':20} {first.rstrip()}" if rest else f"  {'':20} {first} ({row.source})")
    yield from (Line(f"  {'':20}   {line}", "dim") for line in rest if line.strip())
    if rest:
        yield Line(f"  {'':20} ({row.source})")
    for each in [each for each in row.evidence if each.marked][:3]:
        arrow = {"in": "<-", "out": "->"}.get(each.dir, "--")
        flat = " ".join(each.text.split("\n"))
        text = flat if len(flat) <= SHOWN else flat[:SHOWN] + "..."
        yield Line(f"  {'':20} {arrow} {text}", "dim")


def _table(report: Report) -> Iterator[Line]:
    yield Line(f"{'':28}{'pass':>6}{'fail':>6}{'inconclusive':>14}{'n/a':>6}", "dim")
    for chapter in dict.fromkeys(row.chapter for row in report.rows):
        rows = [row for row in report.rows if row.chapter == chapter]
        count = {outcome: sum(row.outcome is outcome for row in rows) for outcome in Outcome}
        style = "red" if any(row.is_broken for row in rows) else "yellow" if count[Outcome.FAIL] else ""
        counted = f"{count[Outcome.PASS]:6}{count[Outcome.FAIL]:6}{count[Outcome.INCONCLUSIVE]:14}"
        yield Line(f"{titles().get(chapter, chapter):28}{counted}{count[Outcome.NOT_APPLICABLE]:6}", style)


def total_line(report: Report) -> Line:
    """Return the last line: whether the peer follows the protocol."""
    count = report.counts()
    broken = sum(row.is_broken for row in report.rows)
    counts = f"{count[Outcome.PASS]} passed, {count[Outcome.FAIL]} failed"
    counts += f", {count[Outcome.INCONCLUSIVE]} inconclusive, {count[Outcome.NOT_APPLICABLE]} not applicable"
    so_far = "" if report.complete else " so far"
    verdict, style = f"{broken} MUST broken{so_far}", "bold red"
    if not report.is_conclusive:
        verdict, style = "nothing is known: no requirement came to a pass or a fail", "bold yellow"
    elif not broken:
        verdict, style = f"every MUST that could be tried is kept{so_far}", "bold green"
    return Line(f"{verdict}: {counts} ({report.dialect}, {report.seconds:g} s)", style)
