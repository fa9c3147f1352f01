"""`dragoman audit`: show and export the log of permission decisions, and verify that it was not changed."""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections import deque
from collections.abc import Iterable
from typing import Any

from dragoman.cli import exit_codes
from dragoman.cli.connect.record import MIN_ID_PREFIX
from dragoman.cli.parser import Parser
from dragoman.cli.sessions.open_store import find_session
from dragoman.cli.subcommands import Action, CommandGroup
from dragoman.cli.ui.format import report
from dragoman.cli.ui.terminal import escape_json, sanitize_line
from dragoman.config.config_file import load_config
from dragoman.config.host_section import store_address
from dragoman.config.paths import user_paths
from dragoman.engine.loop import run as run_loop
from dragoman.errors import ConfigFault, Kind, ProtocolError
from dragoman.store.audit import AuditLog, Checkpoint
from dragoman.store.fleet import EngineOptions
from dragoman.store.sqlite import SqliteStore

# Entries that are shown without --last.
DEFAULT_LAST = 50

COLUMNS = (
    "seq", "time", "who", "what", "operation", "resource", "decision", "reason", "session", "workspace", "mode",
    "detail", "before", "hash",
)  # fmt: skip

EPILOG = """\
exit codes:
  0  done; verify: the log is intact
  1  verify: the log was changed; or it cannot be read
  2  wrong usage

examples:
  dragoman audit show --session roof --last 20
  dragoman audit verify --expect 1042:9f86d081884c7d65...
  dragoman audit verify --fleet --chain n1=n1.jsonl --chain n2=n2.jsonl
  dragoman audit export --format csv > audit.csv"""


def main(arguments: list[str]) -> int:
    """Parse the arguments, then run the action."""
    parser = CommandGroup(
        "audit",
        "[ACTION] [OPTIONS]",
        "Show, verify and export the log of permission decisions.",
        _ACTIONS,
        EPILOG,
        default="show",
    )
    parser.add_value("--file", "FILE", "use this log instead of your own")
    parser.add_value("--session", "SESSION", "show, export: only this session: its name, its id, or the beginning")
    parser.add_value("--last", "N", f"show: number of entries ({DEFAULT_LAST})", type=int, default=DEFAULT_LAST)
    parser.add_value("--expect", "N:HASH", "verify: require this entry; can be repeated", repeated=True)
    parser.add_flag("--fleet", "verify: the logs of all nodes of a fleet, against the anchors in its database")
    parser.add_value("--chain", "NODE=FILE", "verify --fleet: the log of a node; can be repeated", repeated=True)
    parser.add_value("--store", "URL", "verify --fleet: the database of the fleet (that of config.toml)", default="")
    parser.add_value("--secrets-key", "FILE", "verify --fleet: the key of the nodes (that of config.toml)", default="")
    parser.add_argument("--format", choices=("jsonl", "csv"), default="jsonl", help="export: format (jsonl)")
    parser.add_flag("--json", "show, verify: print JSON")
    options = parser.read_options(arguments)
    if options.last < 1:
        parser.error("--last: must be at least 1")
    options.expect = [_parse_mark(parser, text) for text in options.expect]
    # Without any decision yet there is no log, and that is fine; but a log given with --file must exist.
    options.path = user_paths().audit if options.file is None else options.file
    try:
        if options.file is not None:
            os.stat(options.path)
        return parser.run_action(options)
    except OSError as error:
        if error.filename is None:  # standard output, not the log
            raise
        raise ConfigFault([f"{options.path}: {error.strerror or error}"]) from None


def _selected_entries(options: argparse.Namespace) -> Iterable[dict[str, Any]]:
    entries = AuditLog(options.path).entries()
    wanted = options.session
    if wanted is None:
        return entries
    id = run_loop(_find_id(wanted))
    return (entry for entry in entries if _is_of_session(str(entry.get("session", "")), wanted, id))


def _is_of_session(session: str, wanted: str, id: str) -> bool:
    """Return whether this is the id of the wanted session, or begins with what `dragoman sessions` shows of it."""
    return session in (id, wanted) or (len(wanted) >= MIN_ID_PREFIX and session.startswith(wanted))


async def _find_id(name: str) -> str:
    """Return the id of a stored session; the name itself if there is none."""
    path = user_paths().sessions
    if not os.path.exists(path):
        return name
    store = await SqliteStore.open(path)
    try:
        return (await find_session(store, name)).session_id
    except ProtocolError as error:
        if error.kind != Kind.SESSION_NOT_FOUND:
            raise
        return name
    finally:
        await store.close()


def _reason(entry: dict[str, Any]) -> str:
    """Return the reason of an entry, with the member of a host who decided."""
    user = (entry.get("detail") or {}).get("user")
    return f"{entry['reason']}; user {user}" if user else str(entry["reason"])


def show_entries(_: Parser, options: argparse.Namespace) -> int:
    """Show the last entries, one line each."""
    entries = deque(_selected_entries(options), maxlen=options.last)
    lines = []
    for entry in entries:
        fields = [
            str(entry.get(name, "")) for name in ("seq", "time", "who", "what", "decision", "operation", "resource")
        ]
        reason = f"  ({_reason(entry)})" if entry.get("reason") else ""
        lines.append("  ".join(part for part in fields if part) + reason)
    nothing = "nothing was decided yet"
    if options.session is not None:
        nothing = f"nothing was decided in session {options.session}; `dragoman sessions` lists all sessions"
    return report(options, list(entries), lines or nothing)


def verify_log(parser: Parser, options: argparse.Namespace) -> int:
    """Verify the hash chain, and that the expected entries are there."""
    if options.fleet:
        return verify_fleet(parser, options)
    checked = AuditLog(options.path).verify(options.expect)
    mark = f"{checked.last.seq}:{checked.last.hash}"
    faults = [{"line": fault.line, "what": fault.what} for fault in checked.faults]
    if faults and not options.json:
        for fault in checked.faults:
            print(sanitize_line(f"{options.path}: line {fault.line}: {fault.what}"), file=sys.stderr)
    report(
        options,
        {"whole": not faults, "entries": checked.entries, "mark": mark, "faults": faults},
        [] if faults else f"{checked.entries} entries, intact; mark {mark}",
    )
    return exit_codes.FAILED if faults else exit_codes.OK


def verify_fleet(parser: Parser, options: argparse.Namespace) -> int:
    """Verify the logs of all nodes against the anchors in the database of the fleet."""
    from dragoman.host.fleet.audit_anchors import Anchor, anchor_key, read_anchors, verify_anchors
    from dragoman.store.sealing import read_key
    from dragoman.store.urls import open_engine

    paths = user_paths()
    section = load_config(paths.config_file).host
    address = store_address(options.store or section.store, paths)
    key_file = options.secrets_key or section.secrets_key
    if not address.is_shared or not key_file:
        raise ConfigFault(["verify --fleet needs --store, the database of the fleet, and --secrets-key, its key"])
    key = anchor_key(read_key(key_file))
    chains = [text.partition("=") for text in options.chain]
    if not all(node and file for node, _, file in chains):
        parser.error("--chain: name a node and its log, as in n1=/srv/logs/n1/audit.jsonl")
    logs = {node: AuditLog(file) for node, _, file in chains}

    async def read() -> list[Anchor]:
        engine = await open_engine(address, EngineOptions(trusts_engine=True))
        try:
            return await read_anchors(engine.records)
        finally:
            await engine.close()

    anchors = run_loop(read())
    faults = verify_anchors(anchors, logs, key)
    nodes = sorted({anchor.node for anchor in anchors} | set(logs))
    if not options.json:
        for node, found in faults.items():
            for fault in found:
                print(sanitize_line(f"{node}: {fault}"), file=sys.stderr)
    text = f"{len(nodes)} nodes, {len(anchors)} anchors, all logs intact" if nodes else "no node has an anchor yet"
    report(
        options,
        {"whole": not faults, "nodes": nodes, "anchors": len(anchors), "faults": faults},
        [] if faults else text,
    )
    return exit_codes.FAILED if faults else exit_codes.OK


def export_entries(_: Parser, options: argparse.Namespace) -> int:
    """Print all entries for other programs."""
    entries = _selected_entries(options)
    if options.format == "jsonl":
        for entry in entries:
            print(escape_json(json.dumps(entry, ensure_ascii=False).encode("utf-8", "surrogatepass")).decode())
        return exit_codes.OK
    import csv

    table = csv.DictWriter(sys.stdout, COLUMNS, extrasaction="ignore")
    table.writeheader()
    for entry in entries:
        table.writerow({name: _csv_cell(value) for name, value in entry.items()})
    return exit_codes.OK


def _csv_cell(value: Any) -> Any:
    """Return a value for a spreadsheet: text that looks like a formula is quoted."""
    text = json.dumps(value, ensure_ascii=False) if isinstance(value, dict) else value
    return f"'{text}" if isinstance(text, str) and text[:1] in ("=", "+", "-", "@", "\t", "\r") else text


def _parse_mark(parser: Parser, text: str) -> Checkpoint:
    seq, _, hash = text.partition(":")
    if not seq.isdigit() or len(hash) != 64:
        parser.error("--expect: a mark is a number, a colon and 64 digits, as printed by verify")
    return Checkpoint(int(seq), hash)


_ACTIONS = {
    "show": Action(show_entries, "show", "show the last entries: who, what, the decision, its reason (default)"),
    "verify": Action(
        verify_log, "verify", "verify the hash chain; print a mark of the last entry, to be kept elsewhere"
    ),
    "export": Action(export_entries, "export", "export all entries to standard output, as JSON lines or CSV"),
}
