"""`dragoman inspect stats`, `validate` and `diff`."""

from __future__ import annotations

from typing import Any

import msgspec

from dragoman.cli.inspect.show import ARROWS, add_dialect_option, event_to_json, read_events, report_problems
from dragoman.cli.parser import Parser
from dragoman.cli.ui.format import format_duration, format_size, report
from dragoman.cli.ui.terminal import sanitize_line
from dragoman.inspect.analyze import Analyzer
from dragoman.inspect.diff import IGNORED_MEMBERS, diff
from dragoman.inspect.reader import NotARecording, RecordingReader, open_recording, read_blocks
from dragoman.inspect.stats import Distribution, RecordingStats

STATS_HELP = """\
A latency is the time from a request to its answer, as seen by the recorder.
→ goes to the agent, ← to the client.

exit codes: 0 done, 1 the file cannot be read, 2 wrong usage.

examples:
  dragoman inspect stats talk.ndjson
  dragoman inspect stats talk.ndjson --json \\
      | jq '.methods[] | select(.p99_us > 500000)'"""


def run_stats(name: str, arguments: list[str]) -> int:
    """Parse the arguments, then print the figures."""
    parser = Parser(name, "FILE [--json]", "Counts, sizes and latencies by method, and turns.", STATS_HELP)
    parser.add_argument("file", metavar="FILE", help="a recording; - is standard input")
    parser.add_flag("--json", "print JSON")
    options, _ = parser.read(arguments)
    figures = RecordingStats()
    with open_recording(options.file) as file:
        figures.count(read_blocks(file, figures.reader))
    report(options, figures_to_json(figures), figures_table(figures))
    report_problems(options.file, figures.reader)
    return 0


def figures_table(figures: RecordingStats) -> list[str]:
    """Return the figures as lines."""
    count = len(figures.reader.headers)
    several = f" from {count} recordings" if count > 1 else ""
    rows = [
        f"{sum(figures.frames.values())} lines in {format_duration(figures.duration)}{several}; "
        f"{figures.noise} noise, {figures.stray_answers} stray answers",
        *(f"{ARROWS[way]} {figures.frames[way]} lines, {format_size(figures.bytes[way])}" for way in figures.frames),
        "",
        f"  {'method':<48} {'count':>8} {'p50':>9} {'p99':>9} {'failed':>6} {'size p50':>9} {'largest':>9}",
    ]
    for (way, method), each in sorted(figures.methods.items(), key=lambda item: -item[1].count):
        rows.append(
            f"{ARROWS[way]} {method:<48} {each.count:>8} {format_duration(each.latency.quantile(0.5)):>9} "
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


EXIT_BROKEN = 3

VALIDATE_HELP = """\
An error (✗) makes a message invalid: a peer would have to refuse it. A warning
(~) affects one optional part, or is tolerated. --strict also counts warnings,
unreadable lines, and a missing end of the recording.

exit codes: 0 valid; 1 the file cannot be read, is not a recording or has no
messages to check; 2 wrong usage; 3 a message violates the schema.

examples:
  dragoman inspect validate talk.ndjson
  dragoman inspect validate talk.ndjson --direction a2c --strict --json"""


def run_validate(name: str, arguments: list[str]) -> int:
    """Parse the arguments, then print all violations."""
    parser = Parser(name, "FILE [OPTIONS]", "Check all messages of a recording against the schema.", VALIDATE_HELP)
    parser.add_argument("file", metavar="FILE", help="a recording; - is standard input")
    add_dialect_option(parser)
    parser.add_argument("--direction", choices=("c2a", "a2c"), help="only messages of one side")
    parser.add_flag("--strict", "also count warnings, unreadable lines and a missing end")
    parser.add_flag("--json", "print one JSON object per message with an error")
    options, _ = parser.read(arguments)
    reader, observer = RecordingReader(), Analyzer(options.dialect)
    errors = warnings = checked = 0
    for event in read_events(options.file, reader, observer):
        if options.direction and event.direction != options.direction:
            continue
        checked += event.kind not in ("stderr", "blank")
        fatal = sum(fault.fatal for fault in event.faults)
        errors += fatal
        warnings += len(event.faults) - fatal
        if event.faults and options.json:
            print(msgspec.json.encode(event_to_json(event)).decode())
            continue
        for fault in event.faults:
            what = event.name or event.kind
            print(sanitize_line(f"line {event.line}: {event.direction} {what}: {'✗' if fault.fatal else '~'} {fault}"))
    report_problems(options.file, reader)
    if not checked:
        of = f" of {options.direction}" if options.direction else ""
        raise NotARecording(f"{options.file}: no messages{of} were recorded, so there is nothing to check")
    if not options.json:
        client, agent = observer.decoder.dialect_names
        dialects = client if client == agent else f"{client} and {agent}"
        print(f"{checked} messages in {dialects}: {errors} errors, {warnings} warnings")
    is_partial = bool(reader.problem_count or reader.lost_bytes or reader.is_incomplete)
    return EXIT_BROKEN if errors or (options.strict and (warnings or is_partial)) else 0


EXIT_DIFFERENT = 3

DIFF_HELP = """\
-  only in the first
+  only in the second
~  in both, but different

Ids of requests, sessions, tool calls and terminals, folders and times are
ignored; a sequence of chunks counts as one.

exit codes: 0 equal, 1 a file cannot be read, 2 wrong usage, 3 different.

examples:
  dragoman inspect diff before.ndjson after.ndjson
  dragoman inspect diff before.ndjson after.ndjson --ignore agentInfo --json"""


def run_diff(name: str, arguments: list[str]) -> int:
    """Parse the arguments, then compare."""
    parser = Parser(name, "FILE FILE [OPTIONS]", "Compare the structure of two recordings.", DIFF_HELP)
    parser.add_argument("first", metavar="FILE", help="the first recording")
    parser.add_argument("second", metavar="FILE", help="the second recording")
    parser.add_value("--ignore", "NAME", "ignore this member; can be repeated", repeated=True)
    add_dialect_option(parser)
    parser.add_flag("--json", "print one JSON object per difference")
    options, _ = parser.read(arguments)
    readers = RecordingReader(), RecordingReader()
    paths = options.first, options.second
    both = [
        list(read_events(path, reader, Analyzer(options.dialect))) for path, reader in zip(paths, readers, strict=True)
    ]
    count = 0
    for change in diff(both[0], both[1], IGNORED_MEMBERS | frozenset(options.ignore)):
        count += 1
        if options.json:
            print(msgspec.json.encode(change._asdict()).decode())
            continue
        lines = ", ".join(str(line) for line in (change.first, change.second) if line is not None)
        print(sanitize_line(f"{change.sign} {change.name}  (line {lines})"))
        for detail in change.details:
            print(sanitize_line(f"    {detail}"))
    for path, reader in zip(paths, readers, strict=True):
        report_problems(path, reader)
    if not count and not options.json:
        print("no difference, except for ids and times")
    return EXIT_DIFFERENT if count else 0
