"""`dragoman sessions repair`: what is damaged made readable again, in place or in a new file."""

from __future__ import annotations

import argparse
import os
from typing import NamedTuple

import msgspec

from dragoman.cli import exit_codes
from dragoman.cli.parser import Parser, add_host_options, reject_host_options
from dragoman.cli.sessions import open_store
from dragoman.cli.sessions.open_store import print_json
from dragoman.cli.ui.terminal import sanitize_line
from dragoman.config.paths import user_paths
from dragoman.engine.loop import run
from dragoman.errors import Kind, ProtocolError, StoreFault
from dragoman.store.contract import LogReport

EPILOG = f"""\
Every entry is held against its checksum. What cannot be read any more is replaced by an entry that says so; all others
keep their numbers. A file that SQLite itself cannot read is made anew from what is intact; the old one is kept beside
it. Without SESSION, all sessions are looked at. A store that is in order is not touched.

{open_store.EXIT_CODES_HELP}

examples:
  dragoman sessions repair
  dragoman sessions repair roof
  dragoman sessions repair --json | jq '.sessions[] | select(.lost != [])'"""


class RepairResult(NamedTuple):
    """What came of it: the sessions that were looked at, and where the old file is, if there is a new one."""

    reports: list[LogReport]
    old_path: str | None = None


def main(name: str, arguments: list[str]) -> int:
    """Read the arguments, then mend."""
    parser = Parser(f"sessions {name}", "[SESSION] [--json]", "Make a damaged store readable again.", EPILOG)
    parser.add_argument("session", nargs="?", metavar="SESSION", help="only this one")
    parser.add_argument("--json", action="store_true", help="print JSON")
    add_host_options(parser)
    options, rest = parser.read(arguments)
    reject_host_options(parser, options, "end the host, and say dragoman sessions repair")
    if rest:
        parser.error("it takes no command")
    path = user_paths().sessions
    if not os.path.exists(path):
        print("nothing is kept yet") if not options.json else print_json({"sessions": [], "old": None})
        return exit_codes.OK
    try:
        mended = repair_store(path, options.session)
    except ProtocolError as error:
        return open_store.report_failure(parser, options, error)
    return report_result(options, mended)


def repair_store(path: str, name: str | None) -> RepairResult:
    """Mend what can be mended in place; else make the file anew."""
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
            report = await store.verify(summary.session_id)
            reports.append(report if report.is_intact else await store.repair(summary.session_id))
        if name is None:
            await store.check_file()  # the list and the index, too
        return RepairResult(reports)
    finally:
        await store.close()


def report_result(options: argparse.Namespace, result: RepairResult) -> int:
    """What was kept and what was lost."""
    if options.json:
        print_json({"sessions": [msgspec.to_builtins(report) for report in result.reports], "old": result.old_path})
        return exit_codes.OK
    hurt = [report for report in result.reports if not report.is_intact]
    for report in hurt:
        lost = ", ".join(str(low) if low == high else f"{low}-{high}" for low, high in report.lost)
        kept = sum(high - low + 1 for low, high in report.kept)
        print(f"{sanitize_line(report.session_id)}: {kept} entries are kept; lost: {lost}")
    if result.old_path is not None:
        print(f"the file was made anew; the damaged one is {sanitize_line(result.old_path)}")
    whole = len(result.reports) - len(hurt)
    print(f"{open_store.format_count(whole, 'session')} in order" + (f", {len(hurt)} repaired" if hurt else ""))
    return exit_codes.OK
