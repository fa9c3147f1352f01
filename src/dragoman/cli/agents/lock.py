"""`dragoman agents lock`: write or compare agents.lock; and install what a lock names, with the same bytes."""

from __future__ import annotations

import argparse
import os
from typing import Any

import msgspec

from dragoman.cli.agents.options import EXIT_CODES_HELP, RegistryParser, run_reported
from dragoman.cli.registry.installer import Installer
from dragoman.cli.registry.progress import StepProgress
from dragoman.cli.registry.registries import Registries
from dragoman.cli.ui.format import print_json, report
from dragoman.registry.fault import RegistryFault
from dragoman.registry.index.entry import BINARY, NPX, Binary, Entry, Package, fixed_package_fault
from dragoman.registry.install.lock import LockedAgent, edit_lock, load_lock, read_tree
from dragoman.registry.install.npm_lock import wanted_node
from dragoman.registry.install.plan import Plan, Wishes
from dragoman.registry.install.records import Installed
from dragoman.registry.platforms import this_machine
from dragoman.registry.tools.find import choose_node, find_nodes, find_pythons, find_uv

DEFAULT_FILE = "agents.lock"

HELP = f"""\
Writes the exact files of your installed agents with their hashes, so that
others get the same bytes: dragoman agents install --lock agents.lock. The lists
of packages are in agents.lock.d; commit both. --check compares instead, and
ends with 1 if something differs. --fetch also fills a folder with the lock and
every archive, tarball of npm and wheel of PyPI that it names for this platform:
`dragoman agents install --from DIR --offline` installs them on another machine.

{EXIT_CODES_HELP}

examples:
  dragoman agents lock
  dragoman agents lock --check
  dragoman agents lock team.lock --fetch /media/usb"""


def run(name: str, arguments: list[str]) -> int:
    """Parse the arguments, then write or compare."""
    parser = RegistryParser(name, "[FILE] [OPTIONS]", "Lock the installed agents for a team.", HELP)
    parser.add_argument("file", nargs="?", default=DEFAULT_FILE, metavar="FILE", help=f"the lock ({DEFAULT_FILE})")
    parser.add_flag("--check", "compare the installed agents with the lock")
    parser.add_value("--fetch", "DIR", "fill this folder with everything that an install needs", default="")
    options = parser.read_options(arguments)
    return run_reported(parser, options, lambda: _check(options) if options.check else _write(options))


def _write(options: argparse.Namespace) -> int:
    registries = Registries(options)
    machine_lock = load_lock(registries.paths.agents_lock)
    entries = {
        name: msgspec.structs.replace(machine_lock[name], manifest="")
        for name in registries.installed
        if name in machine_lock
    }
    path = os.path.abspath(options.file)
    trees = {
        name: read_tree(registries.paths.agents_lock, name, entry) for name, entry in entries.items() if entry.tree
    }
    gone: dict[str, LockedAgent | None] = {name: None for name in load_lock(path) if name not in entries}
    edit_lock(path, {**gone, **entries}, trees)
    copied = _fetch(options, entries, trees, registries) if options.fetch else []
    lines = [f"{path}: {len(entries)} agents"]
    if options.fetch:
        lines.append(f"{options.fetch}: {len(copied)} files; dragoman agents install --from {options.fetch} --offline")
    return report(options, {"file": path, "agents": sorted(entries), "copied": copied}, lines)


def _fetch(
    options: argparse.Namespace, entries: dict[str, LockedAgent], trees: dict[str, bytes], registries: Registries
) -> list[str]:
    """Fill a folder with the lock and the artifacts that it names."""
    from dragoman.registry.install.mirror import fill

    folder = os.path.abspath(options.fetch)
    os.makedirs(folder, exist_ok=True)
    lock = os.path.join(folder, DEFAULT_FILE)
    edit_lock(lock, {**{name: None for name in load_lock(lock) if name not in entries}, **entries}, trees)
    installer = Installer(registries, quiet=options.json)
    copied: list[str] = []
    with StepProgress(installer.output, quiet=options.json) as progress:
        for name, entry in sorted(entries.items()):
            plan = locked_plan(lock, name, entry, installer, Wishes(allow_scripts=entry.scripts))
            copied += fill(plan, folder, installer.workshop(progress))
    return list(dict.fromkeys(copied))


def _check(options: argparse.Namespace) -> int:
    registries = Registries(options)
    wanted = load_lock(os.path.abspath(options.file))
    if not wanted:
        raise RegistryFault("changed", f"{options.file} is missing or empty; write it with: dragoman agents lock")
    rows = [difference_of(name, entry, registries.installed.get(name)) for name, entry in sorted(wanted.items())]
    rows += [(name, "not in the lock") for name in registries.installed if name not in wanted]
    different = [row for row in rows if row[1]]
    lines = [f"{name}: {what or 'the same'}" for name, what in rows]
    report(options, {"agents": [{"name": name, "difference": what or None} for name, what in rows]}, lines)
    return 1 if different else 0


def difference_of(name: str, entry: LockedAgent, installed: Installed | None) -> tuple[str, str]:
    """Return how an installed agent differs from its lock; "" if it is the same."""
    if installed is None:
        return name, "not installed"
    record = installed.record
    if (record.id, record.kind, record.version) != (entry.id, entry.kind, entry.version):
        return name, f"{record.id} {record.version} ({record.kind}), not {entry.id} {entry.version} ({entry.kind})"
    target = entry.targets.get(this_machine().platform)
    if record.kind == BINARY and target is not None and record.sha256 != target.sha256:
        return name, f"another archive: {record.sha256}, not {target.sha256}"
    if record.tree != entry.tree:
        return name, "other packages"
    return name, ""


def install_locked(options: argparse.Namespace, installer: Installer) -> int:
    """Install the agents of a lock, or the one that is named."""
    path = os.path.abspath(options.lock or os.path.join(options.folder, DEFAULT_FILE))
    entries = load_lock(path)
    if options.id:
        if options.id not in entries:
            raise RegistryFault("unknown", f"{path} has no agent {options.id}; it has {', '.join(entries) or 'none'}")
        entries = {options.id: entries[options.id]}
    if not entries:
        raise RegistryFault("unknown", f"{path} does not exist, or names no agent")
    done: list[dict[str, Any]] = []
    from dragoman.cli.agents.install import check_name_is_free, print_result, result_to_json

    for name, entry in sorted(entries.items()):
        check_name_is_free(installer.registries, name)
        wishes = Wishes(tries=not options.no_try, sandbox=options.sandbox, allow_scripts=entry.scripts)
        plan = locked_plan(path, name, entry, installer, wishes)
        result = installer.install(plan, name, command=f"dragoman agents install --lock {path} --yes")
        done.append(result_to_json(result, name))
        if not options.json:
            print_result(options, result, name, installer.output)
    if options.json:
        print_json(done)
    return 0


def locked_plan(path: str, name: str, entry: LockedAgent, installer: Installer, wishes: Wishes) -> Plan:
    """Return the plan that a lock fixes; nothing is asked of a registry or a package index."""
    common: dict[str, Any] = {
        "kind": entry.kind,
        "version": entry.version,
        "by": entry.by,
        "args": entry.args,
        "env": entry.env,
        "cmd": entry.cmd,
        "source": entry.registry,
        "runs_scripts": entry.scripts,
        "wishes": wishes,
    }
    about = Entry(id=entry.id, name=entry.id, version=entry.version)
    if entry.kind == BINARY:
        target = entry.targets.get(this_machine().platform)
        if target is None:
            raise RegistryFault("platform", f"{name}: the lock has no archive for {this_machine().platform}")
        binaries = {
            platform: Binary(platform=platform, archive=each.archive, cmd=entry.cmd, sha256=each.sha256)
            for platform, each in entry.targets.items()
        }
        about = msgspec.structs.replace(about, binaries=binaries)
        return Plan(entry=about, digest=target.sha256, archive=target.archive, size=target.size or None, **common)
    if fault := fixed_package_fault(entry.kind, entry.version, entry.package, entry.by, entry.scripts):
        raise RegistryFault("hash", f"{path}: agents.{name}: {fault}; write it with: dragoman agents lock")
    tree = read_tree(path, name, entry)
    about = msgspec.structs.replace(about, packages={entry.kind: Package(kind=entry.kind, name=entry.package)})
    packages = tree.count(b'"integrity"') if entry.kind == NPX else tree.count(b"==")
    chosen = _find_node(name, entry, tree, installer) if entry.kind == NPX else _find_uv(name, entry, installer)
    return Plan(
        entry=about,
        digest=entry.tree,
        package=entry.package,
        integrity=entry.integrity,
        tree=tree,
        packages=packages,
        **chosen,
        **common,
    )


def _find_node(name: str, entry: LockedAgent, tree: bytes, installer: Installer) -> dict[str, Any]:
    registries = installer.registries
    nodes = find_nodes(registries.paths.tools, registries.section.node)
    node = choose_node(nodes, wanted_node(tree, entry.package))
    if node is None:
        raise RegistryFault("tool", f"{name} needs node with npm; bring it with: dragoman agents doctor --get node")
    return {"node": node}


def _find_uv(name: str, entry: LockedAgent, installer: Installer) -> dict[str, Any]:
    pythons = find_pythons(only=".".join(entry.python.split(".")[:2]))
    if not pythons:
        raise RegistryFault("tool", f"{name} was locked for Python {entry.python}; install that version")
    uv = find_uv(installer.registries.paths.tools)
    if uv is None:
        raise RegistryFault("tool", f"{name} needs uv; bring it with: dragoman agents doctor --get uv")
    return {"uv": uv, "python": pythons[0]}
