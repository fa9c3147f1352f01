"""`dragoman inspect validate`: every message of a recording against the schema of its dialect; an exit code for CI."""

from __future__ import annotations

from dragoman.cli.inspect.files import DIALECTS, read_events, report_problems
from dragoman.cli.inspect.show import event_to_json
from dragoman.cli.parser import Parser
from dragoman.cli.ui.terminal import sanitize_line
from dragoman.inspect.analyze import Analyzer
from dragoman.inspect.reader import NotARecording, RecordingReader

EXIT_BROKEN = 3

EPILOG = """\
A fault (✗) breaks a message: a peer would have to refuse it. A slip (~) costs one optional part, or is read all the
same. --strict counts slips too, lines that could not be read, and a recording without its end.

exit codes: 0 nothing is wrong, 1 the file cannot be read, is no recording or has no message to check, 2 wrong usage,
3 something breaks the schema.

examples:
  dragoman inspect validate talk.ndjson
  dragoman inspect validate talk.ndjson --direction a2c --strict --json"""


def main(name: str, arguments: list[str]) -> int:
    """Read the arguments, check, and list what is wrong."""
    parser = Parser(f"inspect {name}", "FILE [OPTIONS]", "Every message against the schema.", EPILOG)
    parser.add_argument("file", metavar="FILE", help="a recording; - is standard input")
    parser.add_argument("--dialect", default="auto", choices=DIALECTS, metavar="D", help=", ".join(DIALECTS))
    parser.add_argument("--direction", choices=("c2a", "a2c"), help="only what one side said")
    parser.add_argument(
        "--strict", action="store_true", help="slips count, too, and so does what is missing or unreadable"
    )
    parser.add_argument("--json", action="store_true", help="one JSON object for each message with a fault")
    options, _ = parser.read(arguments)
    reader, observer = RecordingReader(), Analyzer(options.dialect)
    faults = slips = checked = 0
    for event in read_events(options.file, reader, observer):
        if options.direction and event.direction != options.direction:
            continue
        checked += event.kind not in ("stderr", "blank")
        fatal = sum(flaw.fatal for flaw in event.flaws)
        faults += fatal
        slips += len(event.flaws) - fatal
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
        raise NotARecording(f"{options.file}: no message{of} was recorded, so there is nothing to check")
    if not options.json:
        client, agent = observer.decoder.dialect_names
        spoken = client if client == agent else f"{client} and {agent}"
        print(f"{checked} messages in {spoken}: {faults} faults, {slips} slips")
    is_partial = bool(reader.problem_count or reader.lost_bytes or reader.is_incomplete)
    return EXIT_BROKEN if faults or (options.strict and (slips or is_partial)) else 0
