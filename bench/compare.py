"""Which rows got worse than the committed results, by more than both runs differ within themselves. Pure.

A row with a peer is compared by its ratio to the Python SDK, because machines differ; other rows by their figures.
"""

from collections.abc import Iterable
from statistics import median

from bench.rows import Row
from bench.table import Measurements

# A run of few measurements may by chance agree with itself; smaller changes are never reported.
LEAST_CHANGE = 0.05


def regressions(rows: Iterable[Row], before: Measurements, after: Measurements) -> list[str]:
    """One line a row that got worse."""
    lines = []
    for row in rows:
        earlier, later = _samples(row, before), _samples(row, after)
        if not earlier or not later:
            continue
        change = median(later) / median(earlier) - 1
        worse = -change if more_is_better(row) else change
        if worse > max(_spread(earlier) + _spread(later), LEAST_CHANGE):
            lines.append(f"{row.title}, {row.unit} ({row.job}): {change:+.0%} against the committed results")
    return lines


def more_is_better(row: Row) -> bool:
    """Whether a larger figure is the better one: rates, and what has a lower bound."""
    return row.unit.endswith("/s") or any(target.at == "least" for target in row.targets)


def _samples(row: Row, measurements: Measurements) -> list[float]:
    """Our figures, one a run; as ratios to the Python SDK if that was measured too."""
    ours = _figures(measurements, row.job, "ours", row.figure)
    theirs = _figures(measurements, row.against or row.job, "py", row.figure) if row.compared else []
    return [figure / median(theirs) for figure in ours] if theirs and median(theirs) else ours


def _figures(measurements: Measurements, job: str, kind: str, figure: str) -> list[float]:
    return [run[figure] for run in measurements.get((job, kind), []) if isinstance(run, dict) and run.get(figure)]


def _spread(samples: list[float]) -> float:
    """How far half of the measurements are from the median, as a part of it."""
    middle = median(samples)
    return median(abs(sample - middle) for sample in samples) / middle if middle else 0.0
