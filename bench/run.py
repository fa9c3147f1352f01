"""The one command: `python -m bench.run [--rows NAME ...] [--runs N] [--kinds ...] [--json FILE] [--write]`.

Prepares the peers, runs every job for every kind in turns, prints each measurement as it comes, the table at the end,
what got worse than the committed results, and instruction counts of the hottest paths. The turns matter: on a shared
machine only figures taken minutes apart at most can be compared.
"""

import argparse
import json
import os
import platform
import subprocess
import sys
from datetime import date
from pathlib import Path

from bench import instructions
from bench.chart import chart
from bench.compare import regressions
from bench.measure import Failed, measure
from bench.rows import JOBS, KINDS, ROWS, Job, smaller
from bench.setup import ROOT, Kinds, prepare
from bench.table import format_figure, table

RESULTS = ROOT / "bench" / "RESULTS.md"
FIGURES = ROOT / "bench" / "results.json"  # every figure behind RESULTS.md, for comparisons
CHART = ROOT / "docs" / "pictures" / "speed.svg"
RUNS = 5
BUSY = 1.0  # load beyond the number of cores from which on a caution is printed

Measured = dict[tuple[str, str], list[dict[str, float] | str]]


def main(arguments: list[str] | None = None) -> int:
    """Measure and print; 0 unless one of our own measurements failed."""
    options = _options(arguments)
    jobs = [job for job in JOBS if not options.rows or job.name in options.rows]
    if options.quick:
        jobs = [smaller(job) for job in jobs]
    kinds = prepare({name for job in jobs for name in job.kinds if name in options.kinds})
    measured: Measured = {}
    for job in jobs:
        _take_turns(job, options.runs, [name for name in options.kinds if name in kinds.named], kinds, measured)
    before, counts_before = _committed()
    counts = {} if options.no_counts else instructions.count_all(kinds.named["ours"].client[0])
    together = {**before, **measured}
    report = _report(together if options.write else measured, options.runs, kinds, options.quick)
    if counts:
        report += f"\n\n## Instructions of the hottest paths\n\n{instructions.table(counts, counts_before)}"
    print(f"\n{report}")
    worse = [] if options.quick else regressions(ROWS, before, measured)
    print("\n".join(["", "Worse than the committed results:", *worse] if worse else ["", "Nothing got worse."]))
    if options.json:
        options.json.write_text(json.dumps(_plain(measured), indent=1) + "\n")
    if options.write:
        RESULTS.write_text(
            f"# Results\n\n![times as fast as the official SDKs](../docs/pictures/speed.svg)\n\n{report}\n"
        )
        FIGURES.write_text(
            json.dumps({"runs": _plain(together), "instructions": counts_before | counts}, indent=1) + "\n"
        )
        CHART.write_text(chart(together))
    ours = (run for (_, kind), runs in measured.items() if kind == "ours" for run in runs)
    return 1 if any(isinstance(run, str) for run in ours) else 0


def _options(arguments: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m bench.run", description="Measure Dragoman against the SDKs.")
    names = [job.name for job in JOBS]
    parser.add_argument("--rows", nargs="+", metavar="JOB", choices=names, help=f"only these: {', '.join(names)}")
    parser.add_argument("--runs", type=int, default=RUNS, help=f"measurements per job and kind (default {RUNS})")
    parser.add_argument("--kinds", nargs="+", choices=KINDS, default=list(KINDS), help="only these implementations")
    parser.add_argument("--quick", action="store_true", help="a tenth of the work: does it run, not how fast")
    parser.add_argument("--json", type=Path, metavar="FILE", help="every single figure as JSON")
    parser.add_argument("--no-counts", action="store_true", help="do not count instructions (minutes, with valgrind)")
    parser.add_argument(
        "--write", action="store_true", help="write bench/RESULTS.md and the chart; rows that are not run stay"
    )
    return parser.parse_args(arguments)


def _take_turns(job: Job, runs: int, wanted: list[str], kinds: Kinds, measured: Measured) -> None:
    """Every kind once, then every kind again, each time another one first."""
    names = [name for name in job.kinds if name in wanted]
    for run in range(runs):
        first = run % len(names) if names else 0
        for name in names[first:] + names[:first]:
            outcome = _once(job, name, kinds)
            measured.setdefault((job.name, name), []).append(outcome)
            said = outcome if isinstance(outcome, str) else _list(outcome)
            print(f"{job.name} {run + 1}/{runs} {name}: {said}", flush=True)


def _once(job: Job, name: str, kinds: Kinds) -> dict[str, float] | str:
    try:
        return measure(job, kinds.named[name], kinds)
    except Failed as failure:
        return f"fails: {failure}"


def _list(figures: dict[str, float]) -> str:
    return ", ".join(f"{name} {format_figure(value)}" for name, value in figures.items())


def _report(measured: Measured, runs: int, kinds: Kinds, quick: bool) -> str:
    """What was measured where, the table, and why something failed."""
    lines = [
        f"{date.today().isoformat()}, medians of {runs}{', a tenth of the work' if quick else ''}; "
        f"{platform.system()} {platform.machine()}, {os.cpu_count()} cores, load {os.getloadavg()[1]:.1f}; "
        f"commit {_commit()}.",
        "",
        *(f"- {kind.name}: {kind.version}" for kind in kinds.named.values()),
        "",
        *_caution(),
        table(ROWS, measured),
    ]
    failures = {
        f"- {job}, {kind}: {run}" for (job, kind), outcomes in measured.items() for run in outcomes
        if isinstance(run, str)
    }  # fmt: skip
    return "\n".join([*lines, *(["", *sorted(failures)] if failures else [])])


def _caution() -> list[str]:
    """A machine with more work than this bench (which keeps two cores busy) gives times that mean little."""
    cores = os.cpu_count() or 1
    if os.getloadavg()[1] <= cores + BUSY:
        return []
    return ["The machine was busy with other work: memory figures hold, CPU times roughly, rates may not.", ""]


def _commit() -> str:
    """What was measured: the commit, and whether the sources differ from it."""

    def git(*arguments: str) -> str:
        return subprocess.run(["git", *arguments], cwd=ROOT, capture_output=True, text=True).stdout.strip()

    changed = " with changes" if git("status", "--porcelain", "--", "src") else ""
    return (git("rev-parse", "--short", "HEAD") or "unknown") + changed


def _committed() -> tuple[Measured, dict[str, float]]:
    """The figures and the instruction counts of the committed results."""
    if not FIGURES.exists():
        return {}, {}
    kept = json.loads(FIGURES.read_text())
    return {(each["job"], each["kind"]): each["runs"] for each in kept["runs"]}, kept["instructions"]


def _plain(measured: Measured) -> list[dict[str, object]]:
    return [{"job": job, "kind": kind, "runs": runs} for (job, kind), runs in measured.items()]


if __name__ == "__main__":
    sys.exit(main())
