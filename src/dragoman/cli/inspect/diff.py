"""`dragoman inspect diff`: compare two recordings by structure; ids and times are ignored."""

from __future__ import annotations

from dragoman.cli.inspect.files import DIALECTS, read_events, report_problems
from dragoman.cli.parser import Parser
from dragoman.cli.ui.terminal import sanitize_line
from dragoman.inspect.analyze import Analyzer
from dragoman.inspect.diff import IGNORED_MEMBERS, diff
from dragoman.inspect.reader import RecordingReader

EXIT_DIFFERENT = 3

EPILOG = """\
-  only in the first
+  only in the second
~  in both, but different

Ids of requests, sessions, tool calls and terminals, folders and times are
ignored; a sequence of chunks counts as one.

exit codes: 0 equal, 1 a file cannot be read, 2 wrong usage, 3 different.

examples:
  dragoman inspect diff before.ndjson after.ndjson
  dragoman inspect diff before.ndjson after.ndjson --ignore agentInfo --json"""


def main(name: str, arguments: list[str]) -> int:
    """Parse the arguments, then compare."""
    parser = Parser(f"inspect {name}", "FILE FILE [OPTIONS]", "Compare the structure of two recordings.", EPILOG)
    parser.add_argument("first", metavar="FILE", help="the first recording")
    parser.add_argument("second", metavar="FILE", help="the second recording")
    parser.add_value("--ignore", "NAME", "ignore this member; can be repeated", repeated=True)
    parser.add_value("--dialect", "D", ", ".join(DIALECTS), default="auto", choices=DIALECTS)
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
        print("no difference, except for ids and times")
    return EXIT_DIFFERENT if count else 0
