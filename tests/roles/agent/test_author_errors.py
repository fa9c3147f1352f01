"""Mistakes of an agent's author are reported at once, with the line."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any, cast

import pytest

from dragoman import Agent, ProtocolError, Turn, connect
from dragoman.testing import memory_pair
from tests.cli.process import DRAGOMAN, OnTerminal, in_process


async def ask(agent: Agent) -> Any:
    """Prompt the agent once; return its session."""
    ours, theirs = memory_pair()
    serving = agent.start_connection(theirs)
    try:
        async with connect(ours) as remote:
            session = await remote.open_session("/")
            async with session.prompt("go") as turn:
                async for _ in turn:
                    pass
            return session
    finally:
        await serving.close()


def test_a_plain_function_is_refused_where_it_is_decorated() -> None:
    agent = Agent("plain")

    def answer(turn: Turn) -> None:
        pass

    with pytest.raises(TypeError, match=r"write: async def answer\(...\) \(test_author_errors.py:\d+\)"):
        agent.prompt(cast(Any, answer))
    with pytest.raises(TypeError, match=r"@agent.responder needs an async function"):
        agent.responder("x")(cast(Any, answer))


async def test_a_missing_await_fails_every_turn_with_the_line() -> None:
    agent = Agent("forgetful")

    @agent.prompt
    async def answer(turn: Turn) -> None:
        cast(Any, turn).say("lost")

    for _ in range(2):
        with pytest.raises(ProtocolError, match=r"await is missing: await ….say\(...\) \(test_author_errors.py:\d+\)"):
            await ask(agent)


async def test_a_string_that_is_no_stop_reason_is_answered_with_what_to_do() -> None:
    agent = Agent("returning")

    @agent.prompt
    async def answer(turn: Turn) -> str:
        return "Hello"

    with pytest.raises(ProtocolError, match=r"returned 'Hello', which is no stop reason .*await turn.say"):
        await ask(agent)


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda turn: turn.tool("x", kind="Edit"), "there is no kind 'Edit'; choose one of: read, edit"),
        (lambda turn: turn.tool("x").finish("complete"), "there is no status 'complete'; choose one of: pending"),
        (lambda turn: turn.send_notice("x", severity="bad"), "there is no severity 'bad'; choose one of: info"),
        (lambda turn: turn.ask_permission("x", kind="Run"), "there is no kind 'Run'"),
    ],
)
async def test_an_unknown_word_is_answered_with_the_known_ones(call: Any, words: str) -> None:
    agent = Agent("words")

    @agent.prompt
    async def answer(turn: Turn) -> None:
        made = call(turn)
        if hasattr(made, "__await__"):
            await made

    with pytest.raises(ProtocolError, match=words):
        await ask(agent)


async def test_modes_can_be_words() -> None:
    agent = Agent("modes", modes=["ask", "auto"])

    @agent.prompt
    async def answer(turn: Turn) -> None:
        await turn.say("ok")

    session = await ask(agent)
    assert [mode.id for mode in session.modes.available_modes] == ["ask", "auto"]
    assert session.mode == "ask"


@pytest.mark.parametrize("words", [("agent", "everything"), ("translate", "--", *DRAGOMAN, "agent", "everything")])
def test_an_agent_that_is_started_by_hand_says_what_it_is(tmp_path: Path, words: tuple[str, ...]) -> None:
    with OnTerminal(*words, cwd=tmp_path) as terminal:
        terminal.await_text("dragoman chat -- ")
        assert "speaks the Agent Client Protocol" in terminal.text


def test_an_agent_that_ends_at_once_is_asked_for_its_run(tmp_path: Path) -> None:
    command = (sys.executable, "-c", "pass")
    ran = in_process("run", "--no-store", "--prompt", "hi", "--", *command, cwd=tmp_path)
    assert ran.returncode == 7
    assert "exited with status 0 without any output; does the program end with agent.run()?" in ran.stderr
