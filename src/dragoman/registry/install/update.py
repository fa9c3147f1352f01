"""What an update would change: newer versions, and guarantees that the new version does not have. Pure."""

from __future__ import annotations

from dragoman.registry.install.binary import FIRST_USE
from dragoman.registry.install.plan import Plan
from dragoman.registry.install.records import Record


def changes(old: Record, new: Plan) -> list[str]:
    """Return what else differs between an installed agent and its update, beyond the version."""
    found = []
    pairs = (("kind", old.kind, new.kind), ("arguments", list(old.args), list(new.args)))
    found += [f"{what}: {before} -> {after}" for what, before, after in pairs if before != after]
    before, after = dict(old.env), dict(new.env)
    found += [f"variable {name} is no longer set" for name in sorted(before.keys() - after.keys())]
    found += [f"variable {name}={after[name]}" for name in sorted(after) if before.get(name) != after[name]]
    return found


def losses(old: Record, new: Plan) -> list[str]:
    """Return the guarantees that the installed version has and the new one has not."""
    found = []
    if old.by != FIRST_USE and new.by == FIRST_USE:
        found.append("nobody vouches for its bytes any more")
    if old.publisher and new.publisher and old.publisher != new.publisher:
        found.append(f"another publisher: {new.publisher}, not {old.publisher}")
    added = [script for script in new.runs_scripts if script not in old.scripts]
    if added:
        found.append(f"install scripts would run: {', '.join(added)}")
    return found
