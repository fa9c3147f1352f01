"""`--lsp` on the commands that start agents, and `dragoman lsp`."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from tests.cli.process import run


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
