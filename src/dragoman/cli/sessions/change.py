"""`dragoman sessions fork`, `rename`, `delete` and `expire`."""

from __future__ import annotations

import argparse
import shlex
from functools import partial
from uuid import uuid4

import msgspec

from dragoman.cli import exit_codes
from dragoman.cli.host_client.store import HostStore
from dragoman.cli.parser import BYTES_PER_UNIT, SECONDS_PER_UNIT, Parser, add_host_options, parse_amount
from dragoman.cli.sessions import open_store
from dragoman.cli.sessions.open_store import session_label
from dragoman.cli.ui.format import format_age, format_count, print_json
from dragoman.cli.ui.terminal import sanitize_line
from dragoman.errors import Kind, ProtocolError
from dragoman.store.contract import Retention, Store
from dragoman.store.session_log import timestamp
from dragoman.store.summary import check_new_name, expired_ids

FORK_HELP = f"""\
The agent does not know the copy: when you continue it, the agent opens a new
session and gets the earlier messages. `dragoman sessions show SESSION --json`
shows the numbers for --upto.

{open_store.EXIT_CODES_HELP}

examples:
  dragoman sessions fork roof loft
  dragoman sessions fork roof loft --upto 42"""

RENAME_HELP = f"""\
{open_store.EXIT_CODES_HELP}

examples:
  dragoman sessions rename 3f2a9c1e roof
  dragoman sessions rename roof              (removes the name)"""

DELETE_HELP = f"""\
Deleted sessions cannot be restored: export them first if you are not sure. What
the agent itself stores is not deleted.

{open_store.EXIT_CODES_HELP}

examples:
  dragoman sessions delete roof 3f2a9c1e
  dragoman sessions list --here --names | tr '\\n' '\\0' \\
      | xargs -0 dragoman sessions delete"""

EXPIRE_HELP = f"""\
Deletes sessions beyond any of the limits, the oldest first. Sessions with a
name are kept, unless --named is given. Ages are in hours, days, weeks or years
(12h, 90d, 8w, 1y), sizes in bytes, K, M or G. On a host (--host) only sessions
without members that you may delete are deleted.

{open_store.EXIT_CODES_HELP}

examples:
  dragoman sessions expire --older 90d --dry-run
  dragoman sessions expire --keep 200 --size 500M
  dragoman sessions expire --older 1y --named"""


def main(name: str, arguments: list[str]) -> int:
    """Run one of the actions."""
    return _ACTIONS[name](arguments)


def run_fork(arguments: list[str]) -> int:
    """Copy a session."""
    parser = Parser("sessions fork", "SESSION [NAME] [--upto N] [--json]", "Copy a session.", FORK_HELP)
    parser.add_argument("session", metavar="SESSION", help="name or id of the session")
    parser.add_argument("name", nargs="?", metavar="NAME", help="name of the copy")
    parser.add_value("--upto", "N", "copy only the entries up to this number", type=int)
    add_host_options(parser)
    options = _parse_options(parser, arguments)
    if options.upto is not None and options.upto < 1:
        parser.error("--upto: must be at least 1")
    return open_store.run_with_store(parser, options, partial(_fork, options))


async def _fork(options: argparse.Namespace, store: Store) -> int:
    origin = await open_store.find_session(store, options.session)
    await _check_name_is_free(store, options.name)
    if isinstance(store, HostStore):
        copy = await store.fork(origin.session_id, "", options.upto, options.name)
    else:
        copy = await store.fork(origin.session_id, str(uuid4()), options.upto)
        if options.name is not None:
            copy = await store.rename(copy.session_id, options.name)
    if options.json:
        print_json(msgspec.to_builtins(copy))
    else:
        name = session_label(copy)
        host_flag = store.host.flag if isinstance(store, HostStore) else ""
        next_command = f"dragoman run {host_flag}--session {shlex.quote(name)} 'PROMPT'"
        print(f"{name} is a copy of {session_label(origin)}; continue it with: {next_command}")
    return exit_codes.OK


async def _check_name_is_free(store: Store, name: str | None) -> None:
    """Raise before any change if the name cannot be used."""
    if name is None:
        return
    check_new_name(name)
    for summary in await store.sessions():
        if summary.name == name:
            message = f"there is already a session {name}; choose another name, or rename that session"
            raise ProtocolError(Kind.INVALID_PARAMS, message)


def run_rename(arguments: list[str]) -> int:
    """Give a session a name, or remove it."""
    parser = Parser(
        "sessions rename", "SESSION [NAME] [--json]", "Give a session a name, or remove its name.", RENAME_HELP
    )
    parser.add_argument("session", metavar="SESSION", help="name or id of the session")
    parser.add_argument("name", nargs="?", metavar="NAME", help="the new name; without it, the name is removed")
    add_host_options(parser)
    options = _parse_options(parser, arguments)
    return open_store.run_with_store(parser, options, partial(_rename, options))


async def _rename(options: argparse.Namespace, store: Store) -> int:
    old = await open_store.find_session(store, options.session)
    new = await store.rename(old.session_id, options.name)
    if options.json:
        print_json(msgspec.to_builtins(new))
    else:
        print(f"renamed {session_label(old)} to {session_label(new)}")
    return exit_codes.OK


def run_delete(arguments: list[str]) -> int:
    """Delete sessions."""
    parser = Parser("sessions delete", "SESSION... [--json]", "Delete sessions.", DELETE_HELP)
    parser.add_argument("sessions", nargs="+", metavar="SESSION", help="names or ids of sessions")
    add_host_options(parser)
    options = _parse_options(parser, arguments)
    return open_store.run_with_store(parser, options, partial(_delete, options))


async def _delete(options: argparse.Namespace, store: Store) -> int:
    summaries = [
        await open_store.find_session(store, name) for name in options.sessions
    ]  # find all of them before deleting any
    for summary in summaries:
        await store.delete(summary.session_id)
        if not options.json:
            print(
                f"deleted {session_label(summary)}: {format_count(summary.turns, 'turn')}, "
                f"{sanitize_line(summary.title or '')}"
            )
    if options.json:
        print_json({"deleted": [summary.session_id for summary in summaries]})
    return exit_codes.OK


def run_expire(arguments: list[str]) -> int:
    """Delete old sessions."""
    parser = Parser("sessions expire", "[--older AGE] [--keep N] [--size SIZE]", "Delete old sessions.", EXPIRE_HELP)
    parser.add_value("--older", "AGE", "delete sessions without changes for this long")
    parser.add_value("--keep", "N", "delete all but the newest N", type=int)
    parser.add_value("--size", "SIZE", "delete the oldest, until the others have this size")
    parser.add_flag("--named", "also delete sessions with a name")
    parser.add_flag("--dry-run", "only print what would be deleted")
    add_host_options(parser)
    options = _parse_options(parser, arguments)
    retention = Retention(
        seconds=parse_amount(parser, "--older", options.older, SECONDS_PER_UNIT),
        count=options.keep,
        bytes=None if options.size is None else int(parse_amount(parser, "--size", options.size, BYTES_PER_UNIT) or 0),
        spares_named=not options.named,
    )
    if options.older is options.keep is options.size is None:
        parser.error("give a limit: --older 90d, --keep 200 or --size 500M")
    if options.keep is not None and options.keep < 0:
        parser.error("--keep: must not be negative")
    return open_store.run_with_store(parser, options, partial(_expire, options, retention))


async def _expire(options: argparse.Namespace, retention: Retention, store: Store) -> int:
    known = await (store.deletable_sessions() if isinstance(store, HostStore) else store.sessions())
    if options.dry_run:
        expired = expired_ids(retention, known, timestamp())
    else:
        expired = await store.expire(retention, timestamp())
    if options.json:
        print_json({"expired": expired, "dryRun": options.dry_run})
        return exit_codes.OK
    for summary in known:
        if summary.session_id in expired:
            print(
                f"{session_label(summary, known)}  {format_age(summary.updated_at)}  "
                f"{sanitize_line(summary.title or '')}"
            )
    verb = "would be deleted" if options.dry_run else "deleted"
    print(f"{format_count(len(expired), 'session')} {verb}, {len(known) - len(expired)} kept")
    return exit_codes.OK


def _parse_options(parser: Parser, arguments: list[str]) -> argparse.Namespace:
    parser.add_flag("--json", "print JSON")
    return parser.read_options(arguments)


_ACTIONS = {"fork": run_fork, "rename": run_rename, "delete": run_delete, "expire": run_expire}
