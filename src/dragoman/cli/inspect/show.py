"""`dragoman inspect show` and `tail`: a recording as a timeline or a tree; filter, search, follow.

The other actions also read recordings with `read_events` and `report_problems`.
"""

from __future__ import annotations

import argparse
import sys
from collections import deque
from collections.abc import Callable, Iterable, Iterator

import msgspec

from dragoman.cli.parser import Parser
from dragoman.cli.ui.format import format_duration
from dragoman.cli.ui.terminal import OutputStream, clip, sanitize_line
from dragoman.dialect.dialects import DIALECT_NAMES
from dragoman.inspect.analyze import Analyzer
from dragoman.inspect.event import RecordedEvent
from dragoman.inspect.one_line import CHUNK_UPDATES
from dragoman.inspect.reader import RecordingReader, wait_for_file
from dragoman.transport.recording.format import STDERR, TO_AGENT, TO_CLIENT

EPILOG = """\
→ goes to the agent, ← to the client, ! is stderr. An answer shows its latency;
✗ marks schema violations. A sequence of chunks is shown as one line; with --all,
each chunk is. --tree shows only turns and tool calls.

exit codes: 0 done, 1 the file cannot be read, 2 wrong usage.

examples:
  dragoman inspect show talk.ndjson
  dragoman inspect show talk.ndjson --tree
  dragoman inspect show talk.ndjson --method fs/ --slow 100
  dragoman inspect show talk.ndjson --grep error --full
  dragoman inspect tail -f talk.ndjson"""

# Lines that `tail` shows first.
TAIL_LINES = 20

ARROWS = {TO_AGENT: "→", TO_CLIENT: "←", STDERR: "!"}


def add_dialect_option(parser: Parser) -> None:
    """Add --dialect."""
    dialects = ("auto", *DIALECT_NAMES)
    parser.add_value("--dialect", "D", ", ".join(dialects), default="auto", choices=dialects)


def main(name: str, arguments: list[str]) -> int:
    """Parse the arguments, then show."""
    parser = Parser(name, "FILE [OPTIONS]", "Show the messages of a recording.", EPILOG)
    parser.add_argument("file", metavar="FILE", help="a recording; - is standard input")
    parser.add_value("--method", "M", "only methods (or kinds of updates) whose name contains this")
    parser.add_value("--session", "ID", "only this session")
    parser.add_argument("--direction", choices=("c2a", "a2c", "err"), help="only messages of one side")
    parser.add_value("--grep", "TEXT", "only messages that contain this text (case is ignored)")
    parser.add_value("--slow", "MS", "only answers that took at least this long", type=float)
    parser.add_flag("--faults", "only messages that violate the schema")
    add_dialect_option(parser)
    parser.add_flag("--all", "show every chunk on its own line")
    parser.add_flag("--full", "also show the whole message, indented")
    parser.add_flag("--tree", "show only turns and tool calls")
    parser.add_flag("--json", "print one JSON object per message")
    if name.endswith("tail"):
        parser.add_argument(
            "-f", "--follow", action="store_true", help="wait for more messages, and for the file itself"
        )
        parser.add_value(
            "-n", "N", f"number of lines to show first ({TAIL_LINES})", type=_parse_line_count, default=TAIL_LINES
        )
    options, _ = parser.read(arguments)
    reader, observer = RecordingReader(), Analyzer(options.dialect)
    follows = name.endswith("tail") and options.follow
    output = OutputStream(sys.stdout)
    view = TimelineView(options, output, reader)
    recent: deque[RecordedEvent] = deque(maxlen=options.n if name.endswith("tail") else None)

    def on_caught_up() -> bool:
        """Show the last events when the end is reached, then wait for more."""
        view.show(recent)
        recent.clear()
        sys.stdout.flush()
        view.is_live = True
        return True

    reads_all = False
    try:
        if follows:
            wait_for_file(options.file, lambda: report(f"{options.file} does not exist yet; waiting for it"))
        events = (
            event
            for event in read_events(options.file, reader, observer, on_caught_up if follows else None)
            if matches_filters(event, options)
        )
        if options.tree:
            deque(events, maxlen=0)
            for line in tree_lines(observer):
                output.write_line(line)
        elif follows:
            for event in events:
                if view.is_live:
                    view.show([event])
                else:
                    recent.append(event)
        else:
            view.show(deque(events, maxlen=options.n) if name.endswith("tail") else events)
        reads_all = not follows
    finally:
        report_problems(options.file, reader, expects_end=reads_all)  # not after `| head`, which ends the reading
    if not observer.line_count:
        report(f"{options.file}: no messages were recorded")
    if not options.json and not options.tree and observer.unanswered:
        first = [f"{event.method} #{event.id} (line {event.line})" for event in observer.unanswered][:10]
        output.write_line(sanitize_line(f"{len(observer.unanswered)} unanswered: {', '.join(first)}"), "yellow")
    return 0


def read_events(
    path: str, reader: RecordingReader, observer: Analyzer, wait_for_more: Callable[[], bool] | None = None
) -> Iterator[RecordedEvent]:
    """Return the events of a recording, as they are read."""
    return map(observer.analyze_line, reader.read_file(path, wait_for_more))


def report_problems(path: str, reader: RecordingReader, expects_end: bool = True) -> None:
    """Report on stderr what could not be read, and whether the end is missing if all of it was read."""
    if not reader.is_recording:
        return  # not a recording; the caller reports it
    for problem in reader.problems:
        report(f"{path}, line {problem.line}: {problem.reason}")
    omitted = reader.problem_count - len(reader.problems)
    if omitted:
        report(f"{path}: and {omitted} more lines like these")
    if reader.lost_bytes:
        report(f"{path}: {reader.lost_bytes} bytes were not recorded (slow disk)")
    if reader.is_incomplete and expects_end:
        report(f"{path} has no end: it was truncated, or is still being written")


def matches_filters(event: RecordedEvent, options: argparse.Namespace) -> bool:
    """Return whether an event passes the filters."""
    if options.method and options.method not in event.name and options.method not in event.wire_method:
        return False
    if options.session and event.session != options.session:
        return False
    if options.direction and event.direction != options.direction:
        return False
    if options.slow is not None and (event.latency is None or event.latency < options.slow * 1000):
        return False
    if options.faults and not event.faults:
        return False
    wanted = (options.grep or "").lower()
    return not wanted or wanted in event.recorded.data.decode("utf-8", "replace").lower()


class TimelineView:
    """Shows events as lines."""

    def __init__(self, options: argparse.Namespace, output: OutputStream, reader: RecordingReader) -> None:
        self.is_live = False  # new events arrive one by one
        self._options = options
        self._output = output
        self._reader = reader
        self._part = 0

    def show(self, events: Iterable[RecordedEvent]) -> None:
        """Show events."""
        options, output = self._options, self._output
        if options.json:
            for event in events:
                print(msgspec.json.encode(event_to_json(event)).decode(), flush=self.is_live)
            return
        merged = events if options.all or options.full or self.is_live else _merge_chunks(events)
        for event in merged:
            if event.recorded.part != self._part:
                self._show_recording_header(event.recorded.part)
            line = event_line(event)
            output.write_line(clip(line, output.width - 1) if output.is_tty else line, _event_style(event))
            for fault in event.faults:
                output.write_line(sanitize_line(f"{'':>24}✗ {fault}"), "red" if fault.fatal else "yellow")
            if options.full:
                output.write_line(_pretty_json(event), "dim")

    def _show_recording_header(self, part: int) -> None:
        """Show the header of another recording in the same file; its times start again."""
        self._part = part
        header = self._reader.headers[part]
        title = f"another recording: {' '.join(header.command)} {header.start}"
        self._output.write_line(sanitize_line(f"── {title.rstrip()} ──"), "bold")


def _merge_chunks(events: Iterable[RecordedEvent]) -> Iterator[RecordedEvent]:
    """Merge a sequence of chunks of one kind into one event with all their text."""
    merged: RecordedEvent | None = None
    count = 0
    for event in events:
        if merged is not None and _run_key(event) == _run_key(merged) and not event.faults:
            count += 1
            merged.text += event.text if len(merged.text) < 400 else ""
            continue
        if merged is not None:
            yield _with_count(merged, count)
        merged, count = (event, 1) if event.update in CHUNK_UPDATES else (None, 0)
        if merged is None:
            yield event
    if merged is not None:
        yield _with_count(merged, count)


def _run_key(event: RecordedEvent) -> tuple[str, str, int]:
    return event.update, event.session, event.recorded.part


def _with_count(event: RecordedEvent, count: int) -> RecordedEvent:
    if count > 1:
        event.update = f"{event.update} ×{count}"
    return event


def event_line(event: RecordedEvent) -> str:
    """Return one line of the timeline."""
    time = f"{event.t / 1e6:10.4f}" if event.t is not None else f"{event.line:>10}"
    depth = "" if event.turn is None else "│ " if event.tool_call is None else "│ ┆ "
    if event.method == "session/prompt":
        depth = "┌ " if event.kind == "request" else "└ "
    name = event.update or event.method
    if event.wire_method and event.method != event.wire_method and not event.update:
        name = f"{name} ({event.wire_method})"
    id = f" #{event.id}" if event.id else ""
    label = {"answer": "✓ ", "failure": "✗ ", "noise": "noise ", "stderr": "", "blank": "blank line"}.get(
        event.kind, ""
    )
    took = f" {format_duration(event.latency)}" if event.latency is not None else ""
    trace = f" [trace {event.traceparent.split('-')[1][:8]}]" if event.traceparent.count("-") >= 2 else ""
    text = f"  {event.text.strip()}" if event.text else ""
    return sanitize_line(f"{time} {ARROWS[event.direction]} {depth}{label}{name}{id}{took}{trace}{text}")


def _event_style(event: RecordedEvent) -> str:
    if event.kind == "failure" or any(fault.fatal for fault in event.faults):
        return "red"
    if event.method == "session/prompt":
        return "bold"
    return {"stderr": "dim", "noise": "yellow", "answer": "green"}.get(event.kind, "dim" if event.update else "cyan")


def _pretty_json(event: RecordedEvent) -> str:
    try:
        return msgspec.json.format(event.recorded.data, indent=2).decode("utf-8", "replace")
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return event.recorded.data.decode("utf-8", "replace")


def tree_lines(observer: Analyzer) -> Iterator[str]:
    """Yield turns, and their tool calls below them."""
    client, agent = observer.decoder.dialect_names
    yield f"{len(observer.turns)} turns; dialect of the client: {client}, of the agent: {agent}"
    for turn in observer.turns:
        stop = turn.stop_reason or "not answered"
        yield sanitize_line(
            f"turn {turn.number}  {format_duration(turn.duration)}  {stop}  {turn.session}  “{turn.prompt[:80]}”"
        )
        updates = ", ".join(f"{kind} ×{count}" for kind, count in turn.updates.most_common())
        requests = ", ".join(f"{method} ×{count}" for method, count in turn.client_requests.most_common())
        if updates or requests:
            yield sanitize_line(f"  {updates}{'; requested ' if requests else ''}{requests}")
        for call in turn.tool_calls.values():
            took = format_duration(call.end - call.start if call.end is not None and call.start is not None else None)
            yield sanitize_line(
                f"  ├ {call.title or call.id}  {call.kind}  {call.status}  {took}  "
                f"lines {call.first_line}-{call.last_line}"
            )


def event_to_json(event: RecordedEvent) -> dict[str, object]:
    """Return an event for --json."""
    fields: dict[str, object] = {
        "line": event.line, "t": event.t, "dir": event.direction, "kind": event.kind, "id": event.id,
        "method": event.method, "update": event.update, "session": event.session, "text": event.text,
        "latency": event.latency,
        "outcome": event.outcome, "size": event.size, "traceparent": event.traceparent, "tracestate": event.tracestate,
        "asked": event.request.line if event.request else None, "turn": event.turn.number if event.turn else None,
        "recording": event.recorded.part + 1 if event.recorded.part else None,
        "toolCall": event.tool_call.id if event.tool_call else None,
        "faults": [{"path": fault.path, "message": fault.message, "fatal": fault.fatal} for fault in event.faults],
    }  # fmt: skip
    return {name: value for name, value in fields.items() if value not in ("", None, [])}


def report(text: str) -> None:
    """Print a line about the recording, on stderr."""
    print(sanitize_line(f"dragoman inspect: {text}"), file=sys.stderr, flush=True)


def _parse_line_count(text: str) -> int:
    if not text.isdecimal():
        raise argparse.ArgumentTypeError(f"{text!r} is not a number of lines; give 0 or more, as in -n {TAIL_LINES}")
    return int(text)
