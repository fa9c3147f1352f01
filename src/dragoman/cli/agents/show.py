"""`dragoman agents show`: all that is known of one agent before it is installed. Starts and fetches nothing of it."""

from __future__ import annotations

import argparse
import shlex
import sys
from typing import Any

import msgspec

from dragoman.cli.agents.options import EXIT_CODES_HELP, RegistryParser, run_reported
from dragoman.cli.agents.search import facts_to_json, known_facts, print_sources
from dragoman.cli.registry.registries import Registries
from dragoman.cli.ui.format import format_age, print_json
from dragoman.cli.ui.terminal import OutputStream
from dragoman.config.agent_choice import AgentFacts, short_name
from dragoman.registry.index import snapshot
from dragoman.registry.index.entry import BINARY, NPX, UVX, Entry
from dragoman.registry.index.lookup import require_entry
from dragoman.registry.index.search import obstacle_of
from dragoman.registry.platforms import this_machine

HELP = f"""\
Prints what the agent is, its license, each download with its hash and who
vouches for it, the variables that it sets, and what it can do. To see also the
packages and scripts of an npm or PyPI agent: dragoman agents install ID
--dry-run.

{EXIT_CODES_HELP}

examples:
  dragoman agents show goose
  dragoman agents show claude --json"""


def run(name: str, arguments: list[str]) -> int:
    """Parse the arguments, then show the entry."""
    parser = RegistryParser(name, "ID [OPTIONS]", "Show one agent of the registry.", HELP)
    parser.add_argument("id", metavar="ID", help="an id of `dragoman agents search`")
    options = parser.read_options(arguments)
    return run_reported(parser, options, lambda: _show(options))


def _show(options: argparse.Namespace) -> int:
    registries = Registries(options)
    found = require_entry(registries.catalog, options.id)
    facts = known_facts(registries)(found.entry)
    hidden = [source.url for source in registries.catalog.hidden(found.entry.id)]
    if options.json:
        print_json(_entry_to_json(found.entry, facts, found.source.url, hidden))
        return 0
    output = OutputStream(sys.stdout)
    for label, text, style in _rows(found.entry, facts):
        output.write_pieces([(f"{label:13}", "dim"), (f"{text}\n", style)])
    for url in hidden:
        output.write_line(f"also in {url}, hidden by {found.source.url}", "yellow")
    installed = {each.record.id: name for name, each in registries.installed.items()}
    if name := installed.get(found.entry.id):
        output.write_line(f"installed as {name}; start it with: dragoman chat {name}", "green")
    else:
        output.write_line(f"install it with: dragoman agents install {found.entry.id}", "bold")
    print_sources(registries.catalog)
    return 0


def _rows(entry: Entry, facts: AgentFacts | None) -> list[tuple[str, str, str]]:
    machine = this_machine()
    rows = [("", f"{entry.name}  {entry.version}", "bold"), ("", entry.description, "")]
    rows += [
        (label, text, "")
        for label, text in (
            ("authors", ", ".join(entry.authors)),
            ("license", " ".join(filter(None, (entry.license, entry.license_url)))),
            ("repository", entry.repository),
            ("website", entry.website),
        )
        if text
    ]
    for package in entry.packages.values():
        index = {NPX: "npm", UVX: "PyPI"}[package.kind]
        rows.append((package.kind, f"{package.spec}  (hashes by {index}, when it is installed)", "cyan"))
        rows.append(("  command", shlex.join([package.cmd or f"<{package.name}>", *package.args]), ""))
        rows += [("  variable", f"{name}={value}", "") for name, value in package.env.items()]
    for platform, target in entry.binaries.items():
        here = " (this machine)" if platform == machine.platform else ""
        rows.append((BINARY, f"{platform}{here}", "cyan"))
        rows.append(("  download", target.archive, ""))
        rows.append(
            ("  sha256", f"{target.sha256}  by the registry", "")
            if target.sha256
            else ("  sha256", "none: you are asked to trust the first download", "yellow")
        )
        rows.append(("  command", shlex.join([f"./{target.cmd}", *target.args]), ""))
        rows += [("  variable", f"{name}={value}", "") for name, value in target.env.items()]
    rows += [("left out", note, "yellow") for note in entry.notes]
    rows += [("can", text, "") for text in _facts_text(facts)]
    rows += [("editors", text, "") for text in _editors_text(entry)]
    if reason := snapshot.quarantine().get(entry.id):
        rows.append(("quarantine", f"{reason} (the registry, {snapshot.snapshot_date()})", "yellow"))
    if obstacle := obstacle_of(entry, machine.platform):
        rows.append(("not here", obstacle, "red"))
    return rows


def _facts_text(facts: AgentFacts | None) -> list[str]:
    if facts is None:
        return ["unknown: it was not started here, and the registry did not test it"]
    can = [short_name(path) for path, known in facts.can.items() if known]
    cannot = [short_name(path) for path, known in facts.can.items() if not known]
    logins = "unknown" if facts.logins is None else ", ".join(facts.logins) or "none"
    where = "its own start here" if facts.source == "initialize" else "the registry's test"
    of = format_age(facts.date) if "T" in facts.date else facts.date
    text = ", ".join(can) or "nothing beyond prompts"
    text += f"; not {', '.join(cannot)}" if cannot else ""
    return [f"{text}; login: {logins}  ({where}, version {facts.version or '?'}, {of})"]


def _editors_text(entry: Entry) -> list[str]:
    if entry.kinds == (UVX,):
        return ["JetBrains shows it; Zed does not (uvx only)"]
    return []


def _entry_to_json(entry: Entry, facts: AgentFacts | None, source: str, hidden: list[str]) -> dict[str, Any]:
    value: dict[str, Any] = msgspec.to_builtins(entry)
    value["obstacle"] = obstacle_of(entry, this_machine().platform) or None
    value["known"] = facts_to_json(facts)
    value["quarantine"] = snapshot.quarantine().get(entry.id)
    return {**value, "source": source, "hidden": hidden}
