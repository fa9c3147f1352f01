"""What got worse or better since an earlier report.

New failures that the earlier report does not have are separate: they may not be new.
"""

from __future__ import annotations

from dragoman.conformance.report.model import Report, Row, read
from dragoman.conformance.verdict import Outcome
from dragoman.errors import ConfigFault

# Higher is better; what does not apply to a peer counts as passed.
_RANK = {Outcome.PASS: 2, Outcome.NOT_APPLICABLE: 2, Outcome.INCONCLUSIVE: 1, Outcome.FAIL: 0}


def read_baseline(path: str, side: str) -> Report:
    """Return the report in a file; raise ConfigFault when it cannot be a baseline for this side."""
    found = read(path)
    if found.side != side:
        raise ConfigFault([f"{path} is a report about {_a(found.side)}; compare with one of `dragoman check {side}`"])
    if not found.complete:
        raise ConfigFault([f"{path} is of a check that was ended early; make a baseline of a whole one"])
    return found


def require_same_dialect(before: Report, dialect: str, path: str) -> None:
    """Raise ConfigFault if the reports are of two dialects."""
    if before.dialect != dialect:
        problem = f"{path} is about the dialect {before.dialect}, and this peer speaks {dialect}"
        raise ConfigFault([f"{problem}; make a baseline for it, or choose with --dialect"])


def worse(before: Report, now: Report) -> list[Row]:
    """Return the rows that had a better outcome before."""
    rows = {row.id: row for row in before.rows}
    return [row for row in now.rows if row.id in rows and _RANK[row.outcome] < _RANK[rows[row.id].outcome]]


def better(before: Report, now: Report) -> list[Row]:
    """Return the rows that had a worse outcome before."""
    rows = {row.id: row for row in before.rows}
    return [row for row in now.rows if row.id in rows and _RANK[row.outcome] > _RANK[rows[row.id].outcome]]


def new_failures(before: Report, now: Report) -> list[Row]:
    """Return the rows that fail and were not tried before."""
    rows = {row.id for row in before.rows}
    return [row for row in now.rows if row.id not in rows and row.outcome is Outcome.FAIL]


def _a(side: str) -> str:
    return f"an {side}" if side == "agent" else f"a {side}"
