"""`dragoman inspect diff`: two recordings compared by structure; ids and times never count."""

from __future__ import annotations

from dragoman.cli.inspect.files import DIALECTS, read_events, report_problems
from dragoman.cli.parser import Parser
from dragoman.cli.ui.terminal import sanitize_line
from dragoman.inspect.analyze import Analyzer
from dragoman.inspect.diff import IGNORED_MEMBERS, diff
from dragoman.inspect.reader import RecordingReader

EXIT_DIFFERENT = 3

EPILOG = """\
-  only in the first       +  only in the second       ~  in both, but not the same

Ids of requests, sessions, tool calls and terminals, folders and times never count, and runs of chunks count as one.

exit codes: 0 the same, 1 a file cannot be read, 2 wrong usage, 3 different.

examples:
  dragoman inspect diff before.ndjson after.ndjson
  dragoman inspect diff before.ndjson after.ndjson --ignore agentInfo --json"""


def main(name: str, arguments: list[str]) -> int:
    """Read the arguments, then compare."""
    parser = Parser(f"inspect {name}", "FILE FILE [OPTIONS]", "Two recordings, compared by structure.", EPILOG)
    parser.add_argument("first", metavar="FILE", help="a recording")
    parser.add_argument("second", metavar="FILE", help="another one")
    parser.add_argument("--ignore", metavar="NAME", action="append", default=[], help="a member that may differ")
    parser.add_argument("--dialect", default="auto", choices=DIALECTS, metavar="D", help=", ".join(DIALECTS))
    parser.add_argument("--json", action="store_true", help="one JSON object for each difference")
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
            import msgspec

            print(msgspec.json.encode(change._asdict()).decode())
            continue
        lines = ", ".join(str(line) for line in (change.first, change.second) if line is not None)
        print(sanitize_line(f"{change.sign} {change.name}  (line {lines})"))
        for detail in change.details:
            print(sanitize_line(f"    {detail}"))
    for path, reader in zip(paths, readers, strict=True):
        report_problems(path, reader)
    if not count and not options.json:
        print("the same, but for ids and times")
    return EXIT_DIFFERENT if count else 0
