"""`dragoman sessions repair`: what is damaged made readable again, in place or in a new file."""

from __future__ import annotations

import argparse
import os
from typing import NamedTuple

import msgspec

from dragoman.cli import exit_codes
from dragoman.cli.parser import Parser, offer_host, refuse_host
from dragoman.cli.sessions import open_store
from dragoman.cli.sessions.open_store import put
from dragoman.cli.ui.terminal import single
from dragoman.config.paths import places
from dragoman.engine.loop import run
from dragoman.errors import Kind, ProtocolError, StoreFault
from dragoman.store.contract import Report

EPILOG = f"""\
Every entry is held against its checksum. What cannot be read any more is replaced by an entry that says so; all others
keep their numbers. A file that SQLite itself cannot read is made anew from what is intact; the old one is kept beside
it. Without SESSION, all sessions are looked at. A store that is in order is not touched.

{open_store.CODES}

examples:
  dragoman sessions repair
  dragoman sessions repair roof
  dragoman sessions repair --json | jq '.sessions[] | select(.lost != [])'"""


class Mended(NamedTuple):
    """What came of it: the sessions that were looked at, and where the old file is, if there is a new one."""

    reports: list[Report]
    old: str | None = None


def main(name: str, arguments: list[str]) -> int:
    """Read the arguments, then mend."""
    parser = Parser(f"sessions {name}", "[SESSION] [--json]", "Make a damaged store readable again.", EPILOG)
    parser.add_argument("session", nargs="?", metavar="SESSION", help="only this one")
    parser.add_argument("--json", action="store_true", help="print JSON")
    offer_host(parser)
    options, rest = parser.read(arguments)
    refuse_host(parser, options, "end the host, and say dragoman sessions repair")
    if rest:
        parser.error("it takes no command")
    path = places().sessions
    if not os.path.exists(path):
        print("nothing is kept yet") if not options.json else put({"sessions": [], "old": None})
        return exit_codes.OK
    try:
        mended = mend(path, options.session)
    except ProtocolError as error:
        return open_store.failed(parser, options, error)
    return told(options, mended)


def mend(path: str, name: str | None) -> Mended:
    """Mend what can be mended in place; else make the file anew."""
    from dragoman.store.sqlite import rebuild

    try:
        return run(_in_place(path, name))
    except ProtocolError as error:
        is_damaged = error.why == "damaged" if isinstance(error, StoreFault) else error.kind == Kind.SESSION_CORRUPTED
        if not is_damaged:
            raise
    reports, old = rebuild(path)
    return Mended(reports, old)


async def _in_place(path: str, name: str | None) -> Mended:
    from dragoman.store.sqlite import SqliteStore

    store = await SqliteStore.open(path)
    try:
        known = await store.sessions() if name is None else [await open_store.meant(store, name)]
        reports = []
        for summary in known:
            report = await store.verify(summary.session_id)
            reports.append(report if report.is_whole else await store.repair(summary.session_id))
        if name is None:
            await store.check_file()  # the list and the index, too
        return Mended(reports)
    finally:
        await store.close()


def told(options: argparse.Namespace, mended: Mended) -> int:
    """What was kept and what was lost."""
    if options.json:
        put({"sessions": [msgspec.to_builtins(report) for report in mended.reports], "old": mended.old})
        return exit_codes.OK
    hurt = [report for report in mended.reports if not report.is_whole]
    for report in hurt:
        lost = ", ".join(str(low) if low == high else f"{low}-{high}" for low, high in report.lost)
        kept = sum(high - low + 1 for low, high in report.kept)
        print(f"{single(report.session_id)}: {kept} entries are kept; lost: {lost}")
    if mended.old is not None:
        print(f"the file was made anew; the damaged one is {single(mended.old)}")
    whole = len(mended.reports) - len(hurt)
    print(f"{open_store.counted(whole, 'session')} in order" + (f", {len(hurt)} repaired" if hurt else ""))
    return exit_codes.OK
