"""A process of Dragoman imports nothing from the folder that it is started in: anybody may have made that folder."""

from __future__ import annotations

import subprocess
from collections.abc import Sequence
from pathlib import Path

import pytest

import dragoman
from dragoman.cli.commands import demo
from dragoman.config.config_file import parse_config
from dragoman.editors import launch
from dragoman.inspect.recorded_peer import Recording
from dragoman.mcp.listener import serve_shim
from dragoman.mcp.offers import OfferedServer

RECORDING = Path(__file__).parents[1] / "data" / "recordings" / "crow.ndjson"
CONFIG = """
[agents.a]
command = "true"
[chains.c]
proxies = []
agent = "a"
[teams.t]
agents = { a = "a" }
"""


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A folder with modules of the names that Dragoman and Python import first."""
    for name in ("dragoman", "asyncio"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "__init__.py").write_text("raise SystemExit('imported')")
    return tmp_path


def check_start(command: Sequence[str], project: Path) -> None:
    """Start a command there, and check that Dragoman's own modules ran."""
    ran = subprocess.run(command, cwd=project, input=b"", capture_output=True, timeout=60)
    assert b"imported" not in ran.stderr
    assert b"No module named" not in ran.stderr


def test_chains_teams_the_demo_and_recordings_import_nothing_from_there(project: Path) -> None:
    agents = parse_config(CONFIG, "config.toml").agents
    for command in agents["c"].argv, agents["t"].argv, demo.AGENT.argv, Recording(RECORDING).command():
        check_start(command, project)


def test_what_an_editor_starts_imports_nothing_from_there(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("os.access", lambda *_: False)  # as if the command were not beside Python, nor on PATH
    monkeypatch.setenv("PATH", "")
    command = launch.own_command()
    assert len(command) > 1
    monkeypatch.undo()
    check_start([*command, "agents"], project)


async def test_the_shim_of_an_mcp_server_imports_nothing_from_there(project: Path) -> None:
    pytest.importorskip("mcp")
    from mcp.server.mcpserver import MCPServer

    async with serve_shim(OfferedServer("sums", MCPServer("sums"))) as entry:
        command = [entry.command or "", *(entry.args or [])]
    check_start(command, project)  # nobody serves it any more: it says so and ends


def test_no_other_module_makes_such_a_command_line() -> None:
    sources = Path(dragoman.__file__).parent
    found = [path for path in sources.rglob("*.py") if '"-m", "dragoman' in path.read_text(encoding="utf-8")]
    assert found == []
