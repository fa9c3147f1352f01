"""`dragoman sessions export` and `import`: a session as one file, without credentials."""

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
from dragoman.cli.sessions.open_store import session_label
from dragoman.cli.ui.format import format_count, print_json
from dragoman.cli.ui.terminal import sanitize_line
from dragoman.errors import Kind, ProtocolError
from dragoman.store.contract import Store
from dragoman.store.export import export_session, import_session
from dragoman.store.session_log import timestamp
from dragoman.store.summary import check_new_name

# A piped session is held in memory up to this size; above, in a temporary file. Bytes.
MAX_IN_MEMORY = 16 * 1024 * 1024

EXPORT_HELP = f"""\
The file contains all messages and tool calls; only you can read it. Credentials
are not in it. A secret in a message is, unless it was known as a secret when it
was stored. Without FILE, the session is written to standard output.

{open_store.EXIT_CODES_HELP}

examples:
  dragoman sessions export roof roof.session
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


def main(name: str, arguments: list[str]) -> int:
    """Run one of the actions."""
    return (run_export if name == "export" else run_import)(arguments)


def run_export(arguments: list[str]) -> int:
    """Write a session to a file."""
    parser = Parser("sessions export", "SESSION [FILE] [--force]", "Write a session to a file.", EXPORT_HELP)
    parser.add_argument("session", metavar="SESSION", help="name or id of the session")
    parser.add_argument("file", nargs="?", metavar="FILE", default="-", help="output file; - is standard output")
    parser.add_flag("--force", "overwrite an existing file")
    add_host_options(parser)
    options = parser.read_options(arguments)
    if options.file != "-" and os.path.lexists(options.file) and not options.force:
        parser.error(f"{sanitize_line(options.file)} exists already; use --force to overwrite it")
    return open_store.run_with_store(parser, options, partial(_export, options))


async def _export(options: argparse.Namespace, store: Store) -> int:
    summary = await open_store.find_session(store, options.session)
    if options.file == "-":
        await export_session(store, summary.session_id, sys.stdout.buffer, timestamp())
        sys.stdout.buffer.flush()
        return exit_codes.OK
    # Under a temporary name until it is complete.
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
    print(f"exported {session_label(summary)} to {sanitize_line(options.file)}: {count} entries")
    return exit_codes.OK


def run_import(arguments: list[str]) -> int:
    """Store an exported session."""
    parser = Parser("sessions import", "FILE [--name NAME] [--json]", "Store an exported session.", IMPORT_HELP)
    parser.add_argument("file", metavar="FILE", help="exported file; - is standard input")
    parser.add_value("--name", "NAME", "name of the session here")
    parser.add_flag("--json", "print JSON")
    add_host_options(parser)
    options = parser.read_options(arguments)
    reject_host_options(parser, options, "copy the file there, then run: dragoman sessions import FILE")
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
    folder = sanitize_line(summary.cwd) if summary.cwd and os.path.isdir(summary.cwd) else "the current folder"
    print(f"{name}: {format_count(summary.turns, 'turn')}, {sanitize_line(summary.title or '')}")
    print(f"continue with: dragoman run --session {shlex.quote(name)} 'PROMPT' (in {folder})")
    return exit_codes.OK


def _create_private_file(path: str) -> BinaryIO:
    """Create a file that only its owner can read."""
    return open(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600), "wb")


def _open_source(path: str) -> BinaryIO:
    if path != "-":
        return open(path, "rb")
    buffer = cast(BinaryIO, tempfile.SpooledTemporaryFile(MAX_IN_MEMORY))  # noqa: SIM115
    shutil.copyfileobj(sys.stdin.buffer, buffer)
    buffer.seek(0)
    return buffer


def _file_error(path: str, error: OSError) -> ProtocolError:
    return ProtocolError(Kind.INVALID_PARAMS, f"{sanitize_line(path)}: {error.strerror or error}")
