"""Mistakes of an agent's author are reported at once, with the line."""

from __future__ import annotations

import asyncio
import json
import os
import re
import subprocess
import sys
from enum import StrEnum
from pathlib import Path
from typing import Any, cast

import pytest

from dragoman import Agent, ProtocolError, Turn, connect
from dragoman.schema.permission import PermissionOption
from dragoman.testing import connect_in_memory, memory_pair
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
        (
            lambda turn: turn.ask_permission("x", options=[PermissionOption(option_id="a", name="A", kind="allow")]),
            "there is no kind of permission option 'allow'; choose one of: allow_once",
        ),
        (lambda turn: turn.ask_permission("x", options=["yes"]), "a permission option is not 'yes'; write: options="),
        (lambda turn: turn.ask_permission("x", options="yes"), "a permission option is not 'yes'; write: options="),
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


async def with_plain_block(turn: Any) -> None:
    """Use a tool call as if it were a plain context manager."""
    with turn.tool("x"):
        pass


async def without_block(turn: Any) -> None:
    """Use a tool call without a block."""
    call = turn.tool("x")
    await call.add_text("hi")


async def with_await(turn: Any) -> None:
    """Await a tool call."""
    await turn.tool("x")


async def with_appended_text(turn: Any) -> None:
    """Append to a tool call without a block."""
    await turn.tool("x").append_text("hi")


@pytest.mark.parametrize("answer", [with_plain_block, without_block, with_await, with_appended_text])
async def test_a_tool_call_without_async_with_is_an_error_that_says_so(answer: Any) -> None:
    agent = Agent("blocks")
    agent.prompt(answer)
    with pytest.raises(ProtocolError, match=r"use: async with turn.tool\(...\) as call"):
        await ask(agent)


def test_a_decorator_with_parentheses_and_a_second_function_are_refused() -> None:
    agent = Agent("twice")
    with pytest.raises(TypeError, match=r"@agent.prompt stands directly above an async function, without parentheses"):
        agent.prompt()
    agent.prompt(with_await)
    with pytest.raises(TypeError, match=r"with_await answers prompts already; for several functions, use: @agent.resp"):
        agent.prompt(without_block)
    assert agent.prompt_handler is with_await


def test_run_inside_a_loop_is_one_line_without_a_traceback(tmp_path: Path) -> None:
    (tmp_path / "agent.py").write_text(
        "import asyncio\nfrom dragoman import Agent\nagent = Agent('x')\n"
        "async def main():\n    await agent.run()\nasyncio.run(main())\n"
    )
    ran = subprocess.run([sys.executable, "agent.py"], cwd=tmp_path, capture_output=True, text=True, timeout=60)
    assert ran.returncode == 1
    assert ran.stderr == "agent.run() starts its own event loop; call it outside of async code\n"


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


@pytest.mark.parametrize(
    ("script", "expected"),
    [
        ("echo hello", 'agent sh exited with status 0; it wrote what is not ACP: "hello"; many agents speak ACP only'),
        ("echo hello; exit 3", 'agent sh exited with status 3; it wrote what is not ACP: "hello"; many agents'),
        ("exit 0", "agent sh exited with status 0 without any message; many agents speak ACP only with an option"),
    ],
)
def test_a_program_that_is_no_agent_is_described_by_what_it_did(tmp_path: Path, script: str, expected: str) -> None:
    ran = in_process("run", "--no-store", "--prompt", "hi", "--", "sh", "-c", script, cwd=tmp_path)
    assert ran.returncode == 7
    assert expected in ran.stderr
    assert "agent.run()" not in ran.stderr


async def fail_with(agent: Agent) -> str:
    """Prompt the agent; return the error."""
    with pytest.raises(ProtocolError) as caught:
        await ask(agent)
    return str(caught.value)


async def test_an_exception_is_reported_with_the_last_line_of_the_author() -> None:
    agent = Agent("failing")

    def read_it() -> None:
        json.loads("{")  # raised in the standard library; the author's line is this one

    @agent.prompt
    async def answer(turn: Turn) -> None:
        read_it()

    line = read_it.__code__.co_firstlineno + 1
    assert (await fail_with(agent)).endswith(f" (test_author_errors.py:{line})")


async def test_a_wrong_kind_is_reported_with_the_line() -> None:
    agent = Agent("wrong kind")

    @agent.prompt
    async def answer(turn: Turn) -> None:
        async with turn.tool("x", kind=cast(Any, "Edit")):
            pass

    text = await fail_with(agent)
    assert "there is no kind 'Edit'; choose one of: read, edit" in text
    assert text.endswith(f" (test_author_errors.py:{answer.__code__.co_firstlineno + 2})")


@pytest.mark.parametrize("send", ["say", "think"])
async def test_a_message_that_is_no_text_is_refused(send: str) -> None:
    agent = Agent("number")

    @agent.prompt
    async def answer(turn: Turn) -> None:
        await getattr(turn, send)(42)

    assert "a message is text or a content block, not 42; use str(...)" in await fail_with(agent)


async def test_a_text_of_another_class_is_sent_as_text() -> None:
    class Color(StrEnum):
        RED = "red"

    agent = Agent("enum")

    @agent.prompt
    async def answer(turn: Turn) -> None:
        await turn.say(Color.RED)

    async with connect_in_memory(agent) as remote:
        session = await remote.open_session("/")
        assert await session.ask("go") == "red"


async def test_a_step_that_the_plan_does_not_have_is_named() -> None:
    agent = Agent("planning")

    @agent.prompt
    async def answer(turn: Turn) -> None:
        plan = await turn.plan("a", "b")
        await plan.start(2)

    assert "the plan has no step 2: its steps are 0 to 1" in await fail_with(agent)


def test_a_function_that_yields_or_takes_other_parameters_is_refused_where_it_is_decorated() -> None:
    agent = Agent("odd")

    async def yielding(turn: Turn) -> Any:
        yield "hello"

    async def without_turn() -> None:
        pass

    async def steering(turn: Turn) -> None:
        pass

    with pytest.raises(TypeError, match=r"yielding must not yield; to send text, use: await turn.say\(...\) \(test_"):
        agent.prompt(cast(Any, yielding))
    with pytest.raises(TypeError, match=r"write: async def without_turn\(turn\) \(test_author_errors.py:\d+\)"):
        agent.prompt(cast(Any, without_turn))
    with pytest.raises(TypeError, match=r"write: async def steering\(turn, prompt\)"):
        agent.steer(steering)


def test_a_program_on_the_path_that_is_started_by_hand_is_named_as_it_was_typed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    script = tmp_path / "bin" / "dragoman"
    script.parent.mkdir()
    script.write_text(f"#!{sys.executable}\nfrom dragoman.cli.main import main\nmain()\n")
    script.chmod(0o755)
    monkeypatch.setenv("PATH", str(script.parent), prepend=os.pathsep)
    with OnTerminal("agent", "everything", cwd=tmp_path, program=["dragoman"]) as terminal:
        terminal.await_text("then run: dragoman chat -- dragoman agent everything")
        assert sys.executable not in terminal.text


async def test_a_call_of_files_or_terminals_without_await_fails_the_turn(tmp_path: Path) -> None:
    agent = Agent("forgetful")

    @agent.prompt
    async def answer(turn: Turn) -> None:
        cast(Any, turn.files).write(tmp_path / "lost", "lost")
        cast(Any, turn.terminals).run("true")

    said = await fail_with(agent)
    assert "await ….write(...) (test_author_errors.py:" in said
    assert "await ….run(...) (test_author_errors.py:" in said


async def test_a_call_in_a_variable_that_nobody_awaits_is_named_without_a_line_of_ours() -> None:
    agent = Agent("forgetful")

    @agent.prompt
    async def answer(turn: Turn) -> None:
        lost: Any = turn.say("lost")
        await turn.say(f"said{bool(lost)}")

    assert await fail_with(agent) == "await is missing: await ….say(...)"


@pytest.mark.parametrize(
    ("act", "advice"),
    [
        (lambda turn: turn.report_usage("3"), "write: report_usage(input_tokens=..., output_tokens=..., "),
        (lambda turn: turn.say("a", "b"), "write: say(text)"),
        (lambda turn: turn.plan().start(0), "await is missing where this value comes from"),
        (lambda turn: turn.terminals.create("true").__aenter__(), "await is missing where this value comes from"),
        (lambda turn: turn.plan("a", title="b"), "write: plan(*entries, name=...)"),
    ],
)
async def test_an_error_of_python_about_a_call_of_ours_says_what_to_write(act: Any, advice: str) -> None:
    agent = Agent("guessing")

    @agent.prompt
    async def answer(turn: Turn) -> None:
        await act(turn)

    said = await fail_with(agent)
    assert f"; {advice}" in said
    assert "(test_author_errors.py:" in said


async def test_async_with_without_the_await_is_answered_with_the_await() -> None:
    agent = Agent("forgetful")

    @agent.prompt
    async def answer(turn: Turn) -> None:
        async with cast(Any, turn.terminals.create("true")):
            pass

    assert "await is missing: await ….create(...) (test_author_errors.py:" in await fail_with(agent)


@pytest.mark.parametrize("reason", ["done", None])
async def test_a_stop_reason_that_is_set_must_be_one(reason: Any) -> None:
    agent = Agent("stopping")

    @agent.prompt
    async def answer(turn: Turn) -> None:
        turn.stop_reason = reason

    assert f"turn.stop_reason is {reason!r}, which is no stop reason (end_turn, " in await fail_with(agent)


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (BaseException("x"), "BaseException: x"),
        (pytest.fail.Exception("the agent's test failed"), "Failed: the agent's test failed"),
        (ValueError(), "ValueError"),
        (TimeoutError(), "timeout"),
        (ExceptionGroup("two", [ExceptionGroup("one", [KeyError("x")])]), "KeyError: 'x'"),
    ],
)
async def test_whatever_the_code_raises_answers_the_prompt_with_the_line(error: BaseException, said: str) -> None:
    agent = Agent("failing")

    @agent.prompt
    async def answer(turn: Turn) -> None:
        raise error

    text = await fail_with(agent)
    assert text.startswith(said)
    assert isinstance(error, ExceptionGroup) or text.removeprefix(said).startswith(" (test_author_errors.py:")


async def test_the_task_of_a_group_that_failed_is_named_with_its_line() -> None:
    agent = Agent("failing")

    async def work() -> None:
        raise ValueError("my bug")

    @agent.prompt
    async def answer(turn: Turn) -> None:
        async with asyncio.TaskGroup() as group:
            group.create_task(work())

    assert re.fullmatch(r"ValueError: my bug \(test_author_errors.py:\d+\)", await fail_with(agent))


def test_an_agent_that_ends_its_program_in_a_turn_answers_first(tmp_path: Path) -> None:
    script = tmp_path / "leaving.py"
    script.write_text(
        "import sys\nfrom dragoman import Agent\nagent = Agent('leaving')\n"
        "@agent.prompt\nasync def answer(turn):\n    sys.exit('no API key')\nagent.run()\n"
    )
    ran = in_process("run", "--no-store", "--prompt", "hi", "--", sys.executable, str(script), cwd=tmp_path)
    assert "SystemExit: no API key (leaving.py:6)" in ran.stderr
    assert "Traceback" not in ran.stderr
