"""ruff and ty, as they come from PyPI: diagnostics after an edit, in their own encodings."""

from __future__ import annotations

from pathlib import Path

import pytest

from dragoman.bridge.lsp.diagnostics import format_report
from tests.bridge.lsp.projects import PATIENCE, built_in, language_servers, prepare_all, write

BEFORE = 'from a import greet\n\nx: str = greet("é😀"); z = 1\n'
AFTER = BEFORE + 'import os\n"é😀"; y: int = greet("x")\n'


@pytest.mark.item("BR-24", "004-69")
async def test_an_edit_is_followed_by_its_diagnostics_of_all_servers_with_new_ones_marked(tmp_path: Path) -> None:
    write(tmp_path, "pyproject.toml", "")
    write(tmp_path, "a.py", "def greet(name: str) -> str:\n    return name\n")
    path = write(tmp_path, "b.py", BEFORE)
    async with language_servers(tmp_path, [built_in("ruff"), built_in("ty")]) as servers:
        await prepare_all(servers, path)
        write(tmp_path, "b.py", AFTER)
        reports = await servers.diagnose({path: AFTER}, PATIENCE)
        assert {each["name"] for each in servers.status()} == {"ruff", "ty"}
        lines = format_report(reports, str(tmp_path)).splitlines()
    assert lines[0] == "Diagnostics:"
    assert any(line.startswith("b.py:5:16 new error ty(invalid-assignment): ") for line in lines)
    assert any(line.startswith("b.py:4:8 new ") and "F401" in line for line in lines)
    old = [line for line in lines if line.startswith("b.py:3:") and "E702" in line]
    assert all(" new " not in line for line in old)


@pytest.mark.item("BR-24")
async def test_an_edit_that_breaks_another_open_file_says_so(tmp_path: Path) -> None:
    write(tmp_path, "pyproject.toml", "")
    definition = write(tmp_path, "a.py", "def greet(name: str) -> str:\n    return name\n")
    use = write(tmp_path, "b.py", 'from a import greet\n\nprint(greet("x"))\n')
    async with language_servers(tmp_path, [built_in("ty")]) as servers:
        await prepare_all(servers, use, definition)
        changed = "def greet(name: str, title: str) -> str:\n    return name\n"
        write(tmp_path, "a.py", changed)
        reports = await servers.diagnose({definition: changed}, PATIENCE)
        text = format_report(reports, str(tmp_path))
    assert "b.py:3:7 new error ty(missing-argument)" in text


async def test_all_problems_of_a_new_file_are_new(tmp_path: Path) -> None:
    write(tmp_path, "pyproject.toml", "")
    path = write(tmp_path, "new.py", 'x: int = "1"\n')
    async with language_servers(tmp_path, [built_in("ty")]) as servers:
        reports = await servers.diagnose({path: 'x: int = "1"\n'}, PATIENCE, created=[path])
        assert reports[0].new == {0}
