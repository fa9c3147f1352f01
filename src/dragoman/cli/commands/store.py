"""`dragoman store`: copy all sessions of a host to another store, back them up, and verify every entry."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from dragoman.cli import exit_codes
from dragoman.cli.messages import error_kind
from dragoman.cli.parser import Parser
from dragoman.cli.subcommands import Action, CommandGroup
from dragoman.cli.ui.format import print_json
from dragoman.cli.ui.progress import show_progress
from dragoman.cli.ui.terminal import OutputStream, sanitize_line
from dragoman.config.config_file import load_config
from dragoman.config.host_section import host_database_path, store_address
from dragoman.config.paths import user_paths
from dragoman.engine.loop import run as run_loop
from dragoman.errors import ConfigFault, ProtocolError, StoreFault
from dragoman.host.auth.database import lock_store
from dragoman.host.auth.directory import Directory, open_directory
from dragoman.ids import now
from dragoman.store.blocks import describe_ranges
from dragoman.store.contract import LogReport
from dragoman.store.copy import CopiedSession, copy_sessions, list_all
from dragoman.store.fleet import Engine, EngineOptions
from dragoman.store.sealing import read_key
from dragoman.store.urls import StoreAddress, open_engine

EPILOG = """\
Stores are addresses as for `dragoman serve --store`: FILE, sqlite:FILE,
postgresql://HOST/DATABASE. Without one, verify and backup use the store of your
host.

copy adds every session of FROM to TO, with its name, state and credentials, and
all tokens and roles, and compares the sum of each log. Stop the hosts of both
first. Interrupted anywhere, it can be repeated: it adds what is missing. A
session that TO has with other entries is reported and left alone. When all went
well, a file FROM is renamed to FROM.moved (--keep: it stays).

backup copies the store of a host, which may run, to DIR/sessions.db, and writes
DIR/manifest.json with the number and the sum of the entries of each session. To
restore, copy DIR/sessions.db to an empty store.

verify reads every entry of every session and names the numbers that are lost.

Credentials in a database are sealed: they need the key of --secrets-key.

exit codes:
   0  done; verify: everything is intact
   1  some sessions were not copied, or entries are lost
   2  wrong usage
  10  a store cannot be used

examples:
  dragoman store copy sessions.db postgresql://db.local/dragoman --secrets-key k
  dragoman store backup postgresql://db.local/dragoman /backup/today
  dragoman store verify"""


# The end of the name of a file that was copied.
MOVED = ".moved"


class OpenStore(NamedTuple):
    """A store with the users of its host."""

    address: StoreAddress
    engine: Engine
    directory: Directory


def main(arguments: list[str]) -> int:
    """Parse the arguments, then run the action."""
    parser = CommandGroup(
        "store",
        "ACTION [ADDRESS...] [OPTIONS]",
        "Copy, back up and verify the sessions of a host.",
        _ACTIONS,
        EPILOG,
    )
    parser.add_argument("addresses", nargs="*", metavar="ADDRESS", help="the stores")
    parser.add_flag("--keep", "copy: do not rename a file that was copied")
    parser.add_flag("--repair", "verify: replace lost entries, so that the rest can be read again")
    parser.add_value("--secrets-key", "FILE", "key of the credentials in a database", default="")
    parser.add_flag("--trust-engine", "use a database whose settings could lose entries")
    parser.add_flag("--json", "print JSON")
    try:
        return parser.run(arguments)
    except ConfigFault as fault:
        return parser.fail(str(fault), exit_codes.USAGE)
    except ProtocolError as error:
        code = exit_codes.NO_STORE if isinstance(error, StoreFault) else exit_codes.FAILED
        return parser.fail(error.message, code, kind=error_kind(error))


# --- actions --------------------------------------------------------------------------------------------------


def copy(parser: Parser, options: argparse.Namespace) -> int:
    """Copy a store to another one."""
    if len(options.addresses) != 2:
        parser.error("copy needs two stores, as in: copy sessions.db postgresql://db.local/dragoman")
    return run_loop(_copy(parser, options, *options.addresses))


async def _copy(parser: Parser, options: argparse.Namespace, source_text: str, target_text: str) -> int:
    here = user_paths()
    source_address, target_address = store_address(source_text, here), store_address(target_text, here)
    if source_address == target_address:
        parser.error("the two stores are the same")
    if source_address.path and not os.path.exists(source_address.path) and os.path.isfile(source_address.path + MOVED):
        # Killed after everything was copied, and repeated.
        source_address = source_address._replace(path=source_address.path + MOVED)
    _require_file(parser, source_address)
    async with AsyncExitStack() as stack:
        for address in (source_address, target_address):
            if address.path:
                stack.enter_context(lock_store(address.path))
        source = await stack.enter_async_context(_open(source_address, options))
        target = await stack.enter_async_context(_open(target_address, options))
        for store in (source, target):
            await _refuse_running_fleet(store)
        copied = await _copy_store(source, target)
    moved = ""
    if source_address.path and not options.keep and not any(each.error for each in copied):
        moved = _move_away(source_address.path)
    return _report_copy(options, copied, f"the file is {moved} now" if moved else "")


def backup(parser: Parser, options: argparse.Namespace) -> int:
    """Copy a store, which may be in use, to a file in a folder."""
    if len(options.addresses) not in (1, 2):
        parser.error("backup needs a folder, as in: backup postgresql://db.local/dragoman /backup/today")
    return run_loop(_backup(parser, options))


async def _backup(parser: Parser, options: argparse.Namespace) -> int:
    *sources, folder = options.addresses
    here = user_paths()
    source_address = store_address(sources[0] if sources else load_config(here.config_file).host.store, here)
    _require_file(parser, source_address)
    path = os.path.join(os.path.abspath(os.path.expanduser(folder)), "sessions.db")
    async with AsyncExitStack() as stack:
        source = await stack.enter_async_context(_open(source_address, options))
        target = await stack.enter_async_context(_open(store_address(path, here), options))
        copied = await _copy_store(source, target)
    manifest = {"dragoman": "backup", "version": 1, "of": str(source_address), "at": now(), "sessions": copied}
    data = msgspec.json.format(msgspec.json.encode(manifest), indent=2)
    Path(path).with_name("manifest.json").write_bytes(data)
    return _report_copy(options, copied, f"in {path}")


def verify(parser: Parser, options: argparse.Namespace) -> int:
    """Read every entry of a store."""
    if len(options.addresses) > 1:
        parser.error("verify takes one store")
    return run_loop(_verify(parser, options))


async def _verify(parser: Parser, options: argparse.Namespace) -> int:
    here = user_paths()
    configured = options.addresses[0] if options.addresses else load_config(here.config_file).host.store
    address = store_address(configured, here)
    _require_file(parser, address)
    reports: list[LogReport] = []
    async with _open(address, options) as opened:
        store = opened.engine.store
        async with _progress(lambda: f"verified {len(reports):,} sessions"):
            async for summary in list_all(store):
                check = store.repair if options.repair else store.verify
                reports.append(await check(summary.session_id))
        disagreements = await opened.engine.disagreements()
    damaged = [each for each in reports if not each.is_intact]
    if options.json:
        found = {"sessions": len(reports), "damaged": msgspec.to_builtins(damaged)}
        print_json({**found, "disagreements": disagreements})
    else:
        for each in damaged:
            lost = describe_ranges(each.lost)
            print(
                f"{sanitize_line(each.session_id)}: entries {lost} {'were replaced' if options.repair else 'are lost'}"
            )
        for line in disagreements:
            print(line)
        print(f"{len(reports):,} sessions, {len(damaged):,} of them damaged")
    return exit_codes.FAILED if damaged or disagreements else exit_codes.OK


_ACTIONS = {
    "copy": Action(copy, "copy FROM TO", "copy all sessions, tokens and roles to another store"),
    "backup": Action(backup, "backup [FROM] DIR", "copy a store that may be in use to a file in DIR"),
    "verify": Action(verify, "verify [STORE]", "read every entry and name what is lost"),
}


# --- parts ----------------------------------------------------------------------------------------------------


@asynccontextmanager
async def _open(address: StoreAddress, options: argparse.Namespace) -> AsyncIterator[OpenStore]:
    key = read_key(options.secrets_key) if options.secrets_key else None
    engine = await open_engine(address, EngineOptions(secrets_key=key, trusts_engine=options.trust_engine))
    try:
        directory = open_directory(engine, host_database_path(address, user_paths()), "")
        try:
            yield OpenStore(address, engine, directory)
        finally:
            directory.close()
    finally:
        await engine.close()


def _require_file(parser: Parser, address: StoreAddress) -> None:
    if address.path and not os.path.isfile(address.path):
        parser.error(f"there is no file {address.path}")


async def _refuse_running_fleet(store: OpenStore) -> None:
    alive = [status.info.node for status in await store.engine.nodes.list_nodes() if status.is_alive]
    if alive:
        raise StoreFault("locked", f"{store.address} is in use by {', '.join(alive)}; stop these hosts first")


async def _copy_store(source: OpenStore, target: OpenStore) -> list[CopiedSession]:
    copied: list[CopiedSession] = []
    async with _progress(lambda: f"copied {len(copied):,} sessions"):
        async for each in copy_sessions(source.engine.store, target.engine.store):
            copied.append(each)
            if not each.error:
                await _copy_roles(source.directory, target.directory, each.session_id)
        for stored in await source.directory.tokens.stored_tokens():
            await target.directory.tokens.restore_token(stored)
    return copied


async def _copy_roles(source: Directory, target: Directory, session: str) -> None:
    for user, role in (await source.session_roles.members_of(session)).items():
        await target.session_roles.set_role(session, user, role)


def _move_away(path: str) -> str:
    """Rename a file that was copied, with those next to it, so that no host starts on it by mistake."""
    if path.endswith(MOVED) or os.path.exists(f"{path}-wal"):  # done before; or another program still has it open
        return path
    for end in (".credentials", ".host", ""):
        if os.path.exists(path + end):
            os.replace(path + end, f"{path}{MOVED}{end}")
    return path + MOVED


def _progress(describe: Callable[[], str]) -> Any:
    return show_progress(OutputStream(sys.stderr), lambda _: describe())


def _report_copy(options: argparse.Namespace, copied: list[CopiedSession], what: str) -> int:
    failed = [each for each in copied if each.error]
    if options.json:
        counts = {"copied": len(copied) - len(failed), "failed": len(failed)}
        print_json({**counts, "sessions": msgspec.to_builtins(copied)})
    else:
        for each in failed:
            print(f"{sanitize_line(each.session_id)}: {sanitize_line(each.error)}", file=sys.stderr)
        added = sum(each.added for each in copied)
        done = f"{len(copied) - len(failed):,} sessions, {added:,} entries added, all sums are equal"
        print(f"{done}; {what}" if what else done)
    return exit_codes.FAILED if failed else exit_codes.OK
