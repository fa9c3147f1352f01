"""`dragoman agents search`: find agents by words and by what they can do. Starts and installs nothing."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Iterable
from typing import Any

from dragoman.cli.agents.options import EXIT_CODES_HELP, RegistryParser, run_reported
from dragoman.cli.parser import Parser, unknown_word
from dragoman.cli.registry.registries import Registries
from dragoman.cli.ui.format import format_age, format_count, print_json
from dragoman.cli.ui.terminal import OutputStream, clip
from dragoman.config.agent_choice import LOGINS, AgentFacts, capability_names, find_capability, short_name
from dragoman.registry.index import snapshot
from dragoman.registry.index.entry import KINDS, Entry
from dragoman.registry.index.search import Match, Query, search
from dragoman.registry.index.sources import Catalog
from dragoman.registry.platforms import PLATFORMS, this_machine

# How many ids are suggested when nothing matches, and how similar (of difflib): clude is claude, but not code.
MAX_SUGGESTIONS = 3
SIMILARITY = 0.7

HELP = f"""\
Lists the agents of the registry; --can and --login keep those that are not
known to lack something. What an agent can do is known from its own start on
this machine, else from the registry's daily test; "?" marks what nobody knows.
Nothing is started or installed.

capabilities:
  {{capabilities}}

logins: {", ".join(LOGINS)}

{EXIT_CODES_HELP}

examples:
  dragoman agents search
  dragoman agents search google
  dragoman agents search --can load,image,mcp-http --login terminal
  dragoman agents search --with uvx --json | jq -r '.agents[].id'"""


def run(name: str, arguments: list[str]) -> int:
    """Parse the arguments, then search."""
    import textwrap

    known = textwrap.fill(", ".join(capability_names()), 76, subsequent_indent="  ", break_on_hyphens=False)
    parser = RegistryParser(name, "[WORD...] [OPTIONS]", "Find agents.", HELP.replace("{capabilities}", known))
    parser.add_argument("words", nargs="*", metavar="WORD", help="all of these words must occur")
    parser.add_value("--can", "NAME,...", "only agents that may have these capabilities", repeated=True)
    parser.add_value("--login", "NAME,...", "only agents with one of these logins", repeated=True)
    parser.add_argument("--with", dest="kind", choices=KINDS, default="", help="only this kind of distribution")
    parser.add_value("--platform", "PLATFORM", f"one of: {', '.join(PLATFORMS)}", choices=PLATFORMS, default="")
    parser.add_flag("--all", "also show what cannot run here, and why")
    options = parser.read_options(arguments)
    query = Query(
        words=options.words,
        needs=parse_needs(parser, options.can),
        logins=_parse_logins(parser, options.login),
        kind=options.kind,
        platform=options.platform,
        shows_all=options.all,
    )
    return run_reported(parser, options, lambda: _search(options, query))


def _search(options: argparse.Namespace, query: Query) -> int:
    registries = Registries(options)
    catalog = registries.catalog
    facts = known_facts(registries)
    installed = list(registries.installed_ids)
    matches = search(catalog.all(), query, this_machine(), facts, installed)
    if options.json:
        print_json({"sources": sources_to_json(catalog), "agents": [_match_to_json(match) for match in matches]})
    else:
        _print_matches(matches, query, installed, [found.entry.id for found in catalog.all()])
        print_sources(catalog)
    return 0 if matches else 1


def parse_needs(parser: Parser, given: Iterable[str]) -> list[str]:
    """Return the paths of the capabilities that were named; exits when one is unknown."""
    words = [word.strip() for text in given for word in text.split(",") if word.strip()]
    paths = []
    for word in words:
        path = find_capability(word)
        if path is None:
            parser.error(unknown_word("capability", word, capability_names()))
        paths.append(path)
    return paths


def _parse_logins(parser: Parser, given: Iterable[str]) -> list[str]:
    words = [word.strip() for text in given for word in text.split(",") if word.strip()]
    for word in words:
        if word not in LOGINS:
            parser.error(unknown_word("login", word, LOGINS))
    return words


def known_facts(registries: Registries) -> Callable[[Entry], AgentFacts | None]:
    """Return a function that gives what is known of an entry: its own words here, else the registry's matrix."""
    own = {
        each.record.id: registries.introductions.find(name, registries.config.agents[name].argv)
        for name, each in registries.installed.items()
    }

    def facts_of(entry: Entry) -> AgentFacts | None:
        return own.get(entry.id) or snapshot.matrix_facts(entry.id)

    return facts_of


def close_ids(words: Iterable[str], known_ids: Iterable[str]) -> list[str]:
    """Return the ids that the words may mean: similar ones, or with a similar part, as claude of claude-acp."""
    from difflib import get_close_matches

    ids_by_part: dict[str, list[str]] = {}
    for id in known_ids:
        for part in {id, *id.split("-")}:
            ids_by_part.setdefault(part, []).append(id)
    parts = [part for word in words for part in get_close_matches(word.lower(), ids_by_part, cutoff=SIMILARITY)]
    return list(dict.fromkeys(id for part in parts for id in ids_by_part[part]))[:MAX_SUGGESTIONS]


def _print_matches(matches: list[Match], query: Query, installed: list[str], known_ids: list[str]) -> None:
    output = OutputStream(sys.stdout)
    if not matches:
        close = close_ids(query.words, known_ids)
        hint = f"; did you mean {' or '.join(close)}?" if close else ""
        output.write_line(f"none of {format_count(len(known_ids), 'agent')} matches{hint}", "yellow")
        return
    ids = max(len(match.entry.id) for match in matches)
    versions = min(12, max(len(match.entry.version) for match in matches))
    for match in matches:
        entry = match.entry
        mark = ("✓", "green") if entry.id in installed else ("!", "red") if match.obstacle else (" ", "")
        about = match.obstacle or entry.description
        needs = _needs_text(match)
        room = output.width - ids - versions - len(needs) - 19 if output.is_tty else 200
        output.write_pieces(
            [
                (f"{mark[0]} ", mark[1]),
                (f"{entry.id:{ids}}", "bold"),
                (f"  {entry.version:{versions}}  ", "dim"),
                (f"{'/'.join(entry.kinds):10}  ", "cyan"),
                (f"{clip(about, max(room, 12))}", "red" if match.obstacle else ""),
                (needs, "yellow" if match.candidate.unknown else "green"),
                ("\n", ""),
            ]
        )


def _needs_text(match: Match) -> str:
    shown = [*(f"{name} ✓" for name in match.candidate.meets), *(f"{name} ?" for name in match.candidate.unknown)]
    return f"  {', '.join(shown)}" if shown else ""


def print_sources(catalog: Catalog) -> None:
    """Print of when the indexes are, on stderr where the list is piped."""
    output = OutputStream(sys.stdout if sys.stdout.isatty() else sys.stderr)
    for source in catalog.sources:
        what = "the list that ships with Dragoman" if source.is_snapshot else source.url
        of = source.date if source.is_snapshot else format_age(source.date)
        output.write_line(f"{what}: as of {of}{f' ({source.note})' if source.note else ''}", "dim")
        if source.index.skipped:
            output.write_line(
                f"{format_count(len(source.index.skipped), 'entry')} skipped: "
                + "; ".join(f"{id}: {why}" for id, why in source.index.skipped),
                "yellow",
            )
    for problem in catalog.problems:
        output.write_line(problem, "yellow")


def sources_to_json(catalog: Catalog) -> list[dict[str, Any]]:
    """Return the sources for --json."""
    return [
        {
            "url": source.url,
            "date": source.date,
            "snapshot": source.is_snapshot,
            "note": source.note or None,
            "skipped": [{"id": id, "reason": why} for id, why in source.index.skipped],
        }
        for source in catalog.sources
    ]


def facts_to_json(facts: AgentFacts | None) -> dict[str, Any] | None:
    """Return what is known of an agent for --json."""
    if facts is None:
        return None
    return {
        "source": facts.source,
        "date": facts.date,
        "version": facts.version,
        "can": {short_name(path): known for path, known in facts.can.items()},
        "logins": None if facts.logins is None else list(facts.logins),
    }


def _match_to_json(match: Match) -> dict[str, Any]:
    entry = match.entry
    return {
        "id": entry.id,
        "name": entry.name,
        "version": entry.version,
        "description": entry.description,
        "license": entry.license or None,
        "kinds": list(entry.kinds),
        "installed": match.candidate.is_installed,
        "obstacle": match.obstacle or None,
        "meets": list(match.candidate.meets),
        "unknown": list(match.candidate.unknown),
        "known": facts_to_json(match.facts),
        "source": match.found.source.url,
    }
