"""`dragoman sessions fork`, `rename`, `delete` and `expire`."""

from __future__ import annotations

import argparse
import shlex
from functools import partial
from uuid import uuid4

import msgspec

from dragoman.cli import amounts, exit_codes
from dragoman.cli.host_client.store import HostStore
from dragoman.cli.parser import Parser, add_host_options
from dragoman.cli.sessions import open_store
from dragoman.cli.sessions.open_store import format_count, print_json, session_label
from dragoman.cli.ui.terminal import sanitize_line
from dragoman.errors import Kind, ProtocolError
from dragoman.store.contract import Retention, Store
from dragoman.store.session_log import timestamp
from dragoman.store.summary import check_new_name, expired_ids

# What stands after a number: seconds, and bytes.
FORK_HELP = f"""\
The agent does not know of the copy: who goes on with it has a new session there, which is told what was said.
`dragoman sessions show SESSION --json` has the numbers that --upto takes.

{open_store.EXIT_CODES_HELP}

examples:
  dragoman sessions fork roof loft
  dragoman sessions fork roof loft --upto 42"""

RENAME_HELP = f"""\
{open_store.EXIT_CODES_HELP}

examples:
  dragoman sessions rename 3f2a9c1e roof
  dragoman sessions rename roof              (it has no name any more)"""

DELETE_HELP = f"""\
It is gone for good: export it first if you are not sure. What the agent itself keeps is not touched.

{open_store.EXIT_CODES_HELP}

examples:
  dragoman sessions delete roof 3f2a9c1e
  dragoman sessions list --here --names | tr '\\n' '\\0' | xargs -0 dragoman sessions delete"""

EXPIRE_HELP = f"""\
What is beyond any of the limits goes, the oldest first; sessions that have a name stay, unless --named. Ages are in
hours, days, weeks or years (12h, 90d, 8w, 1y), sizes in bytes, K, M or G. In a host (--host) only those go in which
nobody is, and which you may delete.

{open_store.EXIT_CODES_HELP}

examples:
  dragoman sessions expire --older 90d --dry-run
  dragoman sessions expire --keep 200 --size 500M
  dragoman sessions expire --older 1y --named"""


def main(name: str, arguments: list[str]) -> int:
    """Read the arguments, then change it."""
    return _ACTIONS[name](arguments)


def run_fork(arguments: list[str]) -> int:
    """A copy that goes its own way."""
    parser = Parser("sessions fork", "SESSION [NAME] [--upto N] [--json]", "Make a copy of a session.", FORK_HELP)
    parser.add_argument("session", metavar="SESSION", help="its name or id")
    parser.add_argument("name", nargs="?", metavar="NAME", help="what the copy is called")
    parser.add_argument("--upto", metavar="N", type=int, help="only the entries up to this number")
    add_host_options(parser)
    options = _parse_options(parser, arguments)
    if options.upto is not None and options.upto < 1:
        parser.error("--upto: at least 1")
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
        where = store.host.flag if isinstance(store, HostStore) else ""
        way_on = f"dragoman run {where}--session {shlex.quote(name)} 'PROMPT'"
        print(f"{name} begins like {session_label(origin)}; go on with: {way_on}")
    return exit_codes.OK


async def _check_name_is_free(store: Store, name: str | None) -> None:
    """Say before anything is done that a name cannot be given."""
    if name is None:
        return
    check_new_name(name)
    for summary in await store.sessions():
        if summary.name == name:
            said = f"there is a session {name} already; choose another name, or rename that one"
            raise ProtocolError(Kind.INVALID_PARAMS, said)


def run_rename(arguments: list[str]) -> int:
    """Give it a name, or take it away."""
    parser = Parser(
        "sessions rename", "SESSION [NAME] [--json]", "Give a session a name, or take it away.", RENAME_HELP
    )
    parser.add_argument("session", metavar="SESSION", help="its name or id")
    parser.add_argument("name", nargs="?", metavar="NAME", help="the new one; without it, it has none any more")
    add_host_options(parser)
    options = _parse_options(parser, arguments)
    return open_store.run_with_store(parser, options, partial(_rename, options))


async def _rename(options: argparse.Namespace, store: Store) -> int:
    before = await open_store.find_session(store, options.session)
    after = await store.rename(before.session_id, options.name)
    if options.json:
        print_json(msgspec.to_builtins(after))
    else:
        print(f"{session_label(before)} is called {session_label(after)} now")
    return exit_codes.OK


def run_delete(arguments: list[str]) -> int:
    """Forget them."""
    parser = Parser("sessions delete", "SESSION... [--json]", "Forget sessions.", DELETE_HELP)
    parser.add_argument("sessions", nargs="+", metavar="SESSION", help="names or ids")
    add_host_options(parser)
    options = _parse_options(parser, arguments)
    return open_store.run_with_store(parser, options, partial(_delete, options))


async def _delete(options: argparse.Namespace, store: Store) -> int:
    found = [await open_store.find_session(store, name) for name in options.sessions]  # all of them, or none
    for summary in found:
        await store.delete(summary.session_id)
        if not options.json:
            print(
                f"deleted {session_label(summary)}: {format_count(summary.turns, 'turn')}, "
                f"{sanitize_line(summary.title or '')}"
            )
    if options.json:
        print_json({"deleted": [summary.session_id for summary in found]})
    return exit_codes.OK


def run_expire(arguments: list[str]) -> int:
    """Forget the old ones."""
    parser = Parser("sessions expire", "[--older AGE] [--keep N] [--size SIZE]", "Forget old sessions.", EXPIRE_HELP)
    parser.add_argument("--older", metavar="AGE", help="those that did not change for so long")
    parser.add_argument("--keep", metavar="N", type=int, help="all but the newest N")
    parser.add_argument("--size", metavar="SIZE", help="the oldest, until the others have this size")
    parser.add_argument("--named", action="store_true", help="also those that have a name")
    parser.add_argument("--dry-run", action="store_true", help="only say which")
    add_host_options(parser)
    options = _parse_options(parser, arguments)
    retention = Retention(
        seconds=amounts.parse_amount(parser, "--older", options.older, amounts.SECONDS_PER_UNIT),
        count=options.keep,
        bytes=None
        if options.size is None
        else int(amounts.parse_amount(parser, "--size", options.size, amounts.BYTES_PER_UNIT) or 0),
        spares_named=not options.named,
    )
    if options.older is options.keep is options.size is None:
        parser.error("say what is to go: --older 90d, --keep 200 or --size 500M")
    if options.keep is not None and options.keep < 0:
        parser.error("--keep: a number")
    return open_store.run_with_store(parser, options, partial(_expire, options, retention))


async def _expire(options: argparse.Namespace, retention: Retention, store: Store) -> int:
    known = await (store.deletable_sessions() if isinstance(store, HostStore) else store.sessions())
    if options.dry_run:
        gone = expired_ids(retention, known, timestamp())
    else:
        gone = await store.expire(retention, timestamp())
    if options.json:
        print_json({"expired": gone, "dryRun": options.dry_run})
        return exit_codes.OK
    for summary in known:
        if summary.session_id in gone:
            print(
                f"{session_label(summary, known)}  {open_store.format_age(summary.updated_at)}  "
                f"{sanitize_line(summary.title or '')}"
            )
    would = "would be" if options.dry_run else "are"
    print(f"{format_count(len(gone), 'session')} {would} gone, {len(known) - len(gone)} kept")
    return exit_codes.OK


def _parse_options(parser: Parser, arguments: list[str]) -> argparse.Namespace:
    parser.add_argument("--json", action="store_true", help="print JSON")
    options, rest = parser.read(arguments)
    if rest:
        parser.error("it takes no command")
    return options


_ACTIONS = {"fork": run_fork, "rename": run_rename, "delete": run_delete, "expire": run_expire}
