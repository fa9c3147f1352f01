"""`dragoman chat --host`: detach, return, and turns of other members."""

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

from dragoman.cli.chat.line_editor import InputHistory, InterruptiblePrompter, LineEditor
from dragoman.cli.ui.terminal import OutputStream
from tests.cli.process import OnScreen, in_process
from tests.cli.serve_process import Served

SMALL = [sys.executable, str(Path(__file__).parents[1] / "small_agent.py")]

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
    """Return the kinds of entries in the log."""
    output = in_process("sessions", "show", session, "--json", "--host", served.url).stdout
    return [json.loads(line)["kind"] for line in output.splitlines()]


def test_quitting_at_a_question_leaves_it_open_for_later(served: Served) -> None:
    with chat(served, "roof") as terminal:
        terminal.await_last("›")
        terminal.type("write b.txt two" + ENTER)
        terminal.await_last(ASKED)
        terminal.type(CTRL_D)
        assert terminal.end() == 0
        assert "you left; the question stays open; return with:" in terminal.text
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
        assert "you left; the session stays on the host; return with:" in terminal.text
    assert (served.folder / "b.txt").read_text() == "two"


def test_a_turn_continues_when_its_author_quits_and_stays_apart_from_the_next(served: Served) -> None:
    with chat(served, "cellar") as terminal:
        terminal.await_last("›")
        terminal.type("await go" + ENTER)
        terminal.await_text("waiting")
        terminal.type(CTRL_D)
        assert terminal.end() == 0
        assert "you left; the agent continues; return with:" in terminal.text
    with chat(served, "cellar") as terminal:
        terminal.await_last("›")
        terminal.type("mine" + ENTER)
        terminal.await_text("queued at position 1: ")
        (served.folder / "go").touch()
        terminal.await_text(" no more\n\n› mine\nmine\n")


# --- the line ---------------------------------------------------------------------------------------------------


async def test_a_cancelled_suspension_does_not_block_the_next_one(tmp_path: Path) -> None:
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


async def test_the_input_line_waits_for_an_open_question() -> None:
    person = InterruptiblePrompter(OutputStream(sys.stdout), 0)
    async with person.hold_terminal():
        waiting = asyncio.create_task(person.wait_until_free())
        await asyncio.sleep(0)
        assert not waiting.done()
    await waiting
