"""Turns figures into the Markdown table: medians, ratios, targets and whether they are met.

Takes the measurements of every job and kind; pure, so that it can be tested without measuring. What only we can do
stands in a table of its own.
"""

from collections.abc import Iterable, Mapping
from statistics import median

from bench.rows import PEERS, Row

# (job, kind) -> one entry per run; a run that failed gives its reason instead of figures.
Measurements = Mapping[tuple[str, str], list[dict[str, float] | str]]

HEAD = ("work", "ours", *(f"{kind} (ours / {kind})" for kind in PEERS), "target", "met?")
ALONE = ("only ours", "ours", "target", "met?")
FAILS = "fails"
NOTHING = "–"


def middle(measurements: Measurements, job: str, kind: str, figure: str) -> float | None:
    """The median of a figure over the runs; None when nothing was measured or any run failed."""
    runs = measurements.get((job, kind), [])
    values = [run[figure] for run in runs if isinstance(run, dict) and figure in run]
    return median(values) if values and len(values) == len(runs) else None


def format_figure(value: float) -> str:
    """A figure with three significant digits, thousands separated."""
    if value >= 1000:
        digits = len(f"{value:.0f}") - 3
        return f"{round(value, -digits):,.0f}"
    return f"{value:.0f}" if value >= 100 else f"{value:.1f}" if value >= 10 else f"{value:.2f}"


def table(rows: Iterable[Row], measurements: Measurements) -> str:
    """The rows whose job was measured, as Markdown: next to the others, then what nobody else was measured on."""
    measured = {job for job, _ in measurements}
    received = [row for row in rows if row.job in measured]
    beside = [row for row in received if any(((row.against or row.job), kind) in measurements for kind in PEERS)]
    parts = []
    for head, part in ((HEAD, beside), (ALONE, [row for row in received if row not in beside])):
        if part:
            figures = len(head) - 3
            lines = [_line(head), _line(("---", *["---:"] * figures, "---", "---"))]
            parts.append("\n".join([*lines, *(_line(_cells(row, measurements, figures - 1)) for row in part)]))
    return "\n\n".join(parts)


def _line(cells: Iterable[str]) -> str:
    return "| " + " | ".join(cells) + " |"


def _cells(row: Row, measurements: Measurements, peers: int) -> list[str]:
    ours = middle(measurements, row.job, "ours", row.figure)
    theirs = {kind: middle(measurements, row.against or row.job, kind, row.figure) for kind in PEERS[:peers]}
    cells = [f"{row.title}, {row.unit}", _figure(measurements, row.job, "ours", ours)]
    for kind, value in theirs.items():
        ratio = f" ({ours / value:.2f})" if row.compared and ours and value else ""
        cells.append(_figure(measurements, row.against or row.job, kind, value) + ratio)
    cells.append(", ".join(str(target) for target in row.targets) or NOTHING)
    cells.append(_verdict(row, ours, theirs))
    return cells


def _figure(measurements: Measurements, job: str, kind: str, value: float | None) -> str:
    if value is not None:
        return format_figure(value)
    return FAILS if measurements.get((job, kind)) else NOTHING


def _verdict(row: Row, ours: float | None, theirs: Mapping[str, float | None]) -> str:
    """yes, no, or a dash when there is no target or nothing to hold it against."""
    if not row.targets or ours is None:
        return NOTHING
    verdicts = []
    for target in row.targets:
        other = 0.0 if target.of == "ours" else theirs.get(target.of)
        if other is not None:
            verdicts.append(target.is_met(ours, other))
    if not verdicts:
        return NOTHING
    return "yes" if all(verdicts) else "**no**"
