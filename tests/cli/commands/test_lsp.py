"""`--lsp` on the commands that start agents, and `dragoman lsp`."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

import pytest

from tests.cli.process import DRAGOMAN, EVERYTHING, dragoman, in_process, run
from tests.cli.serve_process import Served


@pytest.fixture(autouse=True)
def _servers_on_path(monkeypatch: pytest.MonkeyPatch) -> None:
    """Find ruff and ty of the environment in which the tests run."""
    monkeypatch.setenv("PATH", f"{os.path.dirname(sys.executable)}:{os.environ['PATH']}")


@pytest.mark.item("BR-24")
def test_run_with_lsp_shows_the_diagnostics_of_a_write_and_leaves_nothing_running(tmp_path: Path) -> None:
    ran = run("/write a.py x: int = 'one'", "--lsp", "-y", cwd=tmp_path)
    assert ran.returncode == 0
    assert "a.py:1:10 new error ty(invalid-assignment)" in ran.stderr


def test_without_the_flag_no_language_server_is_used(tmp_path: Path) -> None:
    ran = run("/write a.py x: int = 'one'", "-y", cwd=tmp_path)
    assert ran.returncode == 0
    assert "invalid-assignment" not in ran.stderr


def test_status_lists_the_servers_and_which_would_be_used(tmp_path: Path) -> None:
    ran = in_process("lsp", "status", cwd=tmp_path)
    assert ran.returncode == 0
    states = {line.split()[0]: line.split("  ")[1].strip() for line in ran.stdout.splitlines()}
    assert states.keys() >= {"ruff", "ty", "pyright", "gopls"}
    assert "ruff" in states
    found = {each["name"]: each for each in json.loads(in_process("lsp", "--json", cwd=tmp_path).stdout)["servers"]}
    assert (found["ty"]["used"], found["ty"]["group"], found["ruff"]["used"]) == (True, "python", True)
    assert found["ty"]["program"].endswith("/ty")


def test_status_fails_when_no_server_is_installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    ran = in_process("lsp", cwd=tmp_path)
    assert (ran.returncode, "install: PyPI ty" in ran.stdout) == (1, True)


def test_status_names_a_wrong_section(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    (tmp_path / "dragoman").mkdir(mode=0o700)
    (tmp_path / "dragoman" / "config.toml").write_text('[lsp.zig]\ncommand = ["zls"]\n')
    ran = in_process("lsp", "status", cwd=tmp_path)
    assert (ran.returncode, "lsp.zig: give command and files" in ran.stderr) == (2, True)


@pytest.mark.item("BR-24")
def test_a_host_with_lsp_shows_diagnostics_to_the_members_of_a_session(tmp_path: Path) -> None:
    served = Served(tmp_path, "--lsp", "--store", "memory:", "--bind", "127.0.0.1:0")
    try:
        ran = dragoman(
            "run", "--host", served.url, "--cwd", str(tmp_path), "-y", "--prompt", "/write a.py x: int = 'one'"
        )
    finally:
        served.end()
    assert "a.py:1:10 new error ty(invalid-assignment)" in ran.stderr


@pytest.mark.item("BR-24")
def test_translate_with_lsp_adds_diagnostics_for_a_client_that_knows_nothing_of_them(tmp_path: Path) -> None:
    proxy = [*DRAGOMAN, "translate", "--lsp", "--", *EVERYTHING]
    ran = run("/write a.py x: int = 'one'", "-y", cwd=tmp_path, agent=proxy)
    assert "a.py:1:10 new error ty(invalid-assignment)" in ran.stderr
