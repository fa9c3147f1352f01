"""From an entry and the user's wishes to a plan: choose the kind, then resolve exact artifacts. Changes nothing."""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from dragoman.registry.fault import RegistryFault
from dragoman.registry.index.entry import BINARY, NPX, UVX, Entry
from dragoman.registry.index.search import obstacle_of
from dragoman.registry.index.sources import Found
from dragoman.registry.install.binary import resolve_binary
from dragoman.registry.install.npm import resolve_npm
from dragoman.registry.install.plan import Plan, Wishes, Workshop
from dragoman.registry.install.pypi import resolve_pypi
from dragoman.registry.install.resolutions import Resolutions
from dragoman.registry.platforms import Machine, this_machine
from dragoman.registry.tools.find import find_nodes

LATEST = "latest"


def choose_kind(entry: Entry, machine: Machine, has_node: Callable[[], bool], wanted: str = "") -> str:
    """Return the kind of distribution to use: binaries with a hash, then npx, uvx, binaries without a hash.

    Where binaries of others rarely start, packages come first. Raise RegistryFault if none fits.
    """
    if obstacle := obstacle_of(entry, machine.platform, wanted):
        raise RegistryFault("platform", f"{entry.id} cannot be installed here: {obstacle}")
    if wanted:
        return wanted
    target = entry.binaries.get(machine.platform)
    order = [
        (BINARY, target is not None and bool(target.sha256) and not machine.prefers_packages),
        (NPX, NPX in entry.packages and has_node()),
        (UVX, UVX in entry.packages),
        (BINARY, target is not None and bool(target.sha256)),
        (NPX, NPX in entry.packages),
        (BINARY, target is not None),
    ]
    return next(kind for kind, fits in order if fits)


def make_plan(found: Found, wishes: Wishes, workshop: Workshop, first_use: str = "", *, anew: bool = False) -> Plan:
    """Resolve an entry, `anew` even if it was resolved before; raise RegistryFault with what to do."""
    entry = found.entry
    if wishes.preview:
        if entry.preview is None:
            raise RegistryFault("version", f"{entry.id} has no preview")
        entry = entry.preview
    machine = this_machine()
    kind = choose_kind(entry, machine, lambda: bool(find_nodes(workshop.tools, workshop.section.node)), wishes.kind)
    if kind == BINARY:
        if wishes.version not in ("", LATEST, entry.version):
            raise RegistryFault(
                "version", f"the registry knows only {entry.id} {entry.version}; leave out @{wishes.version}"
            )
        plan = resolve_binary(entry, entry.binaries[machine.platform], wishes, workshop, first_use)
    else:
        package = entry.packages[kind]
        # The snapshot that ships is as old as Dragoman: there the package index knows better which version is current.
        version = wishes.version or (LATEST if found.source.is_snapshot else package.version or LATEST)
        kept = Resolutions(workshop)
        known = None if anew or wishes.version == LATEST else kept.find(package, version, wishes, entry)
        if known is None:
            resolve = resolve_npm if kind == NPX else resolve_pypi
            known = resolve(entry, package, wishes, workshop, version)
            kept.keep(package, version, known)
        plan = known
    notes = [*plan.notes, *entry.notes]
    return msgspec.structs.replace(plan, source=found.source.url, notes=tuple(notes))
