"""`dragoman agents package`."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.cli.process import EVERYTHING, in_process
from tests.packaging.authors_folder import ICON, make_folder


def test_a_package_is_made_and_each_file_is_named(tmp_path: Path) -> None:
    folder = make_folder(tmp_path / "banjo", icon=ICON.replace("0 0 16 16", "0 0 24 24"))
    ran = in_process("agents", "package", "--for", "registry", str(folder))
    assert ran.returncode == 0, ran.stderr
    assert "fixed   icon.size: scaled from 24 by 24 to 16 by 16" in ran.stdout
    assert f"written {folder}/build/registry/banjo/agent.json" in ran.stdout
    assert (folder / "build" / "registry" / "archives" / "banjo-linux-x86_64.tar.gz").is_file()
    again = json.loads(in_process("agents", "package", "--for", "zed-extension", str(folder), "--json").stdout)
    assert again["faults"] == []
    assert any("deprecated" in note for note in again["notes"])


def test_broken_rules_are_one_line_each_and_nothing_is_written(tmp_path: Path) -> None:
    folder = make_folder(tmp_path / "banjo", version="1", icon="<svg/>")
    ran = in_process("agents", "package", "--for", "registry", str(folder))
    assert ran.returncode == 1
    lines = ran.stderr.splitlines()
    assert "broken  manifest.version: the version is '1'; begin it with three numbers, such as 1.0.0" in lines
    assert any(line.startswith("broken  icon.") for line in lines)
    assert lines[-1].endswith("rules broken; nothing is written")
    assert not (folder / "build").exists()


def test_check_writes_nothing(tmp_path: Path) -> None:
    folder = make_folder(tmp_path / "banjo")
    assert in_process("agents", "package", "--for", "registry", "--check", str(folder)).returncode == 0
    assert not (folder / "build").exists()


def test_what_the_agent_says_about_itself_is_compared(tmp_path: Path) -> None:
    folder = make_folder(tmp_path / "banjo", version="99.0.0")
    ran = in_process("agents", "package", "--for", "registry", "--check", str(folder), "--", *EVERYTHING)
    assert ran.returncode == 1
    assert "broken  agent.login: the agent offers no login" in ran.stderr
    assert "broken  agent.version: the agent says that it is" in ran.stderr
    gone = in_process("agents", "package", "--for", "registry", "--check", str(folder), "--", "/no/such/agent")
    assert gone.returncode == 7


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (("package", "."), "--for"),
        (("package", "--for", "snap", "."), "invalid choice"),
        (("package", "--for", "registry", "/no/such/folder"), "is no folder"),
    ],
)
def test_wrong_usage(arguments: tuple[str, ...], says: str) -> None:
    ran = in_process("agents", *arguments)
    assert (ran.returncode, says in ran.stderr) == (2, True), ran.stderr
