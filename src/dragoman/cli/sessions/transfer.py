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
from dragoman.cli.parser import Parser, offer_host, refuse_host
from dragoman.cli.sessions import open_store
from dragoman.cli.sessions.open_store import called, counted, put
from dragoman.cli.ui.terminal import single
from dragoman.errors import Kind, ProtocolError
from dragoman.store.contract import Store
from dragoman.store.export import export_session, import_session
from dragoman.store.session_log import now
from dragoman.store.summary import given_name

# As much of a session that comes through a pipe is held in memory; more goes to a file that has no name. Bytes.
HELD = 16 * 1024 * 1024

EXPORT = f"""\
The file holds everything that was said and done, readable by you alone. Credentials are not in it; a secret that
somebody said is, unless it was known to be one when it was said. Without FILE it is written to standard output.

{open_store.CODES}

examples:
  dragoman sessions export roof roof.session
  dragoman sessions export roof | ssh laptop dragoman sessions import -"""

IMPORT = f"""\
The file is checked first: one that was changed or cut, or is from a newer Dragoman, is refused. It keeps its id and,
if that is free, its name. Who goes on with it works in its folder, where there is one of that path here.

{open_store.CODES}

examples:
  dragoman sessions import roof.session
  dragoman sessions import roof.session --name attic
  curl -s https://example.org/roof.session | dragoman sessions import -"""


def main(name: str, arguments: list[str]) -> int:
    """Read the arguments, then carry it."""
    return (exporting if name == "export" else importing)(arguments)


def exporting(arguments: list[str]) -> int:
    """One file to take elsewhere."""
    parser = Parser("sessions export", "SESSION [FILE] [--force]", "Write a session into one file.", EXPORT)
    parser.add_argument("session", metavar="SESSION", help="its name or id")
    parser.add_argument("file", nargs="?", metavar="FILE", default="-", help="where to; - is standard output")
    parser.add_argument("--force", action="store_true", help="replace a file that is there")
    offer_host(parser)
    options, rest = parser.read(arguments)
    if rest:
        parser.error("it takes no command")
    if options.file != "-" and os.path.lexists(options.file) and not options.force:
        parser.error(f"{single(options.file)} is there already; --force replaces it")
    return open_store.work(parser, options, partial(_export, options))


async def _export(options: argparse.Namespace, store: Store) -> int:
    summary = await open_store.meant(store, options.session)
    if options.file == "-":
        await export_session(store, summary.session_id, sys.stdout.buffer, now())
        sys.stdout.buffer.flush()
        return exit_codes.OK
    # Under another name until it is whole: who takes the file away takes all of it.
    part = f"{options.file}.part-{os.getpid()}"
    try:
        file = _begun(part)
        try:
            with file:
                count = await export_session(store, summary.session_id, file, now())
            os.replace(part, options.file)
        except BaseException:
            os.unlink(part)
            raise
    except OSError as error:
        raise _unusable(options.file, error) from None
    print(f"{single(options.file)} has {called(summary)}: {count} entries")
    return exit_codes.OK


def importing(arguments: list[str]) -> int:
    """Keep a session that was exported."""
    parser = Parser("sessions import", "FILE [--name NAME] [--json]", "Keep a session that was exported.", IMPORT)
    parser.add_argument("file", metavar="FILE", help="what was exported; - is standard input")
    parser.add_argument("--name", metavar="NAME", help="what it is called here")
    parser.add_argument("--json", action="store_true", help="print JSON")
    offer_host(parser)
    options, rest = parser.read(arguments)
    refuse_host(parser, options, "take the file there, and say dragoman sessions import FILE")
    if rest:
        parser.error("it takes no command")
    if options.name is not None:
        try:
            given_name(options.name)
        except ProtocolError as error:
            parser.error(error.message)
    return open_store.work(parser, options, partial(_import, options), makes=True)


async def _import(options: argparse.Namespace, store: Store) -> int:
    try:
        with _source(options.file) as file:
            summary = await import_session(store, file, name=options.name)
    except OSError as error:
        raise _unusable(options.file, error) from None
    if options.json:
        put(msgspec.to_builtins(summary))
        return exit_codes.OK
    name = called(summary)
    folder = single(summary.cwd) if summary.cwd and os.path.isdir(summary.cwd) else "the folder you are in then"
    print(f"{name}: {counted(summary.turns, 'turn')}, {single(summary.title or '')}")
    print(f"go on with: dragoman run --session {shlex.quote(name)} 'PROMPT' (it works in {folder})")
    return exit_codes.OK


def _begun(path: str) -> BinaryIO:
    """A new file that only its owner reads."""
    return open(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600), "wb")


def _source(path: str) -> BinaryIO:
    if path != "-":
        return open(path, "rb")
    held = cast(BinaryIO, tempfile.SpooledTemporaryFile(HELD))  # noqa: SIM115
    shutil.copyfileobj(sys.stdin.buffer, held)
    held.seek(0)
    return held


def _unusable(path: str, error: OSError) -> ProtocolError:
    return ProtocolError(Kind.INVALID_PARAMS, f"{single(path)}: {error.strerror or error}")
