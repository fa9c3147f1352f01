"""`dragoman audit`: show what agents wanted and what was decided, check that nobody changed it, hand it on."""

from __future__ import annotations

import json
import os
import sys
from collections import deque
from collections.abc import Iterable
from typing import Any

from dragoman.cli.parser import Parser
from dragoman.cli.ui.terminal import sanitize_line
from dragoman.config.paths import user_paths
from dragoman.errors import ConfigFault
from dragoman.store.audit import AuditLog, Checkpoint

EXIT_TAMPERED = 1

# As many as are looked at; --last shows others. Entries.
DEFAULT_LAST = 50

COLUMNS = (
    "seq", "time", "who", "what", "operation", "resource", "decision", "reason", "session", "workspace", "mode",
    "detail", "before", "hash",
)  # fmt: skip

EPILOG = """\
  show       the last entries: who, what, and why it was decided so
  verify     check every seal; prints a mark of the last entry, to be kept elsewhere
  export     all entries, as JSON lines or CSV, to standard output

exit codes:
  0  done; verify: the log is whole
  1  verify: something was changed, removed or moved; or the log cannot be read
  2  wrong usage

examples:
  dragoman audit show --session sess_1 --last 20
  dragoman audit verify --expect 1042:9f86d081884c7d65...
  dragoman audit export --format csv > audit.csv"""


def main(arguments: list[str]) -> int:
    """Read the arguments, then do the one thing."""
    parser = Parser(
        "audit",
        "show|verify|export [OPTIONS]",
        "What agents wanted, what was decided and why, in a sealed log.",
        EPILOG,
    )
    parser.add_argument("action", choices=("show", "verify", "export"), help="what to do")
    parser.add_argument("--file", metavar="FILE", help="another log than the user's own")
    parser.add_argument("--session", metavar="ID", help="show, export: only this session")
    parser.add_argument(
        "--last", metavar="N", type=int, default=DEFAULT_LAST, help=f"show: so many entries ({DEFAULT_LAST})"
    )
    parser.add_argument("--expect", metavar="N:HASH", action="append", default=[], help="verify: this entry is there")
    parser.add_argument("--format", choices=("jsonl", "csv"), default="jsonl", help="export: as what (jsonl)")
    parser.add_argument("--json", action="store_true", help="show, verify: print JSON")
    options, rest = parser.read(arguments)
    if rest:
        parser.error(f"there is nothing to say after --: {' '.join(rest)}")
    if options.last < 1:
        parser.error("--last: at least 1")
    marks = [_parse_mark(parser, text) for text in options.expect]
    # Before anything was asked for there is no log, and that is in order; one that is named has to be there.
    path = user_paths().audit if options.file is None else options.file
    try:
        if options.file is not None:
            os.stat(path)
        return _run_action(AuditLog(path), marks, options)
    except BrokenPipeError:
        raise
    except OSError as error:
        raise ConfigFault([f"{path}: {error.strerror or error}"]) from None


def _run_action(audit: AuditLog, marks: list[Checkpoint], options: Any) -> int:
    if options.action == "verify":
        return verify_log(audit, marks, options.json)
    entries = (entry for entry in audit.entries() if options.session in (None, entry.get("session", "")))
    if options.action == "show":
        return show_entries(deque(entries, maxlen=options.last), options.json)
    return export_entries(entries, options.format)


def show_entries(entries: Iterable[dict[str, Any]], as_json: bool) -> int:
    """The entries, one line each."""
    if as_json:
        print(json.dumps(list(entries), indent=1))
        return 0
    for entry in entries:
        told = [
            str(entry.get(name, "")) for name in ("seq", "time", "who", "what", "decision", "operation", "resource")
        ]
        reason = f"  ({entry['reason']})" if entry.get("reason") else ""
        print(sanitize_line("  ".join(part for part in told if part) + reason))
    return 0


def verify_log(audit: AuditLog, expected: list[Checkpoint], as_json: bool) -> int:
    """Whether the log is as it was written."""
    checked = audit.verify(expected)
    mark = f"{checked.last.seq}:{checked.last.hash}"
    if as_json:
        faults = [{"line": fault.line, "what": fault.what} for fault in checked.faults]
        print(json.dumps({"whole": not faults, "entries": checked.entries, "mark": mark, "faults": faults}, indent=1))
    elif checked.faults:
        for fault in checked.faults:
            print(sanitize_line(f"{audit.path}: line {fault.line}: {fault.what}"), file=sys.stderr)
    else:
        print(f"{checked.entries} entries, whole; mark {mark}")
    return EXIT_TAMPERED if checked.faults else 0


def export_entries(entries: Iterable[dict[str, Any]], output_format: str) -> int:
    """All entries for other programs."""
    if output_format == "jsonl":
        for entry in entries:
            print(json.dumps(entry, ensure_ascii=False))
        return 0
    import csv

    table = csv.DictWriter(sys.stdout, COLUMNS, extrasaction="ignore")
    table.writeheader()
    for entry in entries:
        table.writerow({name: _csv_cell(value) for name, value in entry.items()})
    return 0


def _csv_cell(value: Any) -> Any:
    """A value as a spreadsheet may take it: what looks like a formula is only text."""
    text = json.dumps(value, ensure_ascii=False) if isinstance(value, dict) else value
    return f"'{text}" if isinstance(text, str) and text[:1] in ("=", "+", "-", "@", "\t", "\r") else text


def _parse_mark(parser: Parser, text: str) -> Checkpoint:
    seq, _, hash = text.partition(":")
    if not seq.isdigit() or len(hash) != 64:
        parser.error("--expect: a mark is a number, a colon and 64 digits, as verify prints it")
    return Checkpoint(int(seq), hash)
