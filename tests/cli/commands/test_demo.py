"""`dragoman demo`: one prompt without a terminal, a chat with one."""

from __future__ import annotations

import os
import re
from pathlib import Path

from tests.cli.process import OnScreen, dragoman

RECORDING = Path(__file__).parents[2] / "data" / "recordings" / "crow.ndjson"


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


def test_an_agent_that_exits_can_be_started_again_in_the_demo(tmp_path: Path) -> None:
    with OnScreen("demo", cwd=tmp_path) as terminal:
        terminal.await_last("›")
        terminal.type("/crash\r")
        terminal.await_line("▌ The agent exited. The session is not stored.")
        assert "everything: crashing, as I was told" in terminal.text
        terminal.await_last("▌ y/n?")
        terminal.type("y")
        terminal.await_last("›")
        terminal.type("/read notes.txt\r")
        terminal.await_text("notes.txt has 2 lines.")
        terminal.await_last("›")
        terminal.type("/crash\r")
        terminal.await_last("▌ y/n?")
        terminal.type("n")
        assert terminal.end() == 7


def test_the_hints_break_between_commands(tmp_path: Path) -> None:
    with OnScreen("demo", cwd=tmp_path, columns=60) as terminal:
        terminal.await_last("›")
        lines = terminal.text.split("\n")
        terminal.type("\x04")
        assert terminal.end() == 0
    assert "  /tour    /write note.txt hello" in lines
    assert "  /edit notes.txt read see    /run ls -l    /plan    /help" in lines


def test_more_shows_the_lines_that_were_cut(tmp_path: Path) -> None:
    with OnScreen("demo", cwd=tmp_path) as terminal:
        terminal.await_last("›")
        terminal.type(":more\r")
        terminal.await_text("no lines were left out")
        terminal.await_last("›")
        terminal.type("/run seq 20\r")
        terminal.await_last("▌ y/s/w/n?")
        terminal.type("y")
        terminal.await_line("    … 4 earlier lines (:more shows all)")
        terminal.await_last("›")
        assert "    3" not in terminal.text.split("\n")
        terminal.type(":more\r")
        terminal.await_line("    3")
        terminal.await_last("›")
        terminal.type("\x04")
        assert terminal.end() == 0


def test_a_closed_window_leaves_no_folder(tmp_path: Path) -> None:
    with OnScreen("demo", cwd=tmp_path, columns=120) as terminal:
        terminal.await_last("›")
        found = re.search(r"/\S*dragoman-demo-\w+", terminal.text)
        assert found is not None
        assert os.path.isdir(found[0])
        terminal.hang_up()
    assert not os.path.exists(found[0])
