"""Which packages of an npm lock this machine needs, by their platforms and by what needs them."""

from __future__ import annotations

import json
import sys
from typing import Any

import pytest

from dragoman.registry.fault import RegistryFault
from dragoman.registry.install.npm_lock import hash_of, needed_here, read_lock

HASH = "sha512-z4PhNX7vuL3xVChQ1m2AB9Yg5AULVxXcg/SpIdNs6c5H0NE8XYXysP+DGNKHfuwvY7kxvUdBeoGlODJ6+SfaPg=="


def row(**members: Any) -> dict[str, Any]:
    return {"version": "1.0.0", "integrity": HASH, **members}


def lock(**rows: dict[str, Any]) -> bytes:
    packages = {"": {}, **{f"node_modules/{path}": each for path, each in rows.items()}}
    return json.dumps({"packages": packages}).encode()


def test_optional_packages_of_other_platforms_are_left_out_with_what_only_they_need() -> None:
    other = "darwin" if sys.platform != "darwin" else "linux"
    rows = read_lock(
        lock(
            agent=row(dependencies={"part": "1"}, optionalDependencies={"alien": "1", "native": "1", "gone": "1"}),
            part=row(),
            alien=row(optional=True, os=[other], dependencies={"deep": "1", "part": "1"}),
            deep=row(optional=True),
            native=row(optional=True, os=[f"!{other}"]),
        )
    )
    assert sorted(needed_here(rows, "agent") or {}) == [f"node_modules/{each}" for each in ("agent", "native", "part")]
    rows["node_modules/part"]["os"] = [other]  # npm refuses this by itself
    assert needed_here(rows, "agent") is None


def test_a_package_finds_another_below_itself_first() -> None:
    tree = {"agent": row(dependencies={"part": "2"}), "agent/node_modules/part": row(), "part": row()}
    found = needed_here(read_lock(lock(**tree)), "agent")
    assert sorted(found or {}) == ["node_modules/agent", "node_modules/agent/node_modules/part"]


def test_the_strongest_hash_counts() -> None:
    name, digest = hash_of({"integrity": f"sha1-2jmj7l5rSw0yVb/vlWAYkK/YBwk= {HASH}"})
    assert (name, digest[:8]) == ("sha512", "cf83e135")
    assert hash_of({"integrity": "md5-xx sha512-***"}) == ("", "")


@pytest.mark.parametrize("path", ["../x", "a/../../x", "node_modules/..", "/etc/x", "a/b"])
def test_a_lock_cannot_name_a_place_outside(path: str) -> None:
    with pytest.raises(RegistryFault, match="outside"):
        read_lock(json.dumps({"packages": {f"node_modules/{path}": row()}}).encode())
