"""`dragoman demo`: one prompt without a terminal, a chat with one."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

from dragoman.cli.commands import demo
from dragoman.inspect.recorded_peer import Recording
from tests.cli.process import OnScreen, dragoman

RECORDING = Path(__file__).parents[2] / "data" / "recordings" / "crow.ndjson"


def test_without_a_terminal_demo_runs_one_prompt(tmp_path: Path) -> None:
    ran = dragoman("demo", cwd=tmp_path)
    assert ran.returncode == 0
    assert ran.stderr == ""
    assert ran.stdout.startswith("> /tour\n")
    for shown in ("A thought comes first", "[>] Look around", "✓ Look around", "This is a **message**"):
        assert shown in ran.stdout


def test_a_folder_called_dragoman_is_not_imported(tmp_path: Path) -> None:
    (tmp_path / "dragoman").mkdir()
    (tmp_path / "dragoman" / "__init__.py").write_text("raise SystemExit('imported')")
    for command in demo.AGENT.argv, Recording(RECORDING).command():
        ran = subprocess.run(command, cwd=tmp_path, input=b"", capture_output=True, timeout=60)
        assert b"imported" not in ran.stderr
        assert b"No module named" not in ran.stderr


def test_on_a_terminal_demo_is_a_chat_that_stores_nothing(tmp_path: Path) -> None:
    with OnScreen("demo", cwd=tmp_path) as terminal:
        terminal.await_last("›")
        assert "Everything 0.1.0 (v1) in " in terminal.text
        terminal.type("/read notes.txt\r")
        terminal.await_text("notes.txt has 2 lines.")
        terminal.await_last("›")
        terminal.type("\x04")
        assert terminal.end() == 0
    assert not os.path.exists(tmp_path / "state" / "dragoman" / "history")


def test_an_agent_exit_ends_the_demo_with_its_stderr(tmp_path: Path) -> None:
    with OnScreen("demo", cwd=tmp_path) as terminal:
        terminal.await_last("›")
        terminal.type("/crash\r")
        assert terminal.end() == 7
        assert "everything: crashing, as I was told" in terminal.text
