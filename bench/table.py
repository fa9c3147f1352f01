"""Turns figures into the Markdown table: medians, ratios, targets and whether they are met.

Takes the measurements of every job and kind; pure, so that it can be tested without measuring.
"""

from collections.abc import Iterable, Mapping
from statistics import median

from bench.rows import Row

# (job, kind) -> one entry per run; a run that failed gives its reason instead of figures.
Measurements = Mapping[tuple[str, str], list[dict[str, float] | str]]

HEAD = ("work", "py", "ts", "ours", "ours / py", "ours / ts", "target", "met?")
FAILS = "fails"
NOTHING = "–"


def middle(measurements: Measurements, job: str, kind: str, figure: str) -> float | None:
    """The median of a figure over the runs; None when nothing was measured or any run failed."""
    runs = measurements.get((job, kind), [])
    values = [run[figure] for run in runs if isinstance(run, dict) and figure in run]
    return median(values) if values and len(values) == len(runs) else None


def shown(value: float) -> str:
    """A figure with three significant digits, thousands separated."""
    if value >= 1000:
        digits = len(f"{value:.0f}") - 3
        return f"{round(value, -digits):,.0f}"
    return f"{value:.0f}" if value >= 100 else f"{value:.1f}" if value >= 10 else f"{value:.2f}"


def table(rows: Iterable[Row], measurements: Measurements) -> str:
    """The rows whose job was measured, as Markdown."""
    measured = {job for job, _ in measurements}
    lines = [_line(HEAD), _line(("---", *("---:" for _ in HEAD[1:6]), "---", "---"))]
    lines += [_line(_cells(row, measurements)) for row in rows if row.job in measured]
    return "\n".join(lines)


def _line(cells: Iterable[str]) -> str:
    return "| " + " | ".join(cells) + " |"


def _cells(row: Row, measurements: Measurements) -> list[str]:
    ours = middle(measurements, row.job, "ours", row.figure)
    theirs = {kind: middle(measurements, row.against or row.job, kind, row.figure) for kind in ("py", "ts")}
    cells = [f"{row.title}, {row.unit}"]
    cells += [_figure(measurements, row.against or row.job, kind, value) for kind, value in theirs.items()]
    cells.append(_figure(measurements, row.job, "ours", ours))
    for value in theirs.values():
        cells.append(f"{ours / value:.2f}" if row.compared and ours and value else NOTHING)
    cells.append(", ".join(str(target) for target in row.targets) or NOTHING)
    cells.append(_verdict(row, ours, theirs))
    return cells


def _figure(measurements: Measurements, job: str, kind: str, value: float | None) -> str:
    if value is not None:
        return shown(value)
    return FAILS if measurements.get((job, kind)) else NOTHING


def _verdict(row: Row, ours: float | None, theirs: Mapping[str, float | None]) -> str:
    """yes, no, or a dash when there is no target or nothing to hold it against."""
    if not row.targets or ours is None:
        return NOTHING
    verdicts = []
    for target in row.targets:
        other = 0.0 if target.of == "ours" else theirs[target.of]
        if other is not None:
            verdicts.append(target.met(ours, other))
    if not verdicts:
        return NOTHING
    return "yes" if all(verdicts) else "**no**"
