"""`dragoman demo`: one prompt without a terminal, a chat with one."""

from __future__ import annotations

import os
from pathlib import Path

from tests.cli.process import OnScreen, dragoman


def test_without_a_terminal_demo_runs_one_prompt(tmp_path: Path) -> None:
    ran = dragoman("demo", cwd=tmp_path)
    assert ran.returncode == 0
    assert ran.stderr == ""
    assert ran.stdout.startswith("> /tour\n")
    for shown in ("A thought comes first", "[>] Look around", "✓ Look around", "This is a **message**"):
        assert shown in ran.stdout


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
