"""Terminals: real commands run, have output, are waited for, killed with their process group, and released."""

from __future__ import annotations

import asyncio
import os
import select
import signal
import sys
import threading
from collections.abc import Awaitable, Callable, Coroutine, Iterator
from pathlib import Path
from typing import Any

import pytest

from dragoman.errors import Kind, ProtocolError
from dragoman.workspace.terminal import CommandExit, CommandOutput, Terminal
from dragoman.workspace.terminals import MAX_OUTPUT_LIMIT, Terminals

# Nothing here takes a second; a test that needs this long hangs.
BOUND = 20.0


def run(main: Coroutine[Any, Any, None]) -> None:
    async def bounded() -> None:
        async with asyncio.timeout(BOUND):
            await main

    asyncio.run(bounded())


async def refusal(call: Awaitable[object]) -> ProtocolError:
    with pytest.raises(ProtocolError) as caught:
        await call
    return caught.value


async def until(condition: Callable[[], bool]) -> None:
    while not condition():  # noqa: ASYNC110 - the condition is a fact outside, there is no event to wait for
        await asyncio.sleep(0)


async def finished(terminal: Terminal) -> CommandOutput:
    await terminal.wait()
    return terminal.output()


class Alarm:
    """A named pipe that a process holds open: shows that the process runs, and later that it has ended."""

    def __init__(self, folder: Path) -> None:
        self.path = str(folder / "alarm")
        os.mkfifo(self.path)
        self.fd = os.open(self.path, os.O_RDONLY | os.O_NONBLOCK)

    def up(self) -> bool:
        try:
            return os.read(self.fd, 3) == b"up\n"
        except BlockingIOError:
            return False

    def gone(self) -> bool:
        ready, _, _ = select.select([self.fd], [], [], BOUND)
        return bool(ready) and os.read(self.fd, 1) == b""


@pytest.fixture
def alarm(tmp_path: Path) -> Iterator[Alarm]:
    alarm = Alarm(tmp_path)
    yield alarm
    os.close(alarm.fd)


async def test_a_command_with_arguments_has_output_and_an_exit_code(tmp_path: Path) -> None:
    terminals = Terminals([str(tmp_path)])
    terminal = await terminals.create(sys.executable, ["-c", "print('a b'); raise SystemExit(7)"])
    assert await terminal.wait() == CommandExit(7, None)
    assert terminal.output() == CommandOutput("a b\n", False, CommandExit(7, None))
    assert terminals.get(terminal.id) is terminal
    await terminals.close()


@pytest.mark.parametrize(
    ("command", "args", "text"),
    [
        ("echo one two | tr a-z A-Z", [], "ONE TWO\n"),
        ("printf %s,%s a b", [], "a,b"),
        ("echo;", [], "\n"),
        ("echo", [], "\n"),
        ("printf", ["%s", "a | b"], "a | b"),
        ("/bin/sh", ["-c", "echo $0-$1", "x", "y"], "x-y\n"),
    ],
)
async def test_a_command_alone_may_be_a_shell_line(tmp_path: Path, command: str, args: list[str], text: str) -> None:
    terminals = Terminals([str(tmp_path)])
    output = await finished(await terminals.create(command, args))
    assert output == CommandOutput(text, False, CommandExit(0, None))
    await terminals.close()


async def test_a_program_with_a_space_in_its_path_is_not_a_shell_line(tmp_path: Path) -> None:
    program = tmp_path / "my tool"
    program.write_text("#!/bin/sh\necho ran\n")
    program.chmod(0o755)

    terminals = Terminals([str(tmp_path)])
    assert (await finished(await terminals.create(str(program)))).text == "ran\n"
    await terminals.close()


async def test_both_streams_come_in_order_and_input_is_empty(tmp_path: Path) -> None:
    terminals = Terminals([str(tmp_path)])
    line = "echo out; echo err >&2; cat; echo end; test -t 0 || echo no tty"
    assert (await finished(await terminals.create(line))).text == "out\nerr\nend\nno tty\n"
    await terminals.close()


async def test_a_command_starts_in_the_first_root_or_in_a_folder_inside(tmp_path: Path) -> None:
    inside = Path(os.path.realpath(tmp_path)) / "inside"
    (inside / "sub").mkdir(parents=True)
    (inside / "link").symlink_to("sub")
    (inside / "out").symlink_to("..")
    (inside / "file").write_text("")

    terminals = Terminals([str(inside)])
    for cwd, place in ((None, inside), (str(inside / "link"), inside / "sub"), (f"{inside}/", inside)):
        output = await finished(await terminals.create("pwd; pwd -P; echo $PWD", cwd=cwd))
        assert output.text == f"{place}\n" * 3
    for cwd, kind in (
        (str(inside.parent), Kind.ACCESS_DENIED),
        (str(inside / "out"), Kind.ACCESS_DENIED),
        (str(inside / "none"), Kind.RESOURCE_NOT_FOUND),
        (str(inside / "file"), Kind.RESOURCE_NOT_FOUND),
        ("sub", Kind.INVALID_PARAMS),
    ):
        assert (await refusal(terminals.create("pwd", cwd=cwd))).kind == kind
    assert (await refusal(Terminals([]).create("pwd"))).kind == Kind.ACCESS_DENIED
    await terminals.close()


async def test_the_environment_is_that_of_the_client_with_the_variables_of_the_agent(tmp_path: Path) -> None:
    terminals = Terminals([str(tmp_path)], environ={"PATH": os.environ["PATH"], "A": "1", "B": "1"})
    for env in ({"B": "2", "C": "x=y"}, [("B", "1"), ("B", "2"), ("C", "x=y")]):
        output = await finished(await terminals.create("echo $A $B $C ${HOME-none}", env=env))
        assert output.text == "1 2 x=y none\n"
    for name in ("", "A=B", "A\0"):
        assert (await refusal(terminals.create("true", env={name: "x"}))).kind == Kind.INVALID_PARAMS
    await terminals.close()


@pytest.mark.parametrize(
    ("command", "args", "kind"),
    [
        ("", [], Kind.INVALID_PARAMS),
        ("no-such-command-here", [], Kind.RESOURCE_NOT_FOUND),
        ("no-such-command-here", ["x"], Kind.RESOURCE_NOT_FOUND),
        ("/", ["x"], Kind.ACCESS_DENIED),
        ("echo", ["a\0b"], Kind.INVALID_PARAMS),
        ("echo", ["\ud800"], Kind.INVALID_PARAMS),
        ("a\0b c", [], Kind.INVALID_PARAMS),
        ("echo", ["x" * 3_000_000], Kind.TOO_LARGE),
    ],
)
async def test_a_failed_start_is_an_error_and_leaves_nothing_open(
    tmp_path: Path, command: str, args: list[str], kind: str
) -> None:
    terminals = Terminals([str(tmp_path)])
    before = len(os.listdir("/dev/fd"))
    assert (await refusal(terminals.create(command, args))).kind == kind
    assert len(os.listdir("/dev/fd")) == before
    assert len(terminals) == 0
    await terminals.close()


async def test_output_is_the_tail_cut_between_characters(tmp_path: Path) -> None:
    terminals = Terminals([str(tmp_path)], output_limit=8)
    line = "printf 'abc🙂🙂de'"
    assert await finished(await terminals.create(line)) == CommandOutput("🙂de", True, CommandExit(0, None))
    assert (await finished(await terminals.create(line, output_byte_limit=3))).text == "de"
    assert (await finished(await terminals.create(line, output_byte_limit=0))).text == ""
    whole = await finished(await terminals.create(line, output_byte_limit=2**64 - 1))
    assert (whole.text, whole.truncated) == ("abc🙂🙂de", False)
    await terminals.close()


async def test_the_output_limit_of_an_agent_is_bounded(tmp_path: Path) -> None:
    terminals = Terminals([str(tmp_path)])
    size = MAX_OUTPUT_LIMIT + 1_000_000
    terminal = await terminals.create(f"head -c {size} /dev/zero", output_byte_limit=2**64 - 1)
    output = await finished(terminal)
    assert (len(output.text), output.truncated) == (MAX_OUTPUT_LIMIT, True)
    await terminals.close()


async def test_output_can_be_read_while_the_command_runs(tmp_path: Path) -> None:
    terminals = Terminals([str(tmp_path)])
    terminal = await terminals.create("echo now; exec sleep 1000")
    await until(lambda: terminal.output() == CommandOutput("now\n", False, None))
    await terminals.close()
    assert terminal.output() == CommandOutput("now\n", False, CommandExit(None, "SIGTERM"))


async def test_nothing_written_before_the_end_is_missing_after_it(tmp_path: Path) -> None:
    terminals = Terminals([str(tmp_path)])
    for _ in range(20):
        output = await finished(await terminals.create("seq 20000"))
        assert output.text.endswith("19999\n20000\n")
        assert len(output.text) == 108_894
    await terminals.close()


async def test_output_that_is_still_in_the_pipe_is_read_before_the_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("dragoman.workspace.terminal._READ_SIZE", 4)

    terminals = Terminals([str(tmp_path)])
    assert (await finished(await terminals.create("seq 12000"))).text.endswith("11999\n12000\n")
    await terminals.close()


async def test_a_command_has_ended_even_if_a_child_holds_its_output(tmp_path: Path, alarm: Alarm) -> None:
    terminals = Terminals([str(tmp_path)])
    line = "(echo up > alarm; read x < more; echo late; exec sleep 1000 > alarm) & echo first"
    os.mkfifo(tmp_path / "more")
    terminal = await terminals.create(line)
    assert await terminal.wait() == CommandExit(0, None)
    assert "first\n" in terminal.output().text
    await until(alarm.up)
    (tmp_path / "more").write_text("go\n")
    await until(lambda: terminal.output().text == "first\nlate\n")
    await terminal.release()
    assert alarm.gone()


async def test_waiting_can_be_cancelled_and_repeated(tmp_path: Path) -> None:
    terminals = Terminals([str(tmp_path)])
    terminal = await terminals.create("exec sleep 1000")
    with pytest.raises(TimeoutError):
        await asyncio.wait_for(terminal.wait(), 0.01)
    waiters = [asyncio.ensure_future(terminal.wait()) for _ in range(3)]
    assert terminal.kill()
    assert await asyncio.gather(*waiters) == [CommandExit(None, "SIGTERM")] * 3
    await terminals.close()


@pytest.mark.parametrize(
    ("name", "force", "ended"),
    [
        ("SIGTERM", False, "SIGTERM"),
        ("SIGINT", False, "SIGINT"),
        ("hup", False, "SIGHUP"),
        ("SIGKILL", False, "SIGKILL"),
        ("SIGTERM", True, "SIGKILL"),
    ],
)
async def test_a_killed_command_has_its_signal_and_keeps_its_id(
    tmp_path: Path, name: str, force: bool, ended: str
) -> None:
    terminals = Terminals([str(tmp_path)])
    terminal = await terminals.create("exec sleep 1000")
    assert terminal.kill(name, force)
    assert await terminal.wait() == CommandExit(None, ended)
    assert not terminal.kill()
    assert terminals.get(terminal.id).output().exit == CommandExit(None, ended)
    await terminals.close()


async def test_a_signal_that_does_not_exist_is_invalid(tmp_path: Path) -> None:
    terminals = Terminals([str(tmp_path)])
    terminal = await terminals.create("exec sleep 1000")
    with pytest.raises(ProtocolError) as caught:
        terminal.kill("SIGNIFICANT")
    assert caught.value.kind == Kind.INVALID_PARAMS
    assert terminal.output().exit is None
    await terminals.close()


async def test_a_command_that_ignores_sigterm_is_killed_after_the_grace(tmp_path: Path) -> None:
    terminals = Terminals([str(tmp_path)], grace=0.05)
    line = "trap '' TERM; echo deaf; while :; do read x < /dev/zero; done"
    terminal = await terminals.create(line)
    await until(lambda: terminal.output().text == "deaf\n")
    terminal.kill()
    assert await terminal.wait() == CommandExit(None, "SIGKILL")
    other = await terminals.create(line)
    await until(lambda: other.output().text == "deaf\n")
    await other.release()
    assert other.output().exit == CommandExit(None, "SIGKILL")
    await terminals.close()


@pytest.mark.parametrize("way", ["kill", "release", "close"])
async def test_children_of_a_command_end_with_it(tmp_path: Path, alarm: Alarm, way: str) -> None:
    terminals = Terminals([str(tmp_path)])
    terminal = await terminals.create("(echo up; exec sleep 1000) > alarm & wait")
    await until(alarm.up)
    if way == "kill":
        terminal.kill()
    elif way == "release":
        await terminal.release()
    else:
        await terminals.close()
    assert alarm.gone()
    await terminals.close()


async def test_a_child_that_ignores_sigterm_is_killed_with_its_parent(tmp_path: Path, alarm: Alarm) -> None:
    terminals = Terminals([str(tmp_path)])
    terminal = await terminals.create("(trap '' TERM; echo up; exec sleep 1000) > alarm & wait")
    await until(alarm.up)
    await terminal.release()
    assert terminal.output().exit == CommandExit(None, "SIGTERM")
    assert alarm.gone()


LEAVES = "setsid sh -c 'echo up; exec sleep 1000' > alarm &"


@pytest.mark.skipif(not os.path.isdir("/proc/self"), reason="finds processes in /proc")
@pytest.mark.parametrize(
    "line", [LEAVES, f"DRAGOMAN_SPAWN=other {LEAVES} wait", "trap '' TERM; " + LEAVES], ids=["ended", "runs", "deaf"]
)
async def test_a_child_that_leaves_its_group_ends_when_the_terminals_are_closed(
    tmp_path: Path, alarm: Alarm, line: str
) -> None:
    terminals = Terminals([str(tmp_path)], grace=0.1)
    terminal = await terminals.create(line, env={"DRAGOMAN_SPAWN": "agents cannot choose it"})
    await until(alarm.up)
    if not line.endswith("wait"):
        await terminal.wait()
        await terminal.release()
        with pytest.raises(BlockingIOError):  # it still runs
            os.read(alarm.fd, 1)
    await terminals.close()
    assert alarm.gone()


OWNER_OF_TERMINALS = """
import asyncio, sys
from dragoman.workspace.terminals import Terminals
async def main():
    terminals = Terminals([sys.argv[1]])
    await terminals.create(sys.argv[2])
    await asyncio.Event().wait()
asyncio.run(main())
"""


@pytest.mark.skipif(not os.path.isdir("/proc/self"), reason="finds processes in /proc")
async def test_commands_end_when_their_owner_is_killed(tmp_path: Path, alarm: Alarm) -> None:
    owner = await asyncio.create_subprocess_exec(sys.executable, "-c", OWNER_OF_TERMINALS, str(tmp_path), LEAVES)
    await until(alarm.up)
    owner.kill()
    assert await owner.wait() == -signal.SIGKILL
    await until(alarm.gone)


async def test_the_pid_of_an_ended_process_is_not_reused_before_its_release(tmp_path: Path) -> None:
    # Or another process could get the number, and be killed as a group when this one is released.

    terminals = Terminals([str(tmp_path)])
    terminal = await terminals.create("true")
    await terminal.wait()
    at_once = os.WEXITED | os.WNOWAIT | os.WNOHANG
    assert os.waitid(os.P_PID, terminal.pid, at_once) is not None  # noqa: ASYNC222 - it does not wait
    await terminals.close()


async def test_a_released_terminal_is_unknown_and_its_process_is_reaped(tmp_path: Path) -> None:
    terminals = Terminals([str(tmp_path)])
    terminal = await terminals.create("exec sleep 1000")
    await asyncio.gather(terminal.release(), terminal.release())
    with pytest.raises(ProtocolError) as caught:
        terminals.get(terminal.id)
    assert caught.value.kind == Kind.RESOURCE_NOT_FOUND
    with pytest.raises(ChildProcessError):
        os.waitpid(terminal.pid, os.WNOHANG)  # noqa: ASYNC222 - it does not wait
    assert await terminal.wait() == CommandExit(None, "SIGTERM")
    assert not terminal.kill()


def test_an_unknown_id_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(ProtocolError) as caught:
        Terminals([str(tmp_path)]).get("call_1")
    assert caught.value.kind == Kind.RESOURCE_NOT_FOUND
    assert caught.value.data == {"terminalId": "call_1"}


async def test_a_timeout_kills_the_command_and_is_recorded(tmp_path: Path) -> None:
    terminals = Terminals([str(tmp_path)])
    slow = await terminals.create("exec sleep 1000", timeout=0.01)
    fast = await terminals.create("true", timeout=1000)
    assert await slow.wait() == CommandExit(None, "SIGTERM")
    assert slow.timed_out
    assert await fast.wait() == CommandExit(0, None)
    assert not fast.timed_out
    await terminals.close()


async def test_the_number_of_open_terminals_is_limited(tmp_path: Path) -> None:
    terminals = Terminals([str(tmp_path)], max_open=2)
    first = await terminals.create("true")
    await terminals.create("true")
    await first.wait()
    error = await refusal(terminals.create("true"))
    assert error.kind == Kind.RATE_LIMITED
    assert error.data == {"limit": 2}
    await first.release()
    await terminals.create("true")
    assert len(terminals) == 2
    await terminals.close()
    assert len(terminals) == 0


async def test_closing_ends_all_commands_and_prevents_new_ones(tmp_path: Path) -> None:
    before = len(os.listdir("/dev/fd"))
    terminals = Terminals([str(tmp_path)])
    opened = [await terminals.create("exec sleep 1000") for _ in range(5)]
    opened.append(await terminals.create("true"))
    await opened[-1].wait()
    await terminals.close()
    await terminals.close()
    assert [terminal.output().exit for terminal in opened] == [CommandExit(None, "SIGTERM")] * 5 + [
        CommandExit(0, None)
    ]
    assert all(terminal.is_reaped for terminal in opened)
    assert len(os.listdir("/dev/fd")) == before
    assert (await refusal(terminals.create("true"))).kind == Kind.INVALID_STATE


async def test_closing_waits_for_a_running_release(tmp_path: Path) -> None:
    terminals = Terminals([str(tmp_path)])
    terminal = await terminals.create("exec sleep 1000")
    release = asyncio.ensure_future(terminal.release())
    await asyncio.sleep(0)
    await terminals.close()
    assert terminal.is_reaped
    await release


async def test_a_release_that_is_cancelled_still_kills(tmp_path: Path, alarm: Alarm) -> None:
    terminals = Terminals([str(tmp_path)], grace=BOUND)
    terminal = await terminals.create("trap '' TERM; echo up > alarm; exec sleep 1000 > alarm")
    await until(alarm.up)
    release = asyncio.ensure_future(terminal.release())
    await asyncio.sleep(0)
    release.cancel()
    assert await terminal.wait() == CommandExit(None, "SIGKILL")
    assert terminal.is_reaped


@pytest.mark.parametrize("waitid", [True, False])
async def test_without_pidfd_a_thread_waits_for_the_process(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, waitid: bool
) -> None:
    monkeypatch.delattr(os, "pidfd_open", raising=False)
    if not waitid:
        monkeypatch.delattr(os, "waitid")

    terminals = Terminals([str(tmp_path)])
    terminal = await terminals.create("echo hi; exit 3")
    assert await finished(terminal) == CommandOutput("hi\n", False, CommandExit(3, None))
    killed = await terminals.create("exec sleep 1000")
    killed.kill("SIGINT")
    assert await killed.wait() == CommandExit(None, "SIGINT")
    running = await terminals.create("exec sleep 1000")
    await terminals.close()
    assert running.is_reaped
    for thread in threading.enumerate():
        if thread.name.startswith("term_"):
            thread.join(BOUND)
            assert not thread.is_alive()


async def test_a_signal_without_a_name_is_shown_by_its_number(tmp_path: Path) -> None:
    terminals = Terminals([str(tmp_path)])
    terminal = await terminals.create(f"kill -{int(signal.SIGRTMIN) + 1} $$")
    assert await terminal.wait() == CommandExit(None, f"SIG{int(signal.SIGRTMIN) + 1}")
    await terminals.close()
