"""`dragoman chat --host`: leaving what goes on, coming back to it, and the turns of others."""

from __future__ import annotations

import asyncio
import json
import signal
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from prompt_toolkit.input import create_pipe_input
from prompt_toolkit.output import DummyOutput

from dragoman.cli.chat.history import InputHistory
from dragoman.cli.chat.line_editor import InterruptiblePrompter, LineEditor
from dragoman.cli.ui.terminal import OutputStream
from tests.cli.process import OnScreen, in_process
from tests.cli.serve_process import Served

SMALL = [sys.executable, str(Path(__file__).with_name("small_agent.py"))]

ENTER, CTRL_D = "\r", "\x04"

ASKED = "▌ y/s/n?"


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    host = Served(tmp_path_factory.mktemp("host"), "--bind", "127.0.0.1:0", agent=SMALL)
    yield host
    host.end(signal.SIGKILL)


def chat(served: Served, session: str) -> OnScreen:
    return OnScreen("chat", "--host", served.url, "--session", session, cwd=served.folder, columns=120)


def kinds(served: Served, session: str) -> list[str]:
    """What is in the log."""
    shown = in_process("sessions", "show", session, "--json", "--host", served.url).stdout
    return [json.loads(line)["kind"] for line in shown.splitlines()]


def test_who_leaves_at_a_question_leaves_it_open_and_answers_it_another_time(served: Served) -> None:
    with chat(served, "roof") as terminal:
        terminal.await_last("›")
        terminal.type("write b.txt two" + ENTER)
        terminal.await_last(ASKED)
        terminal.type(CTRL_D)
        assert terminal.end() == 0
        assert "you left; the question stays open; come back with:" in terminal.text
        assert f"  dragoman chat --host {served.url} --session roof" in terminal.text
    with chat(served, "roof") as terminal:
        terminal.await_last(ASKED)
        assert terminal.text.index("> write b.txt two") < terminal.text.index("▌ The agent asks")
        terminal.hang_up()
    assert "decided" not in kinds(served, "roof")
    with chat(served, "roof") as terminal:
        terminal.await_last(ASKED)
        terminal.type("y")
        terminal.await_text("It is written.")
        terminal.await_last("›")
        terminal.type(CTRL_D)
        assert terminal.end() == 0
        assert "you left; the session stays; come back with:" in terminal.text
    assert (served.folder / "b.txt").read_text() == "two"


def test_a_turn_goes_on_when_its_prompter_leaves_and_is_not_glued_to_the_next(served: Served) -> None:
    with chat(served, "cellar") as terminal:
        terminal.await_last("›")
        terminal.type("await go" + ENTER)
        terminal.await_text("waiting")
        terminal.type(CTRL_D)
        assert terminal.end() == 0
        assert "you left; the agent goes on; come back with:" in terminal.text
    with chat(served, "cellar") as terminal:
        terminal.await_last("›")
        terminal.type("mine" + ENTER)
        terminal.await_text("waiting, number 1: ")
        (served.folder / "go").touch()
        terminal.await_text(" no more\n\n› mine\nmine\n")


# --- the line ---------------------------------------------------------------------------------------------------


async def test_who_gives_up_waiting_for_the_line_keeps_nobody_else_from_it(tmp_path: Path) -> None:

    with create_pipe_input() as keys:
        history = InputHistory(str(tmp_path / "history"))
        editor = LineEditor(history, lambda _: (), lambda: "", input=keys, output=DummyOutput())
        reading = asyncio.create_task(editor.read())
        while not editor._session.app.is_running:  # noqa: ASYNC110  (it begins within a few steps of the loop)
            await asyncio.sleep(0)

        async def wait_for_the_line() -> None:
            async with editor.suspend():
                pass

        async with editor.suspend():
            gives_up = asyncio.create_task(wait_for_the_line())
            await asyncio.sleep(0)  # it waits now
            gives_up.cancel()
            await asyncio.wait({gives_up})
        await wait_for_the_line()
        keys.send_text("hello\r")
        assert await reading == "hello"


async def test_the_line_does_not_begin_while_something_is_asked() -> None:

    person = InterruptiblePrompter(OutputStream(sys.stdout), 0)
    async with person.hold_terminal():
        waiting = asyncio.create_task(person.wait_until_free())
        await asyncio.sleep(0)
        assert not waiting.done()
    await waiting
