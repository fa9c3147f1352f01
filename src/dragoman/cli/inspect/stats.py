"""`dragoman inspect stats`: counts, sizes and latencies of a recording, by method."""

from __future__ import annotations

from typing import Any

from dragoman.cli.inspect.files import octets, seconds, tell
from dragoman.cli.parser import Parser
from dragoman.cli.ui.terminal import single
from dragoman.inspect.open_recording import blocks_of, opened
from dragoman.inspect.stats import Figures, Spread

EPILOG = """\
Latencies are from a request to its answer, both as they passed the recorder. → goes to the agent, ← to the client.

exit codes: 0, 1 when the file cannot be read, 2 for wrong usage.

examples:
  dragoman inspect stats talk.ndjson
  dragoman inspect stats talk.ndjson --json | jq '.methods[] | select(.p99_us > 500000)'"""

_ARROWS = {"c2a": "→", "a2c": "←", "err": "!"}


def main(name: str, arguments: list[str]) -> int:
    """Read the arguments, count, and print."""
    parser = Parser(f"inspect {name}", "FILE [--json]", "Counts, sizes and latencies by method; turns.", EPILOG)
    parser.add_argument("file", metavar="FILE", help="a recording; - is standard input")
    parser.add_argument("--json", action="store_true", help="print JSON")
    options, _ = parser.read(arguments)
    figures = Figures()
    with opened(options.file) as file:
        figures.count(blocks_of(file, figures.reader))
    if options.json:
        import json

        print(json.dumps(facts(figures), indent=1))
    else:
        for line in table(figures):
            print(single(line))
    tell(options.file, figures.reader)
    return 0


def table(figures: Figures) -> list[str]:
    """The figures for people."""
    count = len(figures.reader.headers)
    several = f" of {count} recordings, together" if count > 1 else ""
    rows = [
        f"{sum(figures.frames.values())} lines in {seconds(figures.length)}{several}; "
        f"{figures.noise} noise, {figures.strays} stray answers",
        *(f"{_ARROWS[way]} {figures.frames[way]} lines, {octets(figures.bytes[way])}" for way in figures.frames),
        "",
        f"  {'method':<48} {'count':>8} {'p50':>9} {'p99':>9} {'failed':>6} {'size p50':>9} {'largest':>9}",
    ]
    for (way, method), each in sorted(figures.methods.items(), key=lambda item: -item[1].count):
        rows.append(
            f"{_ARROWS[way]} {method:<48} {each.count:>8} {seconds(each.latency.at(0.5)):>9} "
            f"{seconds(each.latency.at(0.99)):>9} {each.failed or '':>6} {octets(each.sizes.at(0.5)):>9} "
            f"{octets(each.sizes.largest):>9}"
        )
    turns = sum(figures.stops.values())
    stops = ", ".join(f"{stop or 'no reason'} ×{count}" for stop, count in figures.stops.most_common())
    if turns:
        spread = figures.turns
        rows += ["", f"{turns} turns: {stops}; p50 {seconds(spread.at(0.5))}, p99 {seconds(spread.at(0.99))}"]
    if figures.unanswered:
        open_ = ", ".join(f"{method} ×{count}" for method, count in figures.unanswered.most_common())
        rows += [f"unanswered: {open_}"]
    return rows


def facts(figures: Figures) -> dict[str, Any]:
    """The figures for machines; times in microseconds."""
    return {
        "frames": dict(figures.frames),
        "bytes": dict(figures.bytes),
        "noise": figures.noise,
        "strays": figures.strays,
        "first_us": figures.first,
        "last_us": figures.last,
        "length_us": figures.length,
        "recordings": max(1, len(figures.reader.headers)),
        "complete": not figures.reader.is_unended,
        "methods": [
            {
                "dir": way,
                "method": method,
                "count": each.count,
                "requests": each.requests,
                "failed": each.failed,
                **_percentiles(each.latency),
                "bytes": each.sizes.total,
                "size_p50": each.sizes.at(0.5),
                "size_p99": each.sizes.at(0.99),
                "size_max": each.sizes.largest,
            }
            for (way, method), each in figures.methods.items()
        ],
        "turns": {"count": sum(figures.stops.values()), "stops": dict(figures.stops), **_percentiles(figures.turns)},
        "unanswered": dict(figures.unanswered),
        "troubles": [{"line": trouble.line, "why": trouble.why} for trouble in figures.reader.troubles],
    }


def _percentiles(spread: Spread) -> dict[str, int | None]:
    return {"p50_us": spread.at(0.5), "p99_us": spread.at(0.99)}
