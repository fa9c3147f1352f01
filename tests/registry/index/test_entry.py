"""An index is read as far as it is understood: one bad entry changes nothing for the others."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dragoman.registry.fault import RegistryFault
from dragoman.registry.index.entry import MAX_INDEX, Index, parse_index
from dragoman.registry.index.snapshot import matrix_facts, quarantine, snapshot_index

GOOD: dict[str, Any] = {
    "id": "good",
    "name": "Good",
    "version": "1.2.3",
    "description": "An agent",
    "distribution": {"npx": {"package": "good-agent@1.2.3", "args": ["--acp"]}},
}


def index_of(*entries: Any, version: str = "1.0.0") -> Index:
    return parse_index(json.dumps({"version": version, "agents": list(entries), "extensions": []}).encode())


def entry(id: str = "other", **changes: Any) -> dict[str, Any]:
    return {**GOOD, "id": id, **changes}


def binary(**target: Any) -> dict[str, Any]:
    return {"binary": {"linux-x86_64": {"archive": "https://example.org/a.tar.gz", "cmd": "./a", **target}}}


@pytest.mark.item("RG-01", "OFF-05")
def test_the_shapes_of_the_official_index_are_all_read() -> None:
    index = snapshot_index()
    assert len(index.entries) == 31
    assert index.skipped == ()
    assert index.entries["kilo"].kinds == ("binary", "npx")
    assert index.entries["goose"].binaries["windows-x86_64"].cmd == "goose-package/goose.exe"
    assert index.entries["amp-acp"].binaries["windows-x86_64"].cmd == "amp-acp.exe"
    assert "%2B" in index.entries["cortex-code"].binaries["linux-x86_64"].archive
    assert index.entries["cortex-code"].binaries["linux-x86_64"].cmd.startswith("coco-1.1.27+200623")
    assert index.entries["minion-code"].packages["uvx"].spec == "minion-code==0.1.8"
    assert index.entries["claude-acp"].packages["npx"].name == "@agentclientprotocol/claude-agent-acp"
    assert dict(index.entries["auggie"].packages["npx"].env) == {"AUGMENT_DISABLE_AUTO_UPDATE": "1"}
    assert "darwin-x86_64" not in index.entries["kimi"].binaries
    facts = matrix_facts("gemini")
    assert facts is not None
    assert facts.can["loadSession"]
    assert not facts.can["sessionCapabilities.fork"]
    assert "qoder" in quarantine()


@pytest.mark.item("RG-01")
@pytest.mark.parametrize(
    ("bad", "reason"),
    [
        (entry(id="Bad_Id"), "its id is not made of"),
        (entry(distribution={}), "no distribution"),
        (entry(name=""), "no name"),
        (entry(name="Ni\u001bce"), "control characters"),
        (entry(name="Ni\u202ece"), "control characters"),
        (entry(version=7), "version is not a text"),
        ("text", "not an object"),
        (entry(description="x" * 2_000_000), "larger than 256 KiB"),
        (GOOD, "another entry with this id"),
    ],
)
def test_one_bad_entry_is_skipped_with_its_reason(bad: Any, reason: str) -> None:
    index = index_of(GOOD, bad)
    assert list(index.entries) == ["good"]
    assert len(index.skipped) == 1
    assert reason in index.skipped[0][1]


@pytest.mark.item("RG-01")
def test_members_and_distributions_of_tomorrow_are_ignored() -> None:
    tomorrow = entry(
        surprise={"a": [1]},
        distribution={"npx": {"package": "x@1.0.0", "sandbox": True}, "oci": {"image": "x"}},
    )
    index = index_of(GOOD, tomorrow, entry(id="only", distribution={"oci": {"image": "x"}}))
    assert index.skipped == ()
    assert index.entries["other"].kinds == ("npx",)
    assert index.entries["other"].notes == ("unknown kind of distribution: oci",)
    assert index.entries["only"].kinds == ()


def test_an_entry_may_leave_out_its_license_and_have_two_numbers_in_its_version() -> None:
    index = index_of(entry(version="1.0"))
    assert index.entries["other"].version == "1.0"
    assert index.entries["other"].license == ""


@pytest.mark.parametrize("cmd", ["../x", "/bin/sh", "a/../../b", "C:\\x.exe", "..\\x", ".", "", "a//b"])
def test_a_command_that_leads_out_of_the_archive_is_left_out(cmd: str) -> None:
    read = index_of(entry(distribution=binary(cmd=cmd))).entries["other"]
    assert read.binaries == {}
    assert "cmd" in read.notes[0]


@pytest.mark.item("RG-13")
def test_variables_that_steer_processes_are_left_out_and_named() -> None:
    env = {"LD_PRELOAD": "/x", "node_options": "--require x", "PATH": "/x", "PYTHONPATH": "/x", "MODEL": "large",
           "HTTPS_PROXY": "x", "DRAGOMAN_TOKEN": "x", "A B": "x", "GIT_SSH_COMMAND": "x"}  # fmt: skip
    read = index_of(entry(distribution=binary(env=env))).entries["other"]
    assert dict(read.binaries["linux-x86_64"].env) == {"MODEL": "large"}
    assert len(read.notes) == len(env) - 1
    assert any("LD_PRELOAD" in note for note in read.notes)


def test_a_package_may_have_extras_and_a_command_of_its_own() -> None:
    uvx = {"package": "hermes-agent[acp]==0.9", "cmd": "hermes"}
    package = index_of(entry(distribution={"uvx": uvx})).entries["other"].packages["uvx"]
    assert (package.name, package.extras, package.version, package.cmd) == ("hermes-agent", ("acp",), "0.9", "hermes")
    assert package.spec == "hermes-agent[acp]==0.9"


@pytest.mark.parametrize("package", ["x; rm -rf /", "-g", "git+https://example.org/x", "../x", "x@file:../y", "a b"])
def test_a_package_that_is_no_name_with_a_version_is_left_out(package: str) -> None:
    for kind in ("npx", "uvx"):
        assert index_of(entry(distribution={kind: {"package": package}})).entries["other"].kinds == ()


def test_a_preview_is_the_same_agent_at_another_version() -> None:
    preview = {"version": "1.3.0-preview.2", "distribution": {"npx": {"package": "good-agent@1.3.0-preview.2"}}}
    read = index_of(entry(preview=preview)).entries["other"]
    assert read.preview is not None
    assert read.preview.version == "1.3.0-preview.2"
    assert read.preview.name == "Good"


def test_an_index_of_a_newer_format_is_refused() -> None:
    with pytest.raises(RegistryFault, match="update Dragoman") as caught:
        index_of(GOOD, version="2.0.0")
    assert caught.value.exit_code == 7


@pytest.mark.parametrize("data", [b"", b"[]", b"<html>", b'{"agents": 1}', b"\xff", b'{"agents": ' + b"[" * 100_000])
def test_what_is_no_index_is_refused(data: bytes) -> None:
    with pytest.raises(RegistryFault):
        parse_index(data)


def test_an_index_that_is_too_large_is_refused() -> None:
    with pytest.raises(RegistryFault, match="larger"):
        parse_index(b" " * (MAX_INDEX + 1))


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=8,
)


@given(
    st.dictionaries(
        st.sampled_from(["id", "name", "version", "distribution", "preview", "authors", "license"]), VALUES, max_size=7
    ),
    st.dictionaries(st.sampled_from(["npx", "uvx", "binary"]), VALUES, max_size=3),
)
def test_no_entry_ends_the_reading_of_the_others(members: dict[str, Any], distribution: dict[str, Any]) -> None:
    index = index_of({**entry(), **members}, {**entry(id="third"), "distribution": distribution}, GOOD)
    assert "good" in index.entries
