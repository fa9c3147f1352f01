"""What the user sees while an agent starts slowly or not at all."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from dragoman.cli.connect import local
from dragoman.cli.ui import progress
from tests.cli.process import EVERYTHING, OnScreen, OnTerminal, in_process

CTRL_C, CTRL_D, ENTER = "\x03", "\x04", "\r"

SILENT = (sys.executable, "-c", "import sys, time; print('no network', file=sys.stderr, flush=True); time.sleep(600)")


@pytest.fixture
def gated_agent(tmp_path: Path) -> tuple[list[str], Path]:
    """An agent that starts when a file appears, and that file."""
    gate = tmp_path / "gate"
    script = tmp_path / "gated.py"
    script.write_text(
        f"import os, time\nwhile not os.path.exists({str(gate)!r}):\n    time.sleep(0.02)\n"
        f"os.execv({EVERYTHING[0]!r}, {EVERYTHING!r})\n"
    )
    return [sys.executable, str(script)], gate


def test_what_is_typed_while_the_agent_starts_is_sent(tmp_path: Path, gated_agent: tuple[list[str], Path]) -> None:
    command, gate = gated_agent
    with OnScreen("chat", "--", *command, cwd=tmp_path) as terminal:
        terminal.await_text("s · Ctrl-C quits")
        assert "starting gated" in terminal.text
        terminal.type("/echo early" + ENTER + "half a li")
        gate.touch()
        terminal.await_line("early")
        terminal.await_last("› half a li")
        assert terminal.text.count("/echo early") == 1
        assert "starting" not in terminal.text
        terminal.type("\x15" + CTRL_D)
        assert terminal.end() == 0


def test_without_the_line_editor_typing_ahead_stays_on_the_line(
    tmp_path: Path, gated_agent: tuple[list[str], Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TERM", "dumb")
    command, gate = gated_agent
    with OnTerminal("chat", "--", *command, cwd=tmp_path) as terminal:
        terminal.await_text("starting gated")
        terminal.type("/echo fir")
        gate.touch()
        terminal.await_text("› /echo fir")
        terminal.type("st" + ENTER)
        terminal.await_text("\nfirst\n")
        terminal.type(CTRL_D)
        assert terminal.end() == 0


@pytest.mark.parametrize("words", [("chat",), ("run", "--prompt", "hi")])
def test_ctrl_c_ends_a_start_and_says_so(tmp_path: Path, words: tuple[str, ...]) -> None:
    with OnTerminal(*words, "--", *SILENT, cwd=tmp_path) as terminal:
        terminal.await_text("starting python")
        terminal.type(CTRL_C)
        assert terminal.end() == 130
        assert "interrupted" in terminal.text


def test_a_start_without_an_answer_ends_with_the_stderr_of_the_agent(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(local, "INITIALIZE_TIMEOUT", 0.5)
    ran = in_process("run", "--no-store", "--prompt", "hi", "--", *SILENT, cwd=tmp_path)
    assert ran.returncode == 7
    assert "python did not answer within 0.5 s; start it yourself to see what it waits for: " in ran.stderr
    assert ran.stderr.endswith("; stderr:\nno network\n")


def test_a_slow_start_shows_the_last_lines_of_stderr(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(local, "INITIALIZE_TIMEOUT", 1.0)
    monkeypatch.setattr(local, "SLOW_START", 0)
    monkeypatch.setattr(progress, "INTERVAL", 0.05)
    ran = in_process("run", "--no-store", "--prompt", "hi", "--", *SILENT, cwd=tmp_path)
    assert ran.stderr.splitlines()[0] == "  no network"
    quiet = in_process("run", "--quiet", "--no-store", "--prompt", "hi", "--", *SILENT, cwd=tmp_path)
    assert quiet.stderr.startswith("dragoman run: python did not answer")


def test_a_program_that_answers_nothing_is_named_once_with_what_to_try(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(local, "INITIALIZE_TIMEOUT", 1.5)
    monkeypatch.setattr(local, "SLOW_START", 0)
    monkeypatch.setattr(local, "NO_ANSWER_HINT", 0)
    monkeypatch.setattr(progress, "INTERVAL", 0.05)
    ran = in_process("run", "--no-store", "--prompt", "hi", "--", "sleep", "300", cwd=tmp_path)
    assert ran.stderr.count("sleep has answered nothing yet; many agents speak ACP only with an option") == 1


async def test_in_a_log_progress_is_a_line_now_and_then(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    import asyncio

    from dragoman.cli.ui.terminal import OutputStream

    monkeypatch.setattr(progress, "INTERVAL", 0.01)
    is_visible = asyncio.Event()

    def describe(seconds: int) -> str:
        is_visible.set()
        return f"working… {seconds} s"

    async with progress.show_progress(OutputStream(sys.stderr), describe, first_line=0):
        await is_visible.wait()
        await asyncio.sleep(0.1)  # ten more intervals: the next line would come after LINE_INTERVAL
    assert capsys.readouterr().err == "working… 0 s\n"
