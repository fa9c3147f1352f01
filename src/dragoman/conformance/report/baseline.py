"""What got worse since an earlier report, and what got better.

Takes two reports, gives the rows that changed. What fails and stands not in the earlier report is told apart: nobody
knows whether it is new, and a check that passes over it would hide a fault. A report of another side or dialect, or of
a run that was ended, is no baseline.
"""

from __future__ import annotations

from dragoman.conformance.report.model import Report, Row, read
from dragoman.conformance.verdict import Outcome
from dragoman.errors import ConfigFault

# Higher is better; what does not concern a peer is as good as passed.
_RANK = {Outcome.PASS: 2, Outcome.NOT_APPLICABLE: 2, Outcome.INCONCLUSIVE: 1, Outcome.FAIL: 0}


def known(path: str, side: str) -> Report:
    """The report in a file, to compare with; raises ConfigFault when it can be no baseline for this side."""
    found = read(path)
    if found.side != side:
        raise ConfigFault([f"{path} is a report about {_a(found.side)}; compare with one of `dragoman check {side}`"])
    if not found.complete:
        raise ConfigFault([f"{path} is of a check that was ended early; make a baseline of a whole one"])
    return found


def fits(before: Report, dialect: str, path: str) -> None:
    """Refuse to compare reports of two dialects: raises ConfigFault."""
    if before.dialect != dialect:
        told = f"{path} is about the dialect {before.dialect}, and this peer speaks {dialect}"
        raise ConfigFault([f"{told}; make a baseline for it, or choose with --dialect"])


def worse(before: Report, now: Report) -> list[Row]:
    """The rows that had a better outcome before."""
    rows = {row.id: row for row in before.rows}
    return [row for row in now.rows if row.id in rows and _RANK[row.outcome] < _RANK[rows[row.id].outcome]]


def better(before: Report, now: Report) -> list[Row]:
    """The rows that had a worse outcome before."""
    rows = {row.id: row for row in before.rows}
    return [row for row in now.rows if row.id in rows and _RANK[row.outcome] > _RANK[rows[row.id].outcome]]


def strange(before: Report, now: Report) -> list[Row]:
    """The rows that fail and were not tried before."""
    rows = {row.id for row in before.rows}
    return [row for row in now.rows if row.id not in rows and row.outcome is Outcome.FAIL]


def _a(side: str) -> str:
    return f"an {side}" if side == "agent" else f"a {side}"
