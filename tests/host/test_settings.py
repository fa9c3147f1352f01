"""From config.toml to a host: limits by name, roots by user; and the docs page about them."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from dragoman.cli.commands.config import check_host_section
from dragoman.config.grants import GrantsFile
from dragoman.config.host_section import HostSection
from dragoman.config.paths import user_paths
from dragoman.errors import ConfigFault
from dragoman.host import settings
from dragoman.host.limits import HostLimits
from dragoman.policy.grants import Grant
from dragoman.transport.remote.server.auth import Principal
from dragoman.transport.remote.server.limits import ServerLimits

PAGE = Path(__file__).parents[2] / "docs" / "host.md"


def test_every_limit_is_in_the_docs_with_its_default() -> None:
    rows = dict(re.findall(r"^\| `([a-z_]+)` \| (\d+) \|", PAGE.read_text(encoding="utf-8"), re.M))
    hosted_app, host_limits = ServerLimits(), HostLimits()
    defaults = {name: getattr(hosted_app, name) for name in ServerLimits.__struct_fields__}
    defaults |= {name: getattr(host_limits, field) for name, field in settings.HOST_LIMIT_FIELDS.items()}
    assert {name: float(value) for name, value in rows.items()} == defaults


def test_limits_are_set_by_name_and_unknown_limits_are_refused() -> None:
    section = HostSection(limits={"body": 1000, "rate": 2.5, "prompts": 3, "agent_idle_timeout": 7}, unattended="deny")
    assert settings.endpoint_limits(section) == ServerLimits(body=1000, rate=2.5)
    assert settings.host_limits(section) == HostLimits(max_prompts=3, idle_timeout=7.0, waits_unattended=False)
    with pytest.raises(ConfigFault, match="there is no limit bodies; the limits are body, "):
        settings.endpoint_limits(HostSection(limits={"bodies": 1}))


def test_remote_users_work_only_under_their_roots(tmp_path: Path) -> None:
    mine, shared = tmp_path / "ann", tmp_path / "all"
    for folder in (mine, shared):
        folder.mkdir()
    roots = settings.roots_lookup(HostSection(roots=(str(shared),), user_roots={"ann": (str(mine),)}))
    assert roots(Principal(user="ann")) == (str(mine),)
    assert roots(Principal(user="ben")) == (str(shared),)
    assert roots(Principal(user="me", is_local=True)) == (str(shared),)
    none = settings.roots_lookup(HostSection())
    assert none(Principal(user="ben")) == ()
    assert none(Principal(user="me", is_local=True)) is None
    with pytest.raises(ConfigFault, match="does not exist"):
        settings.roots_lookup(HostSection(roots=(str(tmp_path / "gone"),)))


def test_an_always_answer_of_a_member_does_not_become_a_grant_of_the_owner(tmp_path: Path) -> None:
    path = str(tmp_path / "grants.json")
    owners = Grant(id="1", verdict="allow", scope="always", operation="file_write", created=0.0)
    GrantsFile(path).add([owners], now=0.0)
    recalled = settings.SessionGrants(path)
    theirs = Grant(id="2", verdict="allow", scope="always", operation="terminal_execute", created=0.0)
    recalled.add([theirs], now=0.0)
    assert [grant.id for grant in recalled.current()] == ["1", "2"]
    assert [grant.id for grant in GrantsFile(path).current()] == ["1"]
    recalled.forget_run("any")
    assert [grant.id for grant in recalled.current()] == ["1"]


def test_a_policy_that_allows_servers_by_name_alone_gives_a_warning(tmp_path: Path) -> None:
    policy = tmp_path / "policy.toml"
    policy.write_text('[[rule]]\ndecision = "allow"\noperation = "mcp_start"\nserver = "docs"\n')
    paths = user_paths({"HOME": str(tmp_path)})
    (warning,) = settings.warnings(HostSection(policy=str(policy)), paths)
    assert warning.startswith(f"rule 1 of {policy}, line 1: ")
    policy.write_text(policy.read_text() + 'command = "docs-server"\n')
    assert settings.warnings(HostSection(policy=str(policy)), paths) == []


def test_an_invalid_store_setting_is_found_before_the_host_starts() -> None:
    check_host_section(HostSection(store="memory:"))
    with pytest.raises(ConfigFault, match="write a path, or sqlite:PATH, memory:"):
        check_host_section(HostSection(store="redis://queue"))


def test_the_check_of_the_configuration_finds_every_setting_that_stops_the_host(tmp_path: Path) -> None:
    section = HostSection(
        bind="nowhere",
        tls=("no-cert.pem", "no-key.pem"),
        mcp=(str(tmp_path / "no-servers.json"),),
        policy=str(tmp_path / "no-policy.toml"),
        secrets_key=str(tmp_path / "no-key"),
        access_log=str(tmp_path / "no-folder" / "access.log"),
        roots=(str(tmp_path / "no-root"),),
        limits={"promts": 1},
    )
    with pytest.raises(ConfigFault) as caught:
        check_host_section(section)
    expected = {
        "limits": "there is no limit promts",
        "roots": "the folder",
        "bind": "nowhere: give the address to listen at",
        "tls": "the certificate no-cert.pem and key no-key.pem cannot be used",
        "store": "--secrets-key needs a store of several hosts",
        "secrets_key": f"{section.secrets_key} cannot be read",
        "policy": section.policy,
        "access_log": f"the folder {tmp_path / 'no-folder'} does not exist",
        "mcp": f"{section.mcp[0]}: there is no such file",
    }
    assert len(caught.value.faults) == len(expected)
    for (name, text), fault in zip(expected.items(), caught.value.faults, strict=True):
        assert fault.startswith(f"host.{name}: {text}")
