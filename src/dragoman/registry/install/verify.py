"""Compare an installed agent with its lock and manifest, byte by byte, and ask whether its version was withdrawn."""

from __future__ import annotations

import hashlib
import os
import tempfile
from collections.abc import Callable, Mapping
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
from dragoman.registry.install.pypi import TREE_FILE
from dragoman.registry.install.records import FILES, MANIFEST_FILE, MAX_MANIFEST, Installed
from dragoman.registry.install.signatures import INVALID, NOT_OFFERED, npm_signature, pypi_attestation
from dragoman.registry.tools.find import find_nodes
from dragoman.registry.tools.wheels import MAX_PAGE, fits_python, package_index, parse_links
from dragoman.registry.versions import parse_version

OK, CHANGED, UNKNOWN = "ok", "changed", "unknown"
WITHDRAWN, DEPRECATED, QUARANTINED = "withdrawn", "deprecated", "quarantined"


class Report(NamedTuple):
    """What was found about one agent: its files, and its version."""

    name: str
    files: str  # OK, CHANGED or UNKNOWN
    version: str  # OK, WITHDRAWN, DEPRECATED, QUARANTINED or UNKNOWN
    differences: tuple[Difference, ...] = ()
    notes: tuple[str, ...] = ()
    signature: str = UNKNOWN  # OK, "invalid", "not offered" or UNKNOWN

    @property
    def is_good(self) -> bool:
        """Whether nothing is wrong; what is not known is not wrong."""
        return self.files == OK and self.version in (OK, UNKNOWN, DEPRECATED) and self.signature != INVALID


def verify_files(name: str, installed: Installed, locked: LockedAgent | None) -> Report:
    """Compare every file with the manifest, and the manifest with the lock."""
    data = read_bytes(os.path.join(installed.folder, MANIFEST_FILE), MAX_MANIFEST)
    if data is None:
        return Report(name, UNKNOWN, UNKNOWN, notes=("it has no manifest",))
    notes = []
    if locked is None:
        notes.append("it is not in the lock; the manifest itself is not vouched for")
    elif locked.version != installed.record.version:  # the lock is written first, then the agent is switched
        unfinished = f"the lock names {locked.version}: an install did not finish; install it again"
        return Report(name, UNKNOWN, UNKNOWN, notes=(unfinished,))
    elif locked.manifest != hashlib.sha256(data).hexdigest():
        return Report(name, CHANGED, UNKNOWN, (Difference(MANIFEST_FILE, "changed"),), ("the lock names another one",))
    try:
        differences = compare_manifest(os.path.join(installed.folder, FILES), decode_manifest(data))
    except msgspec.DecodeError as error:
        return Report(name, CHANGED, UNKNOWN, (Difference(MANIFEST_FILE, "changed"),), (str(error),))
    return Report(name, CHANGED if differences else OK, UNKNOWN, tuple(differences), tuple(notes))


class Standing(NamedTuple):
    """What the registries say of a version and its signature now."""

    version: str
    note: str = ""
    signature: str = UNKNOWN
    signature_note: str = ""


def standing(
    installed: Installed, catalog: Callable[[], Catalog], quarantine: Mapping[str, str], workshop: Workshop
) -> Standing:
    """Return whether the version was withdrawn, deprecated or quarantined, and whether its signature is valid.

    The indexes are asked for only where they decide, so that files are compared also where there are none.
    """
    record = installed.record
    if workshop.is_offline:
        found = Standing(UNKNOWN, "offline")
    else:
        try:
            found = _ask(installed, catalog, workshop)
        except RegistryFault as fault:
            found = Standing(UNKNOWN, str(fault).partition("\n")[0])
    if reason := quarantine.get(record.id):
        return found._replace(version=QUARANTINED, note=f"the registry: {reason}")
    return found


def _ask(installed: Installed, catalog: Callable[[], Catalog], workshop: Workshop) -> Standing:
    record = installed.record
    if record.kind == BINARY:
        gone = catalog().find(record.id) is None
        return Standing(WITHDRAWN, "no registry has it any more") if gone else Standing(OK, "", NOT_OFFERED)
    if record.kind == NPX:
        return _npm_standing(record.package, record.integrity, workshop)
    return _pypi_standing(installed, workshop)


def _signature(check: Callable[[], tuple[str, str]]) -> tuple[str, str]:
    """Return a signature's state; one that cannot be asked for is unknown."""
    try:
        return check()
    except RegistryFault as fault:
        return UNKNOWN, str(fault).partition("\n")[0]


def _npm_standing(package: str, integrity: str, workshop: Workshop) -> Standing:
    nodes = find_nodes(workshop.tools, workshop.section.node)
    if not nodes:
        return Standing(UNKNOWN, "there is no npm to ask")
    npm = Npm(nodes[0], workshop)
    with tempfile.TemporaryDirectory(prefix="dragoman-npm-") as folder:
        known = npm.view(package, folder)
    if not known:
        return Standing(WITHDRAWN, "npm does not have it any more")
    dist = known.get("dist") if isinstance(known.get("dist"), dict) else {}
    signed = _signature(lambda: npm_signature(package, dist or {}, integrity, npm.registry, workshop.http))
    state = (DEPRECATED, str(known["deprecated"])) if known.get("deprecated") else (OK, "")
    return Standing(*state, *signed)


def _pypi_standing(installed: Installed, workshop: Workshop) -> Standing:
    record = installed.record
    name, _, version = record.package.partition("==")
    name = name.partition("[")[0]
    page = f"{package_index()}/{name}/"
    answer = workshop.http.get(page, limit=MAX_PAGE)
    body = answer.body or b""
    mark = f"-{version}-"
    files = [link for link in parse_links(body, page) if mark in link[0] or f"-{version}.tar" in link[0]]
    if not files:
        return Standing(WITHDRAWN, "PyPI does not have it any more")
    lines = [line for line in body.decode("utf-8", "replace").splitlines() if mark in line]
    is_yanked = bool(lines) and all("data-yanked" in line for line in lines)
    minor = (*parse_version(record.python), 0, 0)[1]
    own = next((link for link in files if fits_python(link[0], minor)), files[0])
    locked = read_bytes(os.path.join(installed.files, TREE_FILE)) or b""
    if own[2] and own[2].encode() not in locked:
        attested = INVALID, f"PyPI now serves other bytes for {own[0]} than were installed"
    else:
        attested = _signature(lambda: pypi_attestation(body, own[0], own[2], page, workshop.http))
    return Standing(*((WITHDRAWN, "it was yanked from PyPI") if is_yanked else (OK, "")), *attested)
