"""`dragoman sessions list`, `show` and `search`."""

from __future__ import annotations

import argparse
import os
import sys
from functools import partial
from itertools import groupby

import msgspec

from dragoman.cli import exit_codes
from dragoman.cli.connect import json_output
from dragoman.cli.parser import Parser
from dragoman.cli.sessions import open_store
from dragoman.cli.sessions.open_store import session_label
from dragoman.cli.ui.format import format_age, format_count, print_json, report
from dragoman.cli.ui.terminal import OutputStream, clip, escape_json, sanitize_line
from dragoman.cli.ui.transcript_view import TranscriptView
from dragoman.errors import Kind, ProtocolError
from dragoman.schema.base import encode
from dragoman.store.contract import Entry, Hit, Store, Summary

# Search hits shown without --limit.
DEFAULT_LIMIT = 20

LIST_HELP = f"""\
The first column is what --session takes. With --here, list only sessions of
this folder.

{open_store.EXIT_CODES_HELP}

examples:
  dragoman sessions
  dragoman sessions list --here --last 5
  dragoman sessions list --json | jq -r '.[] | select(.turns > 10).sessionId'"""

SHOW_HELP = f"""\
Shows messages and tool calls; --thoughts also shows the agent's thoughts.
--json prints the log, one entry per line, like `dragoman run --json`
(docs/store.md). For a damaged log, it shows everything that is intact; the exit
code is 1.

{open_store.EXIT_CODES_HELP}

examples:
  dragoman sessions show roof | less
  dragoman sessions show 3f2a9c1e --thoughts
  dragoman sessions show roof --json | jq -c 'select(.kind == "decided").body'"""

SEARCH_HELP = f"""\
All words must occur in one message, tool call or plan. "A phrase" and prefix*
are supported; case and accents are ignored.

{open_store.EXIT_CODES_HELP}

examples:
  dragoman sessions search parse error
  dragoman sessions search '"parse error"' --session roof
  dragoman sessions search 'migrat*' --limit 5 --json"""


# --- list -------------------------------------------------------------------------------------------------------


def run_list(name: str, arguments: list[str]) -> int:
    """List the stored sessions."""
    parser = Parser(name, "[--here] [--last N] [--json]", "List stored sessions, the newest first.", LIST_HELP)
    parser.add_flag("--here", "only sessions of this folder")
    parser.add_flag("--all", "also archived sessions")
    parser.add_value("--last", "N", "at most this many", type=int)
    parser.add_flag("--names", "print only what --session takes")
    options = open_store.parse_options(parser, arguments)
    if options.last is not None and options.last < 1:
        parser.error("--last: must be at least 1")
    return open_store.run_with_store(parser, options, _list)


async def _list(options: argparse.Namespace, store: Store) -> int:
    all_sessions = await store.sessions()
    here = os.path.realpath(os.getcwd())
    shown = [
        each
        for each in all_sessions
        if (options.all or not each.archived)
        and (not options.here or (each.cwd and os.path.realpath(each.cwd) == here))
    ][: options.last]
    lines: list[str] = []
    if options.names:
        lines = [session_label(summary, all_sessions) for summary in shown]
    elif not shown:
        lines = ["no sessions are stored" + (" for this folder" if options.here and all_sessions else " yet")]
    elif not options.json:
        show_table(OutputStream(sys.stdout), shown, all_sessions)
    return report(options, [msgspec.to_builtins(summary) for summary in shown], lines)


def show_table(output: OutputStream, selected: list[Summary], all_sessions: list[Summary]) -> None:
    """Print sessions as lines: names stand out, details are dimmed."""
    rows = [
        (
            session_label(each, all_sessions),
            format_age(each.updated_at),
            format_count(each.turns, "turn"),
            sanitize_line(each.agent or ""),
        )
        for each in selected
    ]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for (name, when, turns, agent), each in zip(rows, selected, strict=True):
        details = f"  {when:{widths[1]}}  {turns:{widths[2]}}  {agent:{widths[3]}}  "
        title = sanitize_line(each.title or "")
        if output.is_tty:
            title = clip(title, max(output.width - 1 - widths[0] - len(details), 10))
        style = "bold" if each.name else "cyan"
        output.write_pieces([(f"{name:{widths[0]}}", style), (details, "dim"), (f"{title}\n", "")])


# --- show -------------------------------------------------------------------------------------------------------


def run_show(name: str, arguments: list[str]) -> int:
    """Show one session."""
    parser = Parser(name, "SESSION [--thoughts] [--json]", "Show the messages and tool calls of a session.", SHOW_HELP)
    open_store.add_session_argument(parser)
    parser.add_flag("--thoughts", "also show the agent's thoughts")
    options = open_store.parse_options(parser, arguments, "print the log, one entry per line")
    return open_store.run_with_store(parser, options, partial(_show, parser))


async def _show(parser: Parser, options: argparse.Namespace, store: Store) -> int:
    summary = await open_store.find_session(store, options.session)
    damage = ""
    try:
        lines = await store.lines(summary.session_id)
    except ProtocolError as error:
        if error.kind != Kind.SESSION_CORRUPTED:
            raise
        damage = error.message
        lines = await store.lines(summary.session_id, intact=True)
    if options.json:
        for line in lines:
            entry = json_output.entry_to_json(summary.session_id, msgspec.json.decode(line, type=Entry))
            sys.stdout.buffer.write(escape_json(encode(entry)) + b"\n")
        sys.stdout.flush()
    else:
        TranscriptView(OutputStream(sys.stdout), thoughts=options.thoughts).show_session(summary, lines)
    return parser.fail(damage, is_json_done=True) if damage else exit_codes.OK


# --- search -----------------------------------------------------------------------------------------------------


def run_search(name: str, arguments: list[str]) -> int:
    """Search in all sessions."""
    parser = Parser(name, "WORDS [--session SESSION] [OPTIONS]", "Search in stored sessions.", SEARCH_HELP)
    parser.add_argument("query", nargs="+", metavar="WORDS", help="words to search for")
    parser.add_value("--session", "SESSION", "search only in this session")
    parser.add_value("--limit", "N", f"at most this many hits ({DEFAULT_LIMIT})", type=int, default=DEFAULT_LIMIT)
    parser.add_flag("--json", "print JSON")
    open_store.add_store_options(parser)
    options, rest = parser.read(arguments)
    options.query += rest
    if options.limit < 1:
        parser.error("--limit: must be at least 1")
    return open_store.run_with_store(parser, options, partial(_search, parser))


async def _search(parser: Parser, options: argparse.Namespace, store: Store) -> int:
    session_id = None if options.session is None else (await open_store.find_session(store, options.session)).session_id
    hits = await store.search(" ".join(options.query), limit=options.limit, session_id=session_id)
    if options.json:
        print_json([msgspec.to_builtins(hit) for hit in hits])
    else:
        known = await store.sessions()
        _show_passages(OutputStream(sys.stdout), hits, known)
        if not hits:
            parser.fail("nothing was found", is_json_done=True)
    return exit_codes.OK if hits else exit_codes.FAILED


def _show_passages(output: OutputStream, hits: list[Hit], all_sessions: list[Summary]) -> None:
    """Print hits below their sessions; matches stand out."""
    order = {id: index for index, id in enumerate(dict.fromkeys(hit.session_id for hit in hits))}
    summaries = {summary.session_id: summary for summary in all_sessions}
    for id, found in groupby(sorted(hits, key=lambda hit: order[hit.session_id]), key=lambda hit: hit.session_id):
        summary = summaries[id]
        output.ensure_blank_line()
        output.write_line(
            f"{session_label(summary, all_sessions)}, {format_age(summary.updated_at)}: "
            f"{sanitize_line(summary.title or '')}",
            "bold",
        )
        for hit in found:
            pieces = [(f"{hit.seq:>6} {hit.role}: ", "dim")]
            end = 0
            for low, high in hit.marks:
                pieces += [(hit.snippet[end:low], ""), (hit.snippet[low:high], "yellow")]
                end = high
            pieces.append((hit.snippet[end:], ""))
            output.write_pieces([*((sanitize_line(text), style) for text, style in pieces), ("\n", "")])
