"""What npm and uv resolved, kept for a day like the index, so that the same install asks them only once.

The packages themselves are compared with the hashes of the list, wherever they come from later.
"""

from __future__ import annotations

import hashlib
import os
from datetime import UTC, datetime

import msgspec

from dragoman.config.private_files import read_bytes, write_private
from dragoman.ids import now
from dragoman.registry.index.entry import Entry, Package
from dragoman.registry.index.sources import MAX_AGE
from dragoman.registry.install.plan import Plan, Wishes, Workshop
from dragoman.registry.platforms import this_machine
from dragoman.registry.tools.find import find_nodes, find_uv, program_version

# A list of 500 packages with their hashes has 1 MB. Bytes.
MAX_KEPT = 16 * 1024 * 1024
# Whatever steers npm or uv makes another resolution.
_PREFIXES = ("npm_config_", "uv_", "pip_")
_SETTINGS = ("~/.npmrc", "~/.config/uv/uv.toml")


class _Kept(msgspec.Struct):
    date: str
    plan: Plan


class Resolutions:
    """The resolutions of one user."""

    def __init__(self, workshop: Workshop) -> None:
        self._workshop = workshop

    def find(self, package: Package, version: str, wishes: Wishes, entry: Entry) -> Plan | None:
        """Return the plan that the same wishes led to within a day, offline at any time; None if there is none."""
        data = read_bytes(self._path(package, version, wishes), MAX_KEPT)
        if data is None:
            return None
        try:
            kept = msgspec.json.decode(data, type=_Kept)
            age = datetime.now(UTC) - datetime.fromisoformat(kept.date)
        except (ValueError, msgspec.DecodeError):
            return None
        python = kept.plan.python
        if python is not None and program_version(python.path).removeprefix("Python ") != python.version:
            return None
        if age > MAX_AGE and not self._workshop.is_offline:
            return None
        return msgspec.structs.replace(kept.plan, entry=entry, wishes=wishes)

    def keep(self, package: Package, version: str, plan: Plan) -> None:
        """Keep a plan; the entry is read anew each time."""
        bare = Entry(id=plan.entry.id, name=plan.entry.id, version=plan.version)
        kept = _Kept(now(), msgspec.structs.replace(plan, entry=bare))
        write_private(self._path(package, version, plan.wishes), msgspec.json.encode(kept))

    def _path(self, package: Package, version: str, wishes: Wishes) -> str:
        tools = self._workshop.tools
        found = find_nodes(tools, self._workshop.section.node) if package.kind == "npx" else find_uv(tools)
        settings = [_changed(os.path.expanduser(path)) for path in _SETTINGS]
        steering = sorted((name, value) for name, value in os.environ.items() if name.lower().startswith(_PREFIXES))
        facts = [package, version, wishes.allow_scripts, wishes.at_most, found, this_machine(), settings, steering]
        digest = hashlib.sha256(msgspec.json.encode(facts)).hexdigest()
        return os.path.join(self._workshop.paths.cache, "registry", "resolved", digest)


def _changed(path: str) -> int:
    try:
        return os.stat(path).st_mtime_ns
    except OSError:
        return 0
