"""A report in lines for a terminal: what failed and why, what is doubtful, and the counts by chapter.

Takes a report, gives lines with a word for their style; who prints them makes the text of peers visible.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple

from dragoman.conformance.report.model import Report, Row, titles
from dragoman.conformance.verdict import Outcome

# So much of a frame is shown beside a failure. Characters.
SHOWN = 300


class Line(NamedTuple):
    """A line and its style."""

    text: str
    style: str = ""


def lines(report: Report) -> Iterator[Line]:
    """The whole summary."""
    yield from _table(report)
    for title, style, rows in (
        ("Broken (MUST)", "red", [row for row in report.rows if row.is_broken]),
        ("Not as it should be (SHOULD, MAY)", "yellow", [row for row in _failed(report) if not row.is_broken]),
    ):
        if rows:
            yield Line("")
            yield Line(title, f"bold {style}")
            for row in rows:
                yield from _failure(row, style)
    doubtful = [row for row in report.rows if row.outcome is Outcome.INCONCLUSIVE]
    if doubtful:
        yield Line("")
        yield Line("Inconclusive: the peer did not come to the point where it shows", "bold")
        yield from (Line(f"  {row.id:20} {' '.join(row.why.split())}", "dim") for row in doubtful)
    yield Line("")
    yield total(report)


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
        many = {outcome: sum(row.outcome is outcome for row in rows) for outcome in Outcome}
        style = "red" if any(row.is_broken for row in rows) else "yellow" if many[Outcome.FAIL] else ""
        counted = f"{many[Outcome.PASS]:6}{many[Outcome.FAIL]:6}{many[Outcome.INCONCLUSIVE]:14}"
        yield Line(f"{titles().get(chapter, chapter):28}{counted}{many[Outcome.NOT_APPLICABLE]:6}", style)


def total(report: Report) -> Line:
    """The last line: whether the peer keeps the protocol."""
    many = report.counts()
    broken = sum(row.is_broken for row in report.rows)
    words = f"{many[Outcome.PASS]} passed, {many[Outcome.FAIL]} failed"
    words += f", {many[Outcome.INCONCLUSIVE]} inconclusive, {many[Outcome.NOT_APPLICABLE]} not applicable"
    so_far = "" if report.complete else " so far"
    verdict, style = f"{broken} MUST broken{so_far}", "bold red"
    if not report.is_telling:
        verdict, style = "nothing is known: no requirement came to a pass or a fail", "bold yellow"
    elif not broken:
        verdict, style = f"every MUST that could be tried is kept{so_far}", "bold green"
    return Line(f"{verdict}: {words} ({report.dialect}, {report.seconds:g} s)", style)
