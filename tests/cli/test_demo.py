"""`dragoman demo`: one prompt without a terminal, a conversation with one."""

from __future__ import annotations

from pathlib import Path

from dragoman.agents.everything import COMMANDS
from tests.cli.command import OnTerminal, dragoman


def test_without_a_terminal_it_plays_one_prompt(tmp_path: Path) -> None:
    ran = dragoman("demo", cwd=tmp_path)
    assert ran.returncode == 0
    assert ran.stderr == ""
    assert ran.stdout.startswith("> /tour\n")
    for shown in ("A thought comes first", "[>] Look around", "✓ Look around", "This is a **message**"):
        assert shown in ran.stdout


def test_on_a_terminal_it_talks_until_an_empty_line(tmp_path: Path) -> None:
    with OnTerminal("demo", cwd=tmp_path) as terminal:
        terminal.await_text("you> ")
        assert "This is everything" in terminal.text
        assert all(f"/{command.name}" in terminal.text for command in COMMANDS)
        terminal.type("hello there\n")
        terminal.await_text("│ hello there\n\n/help")
        terminal.type("/read notes.txt\n")
        terminal.await_text("notes.txt has 2 lines.")
        terminal.type("\n")
        assert terminal.end() == 0


def test_late_news_stand_above_the_prompt(tmp_path: Path) -> None:
    with OnTerminal("demo", cwd=tmp_path) as terminal:
        terminal.await_text("you> ")
        terminal.type("/late\n")
        terminal.await_text("the session is called 'A session with late news' now")
        shown = terminal.text
        assert shown.index("More comes after") < shown.index("This came after") < shown.index("1600 of 8000")
        terminal.type("/quit\n")
        assert terminal.end() == 0


def test_a_failed_turn_does_not_end_the_conversation(tmp_path: Path) -> None:
    with OnTerminal("demo", cwd=tmp_path) as terminal:
        terminal.await_text("you> ")
        terminal.type("/error timeout\n")
        terminal.await_text("the agent answered with an error (timeout)")
        terminal.type("/slow 1000\n")
        terminal.await_text("… Wait")
        terminal.type("\x03")
        terminal.await_text("the turn ended: cancelled")
        terminal.type("/echo still here\n")
        terminal.await_text("\nstill here")
        terminal.type("\x04")
        assert terminal.end() == 0


def test_an_agent_that_dies_ends_it_with_its_last_words(tmp_path: Path) -> None:
    with OnTerminal("demo", cwd=tmp_path) as terminal:
        terminal.await_text("you> ")
        terminal.type("/crash\n")
        assert terminal.end() == 7
        assert "everything: crashing, as I was told" in terminal.text


def test_ctrl_c_at_the_prompt_ends_it(tmp_path: Path) -> None:
    with OnTerminal("demo", cwd=tmp_path) as terminal:
        terminal.await_text("you> ")
        terminal.type("\x03")
        assert terminal.end() == 0
