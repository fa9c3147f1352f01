"""Compare an installed agent with its lock and manifest, byte by byte, and ask whether its version was withdrawn."""

from __future__ import annotations

import hashlib
import os
import tempfile
from collections.abc import Mapping
from typing import NamedTuple

import msgspec

from dragoman.config.private_files import read_bytes
from dragoman.registry.fault import RegistryFault
from dragoman.registry.index.entry import BINARY, NPX
from dragoman.registry.index.sources import Catalog
from dragoman.registry.install.lock import LockedAgent
from dragoman.registry.install.manifest import Difference, compare_manifest, decode_manifest
from dragoman.registry.install.npm import Npm
from dragoman.registry.install.plan import Workshop
from dragoman.registry.install.records import FILES, MANIFEST_FILE, MAX_MANIFEST, Installed
from dragoman.registry.tools.find import find_nodes
from dragoman.registry.tools.wheels import DEFAULT_INDEX, MAX_PAGE, parse_links

OK, CHANGED, UNKNOWN = "ok", "changed", "unknown"
WITHDRAWN, DEPRECATED, QUARANTINED = "withdrawn", "deprecated", "quarantined"


class Report(NamedTuple):
    """What was found about one agent: its files, and its version."""

    name: str
    files: str  # OK, CHANGED or UNKNOWN
    version: str  # OK, WITHDRAWN, DEPRECATED, QUARANTINED or UNKNOWN
    differences: tuple[Difference, ...] = ()
    notes: tuple[str, ...] = ()

    @property
    def is_good(self) -> bool:
        """Whether nothing is wrong; what is not known is not wrong."""
        return self.files == OK and self.version in (OK, UNKNOWN, DEPRECATED)


def verify_files(name: str, installed: Installed, locked: LockedAgent | None) -> Report:
    """Compare every file with the manifest, and the manifest with the lock."""
    data = read_bytes(os.path.join(installed.folder, MANIFEST_FILE), MAX_MANIFEST)
    if data is None:
        return Report(name, UNKNOWN, UNKNOWN, notes=("it has no manifest",))
    notes = []
    if locked is None:
        notes.append("it is not in the lock; the manifest itself is not vouched for")
    elif locked.manifest != hashlib.sha256(data).hexdigest():
        return Report(name, CHANGED, UNKNOWN, (Difference(MANIFEST_FILE, "changed"),), ("the lock names another one",))
    try:
        differences = compare_manifest(os.path.join(installed.folder, FILES), decode_manifest(data))
    except msgspec.DecodeError as error:
        return Report(name, CHANGED, UNKNOWN, (Difference(MANIFEST_FILE, "changed"),), (str(error),))
    return Report(name, CHANGED if differences else OK, UNKNOWN, tuple(differences), tuple(notes))


def version_status(
    installed: Installed, catalog: Catalog, quarantine: Mapping[str, str], workshop: Workshop
) -> tuple[str, str]:
    """Return whether the version was withdrawn, deprecated or quarantined, and a note."""
    record = installed.record
    if reason := quarantine.get(record.id):
        return QUARANTINED, f"the registry: {reason}"
    if workshop.is_offline:
        return UNKNOWN, "offline"
    try:
        if record.kind == BINARY:
            gone = catalog.find(record.id) is None
            return (WITHDRAWN, "no registry has it any more") if gone else (OK, "")
        return (_npm_status if record.kind == NPX else _pypi_status)(record.package, workshop)
    except RegistryFault as fault:
        return UNKNOWN, str(fault).partition("\n")[0]


def _npm_status(package: str, workshop: Workshop) -> tuple[str, str]:
    nodes = find_nodes(workshop.tools, workshop.section.node)
    if not nodes:
        return UNKNOWN, "there is no npm to ask"
    with tempfile.TemporaryDirectory(prefix="dragoman-npm-") as folder:
        known = Npm(nodes[0], workshop).view(package, folder)
    if not known:
        return WITHDRAWN, "npm does not have it any more"
    return (DEPRECATED, str(known["deprecated"])) if known.get("deprecated") else (OK, "")


def _pypi_status(package: str, workshop: Workshop) -> tuple[str, str]:
    name, _, version = package.partition("==")
    name = name.partition("[")[0]
    index = os.environ.get("UV_DEFAULT_INDEX") or os.environ.get("PIP_INDEX_URL") or DEFAULT_INDEX
    page = f"{index.rstrip('/')}/{name}/"
    answer = workshop.http.get(page, limit=MAX_PAGE)
    body = answer.body or b""
    mark = f"-{version}-"
    files = [file for file, _, _ in parse_links(body, page) if mark in file or f"-{version}.tar" in file]
    if not files:
        return WITHDRAWN, "PyPI does not have it any more"
    lines = [line for line in body.decode("utf-8", "replace").splitlines() if mark in line]
    is_yanked = bool(lines) and all("data-yanked" in line for line in lines)
    return (WITHDRAWN, "it was yanked from PyPI") if is_yanked else (OK, "")
