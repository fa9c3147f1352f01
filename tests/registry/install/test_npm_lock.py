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


@pytest.mark.parametrize(
    "members",
    [
        {"resolved": "https://registry.npmjs.org/a/-/a-1.0.0.tgz"},
        {"resolved": "https://github.com/ann/a/archive/v1.tar.gz"},
        {"resolved": "https://gitlab.com/api/v4/projects/1/packages/npm/@ann/a/-/@ann/a-1.0.0.tgz"},
        {"resolved": None, "name": "@scope/other", "version": "1.0.0-rc.1+build"},
        {"dependencies": {"a": "^1.0.0 || >=2 <3", "b": "npm:@scope/b@^1", "c": "*", "d": "latest", "e": ""}},
        {"optionalDependencies": {"a": "https://cdn.example/a-1.tgz"}},
        {"peerDependencies": {"a": "github:ann/a"}, "peerDependenciesMeta": {"a": {"optional": True}}},
    ],
)
def test_packages_of_a_registry_and_archives_are_accepted(members: dict[str, Any]) -> None:
    assert list(read_lock(lock(agent=row(**members)))) == ["node_modules/agent"]


@pytest.mark.parametrize(
    "address",
    [
        "git+https://evil.example/x.git",
        "git://evil.example/x",
        "git@evil.example:x/y.git",
        "github:ann/x",
        "ann/x",
        "https://github.com/ann/x",
        "https://www.github.com/ann/x.tgz",
        "https://github.com/ann/x/archive/../../../ann/x",
        "https://github.com/ann/x/archive/%2e%2e/%2e%2e",
        "https://ann@github.com/ann/x/archive/v1.tgz",
        "https://gitlab.com/ann/x.tgz",
        "https://bitbucket.org/ann/-/x.tgz",
        "https://%67ithub.com/ann/x",
        "https:\\\\github.com/ann/x",
        "file:../x",
        "./x",
        "/x",
        "~/x",
        ".",
        "x.tgz",
        "x.tar.gz",
        "npm:x@git+https://evil.example/x",
        7,
    ],
)
def test_git_folders_and_links_in_a_lock_are_refused(address: object) -> None:
    for members in ({"resolved": address}, {"version": address}, {"dependencies": {"x": address}}):
        with pytest.raises(RegistryFault, match="the list of packages: agent") as caught:
            read_lock(lock(agent=row(**members)))
        assert caught.value.why == "hash"
    with pytest.raises(RegistryFault, match="is a link"):
        read_lock(lock(agent=row(link=True, resolved="../x")))


@pytest.mark.parametrize("value", [5, 0, True, {"linux": True}, [5], ["linux", None], [["linux"]]])
@pytest.mark.parametrize("member", ["os", "cpu", "libc"])
def test_a_platform_that_is_no_name_and_no_list_of_names_is_refused(member: str, value: object) -> None:
    with pytest.raises(RegistryFault, match=f"the list of packages: agent has the {member}") as caught:
        needed_here(read_lock(lock(agent=row(**{member: value}))), "agent")
    assert caught.value.why == "hash"


@pytest.mark.parametrize("value", [None, "", [], "any", ["any"], "!plan9", [sys.platform, "plan9"]])
def test_a_platform_is_a_name_or_a_list_of_names(value: object) -> None:
    assert needed_here(read_lock(lock(agent=row(os=value))), "agent")


def test_only_a_package_that_another_one_brings_needs_no_hash() -> None:
    brought = {"version": "1.0.0", "inBundle": True}
    tree = {"agent": row(bundleDependencies=["part"]), "agent/node_modules/part": brought}
    assert len(read_lock(lock(**tree))) == 2
    for wrong in ({"agent": row(), "agent/node_modules/part": brought}, {"agent": brought}):
        with pytest.raises(RegistryFault, match="no hash"):
            read_lock(lock(**wrong))
