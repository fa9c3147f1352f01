"""`dragoman sessions export` and `import`: a session as one file, without credentials, from one machine to another."""

from __future__ import annotations

import argparse
import os
import shlex
import shutil
import sys
import tempfile
from functools import partial
from typing import BinaryIO, cast

import msgspec

from dragoman.cli import exit_codes
from dragoman.cli.parser import Parser, add_host_options, reject_host_options
from dragoman.cli.sessions import open_store
from dragoman.cli.sessions.open_store import format_count, print_json, session_label
from dragoman.cli.ui.terminal import sanitize_line
from dragoman.errors import Kind, ProtocolError
from dragoman.store.contract import Store
from dragoman.store.export import export_session, import_session
from dragoman.store.session_log import timestamp
from dragoman.store.summary import check_new_name

# As much of a session that comes through a pipe is held in memory; more goes to a file that has no name. Bytes.
MAX_IN_MEMORY = 16 * 1024 * 1024

EXPORT_HELP = f"""\
The file holds everything that was said and done, readable by you alone. Credentials are not in it; a secret that
somebody said is, unless it was known to be one when it was said. Without FILE it is written to standard output.

{open_store.EXIT_CODES_HELP}

examples:
  dragoman sessions export roof roof.session
  dragoman sessions export roof | ssh laptop dragoman sessions import -"""

IMPORT_HELP = f"""\
The file is checked first: one that was changed or cut, or is from a newer Dragoman, is refused. It keeps its id and,
if that is free, its name. Who goes on with it works in its folder, where there is one of that path here.

{open_store.EXIT_CODES_HELP}

examples:
  dragoman sessions import roof.session
  dragoman sessions import roof.session --name attic
  curl -s https://example.org/roof.session | dragoman sessions import -"""


def main(name: str, arguments: list[str]) -> int:
    """Read the arguments, then carry it."""
    return (run_export if name == "export" else run_import)(arguments)


def run_export(arguments: list[str]) -> int:
    """One file to take elsewhere."""
    parser = Parser("sessions export", "SESSION [FILE] [--force]", "Write a session into one file.", EXPORT_HELP)
    parser.add_argument("session", metavar="SESSION", help="its name or id")
    parser.add_argument("file", nargs="?", metavar="FILE", default="-", help="where to; - is standard output")
    parser.add_argument("--force", action="store_true", help="replace a file that is there")
    add_host_options(parser)
    options, rest = parser.read(arguments)
    if rest:
        parser.error("it takes no command")
    if options.file != "-" and os.path.lexists(options.file) and not options.force:
        parser.error(f"{sanitize_line(options.file)} is there already; --force replaces it")
    return open_store.run_with_store(parser, options, partial(_export, options))


async def _export(options: argparse.Namespace, store: Store) -> int:
    summary = await open_store.find_session(store, options.session)
    if options.file == "-":
        await export_session(store, summary.session_id, sys.stdout.buffer, timestamp())
        sys.stdout.buffer.flush()
        return exit_codes.OK
    # Under another name until it is whole: who takes the file away takes all of it.
    part = f"{options.file}.part-{os.getpid()}"
    try:
        file = _create_private_file(part)
        try:
            with file:
                count = await export_session(store, summary.session_id, file, timestamp())
            os.replace(part, options.file)
        except BaseException:
            os.unlink(part)
            raise
    except OSError as error:
        raise _file_error(options.file, error) from None
    print(f"{sanitize_line(options.file)} has {session_label(summary)}: {count} entries")
    return exit_codes.OK


def run_import(arguments: list[str]) -> int:
    """Keep a session that was exported."""
    parser = Parser("sessions import", "FILE [--name NAME] [--json]", "Keep a session that was exported.", IMPORT_HELP)
    parser.add_argument("file", metavar="FILE", help="what was exported; - is standard input")
    parser.add_argument("--name", metavar="NAME", help="what it is called here")
    parser.add_argument("--json", action="store_true", help="print JSON")
    add_host_options(parser)
    options, rest = parser.read(arguments)
    reject_host_options(parser, options, "take the file there, and say dragoman sessions import FILE")
    if rest:
        parser.error("it takes no command")
    if options.name is not None:
        try:
            check_new_name(options.name)
        except ProtocolError as error:
            parser.error(error.message)
    return open_store.run_with_store(parser, options, partial(_import, options), creates_store=True)


async def _import(options: argparse.Namespace, store: Store) -> int:
    try:
        with _open_source(options.file) as file:
            summary = await import_session(store, file, name=options.name)
    except OSError as error:
        raise _file_error(options.file, error) from None
    if options.json:
        print_json(msgspec.to_builtins(summary))
        return exit_codes.OK
    name = session_label(summary)
    folder = sanitize_line(summary.cwd) if summary.cwd and os.path.isdir(summary.cwd) else "the folder you are in then"
    print(f"{name}: {format_count(summary.turns, 'turn')}, {sanitize_line(summary.title or '')}")
    print(f"go on with: dragoman run --session {shlex.quote(name)} 'PROMPT' (it works in {folder})")
    return exit_codes.OK


def _create_private_file(path: str) -> BinaryIO:
    """A new file that only its owner reads."""
    return open(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600), "wb")


def _open_source(path: str) -> BinaryIO:
    if path != "-":
        return open(path, "rb")
    held = cast(BinaryIO, tempfile.SpooledTemporaryFile(MAX_IN_MEMORY))  # noqa: SIM115
    shutil.copyfileobj(sys.stdin.buffer, held)
    held.seek(0)
    return held


def _file_error(path: str, error: OSError) -> ProtocolError:
    return ProtocolError(Kind.INVALID_PARAMS, f"{sanitize_line(path)}: {error.strerror or error}")
