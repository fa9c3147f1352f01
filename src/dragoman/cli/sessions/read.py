"""`dragoman sessions list`, `show` and `search`: looking at what is kept, and changing nothing."""

from __future__ import annotations

import argparse
import os
import sys
from functools import partial
from itertools import groupby

import msgspec

from dragoman.cli import exit_codes
from dragoman.cli.connect import json_output
from dragoman.cli.parser import Parser, add_host_options
from dragoman.cli.sessions import open_store
from dragoman.cli.sessions.open_store import format_age, format_count, print_json, session_label
from dragoman.cli.ui.terminal import OutputStream, clip, sanitize, sanitize_line
from dragoman.cli.ui.transcript_view import TranscriptView
from dragoman.errors import Kind, ProtocolError
from dragoman.schema.base import encode
from dragoman.store.contract import Entry, Hit, Store, Summary

# Passages that a search shows.
DEFAULT_LIMIT = 20

LIST_HELP = f"""\
The first column is what --session takes. With --here, only sessions of this folder.

{open_store.EXIT_CODES_HELP}

examples:
  dragoman sessions
  dragoman sessions list --here --last 5
  dragoman sessions list --json | jq -r '.[] | select(.turns > 10).sessionId'"""

SHOW_HELP = f"""\
Text and tool calls; --thoughts also shows what the agent thought. --json prints the log itself, an entry a line, as
`dragoman run --json` does (docs/store.md). Of a damaged log everything is shown that is intact; the exit code is 1.

{open_store.EXIT_CODES_HELP}

examples:
  dragoman sessions show roof | less
  dragoman sessions show 3f2a9c1e --thoughts
  dragoman sessions show roof --json | jq -c 'select(.kind == "decided").body'"""

SEARCH_HELP = f"""\
All words must be in one passage: what one speaker said in one go, a tool call, a plan. "A phrase" and begin* are
understood; case and accents do not count.

{open_store.EXIT_CODES_HELP}

examples:
  dragoman sessions search parse error
  dragoman sessions search '"parse error"' --session roof
  dragoman sessions search 'migrat*' --limit 5 --json"""


def main(name: str, arguments: list[str]) -> int:
    """Read the arguments, then look."""
    return _ACTIONS[name](arguments)


# --- list -------------------------------------------------------------------------------------------------------


def run_list(arguments: list[str]) -> int:
    """What is kept."""
    parser = Parser("sessions list", "[--here] [--last N] [--json]", "What is kept, the newest first.", LIST_HELP)
    parser.add_argument("--here", action="store_true", help="only sessions of this folder")
    parser.add_argument("--all", action="store_true", help="also those that were put away (archived)")
    parser.add_argument("--last", metavar="N", type=int, help="only so many")
    parser.add_argument("--names", action="store_true", help="only what --session takes")
    parser.add_argument("--json", action="store_true", help="print JSON")
    add_host_options(parser)
    options, rest = parser.read(arguments)
    if rest or (options.last is not None and options.last < 1):
        parser.error("it takes no command" if rest else "--last: at least 1")
    return open_store.run_with_store(parser, options, partial(_list, options))


async def _list(options: argparse.Namespace, store: Store) -> int:
    known = await store.sessions()
    here = os.path.realpath(os.getcwd())
    shown = [
        each
        for each in known
        if (options.all or not each.archived)
        and (not options.here or (each.cwd and os.path.realpath(each.cwd) == here))
    ][: options.last]
    if options.json:
        print_json([msgspec.to_builtins(summary) for summary in shown])
    elif options.names:
        for summary in shown:
            print(session_label(summary, known))
    elif not shown:
        print("nothing is kept" + (" of this folder" if options.here and known else " yet"))
    else:
        show_table(OutputStream(sys.stdout), shown, known)
    return exit_codes.OK


def show_table(output: OutputStream, selected: list[Summary], all_sessions: list[Summary]) -> None:
    """Sessions as lines: names stand out, what matters less is dimmed."""
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
        aside = f"  {when:{widths[1]}}  {turns:{widths[2]}}  {agent:{widths[3]}}  "
        title = sanitize_line(each.title or "")
        if output.is_tty:
            title = clip(title, max(output.width - 1 - widths[0] - len(aside), 10))
        style = "bold" if each.name else "cyan"
        output.write_pieces([(f"{name:{widths[0]}}", style), (aside, "dim"), (f"{title}\n", "")])


# --- show -------------------------------------------------------------------------------------------------------


def run_show(arguments: list[str]) -> int:
    """One session."""
    parser = Parser("sessions show", "SESSION [--thoughts] [--json]", "What was said and done in a session.", SHOW_HELP)
    parser.add_argument("session", metavar="SESSION", help="its name or id")
    parser.add_argument("--thoughts", action="store_true", help="also what the agent thought")
    parser.add_argument("--json", action="store_true", help="print the log, an entry a line")
    add_host_options(parser)
    options, rest = parser.read(arguments)
    if rest:
        parser.error("it takes no command")
    return open_store.run_with_store(parser, options, partial(_show, parser, options))


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
            told = json_output.entry_to_json(summary.session_id, msgspec.json.decode(line, type=Entry))
            sys.stdout.buffer.write(encode(told) + b"\n")
        sys.stdout.flush()
    else:
        TranscriptView(OutputStream(sys.stdout), thoughts=options.thoughts).show_session(summary, lines)
    if damage:
        print(f"{parser.prog}: {sanitize(damage)}", file=sys.stderr)
    return exit_codes.FAILED if damage else exit_codes.OK


# --- search -----------------------------------------------------------------------------------------------------


def run_search(arguments: list[str]) -> int:
    """Words in all of them."""
    parser = Parser(
        "sessions search", "WORDS [--session SESSION] [OPTIONS]", "Find words in what was said.", SEARCH_HELP
    )
    parser.add_argument("words", nargs="+", metavar="WORDS", help="what to look for")
    parser.add_argument("--session", metavar="SESSION", help="only in this one")
    parser.add_argument(
        "--limit", metavar="N", type=int, default=DEFAULT_LIMIT, help=f"so many passages ({DEFAULT_LIMIT})"
    )
    parser.add_argument("--json", action="store_true", help="print JSON")
    add_host_options(parser)
    options, rest = parser.read(arguments)
    options.words += rest
    if options.limit < 1:
        parser.error("--limit: at least 1")
    return open_store.run_with_store(parser, options, partial(_search, parser, options))


async def _search(parser: Parser, options: argparse.Namespace, store: Store) -> int:
    within = None if options.session is None else (await open_store.find_session(store, options.session)).session_id
    hits = await store.search(" ".join(options.words), limit=options.limit, session_id=within)
    if options.json:
        print_json([msgspec.to_builtins(hit) for hit in hits])
    else:
        known = await store.sessions()
        _show_passages(OutputStream(sys.stdout), hits, known)
        if not hits:
            print(f"{parser.prog}: nothing was found", file=sys.stderr)
    return exit_codes.OK if hits else exit_codes.FAILED


def _show_passages(output: OutputStream, hits: list[Hit], all_sessions: list[Summary]) -> None:
    """Passages below the sessions they are in; what was looked for stands out."""
    order = {id: place for place, id in enumerate(dict.fromkeys(hit.session_id for hit in hits))}
    of = {summary.session_id: summary for summary in all_sessions}
    for id, found in groupby(sorted(hits, key=lambda hit: order[hit.session_id]), key=lambda hit: hit.session_id):
        summary = of[id]
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


_ACTIONS = {"list": run_list, "show": run_show, "search": run_search}
