"""`dragoman agents verify`: whether installed agents are as they were installed, and still to be had."""

from __future__ import annotations

import argparse
import sys

from dragoman.cli.agents.options import EXIT_CODES_HELP, RegistryParser, run_reported
from dragoman.cli.registry.installer import Installer
from dragoman.cli.registry.progress import StepProgress
from dragoman.cli.registry.registries import Registries
from dragoman.cli.ui.format import print_json
from dragoman.cli.ui.terminal import OutputStream
from dragoman.registry.fault import RegistryFault
from dragoman.registry.index import snapshot
from dragoman.registry.install.lock import load_lock
from dragoman.registry.install.verify import OK, Report, standing, verify_files

# Differences that are listed; the rest is counted.
SHOWN = 20

HELP = f"""\
Hashes every file of each installed agent and compares it with the lock, then
asks npm, PyPI or the registry whether the version was withdrawn. The signature
of npm and the attestations of PyPI are checked, where they are offered and
`pip install 'dragoman[attest]'` brought what that needs; else the state is
unknown. One changed byte or a wrong signature ends it with 1. --offline only
compares files.

{EXIT_CODES_HELP}

examples:
  dragoman agents verify
  dragoman agents verify gemini --offline --json"""

_STYLES = {
    "ok": "green",
    "changed": "red",
    "invalid": "red",
    "withdrawn": "red",
    "quarantined": "yellow",
    "deprecated": "yellow",
}


def run(name: str, arguments: list[str]) -> int:
    """Parse the arguments, then verify."""
    parser = RegistryParser(name, "[NAME...] [OPTIONS]", "Compare installed agents with their lock.", HELP)
    parser.add_argument("names", nargs="*", metavar="NAME", help="only these agents")
    options = parser.read_options(arguments)
    return run_reported(parser, options, lambda: _verify(options))


def _verify(options: argparse.Namespace) -> int:
    registries = Registries(options)
    installed = registries.installed
    if missing := [name for name in options.names if name not in installed]:
        raise RegistryFault("unknown", f"not installed from a registry: {', '.join(missing)}")
    locked = load_lock(registries.paths.agents_lock)
    installer = Installer(registries, quiet=options.json)
    reports = []
    with StepProgress(installer.output, quiet=options.json or not installer.output.has_ansi) as progress:
        workshop = installer.workshop(progress)
        for name in options.names or installed:
            progress.report(f"verifying {name}")
            files = verify_files(name, installed[name], locked.get(name))
            now = standing(installed[name], lambda: registries.catalog, snapshot.quarantine(), workshop)
            notes = (*files.notes, *(note for note in (now.note, now.signature_note) if note))
            reports.append(files._replace(version=now.version, signature=now.signature, notes=notes))
    if options.json:
        print_json([_to_json(each) for each in reports])
    else:
        _print(reports)
    return 0 if all(each.is_good for each in reports) else 1


def _print(reports: list[Report]) -> None:
    output = OutputStream(sys.stdout)
    if not reports:
        output.write_line("no agent is installed from a registry")
    width = max((len(each.name) for each in reports), default=0)
    for each in reports:
        pieces = [(f"{each.name:{width}}  ", "bold"), (f"files {each.files}", _STYLES.get(each.files, ""))]
        pieces += [(f"  version {each.version}", _STYLES.get(each.version, "dim"))]
        pieces += [(f"  signature {each.signature}", _STYLES.get(each.signature, "dim"))]
        pieces += [(f"  ({'; '.join(each.notes)})" if each.notes else "", "dim"), ("\n", "")]
        output.write_pieces(pieces)
        for difference in each.differences[:SHOWN]:
            output.write_line(f"  {difference.what}: {difference.path}", "red")
        if len(each.differences) > SHOWN:
            output.write_line(f"  and {len(each.differences) - SHOWN} more", "red")
        if each.files != OK:
            output.write_line(f"  to install it anew: dragoman agents remove {each.name}, then install", "dim")


def _to_json(each: Report) -> dict[str, object]:
    return {
        "name": each.name,
        "files": each.files,
        "version": each.version,
        "signature": each.signature,
        "differences": [{"path": path, "what": what} for path, what in each.differences],
        "notes": list(each.notes),
    }
