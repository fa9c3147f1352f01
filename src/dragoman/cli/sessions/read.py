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
from dragoman.cli.parser import Parser, offer_host
from dragoman.cli.sessions import open_store
from dragoman.cli.sessions.open_store import ago, called, counted, put
from dragoman.cli.ui.terminal import Sheet, clip, single, visible
from dragoman.cli.ui.transcript_view import Telling
from dragoman.errors import Kind, ProtocolError
from dragoman.schema.base import encode
from dragoman.store.contract import Entry, Hit, Store, Summary

# Passages that a search shows.
SHOWN = 20

LIST = f"""\
The first column is what --session takes. With --here, only sessions of this folder.

{open_store.CODES}

examples:
  dragoman sessions
  dragoman sessions list --here --last 5
  dragoman sessions list --json | jq -r '.[] | select(.turns > 10).sessionId'"""

SHOW = f"""\
Text and tool calls; --thoughts also shows what the agent thought. --json prints the log itself, an entry a line, as
`dragoman run --json` does (docs/store.md). Of a damaged log everything is shown that is intact; the exit code is 1.

{open_store.CODES}

examples:
  dragoman sessions show roof | less
  dragoman sessions show 3f2a9c1e --thoughts
  dragoman sessions show roof --json | jq -c 'select(.kind == "decided").body'"""

SEARCH = f"""\
All words must be in one passage: what one speaker said in one go, a tool call, a plan. "A phrase" and begin* are
understood; case and accents do not count.

{open_store.CODES}

examples:
  dragoman sessions search parse error
  dragoman sessions search '"parse error"' --session roof
  dragoman sessions search 'migrat*' --limit 5 --json"""


def main(name: str, arguments: list[str]) -> int:
    """Read the arguments, then look."""
    return _ACTIONS[name](arguments)


# --- list -------------------------------------------------------------------------------------------------------


def listing(arguments: list[str]) -> int:
    """What is kept."""
    parser = Parser("sessions list", "[--here] [--last N] [--json]", "What is kept, the newest first.", LIST)
    parser.add_argument("--here", action="store_true", help="only sessions of this folder")
    parser.add_argument("--all", action="store_true", help="also those that were put away (archived)")
    parser.add_argument("--last", metavar="N", type=int, help="only so many")
    parser.add_argument("--names", action="store_true", help="only what --session takes")
    parser.add_argument("--json", action="store_true", help="print JSON")
    offer_host(parser)
    options, rest = parser.read(arguments)
    if rest or (options.last is not None and options.last < 1):
        parser.error("it takes no command" if rest else "--last: at least 1")
    return open_store.work(parser, options, partial(_list, options))


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
        put([msgspec.to_builtins(summary) for summary in shown])
    elif options.names:
        for summary in shown:
            print(called(summary, known))
    elif not shown:
        print("nothing is kept" + (" of this folder" if options.here and known else " yet"))
    else:
        table(Sheet(sys.stdout), shown, known)
    return exit_codes.OK


def table(sheet: Sheet, shown: list[Summary], known: list[Summary]) -> None:
    """Sessions as lines: names stand out, what matters less is dimmed."""
    rows = [
        (called(each, known), ago(each.updated_at), counted(each.turns, "turn"), single(each.agent or ""))
        for each in shown
    ]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for (name, when, turns, agent), each in zip(rows, shown, strict=True):
        aside = f"  {when:{widths[1]}}  {turns:{widths[2]}}  {agent:{widths[3]}}  "
        title = single(each.title or "")
        if sheet.is_tty:
            title = clip(title, max(sheet.width - 1 - widths[0] - len(aside), 10))
        style = "bold" if each.name else "cyan"
        sheet.pieces([(f"{name:{widths[0]}}", style), (aside, "dim"), (f"{title}\n", "")])


# --- show -------------------------------------------------------------------------------------------------------


def showing(arguments: list[str]) -> int:
    """One session."""
    parser = Parser("sessions show", "SESSION [--thoughts] [--json]", "What was said and done in a session.", SHOW)
    parser.add_argument("session", metavar="SESSION", help="its name or id")
    parser.add_argument("--thoughts", action="store_true", help="also what the agent thought")
    parser.add_argument("--json", action="store_true", help="print the log, an entry a line")
    offer_host(parser)
    options, rest = parser.read(arguments)
    if rest:
        parser.error("it takes no command")
    return open_store.work(parser, options, partial(_show, parser, options))


async def _show(parser: Parser, options: argparse.Namespace, store: Store) -> int:
    summary = await open_store.meant(store, options.session)
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
            told = json_output.told(summary.session_id, msgspec.json.decode(line, type=Entry))
            sys.stdout.buffer.write(encode(told) + b"\n")
        sys.stdout.flush()
    else:
        Telling(Sheet(sys.stdout), thoughts=options.thoughts).tell(summary, lines)
    if damage:
        print(f"{parser.prog}: {visible(damage)}", file=sys.stderr)
    return exit_codes.FAILED if damage else exit_codes.OK


# --- search -----------------------------------------------------------------------------------------------------


def searching(arguments: list[str]) -> int:
    """Words in all of them."""
    parser = Parser("sessions search", "WORDS [--session SESSION] [OPTIONS]", "Find words in what was said.", SEARCH)
    parser.add_argument("words", nargs="+", metavar="WORDS", help="what to look for")
    parser.add_argument("--session", metavar="SESSION", help="only in this one")
    parser.add_argument("--limit", metavar="N", type=int, default=SHOWN, help=f"so many passages ({SHOWN})")
    parser.add_argument("--json", action="store_true", help="print JSON")
    offer_host(parser)
    options, rest = parser.read(arguments)
    options.words += rest
    if options.limit < 1:
        parser.error("--limit: at least 1")
    return open_store.work(parser, options, partial(_search, parser, options))


async def _search(parser: Parser, options: argparse.Namespace, store: Store) -> int:
    within = None if options.session is None else (await open_store.meant(store, options.session)).session_id
    hits = await store.search(" ".join(options.words), limit=options.limit, session_id=within)
    if options.json:
        put([msgspec.to_builtins(hit) for hit in hits])
    else:
        known = await store.sessions()
        _passages(Sheet(sys.stdout), hits, known)
        if not hits:
            print(f"{parser.prog}: nothing was found", file=sys.stderr)
    return exit_codes.OK if hits else exit_codes.FAILED


def _passages(sheet: Sheet, hits: list[Hit], known: list[Summary]) -> None:
    """Passages below the sessions they are in; what was looked for stands out."""
    order = {id: place for place, id in enumerate(dict.fromkeys(hit.session_id for hit in hits))}
    of = {summary.session_id: summary for summary in known}
    for id, found in groupby(sorted(hits, key=lambda hit: order[hit.session_id]), key=lambda hit: hit.session_id):
        summary = of[id]
        sheet.gap()
        sheet.line(f"{called(summary, known)}, {ago(summary.updated_at)}: {single(summary.title or '')}", "bold")
        for hit in found:
            pieces = [(f"{hit.seq:>6} {hit.role}: ", "dim")]
            end = 0
            for low, high in hit.marks:
                pieces += [(hit.snippet[end:low], ""), (hit.snippet[low:high], "yellow")]
                end = high
            pieces.append((hit.snippet[end:], ""))
            sheet.pieces([*((single(text), style) for text, style in pieces), ("\n", "")])


_ACTIONS = {"list": listing, "show": showing, "search": searching}
