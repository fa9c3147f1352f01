"""`dragoman sessions export`, `import` and `repair`: a session as one file, and a damaged store."""

from __future__ import annotations

import argparse
import os
import shlex
import shutil
import sys
import tempfile
from typing import BinaryIO, NamedTuple, cast

import msgspec

from dragoman.cli import exit_codes
from dragoman.cli.parser import Parser, reject_host_options
from dragoman.cli.sessions import open_store
from dragoman.cli.sessions.open_store import session_label
from dragoman.cli.ui.format import format_count, report
from dragoman.cli.ui.terminal import sanitize_line
from dragoman.engine.loop import run
from dragoman.errors import Kind, ProtocolError, StoreFault
from dragoman.ids import now
from dragoman.store.contract import LogReport, Store, Summary
from dragoman.store.export import export_session, import_session
from dragoman.store.summary import check_new_name

# A piped session is held in memory up to this size; above, in a temporary file. Bytes.
MAX_IN_MEMORY = 16 * 1024 * 1024

# The form of an export by the suffix of its file; another file can be imported again.
_FORMS = {".html": "html", ".htm": "html", ".md": "markdown", ".markdown": "markdown"}

EXPORT_HELP = f"""\
The file contains all messages and tool calls; only you can read it. Credentials
are not in it. A secret in a message is, unless it was known as a secret when it
was stored. Without FILE, the session is written to standard output. --html and
--markdown, or a FILE that ends with .html or .md, write a transcript for
people, which cannot be imported.

{open_store.EXIT_CODES_HELP}

examples:
  dragoman sessions export roof roof.session
  dragoman sessions export roof roof.html
  dragoman sessions export roof | ssh laptop dragoman sessions import -"""

IMPORT_HELP = f"""\
The file is checked first: a file that was changed or truncated, or is from a
newer Dragoman, is refused. The session keeps its id and, if it is free, its
name. When you continue it, the agent works in the folder of the session, if
there is a folder with this path on this machine.

{open_store.EXIT_CODES_HELP}

examples:
  dragoman sessions import roof.session
  dragoman sessions import roof.session --name attic
  curl -s https://example.org/roof.session | dragoman sessions import -"""


def run_export(name: str, arguments: list[str]) -> int:
    """Write a session to a file."""
    usage = "SESSION [FILE] [OPTIONS]"
    parser = Parser(name, usage, "Write a session to a file.", EXPORT_HELP)
    open_store.add_session_argument(parser)
    parser.add_argument("file", nargs="?", metavar="FILE", help="output file; standard output without one, or with -")
    parser.add_value("--out", "FILE", "the output file, as an option")
    parser.add_flag("--html", "a page for people: the conversation, tool calls and changes")
    parser.add_flag("--markdown", "the same as Markdown")
    parser.add_flag("--thoughts", "with --html and --markdown: also the agent's thoughts")
    parser.add_flag("--force", "overwrite an existing file")
    open_store.add_store_options(parser)
    options = parser.read_options(arguments)
    if options.html and options.markdown:
        parser.error("choose one of --html and --markdown")
    if options.file is not None and options.out is not None:
        parser.error("give the output file once: as an argument or with --out")
    options.file = options.file or options.out or "-"
    options.form = "html" if options.html else "markdown" if options.markdown else _FORMS.get(_suffix(options.file), "")
    if options.file != "-" and os.path.lexists(options.file) and not options.force:
        parser.error(f"{sanitize_line(options.file)} exists already; use --force to overwrite it")
    return open_store.run_with_store(parser, options, _export)


def _suffix(path: str) -> str:
    return os.path.splitext(path)[1].lower()


async def _export(options: argparse.Namespace, store: Store) -> int:
    summary = await open_store.find_session(store, options.session)
    if options.file == "-":
        await _write_export(options, store, summary, sys.stdout.buffer)
        sys.stdout.buffer.flush()
        return exit_codes.OK
    # Under a temporary name until it is complete; only its owner can read it.
    part = f"{options.file}.part-{os.getpid()}"
    try:
        fd = os.open(part, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
        try:
            with os.fdopen(fd, "wb") as file:
                count = await _write_export(options, store, summary, file)
            os.replace(part, options.file)
        except BaseException:
            os.unlink(part)
            raise
    except OSError as error:
        raise _file_error(options.file, error) from None
    how = ""
    if options.form and not options.html and not options.markdown:
        how = f" as {options.form}, as {_suffix(options.file)} says; to import it again, use another suffix"
    print(f"exported {session_label(summary)} to {sanitize_line(options.file)}: {count} entries{how}")
    return exit_codes.OK


async def _write_export(options: argparse.Namespace, store: Store, summary: Summary, file: BinaryIO) -> int:
    """Write the session in the chosen form; return the number of entries."""
    if not options.form:
        return await export_session(store, summary.session_id, file, now())
    from dragoman.cli.sessions.transcript_file import render_html, render_markdown

    lines = await store.lines(summary.session_id, limit=summary.entries, intact=True)
    render = render_html if options.form == "html" else render_markdown
    file.write(render(summary, lines, thoughts=options.thoughts).encode())
    return len(lines)


def run_import(name: str, arguments: list[str]) -> int:
    """Store an exported session."""
    parser = Parser(name, "FILE [--name NAME] [--json]", "Store an exported session.", IMPORT_HELP)
    parser.add_argument("file", metavar="FILE", help="exported file; - is standard input")
    parser.add_value("--name", "NAME", "name of the session here")
    options = open_store.parse_options(parser, arguments)
    reject_host_options(parser, options, "copy the file there, then run: dragoman sessions import FILE")
    if options.name is not None:
        try:
            check_new_name(options.name)
        except ProtocolError as error:
            parser.error(error.message)
    return open_store.run_with_store(parser, options, _import, creates_store=True)


async def _import(options: argparse.Namespace, store: Store) -> int:
    try:
        with _open_source(options.file) as file:
            summary = await import_session(store, file, name=options.name)
    except OSError as error:
        raise _file_error(options.file, error) from None
    name = session_label(summary)
    folder = summary.cwd if summary.cwd and os.path.isdir(summary.cwd) else "the current folder"
    lines = [
        f"{name}: {format_count(summary.turns, 'turn')}, {summary.title or ''}",
        f"continue with: dragoman run --session {shlex.quote(name)} 'PROMPT' (in {folder})",
    ]
    return report(options, msgspec.to_builtins(summary), lines)


def _open_source(path: str) -> BinaryIO:
    if path != "-":
        return open(path, "rb")
    buffer = cast(BinaryIO, tempfile.SpooledTemporaryFile(MAX_IN_MEMORY))  # noqa: SIM115
    shutil.copyfileobj(sys.stdin.buffer, buffer)
    buffer.seek(0)
    return buffer


def _file_error(path: str, error: OSError) -> ProtocolError:
    return ProtocolError(Kind.INVALID_PARAMS, f"{sanitize_line(path)}: {error.strerror or error}")


REPAIR_HELP = f"""\
Checks the checksum of every entry. Unreadable entries are replaced by an entry
that says so; all others keep their numbers. If SQLite cannot read the file, a
new file is created from what is intact, and the old file is kept next to it.
Without SESSION, all sessions are checked. An intact store is not changed.

{open_store.EXIT_CODES_HELP}

examples:
  dragoman sessions repair
  dragoman sessions repair roof
  dragoman sessions repair --json | jq '.sessions[] | select(.lost != [])'"""


class RepairResult(NamedTuple):
    """The sessions that were checked, and the path of the old file, if there is a new one."""

    reports: list[LogReport]
    old_path: str | None = None


def run_repair(name: str, arguments: list[str]) -> int:
    """Parse the arguments, then repair."""
    parser = Parser(name, "[SESSION] [--json]", "Repair a damaged store.", REPAIR_HELP)
    parser.add_argument("session", nargs="?", metavar="SESSION", help="check only this session")
    options = open_store.parse_options(parser, arguments)
    reject_host_options(parser, options, "stop the host, then run: dragoman sessions repair")
    path = open_store.store_path(parser, options)
    if not os.path.exists(path):
        return report(options, {"sessions": [], "old": None}, "no sessions are stored yet")
    try:
        result = repair_store(path, options.session)
    except ProtocolError as error:
        return open_store.report_failure(parser, options, error)
    return report_result(options, result)


def repair_store(path: str, name: str | None) -> RepairResult:
    """Repair in place what can be repaired; else create a new file."""
    from dragoman.store.sqlite import rebuild

    try:
        return run(_repair_in_place(path, name))
    except ProtocolError as error:
        is_damaged = error.why == "damaged" if isinstance(error, StoreFault) else error.kind == Kind.SESSION_CORRUPTED
        if not is_damaged:
            raise
    reports, old = rebuild(path)
    return RepairResult(reports, old)


async def _repair_in_place(path: str, name: str | None) -> RepairResult:
    from dragoman.store.sqlite import SqliteStore

    store = await SqliteStore.open(path)
    try:
        known = await store.sessions() if name is None else [await open_store.find_session(store, name)]
        reports = []
        for summary in known:
            checked = await store.verify(summary.session_id)
            reports.append(checked if checked.is_intact else await store.repair(summary.session_id))
        if name is None:
            await store.check_file()  # the list and the index, too
        return RepairResult(reports)
    finally:
        await store.close()


def report_result(options: argparse.Namespace, result: RepairResult) -> int:
    """Print what was kept and what was lost."""
    damaged = [each for each in result.reports if not each.is_intact]
    lines = []
    for each in damaged:
        lost = ", ".join(str(low) if low == high else f"{low}-{high}" for low, high in each.lost)
        kept = sum(high - low + 1 for low, high in each.kept)
        lines.append(f"{each.session_id}: {kept} entries kept; lost: {lost}")
    if result.old_path is not None:
        lines.append(f"created a new file; the damaged one is {result.old_path}")
    intact = len(result.reports) - len(damaged)
    lines.append(f"{format_count(intact, 'session')} intact" + (f", {len(damaged)} repaired" if damaged else ""))
    return report(options, {"sessions": msgspec.to_builtins(result.reports), "old": result.old_path}, lines)
