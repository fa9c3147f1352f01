"""`dragoman sessions repair`: repair a damaged store, in place or in a new file."""

from __future__ import annotations

import argparse
import os
from typing import NamedTuple

import msgspec

from dragoman.cli import exit_codes
from dragoman.cli.parser import Parser, add_host_options, reject_host_options
from dragoman.cli.sessions import open_store
from dragoman.cli.ui.format import format_count, print_json
from dragoman.cli.ui.terminal import sanitize_line
from dragoman.config.paths import user_paths
from dragoman.engine.loop import run
from dragoman.errors import Kind, ProtocolError, StoreFault
from dragoman.store.contract import LogReport

EPILOG = f"""\
Checks the checksum of every entry. Unreadable entries are replaced by an entry
that says so; all others keep their numbers. If SQLite cannot read the file, a
new file is created from what is intact, and the old file is kept next to it.
Without SESSION, all sessions are checked. An intact store is not changed.

{open_store.EXIT_CODES_HELP}

examples:
  dragoman sessions repair
  dragoman sessions repair roof
  dragoman sessions repair --json | jq '.sessions[] | select(.lost != [])'"""


class RepairResult(NamedTuple):
    """The sessions that were checked, and the path of the old file, if there is a new one."""

    reports: list[LogReport]
    old_path: str | None = None


def main(name: str, arguments: list[str]) -> int:
    """Parse the arguments, then repair."""
    parser = Parser(f"sessions {name}", "[SESSION] [--json]", "Repair a damaged store.", EPILOG)
    parser.add_argument("session", nargs="?", metavar="SESSION", help="check only this session")
    parser.add_flag("--json", "print JSON")
    add_host_options(parser)
    options = parser.read_options(arguments)
    reject_host_options(parser, options, "stop the host, then run: dragoman sessions repair")
    path = user_paths().sessions
    if not os.path.exists(path):
        print("no sessions are stored yet") if not options.json else print_json({"sessions": [], "old": None})
        return exit_codes.OK
    try:
        result = repair_store(path, options.session)
    except ProtocolError as error:
        return open_store.report_failure(parser, options, error)
    return report_result(options, result)


def repair_store(path: str, name: str | None) -> RepairResult:
    """Repair in place what can be repaired; else create a new file."""
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
    """Print what was kept and what was lost."""
    if options.json:
        print_json({"sessions": [msgspec.to_builtins(report) for report in result.reports], "old": result.old_path})
        return exit_codes.OK
    damaged = [report for report in result.reports if not report.is_intact]
    for report in damaged:
        lost = ", ".join(str(low) if low == high else f"{low}-{high}" for low, high in report.lost)
        kept = sum(high - low + 1 for low, high in report.kept)
        print(f"{sanitize_line(report.session_id)}: {kept} entries kept; lost: {lost}")
    if result.old_path is not None:
        print(f"created a new file; the damaged one is {sanitize_line(result.old_path)}")
    intact = len(result.reports) - len(damaged)
    print(f"{format_count(intact, 'session')} intact" + (f", {len(damaged)} repaired" if damaged else ""))
    return exit_codes.OK
