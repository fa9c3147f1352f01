"""`dragoman demo`: one prompt without a terminal, a conversation with one."""

from __future__ import annotations

import os
from pathlib import Path

from tests.cli.process import OnScreen, dragoman


def test_without_a_terminal_it_plays_one_prompt(tmp_path: Path) -> None:
    ran = dragoman("demo", cwd=tmp_path)
    assert ran.returncode == 0
    assert ran.stderr == ""
    assert ran.stdout.startswith("> /tour\n")
    for shown in ("A thought comes first", "[>] Look around", "✓ Look around", "This is a **message**"):
        assert shown in ran.stdout


def test_on_a_terminal_it_is_a_conversation_that_leaves_nothing(tmp_path: Path) -> None:
    with OnScreen("demo", cwd=tmp_path) as terminal:
        terminal.await_last("›")
        assert "Everything 0.1.0, speaking v1" in terminal.text
        terminal.type("/read notes.txt\r")
        terminal.await_text("notes.txt has 2 lines.")
        terminal.await_last("›")
        terminal.type("\x04")
        assert terminal.end() == 0
    assert not os.path.exists(tmp_path / "state" / "dragoman" / "history")


def test_an_agent_that_dies_ends_it_with_its_last_words(tmp_path: Path) -> None:
    with OnScreen("demo", cwd=tmp_path) as terminal:
        terminal.await_last("›")
        terminal.type("/crash\r")
        assert terminal.end() == 7
        assert "everything: crashing, as I was told" in terminal.text
