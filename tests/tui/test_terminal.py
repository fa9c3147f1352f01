"""The program on a real terminal: start, resize, suspend and resume, a closed terminal, signals."""

from __future__ import annotations

import re
import shlex
import signal
import sys
import time
from pathlib import Path

import pytest

from tests.cli import process
from tests.cli.process import TIMEOUT, OnScreen, dragoman

# An agent that notes its process and lives until its client ends.
AGENT = """
import os, sys
from dragoman import Agent
open("pid", "w").write(str(os.getpid()))
agent = Agent("tester")
@agent.prompt
async def answer(turn):
    await turn.say("You said: " + turn.text)
    if turn.text == "hang":
        import asyncio
        await asyncio.sleep(1000)
agent.run()
"""


def start(here: Path, *options: str, command: str = "tui", columns: int = 100, lines: int = 30) -> OnScreen:
    (here / "agent.py").write_text(AGENT)
    agent = (sys.executable, str(here / "agent.py"))
    return OnScreen(command, *options, "--", *agent, cwd=here, columns=columns, lines=lines)


def assert_ended(pid: int) -> None:
    """Wait until a process is gone."""
    deadline = time.monotonic() + TIMEOUT
    while Path(f"/proc/{pid}/cmdline").exists() and b"agent.py" in Path(f"/proc/{pid}/cmdline").read_bytes():
        assert time.monotonic() < deadline, f"the agent {pid} is left running"
        time.sleep(0.02)


@pytest.mark.item("FA-26", "FA-22")
def test_resizing_loses_nothing(here: Path) -> None:
    with start(here, "--full", command="chat") as terminal:
        terminal.await_text("● live")
        terminal.type("hello there\r")
        terminal.await_text("You said: hello there")
        terminal.type("a draft")
        terminal.await_text("❯ a draft")
        terminal.resize(50, 12)
        terminal.await_text("You said: hello there")
        terminal.resize(160, 40)
        terminal.await_text("this machine")
        terminal.await_text("❯ a draft")
        agent = int((here / "pid").read_text())
        terminal.type("\x03\x04")
        assert terminal.end() == 0
    assert_ended(agent)


@pytest.mark.item("FA-26")
def test_ctrl_z_suspends_and_fg_resumes(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (here / "agent.py").write_text(AGENT)
    monkeypatch.setattr(process, "DRAGOMAN", ["bash", "--norc", "--noediting", "-i"])
    monkeypatch.setenv("PS1", "shell> ")
    with OnScreen(cwd=here, columns=100, lines=30) as terminal:
        terminal.await_text("shell>")
        terminal.type(f"{shlex.join([sys.executable, '-m', 'dragoman', 'tui', '--', sys.executable, 'agent.py'])}\r")
        terminal.await_text("● live")
        terminal.type("hello there\r")
        terminal.await_text("You said: hello there")
        terminal.type("a draft\x1a")
        terminal.await_text("Stopped")
        terminal.type("fg\r")
        terminal.await_text("You said: hello there")
        terminal.type(" and more")
        terminal.await_text("❯ a draft and more")
        terminal.type("\x03\x04")
        terminal.await_text("shell>")
        terminal.type("exit\r")
        assert terminal.end() == 0
    assert_ended(int((here / "pid").read_text()))


@pytest.mark.item("FA-26")
@pytest.mark.parametrize("way", ["hang up", "term", "ctrl-c"])
def test_the_end_of_the_terminal_ends_the_agent(here: Path, way: str) -> None:
    with start(here) as terminal:
        terminal.await_text("● live")
        terminal.type("hang\r")
        terminal.await_text("You said: hang")
        agent = int((here / "pid").read_text())
        if way == "hang up":
            terminal.hang_up()
        elif way == "term":
            terminal._process.send_signal(signal.SIGTERM)
            assert terminal.end() == 130
            assert "\x1b[?1049l" in terminal.raw  # the screen before is back
        else:
            terminal.type("\x03")
            terminal.await_text("stop")
            terminal.type("\x03")
            assert terminal.end() == 0
    assert_ended(agent)
    shown = dragoman("sessions", "show", "--json", _only_session(here), cwd=here)
    assert '"kind":"prompt"' in shown.stdout.replace(" ", "")  # nothing of it is lost


def _only_session(here: Path) -> str:
    listed = dragoman("sessions", "--json", cwd=here).stdout
    found = re.search(r'"sessionId": "([^"]+)"', listed)
    assert found is not None, listed
    return found[1]


def test_without_a_terminal_it_says_what_to_use(here: Path) -> None:
    ran = dragoman("tui", "--", "true", cwd=here)
    assert ran.returncode == 2
    assert "needs a terminal; for one prompt, use: dragoman run" in ran.stderr
