"""The memory of a connection to a draft agent: what a client's terminal prints is asked for and pushed, once."""

from __future__ import annotations

from typing import Any

from dragoman.schema.side import Side
from dragoman.schema.terminal import (
    CreateTerminalResult,
    ReleaseTerminalResult,
    TerminalExitStatus,
    TerminalOutputResult,
    WaitForExitResult,
)
from tests.dialect.emulator_harness import Rehearsal

TERMINAL = {"terminalId": "t"}


def at_work() -> Rehearsal:
    """A draft agent that has a terminal and was pushed nothing yet."""
    stage = Rehearsal("draft", Side.AGENT)
    stage.tell("session/new", {"cwd": "/work", "mcpServers": []})
    stage.reply({"sessionId": "s", "createdAt": "2025-01-01T00:00:00Z"})
    asked = stage.hear("terminal/create", {"command": "make"})
    stage.answer(CreateTerminalResult(terminal_id="t"))
    assert asked.result["terminalId"] == "t"
    stage.ours.clear()
    return stage


def printed(text: str, *, ended: bool = False) -> TerminalOutputResult:
    status: dict[str, Any] = {"exit_status": TerminalExitStatus(exit_code=0)} if ended else {}
    return TerminalOutputResult(output=text, truncated=False, **status)


def asked_of_us(stage: Rehearsal) -> list[str]:
    return [method for method, _ in stage.ours]


def pushes(stage: Rehearsal) -> list[Any]:
    return [params["data"] for method, params in stage.wire if method == "terminal/output"]


def test_output_is_pushed_in_chunks_while_a_command_runs() -> None:
    """docs/protocol/dialect-matrix.md#terminal-forms."""
    stage = at_work()
    stage.ring()
    stage.answer(printed("one "))
    stage.ring()
    stage.answer(printed("one two", ended=True))
    stage.ring()
    assert pushes(stage) == ["one ", "two"]
    assert asked_of_us(stage) == ["terminal/output"] * 2


def test_a_terminal_being_released_gets_no_more_requests() -> None:
    stage = at_work()
    asked = stage.hear("terminal/release", TERMINAL)
    stage.ring()
    assert asked_of_us(stage) == ["terminal/release"]
    stage.answer(ReleaseTerminalResult())
    assert not asked.is_open


def test_no_output_is_pushed_after_a_release() -> None:
    stage = at_work()
    stage.ring()
    stage.hear("terminal/release", TERMINAL)
    stage.answer(printed("late", ended=True))
    assert pushes(stage) == []


def test_answers_out_of_order_push_no_output_twice() -> None:
    stage = at_work()
    stage.ring()
    asked = stage.hear("terminal/wait_for_exit", TERMINAL)
    stage.answer(WaitForExitResult(exit_code=0), which=1)
    stage.answer(printed("all of it", ended=True), which=1)
    assert asked.result["exitCode"] == 0
    stage.answer(printed("all"))
    stage.ring()
    assert pushes(stage) == ["all of it"]
