"""`dragoman inspect stats`: counts, sizes and latencies of a recording, by method."""

from __future__ import annotations

from typing import Any

from dragoman.cli.inspect.files import report_problems
from dragoman.cli.parser import Parser
from dragoman.cli.ui.format import format_duration, format_size, print_json
from dragoman.cli.ui.terminal import sanitize_line
from dragoman.inspect.reader import open_recording, read_blocks
from dragoman.inspect.stats import Distribution, RecordingStats

EPILOG = """\
A latency is the time from a request to its answer, as seen by the recorder.
→ goes to the agent, ← to the client.

exit codes: 0 done, 1 the file cannot be read, 2 wrong usage.

examples:
  dragoman inspect stats talk.ndjson
  dragoman inspect stats talk.ndjson --json \\
      | jq '.methods[] | select(.p99_us > 500000)'"""

_ARROWS = {"c2a": "→", "a2c": "←", "err": "!"}


def main(name: str, arguments: list[str]) -> int:
    """Parse the arguments, then print the figures."""
    parser = Parser(f"inspect {name}", "FILE [--json]", "Counts, sizes and latencies by method, and turns.", EPILOG)
    parser.add_argument("file", metavar="FILE", help="a recording; - is standard input")
    parser.add_flag("--json", "print JSON")
    options, _ = parser.read(arguments)
    figures = RecordingStats()
    with open_recording(options.file) as file:
        figures.count(read_blocks(file, figures.reader))
    if options.json:
        print_json(figures_to_json(figures))
    else:
        for line in figures_table(figures):
            print(sanitize_line(line))
    report_problems(options.file, figures.reader)
    return 0


def figures_table(figures: RecordingStats) -> list[str]:
    """Return the figures as lines."""
    count = len(figures.reader.headers)
    several = f" from {count} recordings" if count > 1 else ""
    rows = [
        f"{sum(figures.frames.values())} lines in {format_duration(figures.duration)}{several}; "
        f"{figures.noise} noise, {figures.stray_answers} stray answers",
        *(f"{_ARROWS[way]} {figures.frames[way]} lines, {format_size(figures.bytes[way])}" for way in figures.frames),
        "",
        f"  {'method':<48} {'count':>8} {'p50':>9} {'p99':>9} {'failed':>6} {'size p50':>9} {'largest':>9}",
    ]
    for (way, method), each in sorted(figures.methods.items(), key=lambda item: -item[1].count):
        rows.append(
            f"{_ARROWS[way]} {method:<48} {each.count:>8} {format_duration(each.latency.quantile(0.5)):>9} "
            f"{format_duration(each.latency.quantile(0.99)):>9} {each.failed or '':>6} "
            f"{format_size(each.sizes.quantile(0.5)):>9} {format_size(each.sizes.largest):>9}"
        )
    turns = sum(figures.stop_reasons.values())
    stops = ", ".join(f"{stop or 'no reason'} ×{count}" for stop, count in figures.stop_reasons.most_common())
    if turns:
        spread = figures.turns
        rows += [
            "",
            f"{turns} turns: {stops}; p50 {format_duration(spread.quantile(0.5))}, "
            f"p99 {format_duration(spread.quantile(0.99))}",
        ]
    if figures.unanswered:
        open_ = ", ".join(f"{method} ×{count}" for method, count in figures.unanswered.most_common())
        rows += [f"unanswered: {open_}"]
    return rows


def figures_to_json(figures: RecordingStats) -> dict[str, Any]:
    """Return the figures for --json; times are in microseconds."""
    return {
        "frames": dict(figures.frames),
        "bytes": dict(figures.bytes),
        "noise": figures.noise,
        "strays": figures.stray_answers,
        "first_us": figures.first_time,
        "last_us": figures.last_time,
        "length_us": figures.duration,
        "recordings": max(1, len(figures.reader.headers)),
        "complete": not figures.reader.is_incomplete,
        "methods": [
            {
                "dir": way,
                "method": method,
                "count": each.count,
                "requests": each.requests,
                "failed": each.failed,
                **_percentiles(each.latency),
                "bytes": each.sizes.total,
                "size_p50": each.sizes.quantile(0.5),
                "size_p99": each.sizes.quantile(0.99),
                "size_max": each.sizes.largest,
            }
            for (way, method), each in figures.methods.items()
        ],
        "turns": {
            "count": sum(figures.stop_reasons.values()),
            "stops": dict(figures.stop_reasons),
            **_percentiles(figures.turns),
        },
        "unanswered": dict(figures.unanswered),
        "troubles": [{"line": trouble.line, "why": trouble.reason} for trouble in figures.reader.problems],
    }


def _percentiles(spread: Distribution) -> dict[str, int | None]:
    return {"p50_us": spread.quantile(0.5), "p99_us": spread.quantile(0.99)}
