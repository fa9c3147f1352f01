"""`dragoman inspect export`: a copy of a recording without secrets, or one HTML page."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator

from dragoman.cli.inspect.show import add_dialect_option, report, report_problems
from dragoman.cli.parser import Parser
from dragoman.cli.ui.format import format_size
from dragoman.inspect.analyze import Analyzer
from dragoman.inspect.event import RecordedEvent
from dragoman.inspect.reader import RecordingEnd, RecordingReader
from dragoman.inspect.redaction import RecordingRedactor
from dragoman.roles.proxy.hop_recorder import hop_path
from dragoman.transport.recording.format import Header, end_line, frame_line, gap_line, header_line
from dragoman.transport.recording.recorder import check_not_source, open_replacement

EPILOG = """\
Values in env and headers of MCP servers, credentials, and everything that looks
like a key or a token are replaced by [redacted], everywhere in the recording.
Read the copy before you share it anyway: only you know what else is private.
With --keep-secrets, secrets stay in the copy.

--html makes one self-contained page: the messages as arrows between client and
agent, with turns and tool calls, search, filters, and the JSON of each message.
--with adds the recording from behind a proxy. The hops of a chain, which stand
next to the file, are added by themselves, with one lane for each component.

exit codes: 0 done, 1 a file cannot be read or written, 2 wrong usage.

examples:
  dragoman inspect export talk.ndjson > share.ndjson
  dragoman inspect export talk.ndjson --html --out talk.html
  dragoman inspect export client-side.ndjson --with agent-side.ndjson \\
      --html --out both.html"""

# Above this size there is a warning: browsers need seconds, and a lot of memory, to open the page. Bytes.
LARGE_PAGE = 20 * 1024 * 1024

# On a terminal, show the progress after this many lines: about once a second.
PROGRESS_INTERVAL = 10_000


def main(name: str, arguments: list[str]) -> int:
    """Parse the arguments, then write the copy."""
    parser = Parser(name, "FILE [OPTIONS]", "Copy a recording, without secrets.", EPILOG)
    parser.add_argument("file", metavar="FILE", help="a recording")
    parser.add_flag("--html", "write one HTML page")
    parser.add_value("--with", "FILE", "html: add the recording from behind the proxy", dest="others", repeated=True)
    parser.add_value("--out", "FILE", "output file (standard output); never the recording itself")
    parser.add_value("--title", "TEXT", "html: title of the page")
    add_dialect_option(parser)
    parser.add_flag("--keep-secrets", "do not remove secrets")
    options, _ = parser.read(arguments)
    paths = [options.file, *options.others]
    if "-" in paths:
        parser.error("export reads a recording twice; give a file, not standard input")
    if options.others and not options.html:
        parser.error("--with needs --html")
    if options.html and not options.others:
        paths += hop_files(options.file)
    if options.out:
        check_not_source(options.out, paths)
    redactor = None if options.keep_secrets else collect_secrets(paths)
    if options.html:
        from dragoman.inspect.page import render_page

        hops = [read_clean_events(path, redactor, options.dialect) for path in paths]
        page = render_page(hops, options.title or os.path.basename(options.file)).encode()
        _write(options.out, [page])
        if len(page) > LARGE_PAGE:
            count = sum(len(events) for _, events in hops)
            report(f"the page has {count} messages and {format_size(len(page))}: browsers need some time to open it")
    else:
        _write(options.out, copy_lines(options.file, redactor))
    return 0


def hop_files(path: str) -> list[str]:
    """Return the recordings of the other hops of a chain, in order."""
    found: list[str] = []
    while os.path.isfile(following := hop_path(path, len(found) + 2)):
        found.append(following)
    return found


def collect_secrets(paths: list[str]) -> RecordingRedactor:
    """First pass: collect the values that are secrets."""
    redactor = RecordingRedactor()
    for path in paths:
        for recorded in RecordingReader().read_file(path):
            redactor.learn_secrets(recorded)
    return redactor


def copy_lines(path: str, redactor: RecordingRedactor | None) -> Iterator[bytes]:
    """Yield the lines of the copy."""
    reader = RecordingReader()
    part, lost, count, t = -1, 0, 0, 0
    for recorded in reader.read_file(path):
        yield from _boundary_lines(reader, part, recorded.part, redactor)
        part, count, t = recorded.part, count + 1, recorded.t or t
        if reader.lost_bytes > lost:
            yield gap_line(t, reader.lost_bytes - lost)
            lost = reader.lost_bytes
        clean = redactor.redact(recorded) if redactor is not None else recorded
        yield frame_line(clean.t or 0, clean.direction, clean.data, clean.eol, clean.cut)
    yield from _boundary_lines(reader, part, reader.part, redactor)
    if not reader.is_incomplete:
        ending = reader.ending or RecordingEnd("the recording of another recorder ended", None, count, t)
        yield end_line(ending.t or 0, ending.reason, ending.status, ending.frames)
    report_problems(path, reader)


def _boundary_lines(
    reader: RecordingReader, part: int, until: int, redactor: RecordingRedactor | None
) -> Iterator[bytes]:
    """Yield ends and headers between two parts of a file with several recordings."""
    for number in range(part, until):
        if ending := reader.endings.get(number):
            yield end_line(ending.t or 0, ending.reason, ending.status, ending.frames)
        yield header_line(_clean_header(reader, number + 1, redactor))


def read_clean_events(
    path: str, redactor: RecordingRedactor | None, dialect: str
) -> tuple[Header, list[RecordedEvent]]:
    """Return all events of a recording, without secrets; with several recordings, all times count from the first."""
    reader, observer = RecordingReader(), Analyzer(dialect)
    events: list[RecordedEvent] = []
    for recorded in reader.read_file(path):
        if recorded.part and recorded.t is not None:
            recorded.t += max(0, reader.headers[recorded.part].epoch - reader.headers[0].epoch)
        events.append(observer.analyze_line(redactor.redact(recorded) if redactor is not None else recorded))
        if not len(events) % PROGRESS_INTERVAL:
            _show_progress(f"{len(events)} messages read")
    _show_progress("")
    report_problems(path, reader)
    return _clean_header(reader, 0, redactor), events


def _clean_header(reader: RecordingReader, part: int, redactor: RecordingRedactor | None) -> Header:
    header = reader.headers[part] if reader.headers else reader.header
    header.format = 1
    return header if redactor is None else redactor.redact_header(header)


def _show_progress(text: str) -> None:
    """Show the progress on one line of a terminal."""
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
