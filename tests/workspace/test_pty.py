"""Real terminals (ptys): a command sees a terminal, takes input, and ends with its process group."""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from dragoman.errors import Kind, ProtocolError
from dragoman.workspace.terminal import MAX_PENDING_INPUT, CommandExit, Terminal
from dragoman.workspace.terminals import Terminals

BOUND = 20.0


def run(work: Coroutine[Any, Any, None]) -> None:
    async def bounded() -> None:
        async with asyncio.timeout(BOUND):
            await work

    asyncio.run(bounded())


@asynccontextmanager
async def open_terminals(folder: Path, **options: Any) -> AsyncIterator[Terminals]:
    terminals = Terminals([str(folder)], grace=0.2, **options)
    try:
        yield terminals
    finally:
        await terminals.close()


async def until(condition: Callable[[], bool]) -> None:
    while not condition():  # noqa: ASYNC110 - the condition is a fact outside, there is no event to wait for
        await asyncio.sleep(0)


async def output(terminal: Terminal) -> str:
    await terminal.wait()
    await until(lambda: not terminal.is_interactive)
    return terminal.output().text


TELL = "import os,sys;print(*map(os.isatty, range(3)), os.get_terminal_size(0), os.ttyname(0)==os.ttyname(1))"


async def test_a_command_in_a_pty_is_in_a_terminal_of_its_size_and_others_are_not(tmp_path: Path) -> None:
    async with open_terminals(tmp_path) as terminals:
        terminal = await terminals.create(sys.executable, ["-c", TELL], pty=True, rows=30, columns=99)
        assert await output(terminal) == ("True True True os.terminal_size(columns=99, lines=30) True\r\n")
        terminal = await terminals.create(sys.executable, ["-c", "import os;print(os.isatty(1))"])
        await terminal.wait()
        assert terminal.output().text == "False\n"
        with pytest.raises(ProtocolError) as caught:
            terminal.write_input("x")
        assert caught.value.kind == Kind.INVALID_STATE


async def test_a_pty_command_controls_its_terminal_and_has_one_stream(tmp_path: Path) -> None:
    async with open_terminals(tmp_path, environ={"PATH": os.environ["PATH"]}) as terminals:
        line = 'echo out; echo err >&2; echo "to $TERM" >/dev/tty; exit 3'
        terminal = await terminals.create("/bin/sh", ["-c", line], pty=True)
        assert await output(terminal) == "out\r\nerr\r\nto xterm-256color\r\n"
        assert terminal.output().exit == CommandExit(3, None)
        assert terminal.streams() == {}


async def test_a_pty_takes_input_and_can_be_resized(tmp_path: Path) -> None:
    async with open_terminals(tmp_path) as terminals:
        terminal = await terminals.create("/bin/sh", ["-c", 'read a; stty size; echo "got $a"'], pty=True)
        terminal.resize(11, 22)
        terminal.write_input("grüße\n")
        assert await output(terminal) == "grüße\r\n11 22\r\ngot grüße\r\n"


async def test_ctrl_c_interrupts_a_pty_command(tmp_path: Path) -> None:
    async with open_terminals(tmp_path) as terminals:
        # No fork after the word: a shell that is interrupted between fork and wait waits its child out.
        terminal = await terminals.create("/bin/sh", ["-c", "echo up; exec sleep 1000"], pty=True)
        await until(lambda: "up" in terminal.output().text)
        terminal.write_input("\x03")
        assert await terminal.wait() == CommandExit(None, "SIGINT")


async def test_input_that_nobody_reads_is_bounded(tmp_path: Path) -> None:
    async with open_terminals(tmp_path) as terminals:
        terminal = await terminals.create("sleep", ["1000"], pty=True)
        terminal.write_input("x" * MAX_PENDING_INPUT)
        with pytest.raises(ProtocolError) as caught:
            terminal.write_input("x")
        assert caught.value.kind == Kind.RATE_LIMITED


@pytest.mark.parametrize("way", ["kill", "release", "close"])
async def test_releasing_a_pty_ends_its_whole_process_group(tmp_path: Path, way: str) -> None:
    async with open_terminals(tmp_path) as terminals:
        line = "sleep 1000 & echo $!; wait"
        terminal = await terminals.create("/bin/sh", ["-c", line], pty=True)
        await until(lambda: "\n" in terminal.output().text)
        child = int(terminal.output().text)
        if way == "kill":
            terminal.kill(force=True)
            await terminal.wait()
        await (terminals.close() if way == "close" else terminal.release())
        await until(lambda: is_gone(child))
        assert is_gone(terminal.pid)
        assert not terminal.is_interactive


def is_gone(pid: int) -> bool:
    try:
        with open(f"/proc/{pid}/stat") as file:
            return file.read().rpartition(")")[2].split()[0] == "Z"
    except (FileNotFoundError, ProcessLookupError):
        return True


@pytest.mark.parametrize(
    ("command", "kind"),
    [
        ("no-such-program-at-all", Kind.RESOURCE_NOT_FOUND),
        ("./missing", Kind.RESOURCE_NOT_FOUND),
        ("./file", Kind.ACCESS_DENIED),
    ],
)
async def test_a_failed_start_is_an_error_and_leaves_nothing_open(tmp_path: Path, command: str, kind: str) -> None:
    (tmp_path / "file").write_text("")

    async with open_terminals(tmp_path) as terminals:
        with pytest.raises(ProtocolError):
            await terminals.create(command, ["x"], pty=True)  # the first start in a process also opens the watchdog
        before = len(os.listdir("/proc/self/fd"))
        with pytest.raises(ProtocolError) as caught:
            await terminals.create(command, ["x"], pty=True)
        assert caught.value.kind == kind
        assert len(os.listdir("/proc/self/fd")) == before


@pytest.mark.parametrize(("rows", "columns"), [(0, 80), (24, -1), (1 << 16, 80)])
async def test_an_impossible_terminal_size_is_invalid(tmp_path: Path, rows: int, columns: int) -> None:
    async with open_terminals(tmp_path) as terminals:
        with pytest.raises(ProtocolError) as caught:
            await terminals.create("true", pty=True, rows=rows, columns=columns)
        assert caught.value.kind == Kind.INVALID_PARAMS
