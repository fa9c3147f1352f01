"""What got worse since an earlier report, and what got better.

Takes two reports, gives the rows that changed. A requirement that the earlier report does not have is neither.
"""

from __future__ import annotations

from dragoman.conformance.report.facts import Report, Row
from dragoman.conformance.verdict import Outcome

# Higher is better; what does not concern a peer is as good as passed.
_RANK = {Outcome.PASS: 2, Outcome.NOT_APPLICABLE: 2, Outcome.INCONCLUSIVE: 1, Outcome.FAIL: 0}


def worse(before: Report, now: Report) -> list[Row]:
    """The rows that had a better outcome before."""
    return [row for row in now.rows if (known := _known(before, row)) and _RANK[row.outcome] < _RANK[known.outcome]]


def better(before: Report, now: Report) -> list[Row]:
    """The rows that had a worse outcome before."""
    return [row for row in now.rows if (known := _known(before, row)) and _RANK[row.outcome] > _RANK[known.outcome]]


def _known(before: Report, row: Row) -> Row | None:
    return next((each for each in before.rows if each.id == row.id), None)
