"""The store of `dragoman sessions`: open it, report its errors, find and label sessions."""

from __future__ import annotations

import argparse
import os
from collections.abc import Awaitable, Callable, Iterable

from dragoman.cli import exit_codes
from dragoman.cli.connect import record
from dragoman.cli.messages import with_cli_advice
from dragoman.cli.parser import Parser, add_host_options
from dragoman.cli.ui.format import print_json
from dragoman.cli.ui.terminal import sanitize_line
from dragoman.config.paths import user_paths
from dragoman.engine.loop import run
from dragoman.errors import ConnectionFailed, Kind, ProtocolError, StoreFault
from dragoman.store.contract import Store, Summary
from dragoman.store.memory import MemoryStore

EXIT_CODES_HELP = """\
exit codes:
   0  done
   1  there is no such session, nothing was found, or a file cannot be used
   2  wrong usage
   7  the host cannot be reached
  10  the store cannot be used (locked, full, read-only, damaged or too new)"""


# What an action does with its options and the store; it returns the exit code.
StoreAction = Callable[[argparse.Namespace, Store], Awaitable[int]]


def add_session_argument(parser: Parser) -> None:
    """Add SESSION."""
    parser.add_argument("session", metavar="SESSION", help="name or id of the session")


def parse_options(parser: Parser, arguments: list[str], json_help: str = "print JSON") -> argparse.Namespace:
    """Parse the arguments, with --json and the options for hosts."""
    parser.add_flag("--json", json_help)
    add_store_options(parser)
    return parser.read_options(arguments)


def add_store_options(parser: Parser) -> None:
    """Add the options that choose the sessions: of a host, of another file, or of the user."""
    add_host_options(parser)
    parser.add_value("--store", "FILE", "use this store, such as that of `dragoman serve --store FILE`")


def store_path(parser: Parser, options: argparse.Namespace) -> str:
    """Return the file of --store, or the user's own."""
    if options.store is None:
        return user_paths().sessions
    path: str = os.path.abspath(os.path.expanduser(options.store.removeprefix("sqlite:")))
    if options.host or options.token_file:
        parser.error("--store cannot be used with --host")
    if not os.path.isfile(path):
        parser.error(f"--store: there is no file {path}")
    return path


def run_with_store(
    parser: Parser,
    options: argparse.Namespace,
    action: StoreAction,
    *,
    creates_store: bool = False,
    needs_host: bool = False,
) -> int:
    """Run an action on the user's store; an empty one if none exists, unless it `creates_store`.

    With --host or `needs_host`, run it on the sessions of a host.
    """
    try:
        options.path = store_path(parser, options)
        if needs_host or getattr(options, "host", None) or getattr(options, "token_file", None):
            return run(_run_with_host_store(options, action))
        return run(_run_with_local_store(options, action, creates_store))
    except ProtocolError as error:
        return report_failure(parser, options, error)
    except ConnectionFailed as error:
        if getattr(options, "json", False):
            print_json({"error": {"kind": "connection_failed", "message": str(error)}})
        return parser.fail(with_cli_advice(str(error)), exit_codes.DIED, is_json_done=True)


async def _run_with_host_store(options: argparse.Namespace, action: StoreAction) -> int:
    from dragoman.cli.host_client.api import resolve_host
    from dragoman.cli.host_client.store import HostStore

    return await action(options, HostStore(resolve_host(options.host, options.token_file)))


async def _run_with_local_store(options: argparse.Namespace, action: StoreAction, creates_store: bool) -> int:
    path = options.path
    if not creates_store and not os.path.exists(path):
        return await action(options, MemoryStore())
    from dragoman.store.sqlite import SqliteStore

    store = await SqliteStore.open(path)
    try:
        return await action(options, store)
    finally:
        await store.close()


def report_failure(parser: Parser, options: argparse.Namespace, error: ProtocolError) -> int:
    """Report an error: one line, and JSON with --json."""
    kind = f"store_{error.why}" if isinstance(error, StoreFault) else error.kind
    if getattr(options, "json", False):
        print_json({"error": {"kind": kind, "message": error.message}})
    code = exit_codes.NO_STORE if isinstance(error, StoreFault) else exit_codes.FAILED
    return parser.fail(error.message, code, is_json_done=True)


async def find_session(store: Store, name: str) -> Summary:
    """Return the session with this name, id or beginning of an id (at least eight characters)."""
    try:
        summary = await store.find(name)
    except ProtocolError as error:
        if error.kind != Kind.SESSION_NOT_FOUND or not error.data:  # or the beginning of several ids
            raise
    else:
        if name in (summary.name, summary.session_id) or len(name) >= record.MIN_ID_PREFIX:
            return summary
    raise await record.missing_session(store, name)


def session_label(summary: Summary, others: Iterable[Summary] = ()) -> str:
    """Return what the user types for this session: its name, else as much of its id as needed."""
    if summary.name is not None:
        return sanitize_line(summary.name)
    id = summary.session_id
    ids = [other.session_id for other in others if other.session_id != id]
    length = record.MIN_ID_PREFIX
    while length < len(id) and any(other.startswith(id[:length]) for other in ids):
        length += 1
    return sanitize_line(id[:length])
