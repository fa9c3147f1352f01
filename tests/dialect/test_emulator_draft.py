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
from tests.dialect.emulator_harness import EmulatorHarness

TERMINAL = {"terminalId": "t"}


def at_work() -> EmulatorHarness:
    """A draft agent that has a terminal and was pushed nothing yet."""
    harness = EmulatorHarness("draft", Side.AGENT)
    harness.send_call("session/new", {"cwd": "/work", "mcpServers": []})
    harness.reply({"sessionId": "s", "createdAt": "2025-01-01T00:00:00Z"})
    asked = harness.receive_call("terminal/create", {"command": "make"})
    harness.answer(CreateTerminalResult(terminal_id="t"))
    assert asked.result["terminalId"] == "t"
    harness.ours.clear()
    return harness


def printed(text: str, *, ended: bool = False) -> TerminalOutputResult:
    status: dict[str, Any] = {"exit_status": TerminalExitStatus(exit_code=0)} if ended else {}
    return TerminalOutputResult(output=text, truncated=False, **status)


def asked_of_us(harness: EmulatorHarness) -> list[str]:
    return [method for method, _ in harness.ours]


def pushes(harness: EmulatorHarness) -> list[Any]:
    return [params["data"] for method, params in harness.wire if method == "terminal/output"]


def test_output_is_pushed_in_chunks_while_a_command_runs() -> None:
    """docs/protocol/dialect-matrix.md#terminal-forms."""
    harness = at_work()
    harness.wake_all()
    harness.answer(printed("one "))
    harness.wake_all()
    harness.answer(printed("one two", ended=True))
    harness.wake_all()
    assert pushes(harness) == ["one ", "two"]
    assert asked_of_us(harness) == ["terminal/output"] * 2


def test_a_terminal_being_released_gets_no_more_requests() -> None:
    harness = at_work()
    asked = harness.receive_call("terminal/release", TERMINAL)
    harness.wake_all()
    assert asked_of_us(harness) == ["terminal/release"]
    harness.answer(ReleaseTerminalResult())
    assert not asked.is_open


def test_no_output_is_pushed_after_a_release() -> None:
    harness = at_work()
    harness.wake_all()
    harness.receive_call("terminal/release", TERMINAL)
    harness.answer(printed("late", ended=True))
    assert pushes(harness) == []


def test_answers_out_of_order_push_no_output_twice() -> None:
    harness = at_work()
    harness.wake_all()
    asked = harness.receive_call("terminal/wait_for_exit", TERMINAL)
    harness.answer(WaitForExitResult(exit_code=0), which=1)
    harness.answer(printed("all of it", ended=True), which=1)
    assert asked.result["exitCode"] == 0
    harness.answer(printed("all"))
    harness.wake_all()
    assert pushes(harness) == ["all of it"]
