"""`dragoman sessions fork`, `rename`, `delete` and `expire`."""

from __future__ import annotations

import argparse
import shlex
from functools import partial
from uuid import uuid4

import msgspec

from dragoman.cli import amounts, exit_codes
from dragoman.cli.host_client.store import Borrowed
from dragoman.cli.parser import Parser, offer_host
from dragoman.cli.sessions import open_store
from dragoman.cli.sessions.open_store import called, counted, put
from dragoman.cli.ui.terminal import single
from dragoman.errors import Kind, ProtocolError
from dragoman.store.contract import Retention, Store
from dragoman.store.session_log import now
from dragoman.store.summary import given_name, outlived

# What stands after a number: seconds, and bytes.
FORK = f"""\
The agent does not know of the copy: who goes on with it has a new session there, which is told what was said.
`dragoman sessions show SESSION --json` has the numbers that --upto takes.

{open_store.CODES}

examples:
  dragoman sessions fork roof loft
  dragoman sessions fork roof loft --upto 42"""

RENAME = f"""\
{open_store.CODES}

examples:
  dragoman sessions rename 3f2a9c1e roof
  dragoman sessions rename roof              (it has no name any more)"""

DELETE = f"""\
It is gone for good: export it first if you are not sure. What the agent itself keeps is not touched.

{open_store.CODES}

examples:
  dragoman sessions delete roof 3f2a9c1e
  dragoman sessions list --here --names | tr '\\n' '\\0' | xargs -0 dragoman sessions delete"""

EXPIRE = f"""\
What is beyond any of the limits goes, the oldest first; sessions that have a name stay, unless --named. Ages are in
hours, days, weeks or years (12h, 90d, 8w, 1y), sizes in bytes, K, M or G. In a host (--host) only those go in which
nobody is, and which you may delete.

{open_store.CODES}

examples:
  dragoman sessions expire --older 90d --dry-run
  dragoman sessions expire --keep 200 --size 500M
  dragoman sessions expire --older 1y --named"""


def main(name: str, arguments: list[str]) -> int:
    """Read the arguments, then change it."""
    return _ACTIONS[name](arguments)


def forking(arguments: list[str]) -> int:
    """A copy that goes its own way."""
    parser = Parser("sessions fork", "SESSION [NAME] [--upto N] [--json]", "Make a copy of a session.", FORK)
    parser.add_argument("session", metavar="SESSION", help="its name or id")
    parser.add_argument("name", nargs="?", metavar="NAME", help="what the copy is called")
    parser.add_argument("--upto", metavar="N", type=int, help="only the entries up to this number")
    offer_host(parser)
    options = _read(parser, arguments)
    if options.upto is not None and options.upto < 1:
        parser.error("--upto: at least 1")
    return open_store.work(parser, options, partial(_fork, options))


async def _fork(options: argparse.Namespace, store: Store) -> int:
    origin = await open_store.meant(store, options.session)
    await _free(store, options.name)
    if isinstance(store, Borrowed):
        copy = await store.fork(origin.session_id, "", options.upto, options.name)
    else:
        copy = await store.fork(origin.session_id, str(uuid4()), options.upto)
        if options.name is not None:
            copy = await store.rename(copy.session_id, options.name)
    if options.json:
        put(msgspec.to_builtins(copy))
    else:
        name = called(copy)
        where = store.host.flag if isinstance(store, Borrowed) else ""
        way_on = f"dragoman run {where}--session {shlex.quote(name)} 'PROMPT'"
        print(f"{name} begins like {called(origin)}; go on with: {way_on}")
    return exit_codes.OK


async def _free(store: Store, name: str | None) -> None:
    """Say before anything is done that a name cannot be given."""
    if name is None:
        return
    given_name(name)
    for summary in await store.sessions():
        if summary.name == name:
            said = f"there is a session {name} already; choose another name, or rename that one"
            raise ProtocolError(Kind.INVALID_PARAMS, said)


def renaming(arguments: list[str]) -> int:
    """Give it a name, or take it away."""
    parser = Parser("sessions rename", "SESSION [NAME] [--json]", "Give a session a name, or take it away.", RENAME)
    parser.add_argument("session", metavar="SESSION", help="its name or id")
    parser.add_argument("name", nargs="?", metavar="NAME", help="the new one; without it, it has none any more")
    offer_host(parser)
    options = _read(parser, arguments)
    return open_store.work(parser, options, partial(_rename, options))


async def _rename(options: argparse.Namespace, store: Store) -> int:
    before = await open_store.meant(store, options.session)
    after = await store.rename(before.session_id, options.name)
    if options.json:
        put(msgspec.to_builtins(after))
    else:
        print(f"{called(before)} is called {called(after)} now")
    return exit_codes.OK


def deleting(arguments: list[str]) -> int:
    """Forget them."""
    parser = Parser("sessions delete", "SESSION... [--json]", "Forget sessions.", DELETE)
    parser.add_argument("sessions", nargs="+", metavar="SESSION", help="names or ids")
    offer_host(parser)
    options = _read(parser, arguments)
    return open_store.work(parser, options, partial(_delete, options))


async def _delete(options: argparse.Namespace, store: Store) -> int:
    found = [await open_store.meant(store, name) for name in options.sessions]  # all of them, or none
    for summary in found:
        await store.delete(summary.session_id)
        if not options.json:
            print(f"deleted {called(summary)}: {counted(summary.turns, 'turn')}, {single(summary.title or '')}")
    if options.json:
        put({"deleted": [summary.session_id for summary in found]})
    return exit_codes.OK


def expiring(arguments: list[str]) -> int:
    """Forget the old ones."""
    parser = Parser("sessions expire", "[--older AGE] [--keep N] [--size SIZE]", "Forget old sessions.", EXPIRE)
    parser.add_argument("--older", metavar="AGE", help="those that did not change for so long")
    parser.add_argument("--keep", metavar="N", type=int, help="all but the newest N")
    parser.add_argument("--size", metavar="SIZE", help="the oldest, until the others have this size")
    parser.add_argument("--named", action="store_true", help="also those that have a name")
    parser.add_argument("--dry-run", action="store_true", help="only say which")
    offer_host(parser)
    options = _read(parser, arguments)
    retention = Retention(
        seconds=amounts.scaled(parser, "--older", options.older, amounts.SECONDS),
        count=options.keep,
        bytes=None if options.size is None else int(amounts.scaled(parser, "--size", options.size, amounts.BYTES) or 0),
        spares_named=not options.named,
    )
    if options.older is options.keep is options.size is None:
        parser.error("say what is to go: --older 90d, --keep 200 or --size 500M")
    if options.keep is not None and options.keep < 0:
        parser.error("--keep: a number")
    return open_store.work(parser, options, partial(_expire, options, retention))


async def _expire(options: argparse.Namespace, retention: Retention, store: Store) -> int:
    known = await (store.deletable() if isinstance(store, Borrowed) else store.sessions())
    if options.dry_run:
        gone = outlived(retention, known, now())
    else:
        gone = await store.expire(retention, now())
    if options.json:
        put({"expired": gone, "dryRun": options.dry_run})
        return exit_codes.OK
    for summary in known:
        if summary.session_id in gone:
            print(f"{called(summary, known)}  {open_store.ago(summary.updated_at)}  {single(summary.title or '')}")
    would = "would be" if options.dry_run else "are"
    print(f"{counted(len(gone), 'session')} {would} gone, {len(known) - len(gone)} kept")
    return exit_codes.OK


def _read(parser: Parser, arguments: list[str]) -> argparse.Namespace:
    parser.add_argument("--json", action="store_true", help="print JSON")
    options, rest = parser.read(arguments)
    if rest:
        parser.error("it takes no command")
    return options


_ACTIONS = {"fork": forking, "rename": renaming, "delete": deleting, "expire": expiring}
