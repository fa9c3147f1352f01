"""`dragoman agents install`: install an agent of the registry, after telling exactly what will happen."""

from __future__ import annotations

import argparse
import os
import sys
from typing import Any

from dragoman.cli.agents.options import EXIT_CODES_HELP, RegistryParser, run_reported
from dragoman.cli.parser import Parser
from dragoman.cli.registry.installer import Installer, plan_lines
from dragoman.cli.registry.registries import Registries
from dragoman.cli.ui.format import print_json
from dragoman.cli.ui.terminal import OutputStream, sanitize_line
from dragoman.config.config_file import NAME_PATTERN, NAME_RULE
from dragoman.registry.fault import RegistryFault
from dragoman.registry.index.entry import KINDS
from dragoman.registry.index.lookup import require_entry
from dragoman.registry.install.plan import Plan, Wishes
from dragoman.registry.install.records import folder_of
from dragoman.registry.install.steps import Result

HELP = f"""\
Resolves the agent to exact files with hashes, tells what will happen, asks,
installs into a folder of its own, starts the agent once without a network to
see that it answers, and adds it to config.toml. Until that last step nothing
has changed; the version that was there before is kept.

Install scripts of packages do not run unless you name the package with
--allow-scripts. node and uv are never installed globally; if one is missing, it
is offered as a wheel of PyPI in a folder of Dragoman.

{EXIT_CODES_HELP}

examples:
  dragoman agents install gemini
  dragoman agents install claude@latest --yes
  dragoman agents install kilo --with npx --allow-scripts @kilocode/cli
  dragoman agents install goose --dry-run
  dragoman agents install --lock agents.lock
  dragoman agents install --from /media/usb --offline"""


def run(name: str, arguments: list[str]) -> int:
    """Parse the arguments, then install."""
    parser = RegistryParser(name, "ID[@VERSION] [OPTIONS]", "Install an agent of the registry.", HELP)
    parser.add_argument("id", nargs="?", metavar="ID", help="an id of `dragoman agents search`, perhaps with a version")
    parser.add_value("--as", "NAME", "the name for --agent (the word that you gave)", dest="name", default="")
    parser.add_argument("--with", dest="kind", choices=KINDS, default="", help="install this kind of distribution")
    parser.add_value("--allow-scripts", "PACKAGE", "let the install script of this package run", repeated=True)
    parser.add_flag("--preview", "install the preview version of the entry")
    parser.add_flag("--at-most", "take an older version if the wanted one is too young for your npm")
    parser.add_flag("--no-try", "do not start it once; for agents that need your home")
    parser.add_flag("--sandbox", "always start it in the sandbox")
    parser.add_flag("--dry-run", "only tell what would happen")
    parser.add_value("--lock", "FILE", "install the agents of this lock, with the same bytes")
    parser.add_value("--from", "DIR", "install from this folder, which `lock --fetch` filled", dest="folder")
    parser.add_flag("-y --yes", "do not ask")
    options = parser.read_options(arguments)
    if not options.id and not options.lock and not options.folder:
        parser.error("give the ID of an agent, --lock FILE or --from DIR")
    return run_reported(parser, options, lambda: _run(parser, options))


def _run(parser: Parser, options: argparse.Namespace) -> int:
    registries = Registries(options)
    if options.folder and not os.path.isdir(options.folder):
        raise RegistryFault(
            "unknown", f"--from: there is no folder {options.folder}; fill it with: dragoman agents lock --fetch"
        )
    installer = Installer(registries, yes=options.yes, quiet=options.json, given=options.folder or "")
    if options.lock or options.folder:
        from dragoman.cli.agents.lock import install_locked

        return install_locked(options, installer)
    word, _, version = options.id.partition("@")
    found = require_entry(registries.catalog, word)
    name = options.name or word
    if NAME_PATTERN.fullmatch(name) is None:
        parser.error(f"--as: {NAME_RULE}")
    check_name_is_free(registries, name)
    wishes = Wishes(
        version=version,
        kind=options.kind,
        preview=options.preview,
        allow_scripts=tuple(options.allow_scripts),
        at_most=options.at_most,
        tries=not options.no_try,
        sandbox=options.sandbox,
    )
    plan = installer.plan(found, wishes)
    if options.dry_run:
        _print_plan(options, plan, name, registries)
        return 0
    result = installer.install(plan, name, command=f"dragoman agents install {options.id} --yes")
    print_result(options, result, name, installer.output)
    return 0


def check_name_is_free(registries: Registries, name: str) -> None:
    """Raise RegistryFault if an agent of the user's own has this name."""
    agent = registries.config.agents.get(name)
    if agent is not None and not folder_of(registries.paths.agents, agent):
        raise RegistryFault(
            "unknown", f"there is an agent {name} in config.toml that you added yourself; choose another --as NAME"
        )


def _print_plan(options: argparse.Namespace, plan: Plan, name: str, registries: Registries) -> None:
    if options.json:
        print_json(plan_to_json(plan, name))
        return
    output = OutputStream(sys.stdout)
    for label, text, style in plan_lines(plan, name, registries):
        output.write_pieces([(f"{label:11} ", "dim"), (f"{text}\n", style)])


def plan_to_json(plan: Plan, name: str) -> dict[str, Any]:
    """Return a plan for --json."""
    return {
        "name": name,
        "id": plan.entry.id,
        "version": plan.version,
        "kind": plan.kind,
        "by": plan.by,
        "package": plan.package or None,
        "packages": plan.packages or None,
        "integrity": plan.integrity or None,
        "archive": plan.archive or None,
        "sha256": plan.digest or None,
        "size": plan.size,
        "scripts": list(plan.scripts),
        "runsScripts": list(plan.runs_scripts),
        "env": dict(plan.env),
        "args": list(plan.args),
        "notes": list(plan.notes),
    }


def result_to_json(result: Result, name: str) -> dict[str, Any]:
    """Return what an install did, for --json."""
    record = result.installed.record
    return {
        "installed": name,
        "id": record.id,
        "version": record.version,
        "kind": record.kind,
        "by": record.by,
        "folder": result.installed.folder,
        "command": list(record.command),
        "wasThere": result.was_there,
    }


def print_result(options: argparse.Namespace, result: Result, name: str, output: OutputStream) -> None:
    """Tell what an install did, and what to do next."""
    if options.json:
        print_json(result_to_json(result, name))
        return
    record = result.installed.record
    if result.was_there:
        output.write_line(f"{name} is {record.id} {record.version}, as it was installed before: nothing to do", "green")
    else:
        output.write_line(f"installed {name}: {record.id} {record.version}", "green")
    if result.facts is not None and result.facts.logins:
        logins = sanitize_line(", ".join(result.facts.logins))
        output.write_line(f"it asks for a login when you start it ({logins})")
    output.write_line(f"start it with: dragoman chat {name}")
