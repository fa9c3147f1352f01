"""`dragoman inspect show` and `tail`: a recording as a timeline or a tree; filter, search, follow."""

from __future__ import annotations

import argparse
import sys
from collections import deque
from collections.abc import Iterable, Iterator

import msgspec

from dragoman.cli.inspect.files import DIALECTS, format_duration, read_events, report_problems
from dragoman.cli.parser import Parser
from dragoman.cli.ui.terminal import OutputStream, clip, sanitize_line
from dragoman.inspect.analyze import Analyzer
from dragoman.inspect.event import RecordedEvent
from dragoman.inspect.format import STDERR, TO_AGENT
from dragoman.inspect.open_recording import wait_for_file
from dragoman.inspect.reader import RecordingReader

EPILOG = """\
→ goes to the agent, ← to the client, ! is stderr. An answer shows how long it took; ✗ marks what breaks the schema.
Runs of chunks are shown as one line; --all shows each. --tree shows turns and tool calls only.

exit codes: 0, 1 when the file cannot be read, 2 for wrong usage.

examples:
  dragoman inspect show talk.ndjson
  dragoman inspect show talk.ndjson --tree
  dragoman inspect show talk.ndjson --method fs/ --slow 100
  dragoman inspect show talk.ndjson --grep error --full
  dragoman inspect tail -f talk.ndjson"""

# What `tail` shows first. Lines.
TAIL_LINES = 20

_ARROWS = {TO_AGENT: "→", STDERR: "!"}
_CHUNKS = frozenset({"agent_message_chunk", "agent_thought_chunk", "user_message_chunk"})


def main(name: str, arguments: list[str]) -> int:
    """Read the arguments, then show."""
    parser = Parser(f"inspect {name}", "FILE [OPTIONS]", "What happened, message by message.", EPILOG)
    parser.add_argument("file", metavar="FILE", help="a recording; - is standard input")
    parser.add_argument("--method", metavar="M", help="only methods (or kinds of updates) with this in their name")
    parser.add_argument("--session", metavar="ID", help="only this session")
    parser.add_argument("--direction", choices=("c2a", "a2c", "err"), help="only what one side said")
    parser.add_argument("--grep", metavar="TEXT", help="only messages with this text in them, whatever its case")
    parser.add_argument("--slow", metavar="MS", type=float, help="only answers that took at least so long")
    parser.add_argument("--faults", action="store_true", help="only what breaks the schema")
    parser.add_argument("--dialect", default="auto", choices=DIALECTS, metavar="D", help=", ".join(DIALECTS))
    parser.add_argument("--all", action="store_true", help="every chunk on a line of its own")
    parser.add_argument("--full", action="store_true", help="with the whole message, indented")
    parser.add_argument("--tree", action="store_true", help="turns and tool calls only")
    parser.add_argument("--json", action="store_true", help="one JSON object a message")
    if name == "tail":
        parser.add_argument("-f", "--follow", action="store_true", help="wait for more, also for the file itself")
        parser.add_argument(
            "-n", metavar="N", type=_parse_line_count, default=TAIL_LINES, help=f"so many lines first ({TAIL_LINES})"
        )
    options, _ = parser.read(arguments)
    reader, observer = RecordingReader(), Analyzer(options.dialect)
    follows = name == "tail" and options.follow
    sheet = OutputStream(sys.stdout)
    view = TimelineView(options, sheet, reader)
    held: deque[RecordedEvent] = deque(maxlen=options.n if name == "tail" else None)

    def caught_up() -> bool:
        """At the end of what was written: show the last of it, and wait for more."""
        view.show(held)
        held.clear()
        sys.stdout.flush()
        view.is_live = True
        return True

    try:
        if follows:
            wait_for_file(options.file, lambda: _report(f"{options.file} is not there yet; waiting for it"))
        found = (
            event
            for event in read_events(options.file, reader, observer, caught_up if follows else None)
            if matches_filters(event, options)
        )
        if options.tree:
            deque(found, maxlen=0)
            for line in tree_lines(observer):
                sheet.write_line(line)
        elif follows:
            for event in found:
                if view.is_live:
                    view.show([event])
                else:
                    held.append(event)
        else:
            view.show(deque(found, maxlen=options.n) if name == "tail" else found)
    finally:
        report_problems(options.file, reader, is_live=follows)
    if not observer.line_count:
        _report(f"{options.file}: no message was recorded")
    if not options.json and not options.tree and observer.unanswered:
        sheet.write_line(
            f"{len(observer.unanswered)} unanswered: " + ", ".join(_unanswered_requests(observer)), "yellow"
        )
    return 0


def matches_filters(event: RecordedEvent, options: argparse.Namespace) -> bool:
    """Whether the filters let an event through."""
    if options.method and options.method not in event.name and options.method not in event.wire_method:
        return False
    if options.session and event.session != options.session:
        return False
    if options.direction and event.direction != options.direction:
        return False
    if options.slow is not None and (event.latency is None or event.latency < options.slow * 1000):
        return False
    if options.faults and not event.flaws:
        return False
    wanted = (options.grep or "").lower()
    return not wanted or wanted in event.recorded.data.decode("utf-8", "replace").lower()


class TimelineView:
    """Shows events as lines, one after the other."""

    def __init__(self, options: argparse.Namespace, output: OutputStream, reader: RecordingReader) -> None:
        self.is_live = False  # each event comes at its own time
        self._options = options
        self._output = output
        self._reader = reader
        self._part = 0

    def show(self, events: Iterable[RecordedEvent]) -> None:
        """These events."""
        options, sheet = self._options, self._output
        if options.json:
            for event in events:
                print(msgspec.json.encode(event_to_json(event)).decode(), flush=self.is_live)
            return
        merged = events if options.all or options.full or self.is_live else _merge_chunks(events)
        for event in merged:
            if event.recorded.part != self._part:
                self._show_recording_header(event.recorded.part)
            line = event_line(event)
            sheet.write_line(clip(line, sheet.width - 1) if sheet.is_tty else line, _event_style(event))
            for flaw in event.flaws:
                sheet.write_line(sanitize_line(f"{'':>24}✗ {flaw}"), "red" if flaw.fatal else "yellow")
            if options.full:
                sheet.write_line(_pretty_json(event), "dim")

    def _show_recording_header(self, part: int) -> None:
        """Another recording in the same file: its times count anew."""
        self._part = part
        header = self._reader.headers[part]
        said = f"another recording: {' '.join(header.command)} {header.start}"
        self._output.write_line(sanitize_line(f"── {said.rstrip()} ──"), "bold")


def _merge_chunks(events: Iterable[RecordedEvent]) -> Iterator[RecordedEvent]:
    """Runs of chunks of one kind as one event that has all their text."""
    held: RecordedEvent | None = None
    count = 0
    for event in events:
        same = held is not None and _is_same_run(event, held) and not event.flaws
        if held is not None and same:
            count += 1
            held.text += event.text if len(held.text) < 400 else ""
            continue
        if held is not None:
            yield _with_count(held, count)
        held, count = (event, 1) if event.update in _CHUNKS else (None, 0)
        if held is None:
            yield event
    if held is not None:
        yield _with_count(held, count)


def _is_same_run(event: RecordedEvent, held: RecordedEvent) -> bool:
    parts = event.recorded.part, held.recorded.part
    return (event.update, event.session) == (held.update, held.session) and parts[0] == parts[1]


def _with_count(event: RecordedEvent, count: int) -> RecordedEvent:
    if count > 1:
        event.update = f"{event.update} ×{count}"
    return event


def event_line(event: RecordedEvent) -> str:
    """One line of the timeline."""
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
    return sanitize_line(f"{time} {_ARROWS.get(event.direction, '←')} {depth}{label}{name}{id}{took}{trace}{text}")


def _event_style(event: RecordedEvent) -> str:
    if event.kind == "failure" or any(flaw.fatal for flaw in event.flaws):
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
    """Turns, and their tool calls below them."""
    client, agent = observer.decoder.dialect_names
    yield f"{len(observer.turns)} turns; the client speaks {client}, the agent {agent}"
    for turn in observer.turns:
        stop = turn.stop_reason or "never answered"
        yield sanitize_line(
            f"turn {turn.number}  {format_duration(turn.duration)}  {stop}  {turn.session}  “{turn.prompt[:80]}”"
        )
        news = ", ".join(f"{kind} ×{count}" for kind, count in turn.updates.most_common())
        asked = ", ".join(f"{method} ×{count}" for method, count in turn.client_requests.most_common())
        if news or asked:
            yield sanitize_line(f"  {news}{'; asked ' if asked else ''}{asked}")
        for call in turn.tool_calls.values():
            took = format_duration(call.end - call.start if call.end is not None and call.start is not None else None)
            yield sanitize_line(
                f"  ├ {call.title or call.id}  {call.kind}  {call.status}  {took}  "
                f"lines {call.first_line}-{call.last_line}"
            )


def event_to_json(event: RecordedEvent) -> dict[str, object]:
    """An event for machines."""
    said: dict[str, object] = {
        "line": event.line, "t": event.t, "dir": event.direction, "kind": event.kind, "id": event.id,
        "method": event.method, "update": event.update, "session": event.session, "text": event.text, "latency": event.latency,
        "outcome": event.outcome, "size": event.size, "traceparent": event.traceparent, "tracestate": event.tracestate,
        "asked": event.request.line if event.request else None, "turn": event.turn.number if event.turn else None,
        "recording": event.recorded.part + 1 if event.recorded.part else None,
        "toolCall": event.tool_call.id if event.tool_call else None,
        "faults": [{"path": flaw.path, "message": flaw.message, "fatal": flaw.fatal} for flaw in event.flaws],
    }  # fmt: skip
    return {name: value for name, value in said.items() if value not in ("", None, [])}


def _unanswered_requests(observer: Analyzer) -> list[str]:
    return [sanitize_line(f"{event.method} #{event.id} (line {event.line})") for event in observer.unanswered][:10]


def _report(text: str) -> None:
    print(sanitize_line(f"dragoman inspect: {text}"), file=sys.stderr, flush=True)


def _parse_line_count(text: str) -> int:
    if not text.isdecimal():
        raise argparse.ArgumentTypeError(f"{text!r} is no number of lines; give 0 or more, as in -n {TAIL_LINES}")
    return int(text)
