"""`dragoman inspect export`: a copy of a recording without secrets, as a recording again or as one HTML page."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator

from dragoman.cli.inspect.files import DIALECTS, format_size, report_problems
from dragoman.cli.parser import Parser
from dragoman.inspect.analyze import Analyzer
from dragoman.inspect.event import RecordedEvent
from dragoman.inspect.format import Header, end_line, frame_line, gap_line, header_line
from dragoman.inspect.open_recording import open_recording, read_lines
from dragoman.inspect.output_files import check_not_source, open_replacement
from dragoman.inspect.reader import RecordingEnd, RecordingReader
from dragoman.inspect.redaction import RecordingRedactor

EPILOG = """\
What MCP servers are given in env and headers, credentials, and everything that looks like a key or a token is replaced
by [redacted], also where it is repeated. Read the copy before you hand it on all the same: only you know what else is
private. --keep-secrets leaves everything in.

--html makes one page that needs nothing else and loads nothing: the messages as arrows between client and agent, turns
and tool calls around them, search, filters, the whole JSON of each. --with adds the recording from behind a proxy.

exit codes: 0, 1 when a file cannot be read or written, 2 for wrong usage.

examples:
  dragoman inspect export talk.ndjson > share.ndjson
  dragoman inspect export talk.ndjson --html --out talk.html
  dragoman inspect export client-side.ndjson --with agent-side.ndjson --html --out both.html"""


# A page beyond this is said to be large: browsers need seconds, and a lot of memory, to open it. Bytes.
LARGE_PAGE = 20 * 1024 * 1024

# On a terminal it is said how far we are, every so many lines: about a second.
PROGRESS_INTERVAL = 10_000


def main(name: str, arguments: list[str]) -> int:
    """Read the arguments, then write the copy."""
    parser = Parser(f"inspect {name}", "FILE [OPTIONS]", "A copy to hand on.", EPILOG)
    parser.add_argument("file", metavar="FILE", help="a recording")
    parser.add_argument("--html", action="store_true", help="as one HTML page")
    parser.add_argument("--with", dest="behind", metavar="FILE", help="html: the recording from behind the proxy")
    parser.add_argument("--out", metavar="FILE", help="where to write (standard output); never the recording itself")
    parser.add_argument("--title", metavar="TEXT", help="html: what stands above it")
    parser.add_argument("--dialect", default="auto", choices=DIALECTS, metavar="D", help=", ".join(DIALECTS))
    parser.add_argument("--keep-secrets", action="store_true", help="leave everything in")
    options, _ = parser.read(arguments)
    paths = [options.file, *([options.behind] if options.behind else [])]
    if "-" in paths:
        parser.error("a recording is read twice here; name a file, not standard input")
    if options.behind and not options.html:
        parser.error("--with goes with --html")
    if options.out:
        check_not_source(options.out, paths)
    cleaner = None if options.keep_secrets else collect_secrets(paths)
    if options.html:
        from dragoman.inspect.page import render_page

        hops = [read_clean_events(path, cleaner, options.dialect) for path in paths]
        made = render_page(hops, options.title or os.path.basename(options.file)).encode()
        _write(options.out, [made])
        if len(made) > LARGE_PAGE:
            count = sum(len(events) for _, events in hops)
            text = f"the page has {count} messages and {format_size(len(made))}: a browser takes a while to open it"
            print(f"dragoman inspect: {text}", file=sys.stderr)
    else:
        _write(options.out, copy_lines(options.file, cleaner))
    return 0


def collect_secrets(paths: list[str]) -> RecordingRedactor:
    """The first pass: which values are secrets."""
    cleaner = RecordingRedactor()
    for path in paths:
        reader = RecordingReader()
        with open_recording(path) as file:
            for recorded in reader.read(read_lines(file, reader)):
                cleaner.learn_secrets(recorded)
    return cleaner


def copy_lines(path: str, cleaner: RecordingRedactor | None) -> Iterator[bytes]:
    """The lines of the copy."""
    reader = RecordingReader()
    part, lost, count, t = -1, 0, 0, 0
    with open_recording(path) as file:
        for recorded in reader.read(read_lines(file, reader)):
            yield from _boundary_lines(reader, part, recorded.part, cleaner)
            part, count, t = recorded.part, count + 1, recorded.t or t
            if reader.lost_bytes > lost:
                yield gap_line(t, reader.lost_bytes - lost)
                lost = reader.lost_bytes
            clean = cleaner.redact(recorded) if cleaner is not None else recorded
            yield frame_line(clean.t or 0, clean.direction, clean.data, clean.eol, clean.cut)
    yield from _boundary_lines(reader, part, reader.part, cleaner)
    if not reader.is_incomplete:
        ending = reader.ending or RecordingEnd("the recording of another recorder ended", None, count, t)
        yield end_line(ending.t or 0, ending.reason, ending.status, ending.frames)
    report_problems(path, reader)


def _boundary_lines(
    reader: RecordingReader, part: int, until: int, cleaner: RecordingRedactor | None
) -> Iterator[bytes]:
    """Ends and headers, from one part of a file that holds several recordings to another."""
    for number in range(part, until):
        if ending := reader.endings.get(number):
            yield end_line(ending.t or 0, ending.reason, ending.status, ending.frames)
        yield header_line(_clean_header(reader, number + 1, cleaner))


def read_clean_events(path: str, cleaner: RecordingRedactor | None, dialect: str) -> tuple[Header, list[RecordedEvent]]:
    """All events of a recording, without secrets; of several in one file, with all times since the first began."""
    reader, observer = RecordingReader(), Analyzer(dialect)
    events: list[RecordedEvent] = []
    with open_recording(path) as file:
        for recorded in reader.read(read_lines(file, reader)):
            if recorded.part and recorded.t is not None:
                recorded.t += max(0, reader.headers[recorded.part].epoch - reader.headers[0].epoch)
            events.append(observer.analyze_line(cleaner.redact(recorded) if cleaner is not None else recorded))
            if not len(events) % PROGRESS_INTERVAL:
                _show_progress(f"{len(events)} messages read")
    _show_progress("")
    report_problems(path, reader)
    return _clean_header(reader, 0, cleaner), events


def _clean_header(reader: RecordingReader, part: int, cleaner: RecordingRedactor | None) -> Header:
    header = reader.headers[part] if reader.headers else reader.header
    header.format = 1
    return header if cleaner is None else cleaner.redact_header(header)


def _show_progress(text: str) -> None:
    """How far we are, on one line of a terminal; nothing where nobody watches."""
    if sys.stderr.isatty():
        print(f"\r\x1b[K{text}", end="", file=sys.stderr, flush=True)


def _write(path: str | None, parts: Iterator[bytes] | list[bytes]) -> None:
    if path is None:
        for part in parts:
            sys.stdout.buffer.write(part)
        sys.stdout.buffer.flush()
        return
    with open_replacement(path) as file:
        for part in parts:
            file.write(part)
