"""`dragoman agents update`: newer versions beside the old ones, and back again."""

from __future__ import annotations

import argparse
import os
import sys
from typing import Any

from dragoman.cli.agents.options import EXIT_CODES_HELP, RegistryParser, run_reported
from dragoman.cli.registry.installer import Installer
from dragoman.cli.registry.progress import StepProgress
from dragoman.cli.registry.registries import Registries
from dragoman.cli.ui.format import print_json
from dragoman.cli.ui.terminal import OutputStream
from dragoman.registry.fault import RegistryFault
from dragoman.registry.index.entry import BINARY, NPX
from dragoman.registry.index.lookup import require_entry
from dragoman.registry.install.npm_lock import LOCK_FILE
from dragoman.registry.install.plan import Plan, Wishes
from dragoman.registry.install.pypi import TREE_FILE
from dragoman.registry.install.records import Installed, all_installed
from dragoman.registry.install.steps import activate
from dragoman.registry.install.update import changes, losses

HELP = f"""\
Nothing is ever updated by itself. The new version is installed beside the old
one and the entry in config.toml is switched; running agents keep theirs. The
old version is kept: --to goes back to it without a network. An update that
loses a guarantee (a hash, the same publisher) stops, and needs --accept-losses.

{EXIT_CODES_HELP}

examples:
  dragoman agents update --check
  dragoman agents update gemini
  dragoman agents update gemini --to 0.56.0"""


def run(name: str, arguments: list[str]) -> int:
    """Parse the arguments, then update."""
    parser = RegistryParser(name, "[NAME...] [OPTIONS]", "Update installed agents.", HELP)
    parser.add_argument("names", nargs="*", metavar="NAME", help="only these agents (all)")
    parser.add_flag("--check", "only list newer versions and what changes")
    parser.add_value("--to", "VERSION", "switch to this version, newer or older", default="")
    parser.add_flag("--at-most", "take an older version if the newest is too young for your npm")
    parser.add_flag("--accept-losses", "update even if the new version loses a guarantee")
    parser.add_flag("-y --yes", "do not ask")
    options = parser.read_options(arguments)
    if options.to and len(options.names) != 1:
        parser.error("--to needs the name of one agent")
    return run_reported(parser, options, lambda: _update(options))


def _update(options: argparse.Namespace) -> int:
    registries = Registries(options)
    installed = registries.installed
    if missing := [name for name in options.names if name not in installed]:
        raise RegistryFault("unknown", f"not installed from a registry: {', '.join(missing)}")
    installer = Installer(registries, yes=options.yes, quiet=options.json)
    rows: list[dict[str, Any]] = []
    failed: RegistryFault | None = None
    for name in options.names or installed:
        try:
            rows.append(_update_one(options, installer, name, installed[name]))
        except RegistryFault as fault:
            if len(options.names) == 1:
                raise
            failed = fault  # the others are updated all the same
            rows.append({"name": name, "error": str(fault)})
    if options.json:
        print_json(rows)
    else:
        _print(rows)
    return 0 if failed is None else failed.exit_code


def _update_one(options: argparse.Namespace, installer: Installer, name: str, now: Installed) -> dict[str, Any]:
    record = now.record
    row: dict[str, Any] = {"name": name, "version": record.version}
    if options.to and (kept := _kept_version(installer.registries, record.id, options.to)) is not None:
        with StepProgress(installer.output, quiet=True) as progress:
            activate(kept, name, installer.workshop(progress), _tree_of(kept))
        return {**row, "updated": kept.record.version, "kept": True}
    found = require_entry(installer.registries.catalog, record.id)
    wishes = Wishes(version=options.to, kind=record.kind, at_most=options.at_most, allow_scripts=record.scripts)
    plan = installer.plan(found, wishes, anew=True)
    if plan.version == record.version and _is_same(plan, record):
        return {**row, "newest": plan.version}
    lost = losses(record, plan)
    row |= {"newest": plan.version, "changes": changes(record, plan), "losses": lost}
    if options.check:
        return row
    if lost and not options.accept_losses:
        raise RegistryFault(
            "hash",
            f"{name} {plan.version} loses a guarantee: {'; '.join(lost)}; to update all the same: --accept-losses",
        )
    result = installer.install(plan, name, command=f"dragoman agents update {name} --yes")
    return {**row, "updated": result.installed.record.version}


def _is_same(plan: Plan, record: Any) -> bool:
    return plan.kind != BINARY or not plan.digest or plan.digest == record.sha256


def _kept_version(registries: Registries, id: str, version: str) -> Installed | None:
    versions = [each for each in all_installed(registries.paths.agents, id) if each.record.version == version]
    return max(versions, key=lambda each: each.record.date, default=None)


def _tree_of(installed: Installed) -> bytes:
    """Return the list of packages of an installed version, which lies among its files."""
    if installed.record.kind == BINARY:
        return b""
    name = LOCK_FILE if installed.record.kind == NPX else TREE_FILE
    with open(os.path.join(installed.files, name), "rb") as file:
        return file.read()


def _print(rows: list[dict[str, Any]]) -> None:
    output = OutputStream(sys.stdout)
    if not rows:
        output.write_line("no agent is installed from a registry")
    for row in rows:
        if "error" in row:
            output.write_line(f"{row['name']}: {row['error']}", "red")
        elif "updated" in row:
            back = " (it was kept)" if row.get("kept") else ""
            output.write_line(f"{row['name']}: {row['version']} -> {row['updated']}{back}", "green")
        elif row["newest"] == row["version"] and not row.get("losses"):
            output.write_line(f"{row['name']}: {row['version']} is the newest", "dim")
        else:
            output.write_line(f"{row['name']}: {row['version']}; there is {row['newest']}", "bold")
            for text in [*row.get("changes", []), *row.get("losses", [])]:
                output.write_line(f"  {text}", "yellow")
