"""`dragoman inspect validate`: check every message of a recording against the schema of its dialect."""

from __future__ import annotations

from dragoman.cli.inspect.files import DIALECTS, read_events, report_problems
from dragoman.cli.inspect.show import event_to_json
from dragoman.cli.parser import Parser
from dragoman.cli.ui.terminal import sanitize_line
from dragoman.inspect.analyze import Analyzer
from dragoman.inspect.reader import NotARecording, RecordingReader

EXIT_BROKEN = 3

EPILOG = """\
An error (✗) makes a message invalid: a peer would have to refuse it. A warning
(~) affects one optional part, or is tolerated. --strict also counts warnings,
unreadable lines, and a missing end of the recording.

exit codes: 0 valid; 1 the file cannot be read, is not a recording or has no
messages to check; 2 wrong usage; 3 a message violates the schema.

examples:
  dragoman inspect validate talk.ndjson
  dragoman inspect validate talk.ndjson --direction a2c --strict --json"""


def main(name: str, arguments: list[str]) -> int:
    """Parse the arguments, then print all violations."""
    parser = Parser(
        f"inspect {name}", "FILE [OPTIONS]", "Check all messages of a recording against the schema.", EPILOG
    )
    parser.add_argument("file", metavar="FILE", help="a recording; - is standard input")
    parser.add_value("--dialect", "D", ", ".join(DIALECTS), default="auto", choices=DIALECTS)
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
        fatal = sum(flaw.fatal for flaw in event.flaws)
        errors += fatal
        warnings += len(event.flaws) - fatal
        if event.flaws and options.json:
            import msgspec

            print(msgspec.json.encode(event_to_json(event)).decode())
            continue
        for flaw in event.flaws:
            what = event.name or event.kind
            print(sanitize_line(f"line {event.line}: {event.direction} {what}: {'✗' if flaw.fatal else '~'} {flaw}"))
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
