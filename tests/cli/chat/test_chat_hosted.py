"""`dragoman chat --host`: detach, return, and turns of other members."""

from __future__ import annotations

import asyncio
import json
import shlex
import signal
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from prompt_toolkit.input import create_pipe_input
from prompt_toolkit.output import DummyOutput

from dragoman.cli.chat.line_editor import InputHistory, InterruptiblePrompter, LineEditor
from dragoman.cli.host_client.api import resolve_host
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


def test_a_share_link_is_what_a_user_returns_with_and_its_token_is_not_printed(served: Served) -> None:
    assert in_process("run", "--host", served.url, "--session", "attic", "hello").returncode == 0
    link = in_process("sessions", "share", "attic", "--role", "editor", "--host", served.url).stdout.strip()
    with OnScreen("chat", "--host", link, cwd=served.folder, columns=120) as terminal:
        terminal.await_last("›")
        terminal.type(CTRL_D)
        assert terminal.end() == 0
        assert "you left; the session stays on the host; return with the same link\n" in f"{terminal.text}\n"
        assert "--session" not in terminal.text
        assert link.partition("token=")[2] not in terminal.raw
    ran = in_process("run", "--host", link, "crash")
    assert "the session is stored; continue with the same link\n" in ran.stderr


def test_the_command_to_return_with_has_the_token_file_of_the_first_one(served: Served, tmp_path: Path) -> None:
    assert in_process("run", "--host", served.url, "--session", "garage", "hello").returncode == 0
    link = in_process("sessions", "share", "garage", "--role", "editor", "--host", served.url).stdout.strip()
    token_file = tmp_path / "token"
    token_file.write_text(link.partition("token=")[2])
    token_file.chmod(0o600)
    ran = in_process("run", "--host", served.url, "--token-file", str(token_file), "crash")
    command = f"dragoman run --host {served.url} --token-file {token_file} --session garage"
    assert f"the session is stored; continue with: {command}\n" in ran.stderr
    assert in_process(*shlex.split(command)[1:], "hello").returncode == 0


def test_the_host_of_this_machine_is_named_in_the_command_to_return_with() -> None:
    assert resolve_host("-").flag == "--host "
    assert resolve_host("http://localhost:1/acp?token=secret").flag == "--host http://localhost:1/acp "


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
