"""Agents as real processes: started with clear errors, used, and never left behind."""

from __future__ import annotations

import asyncio
import os
import signal
import stat
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path

import msgspec
import pytest

from dragoman.errors import AgentExited, StartFailed, TransportClosed
from dragoman.transport.process import pidfiles, process_tree
from dragoman.transport.process.process_tree import MARKER, StopTimeouts
from dragoman.transport.process.transport import ProcessTransport, spawn
from tests.transport.wait import alive, eventually

WITHIN = 90.0
QUICK = StopTimeouts(eof=0.1, term=0.3, kill=2.0)

# Writes its pid, then ends with its input.
POLITE = "import os, sys; print(os.getpid(), flush=True); sys.stdin.read()"
# Writes its pid; neither the end of input nor TERM ends it.
STUBBORN = (
    "import os, signal; signal.signal(signal.SIGTERM, signal.SIG_IGN); "
    "print(os.getpid(), flush=True)\nwhile True: signal.pause()"
)
# Starts a daemon: fork, new session, fork again; writes the daemon's pid.
DAEMON = """
import os, signal, sys
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        print(os.getpid(), flush=True)
        os.close(1)
        while True: signal.pause()
    os._exit(0)
os.wait()
sys.stdin.read()
"""


def python(code: str) -> list[str]:
    return [sys.executable, "-c", code]


def run(work: Callable[[], Awaitable[None]]) -> None:
    async def main() -> None:
        async with asyncio.timeout(WITHIN):
            await work()

    asyncio.run(main())


async def first_line(transport: ProcessTransport) -> bytes:
    frame = (await transport.receive())[0]
    assert isinstance(frame, bytes)
    return frame


async def ending(transport: ProcessTransport) -> TransportClosed:
    """The error with which the frames end."""
    try:
        while True:
            await transport.receive()
    except TransportClosed as error:
        return error


@pytest.mark.parametrize(
    ("command", "gone_by"),
    [
        (python(POLITE), "its end of input"),
        (["sh", "-c", f"{sys.executable} -c '{POLITE}'; :"], "its end of input, behind a wrapper"),
        (["sh", "-c", "sleep 600 & echo $!; exec cat >/dev/null"], "TERM to the group"),
        (["sh", "-c", "setsid sleep 600 & echo $!; exec cat >/dev/null"], "TERM outside the group"),
        (python(STUBBORN), "KILL"),
        (["sh", "-c", f'{sys.executable} -c "$0"; :', STUBBORN], "KILL behind a wrapper"),
        (python(DAEMON), "TERM as a daemon"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
async def test_close_leaves_no_process(command: list[str], gone_by: str, state: Path) -> None:
    transport = await spawn(command, stop_timeouts=QUICK)
    pid = int(await first_line(transport))
    assert alive(pid), gone_by
    await transport.close()
    assert not alive(pid)
    assert not alive(transport.pid)
    assert process_tree.read_process_stat(transport.pid) is None, "not even a zombie"
    assert not list(state.rglob("*.json"))


async def test_a_daemon_that_cleared_its_environment_is_found_through_its_parents() -> None:
    script = "env -i setsid sh -c 'echo $$; sleep 600' & read line"
    transport = await spawn(["sh", "-c", script], stop_timeouts=StopTimeouts(0.0, 0.3, 2.0))
    pid = int(await first_line(transport))
    await transport.close()
    assert not alive(pid)


async def test_what_a_daemon_forks_while_it_is_terminated_is_found_by_its_session(tmp_path: Path) -> None:
    forked = tmp_path / "forked"
    daemon = f"trap 'sleep 600 & echo $! > {forked}; exit' TERM; echo $$; while :; do sleep 0.05; done"
    command = ["sh", "-c", 'env -i setsid sh -c "$0" & read line', daemon]
    transport = await spawn(command, stop_timeouts=StopTimeouts(0.0, 2.0, 2.0))
    await first_line(transport)
    await transport.close()
    assert not alive(int(forked.read_text()))


async def test_a_cancelled_close_still_ends_the_tree() -> None:
    transport = await spawn(python(STUBBORN), stop_timeouts=StopTimeouts(60, 60, 60))
    pid = int(await first_line(transport))
    closing = asyncio.create_task(transport.close())
    await asyncio.sleep(0)
    closing.cancel()
    with pytest.raises(asyncio.CancelledError):
        await closing
    eventually(lambda: not alive(pid))


async def test_an_agent_that_blocks_on_its_output_is_read_until_it_ends() -> None:
    code = "import sys\nfor _ in range(3000): print('x' * 1000)\nsys.stdin.read()"
    transport = await spawn(python(code), stop_timeouts=StopTimeouts(10, 0, 0))
    await first_line(transport)
    await transport.close()
    assert transport.exit_status == 0, "it saw the end of its input and left by itself"


async def test_a_flood_on_stderr_blocks_nothing_and_only_its_end_is_kept() -> None:
    pieces: list[bytes] = []
    code = (
        "import sys; sys.stderr.write('x' * 400_000 + 'the end'); sys.stderr.flush()\n"
        "print(input(), flush=True); sys.stdin.read()"
    )
    transport = await spawn(python(code), stderr=pieces.append)
    transport.send(b"hello")
    assert await first_line(transport) == b"hello"
    await transport.close()
    assert sum(map(len, pieces)) == 400_007
    assert len(transport.stderr_tail()) == 64 * 1024
    assert transport.stderr_tail().endswith("the end")


async def test_an_exit_is_reported_with_its_status_and_the_end_of_stderr() -> None:
    code = "import sys; print('bye', flush=True); sys.stderr.write('no API key\\x1b[2J\\n'); sys.exit(3)"
    transport = await spawn(python(code), peer="agent demo")
    assert await first_line(transport) == b"bye"
    error = await ending(transport)
    assert isinstance(error, AgentExited)
    assert str(error) == "agent demo exited with status 3; stderr: no API key\\x1b[2J"
    assert (error.status, transport.exit_status) == (3, 3)
    assert error.stderr == "no API key\x1b[2J\n"
    with pytest.raises(AgentExited, match="status 3"):
        transport.send(b"too late")
    with pytest.raises(AgentExited, match="status 3"):
        await transport.drain()
    await transport.close()


async def test_a_signal_is_reported_by_its_name() -> None:
    transport = await spawn(python("import os; os.kill(os.getpid(), 11)"))
    error = await ending(transport)
    assert isinstance(error, AgentExited)
    assert "was ended by SIGSEGV" in str(error)
    assert error.status == -signal.SIGSEGV
    await transport.close()


async def test_the_exit_of_a_wrapper_is_reported_even_if_a_child_keeps_the_pipes_open() -> None:
    transport = await spawn(["sh", "-c", "sleep 600 & exit 5"], stop_timeouts=QUICK)
    error = await ending(transport)
    assert isinstance(error, AgentExited)
    assert error.status == 5
    await transport.close()


async def test_an_agent_that_only_closed_its_output_is_reported_as_running() -> None:
    code = "import os, sys; os.close(1); sys.stdin.read()"
    transport = await spawn(python(code), stop_timeouts=QUICK)
    error = await ending(transport)
    assert not isinstance(error, AgentExited)
    assert "closed its output but is still running" in str(error)
    await transport.close()


async def test_exits_are_detected_without_pidfds_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(os, "pidfd_open")

    transport = await spawn(python("raise SystemExit(4)"))
    error = await ending(transport)
    assert isinstance(error, AgentExited)
    assert error.status == 4
    await transport.close()


async def test_the_environment_is_inherited_completely_or_by_name(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SOME_API_KEY", "secret")
    monkeypatch.setenv("HOME", "/nowhere")
    monkeypatch.setenv("DRAGOMAN_TOKEN", "dgm_of_the_user")
    code = "import os, json; print(json.dumps(dict(os.environ)))"

    async def seen(**options: object) -> dict[str, str]:
        transport = await spawn(python(code), **options)  # type: ignore[arg-type]
        line = await first_line(transport)
        await transport.close()
        return msgspec.json.decode(line, type=dict[str, str])

    whole = await seen(env={"EXTRA": "1"})
    assert (whole["SOME_API_KEY"], whole["EXTRA"]) == ("secret", "1")
    assert "DRAGOMAN_TOKEN" not in whole, "an agent could act as its user on a host"
    assert (await seen(env={"DRAGOMAN_TOKEN": "its own"}))["DRAGOMAN_TOKEN"] == "its own"
    listed = await seen(inherit_env=["HOME", "NOT_SET"], env={"EXTRA": "1"})
    assert {name for name in listed if name != "LC_CTYPE"} == {"HOME", "EXTRA", MARKER}
    nothing = await seen(inherit_env=False)
    assert {name for name in nothing if name != "LC_CTYPE"} == {MARKER}


async def test_the_working_directory_is_the_one_given(tmp_path: Path) -> None:
    place = os.fsencode(tmp_path.resolve())

    transport = await spawn(["pwd"], cwd=tmp_path)
    assert await first_line(transport) == place
    await transport.close()


async def test_a_command_that_cannot_start_says_what_to_try(tmp_path: Path) -> None:
    plain = tmp_path / "plain"
    plain.write_text("#!/bin/sh\n")
    broken = tmp_path / "broken"
    broken.write_text("#!/no/such/interpreter\n")
    broken.chmod(0o755)
    cases: list[tuple[list[str], Path | None, str]] = [
        (["no-such-agent"], None, "cannot start 'no-such-agent': no such command on PATH; install it"),
        (["my-agent --acp"], None, "give the program and each of its arguments as a word of its own"),
        (["https://localhost:1/acp"], None, "it is an address; pass it as a string, not as the word of a command"),
        (["plain"], tmp_path, "for the file in this folder, write ./plain, or its interpreter before it"),
        ([str(tmp_path / "missing")], None, "no such file"),
        ([str(plain)], None, "may not be executed; try chmod"),
        ([str(broken)], None, "the interpreter in its first line does not exist"),
        (["true"], tmp_path / "absent", "its working directory .* does not exist"),
        (["true", "a\0b"], None, "null byte"),
        ([], None, "give its command as a list"),
    ]

    before = set(os.listdir("/proc/self/fd"))
    for command, cwd, message in cases:
        with pytest.raises(StartFailed, match=message):
            await spawn(command, cwd=cwd)
    assert len(set(os.listdir("/proc/self/fd")) - before) <= 1, "only the warden's pipe stays open"


async def test_a_thousand_frames_and_a_close_leave_no_descriptor_open() -> None:
    await (await spawn(["cat"])).close()  # the watchdog's pipe and the loop's own
    before = sorted(os.listdir("/proc/self/fd"))
    transport = await spawn(["cat"])
    for n in range(1000):
        transport.send(b"%d" % n)
    await first_line(transport)
    await transport.close()
    assert sorted(os.listdir("/proc/self/fd")) == before


OWNER = """
import asyncio, sys
from dragoman.transport.process.transport import spawn
async def main():
    transports = [await spawn([sys.executable, "-c", code]) for code in sys.argv[1:]]
    for transport in transports:
        print(transport.pid, int((await transport.receive())[0]), flush=True)
    await asyncio.Event().wait()
asyncio.run(main())
"""


async def test_an_owner_killed_with_sigkill_leaves_no_process() -> None:
    owner = await spawn([*python(OWNER), POLITE, STUBBORN, DAEMON])
    pids: list[int] = []
    while len(pids) < 6:
        for frame in await owner.receive():
            assert isinstance(frame, bytes)
            pids += map(int, frame.split())
    assert all(map(alive, pids))
    os.kill(owner.pid, signal.SIGKILL)
    # Not our own close: the watchdog of the owner does this.
    eventually(lambda: not any(map(alive, pids)), within=10)
    await owner.close()


def orphan(state: Path) -> tuple[int, int, str]:
    """A running process whose owner is dead. Returns pid, start time, token."""
    token = os.urandom(8).hex()
    read_fd, write_fd = os.pipe()
    child = os.fork()
    if child == 0:
        os.setsid()
        if os.fork() == 0:
            os.setsid()
            os.write(write_fd, b"%d\n" % os.getpid())
            os.execvp("sleep", ["sleep", "600"])
        os._exit(0)
    os.waitpid(child, 0)
    os.close(write_fd)
    pid = int(os.read(read_fd, 100))
    os.close(read_fd)
    process = eventually(lambda: process_tree.read_process_stat(pid))
    return pid, process.start_time, token


def record(pid: int, start: int, token: str) -> Path:
    """A record of a tree whose owner is dead."""
    pidfiles.write(token, pid, start, ["sleep"])
    path = Path(pidfiles.pidfile_folder()) / f"{token}.json"
    content = msgspec.json.decode(path.read_bytes())
    path.write_bytes(msgspec.json.encode({**content, "owner_start": 1}))
    return path


def test_a_stale_record_is_reaped_at_the_next_start(state: Path) -> None:
    pid, start, token = orphan(state)
    path = record(pid, start, token)
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert pidfiles.reap_orphans() == [pid]
    eventually(lambda: not alive(pid))
    assert not path.exists()


def test_a_record_whose_pid_belongs_to_another_process_kills_nothing(state: Path) -> None:
    pid, start, token = orphan(state)
    try:
        path = record(pid, start - 1, token)
        assert pidfiles.reap_orphans() == []
        assert alive(pid)
        assert not path.exists()
    finally:
        os.kill(pid, signal.SIGKILL)


async def test_the_record_of_a_running_owner_is_kept() -> None:
    transport = await spawn(["cat"])
    assert pidfiles.reap_orphans() == []
    transport.send(b"still here")
    assert await first_line(transport) == b"still here"
    await transport.close()


async def test_an_unwritable_record_folder_is_not_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "file"))

    transport = await spawn(["cat"])
    transport.send(b"x")
    assert await first_line(transport) == b"x"
    await transport.close()
