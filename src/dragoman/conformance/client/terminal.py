"""Terminals of a client."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from dragoman.conformance.harness.client import REFUSES_COMMANDS, TERMINALS, ClientUnderTest
from dragoman.conformance.harness.peer import Json, ReceivedFrame
from dragoman.conformance.requirement import must

# Longer than any probe waits for an answer: an answer in time did not wait for the end.
FOREVER = "sleep 300"


async def _create_terminal(client: ClientUnderTest, line: str, **more: Json) -> ReceivedFrame | None:
    params = {"command": "/bin/sh", "args": ["-c", line], **more}
    return await client.request_in_dialect("terminal/create", params, client.timeouts.turn)


def _terminal_id(client: ClientUnderTest, frame: ReceivedFrame) -> str:
    client.assume("error" not in frame.message, REFUSES_COMMANDS, frame)
    id = frame.result.get("terminalId")
    client.require(isinstance(id, str), "terminal/create was answered without a terminalId", frame)
    return str(id)


@asynccontextmanager
async def _terminal(client: ClientUnderTest, line: str, **more: Json) -> AsyncIterator[str]:
    """Run a line in a shell around the block, and release its terminal; inconclusive if the client gives none."""
    frame = await _create_terminal(client, line, **more)
    id = _terminal_id(client, client.assume(frame, "terminal/create was not answered in time"))
    yield id
    _call(client, "release", id)


def _call(client: ClientUnderTest, verb: str, id: str) -> Json:
    """Send a request about a terminal and do not wait; return its id."""
    return client.call(f"terminal/{verb}", {"sessionId": client.session, "terminalId": id})


async def _request(client: ClientUnderTest, verb: str, id: str) -> ReceivedFrame | None:
    return await client.request_in_dialect(f"terminal/{verb}", {"terminalId": id})


async def _result(client: ClientUnderTest, verb: str, id: str) -> Json:
    """Return the result of a request about a terminal, which the client must grant."""
    return await client.request_result(f"terminal/{verb}", {"terminalId": id})


async def _final_output(client: ClientUnderTest, id: str) -> Json:
    """Wait for the end of the command; return the answer to terminal/output."""
    await _result(client, "wait_for_exit", id)
    return await _result(client, "output", id)


@must("client.terminal.01", "files-terminals.md#terminal-create", needs=TERMINALS)
async def create_does_not_wait(client: ClientUnderTest) -> None:
    """terminal/create is answered at once, not when the command ends."""
    async with client.turn():
        frame = client.require(await _create_terminal(client, FOREVER), "terminal/create was not answered in time")
        _call(client, "release", _terminal_id(client, frame))


@must("client.terminal.02", "files-terminals.md#terminal-output", needs=TERMINALS)
async def output_has_two_members(client: ClientUnderTest) -> None:
    """The output has a text and states whether it was truncated."""
    async with client.turn(), _terminal(client, "printf hello") as id:
        result = await _final_output(client, id)
        client.require_last(result.get("output") == "hello", f"the output is {result.get('output')!r}")
        client.require_last(result.get("truncated") is False, "the answer does not say whether the output was cut")


@must("client.terminal.03", "files-terminals.md#terminal-output", needs=TERMINALS)
async def the_exit_code_is_reported(client: ClientUnderTest) -> None:
    """The end of a command is reported with its exit code."""
    async with client.turn(), _terminal(client, "exit 7") as id:
        code = (await _result(client, "wait_for_exit", id)).get("exitCode")
        client.require_last(code == 7, f"the exit code is {code!r}, not 7")


@must("client.terminal.04", "files-terminals.md#terminal-kill", needs=TERMINALS)
async def a_killed_terminal_keeps_its_output(client: ClientUnderTest) -> None:
    """A killed terminal still has its output."""
    async with client.turn(), _terminal(client, f"printf early; {FOREVER}") as id:
        await _wait_output(client, id, "early")
        await _result(client, "kill", id)
        result = await _result(client, "output", id)
        client.require_last("early" in str(result.get("output")), "a killed terminal lost its output")


async def _wait_output(client: ClientUnderTest, id: str, text: str) -> str:
    """Wait until the command has printed this; return its output."""
    end = time.monotonic() + client.timeouts.turn
    while text not in (found := str((await _result(client, "output", id)).get("output"))):
        client.assume(time.monotonic() <= end, f"the command never printed {text!r}")
        await asyncio.sleep(client.timeouts.quiet / 4)
    return found


@must("client.terminal.05", "files-terminals.md#terminal-release", needs=TERMINALS)
async def a_released_terminal_is_gone(client: ClientUnderTest) -> None:
    """A released terminal no longer exists."""
    async with client.turn(), _terminal(client, "printf done") as id:
        await _result(client, "wait_for_exit", id)
        await _result(client, "release", id)
        frame = await _request(client, "output", id)
        client.require(frame is not None and "error" in frame.message, "a released terminal still has an output", frame)


@must("client.terminal.06", "files-terminals.md#truncation", needs=TERMINALS)
async def the_end_of_the_output_is_kept(client: ClientUnderTest) -> None:
    """Output over the limit loses its beginning, and is marked as truncated."""
    # Ask for ten bytes of a hundred. A character is never cut.
    async with client.turn(), _terminal(client, "printf 'begin%095dend' 0", outputByteLimit=10) as id:
        result = await _final_output(client, id)
        why = "the answer does not say whether output was cut, which another requirement is about"
        client.assume("truncated" in result, why, client.received[-1])
        text = str(result.get("output"))
        client.require_last(text.endswith("end") and "begin" not in text, f"of the output {text!r} was kept")
        client.require_last(len(text.encode()) <= 10, f"{len(text.encode())} bytes were kept, not 10")
        client.require_last(result.get("truncated") is True, "the answer does not say that the output was cut")


@must("client.terminal.07", "files-terminals.md#terminal-create", needs=TERMINALS)
async def arguments_and_environment_arrive(client: ClientUnderTest) -> None:
    """Arguments and environment reach the command."""
    env = [{"name": "DRAGOMAN_CHECK", "value": "a value"}]
    line = 'printf "%s|%s" "$DRAGOMAN_CHECK" "two words"'
    async with client.turn(), _terminal(client, line, env=env) as id:
        text = (await _final_output(client, id)).get("output")
        client.require_last(text == "a value|two words", f"the command saw {text!r}")


@must("client.terminal.08", "files-terminals.md#terminal-create", needs=TERMINALS)
async def the_folder_is_the_given_one(client: ClientUnderTest) -> None:
    """A command runs in the folder it was given."""
    async with client.turn():
        folder = os.path.join(client.cwd, "dragoman-check-folder")
        os.makedirs(folder, exist_ok=True)
        try:
            async with _terminal(client, "pwd -P", cwd=folder) as id:
                text = str((await _final_output(client, id)).get("output")).strip()
        finally:
            os.rmdir(folder)
        client.require_last(text == os.path.realpath(folder), f"the command ran in {text!r}")


@must("client.terminal.09", "json-rpc.md#concurrency", needs=TERMINALS)
async def waiting_blocks_no_other_request(client: ClientUnderTest) -> None:
    """While one request waits for a command, others are answered."""
    async with client.turn(), _terminal(client, FOREVER) as id:
        _call(client, "wait_for_exit", id)
        frame = await _request(client, "output", id)
        client.require(frame, "no request is answered while another one waits for a command")


@must("client.terminal.10", "files-terminals.md#terminal-output", needs=TERMINALS)
async def a_running_command_has_no_end(client: ClientUnderTest) -> None:
    """A running command has no exit status yet."""
    async with client.turn(), _terminal(client, FOREVER) as id:
        result = await _result(client, "output", id)
        client.require_last(result.get("exitStatus") is None, "a command that runs has an exit status")


@must("client.terminal.11", "files-terminals.md#terminal-output", needs=TERMINALS)
async def unknown_terminals_are_errors(client: ClientUnderTest) -> None:
    """An unknown terminal is an error."""
    async with client.turn():
        frame = await _request(client, "output", "no-such-terminal")
        frame = client.require(frame, "terminal/output of an unknown terminal was never answered")
        client.require("error" in frame.message, "an unknown terminal has an output", frame)


@must("client.terminal.12", "files-terminals.md#terminal-create", needs=TERMINALS)
async def missing_programs_are_errors(client: ClientUnderTest) -> None:
    """A command that cannot be started is an error, and does not break the client."""
    async with client.turn(survives="a program that cannot be started"):
        params = {"command": "/no/such/program", "args": []}
        frame = await client.request_in_dialect("terminal/create", params, client.timeouts.turn)
        client.require(frame, "terminal/create of a missing program was never answered")


@must("client.terminal.13", "peers.md#line-slices", needs=TERMINALS)
async def waits_end_when_the_command_is_killed(client: ClientUnderTest) -> None:
    """A wait for a command that is killed is answered."""
    async with client.turn(), _terminal(client, f"exec {FOREVER}") as id:
        waiting = _call(client, "wait_for_exit", id)
        _call(client, "kill", id)
        client.require(await client.wait_reply(waiting), "a wait for a killed command never ends")


@must("client.terminal.14", "files-terminals.md#terminal-release", needs=TERMINALS)
async def release_ends_the_command(client: ClientUnderTest) -> None:
    """Release ends a command that still runs."""
    async with client.turn(), _terminal(client, f"echo $$; exec {FOREVER}") as id:
        pid = int((await _wait_output(client, id, "\n")).split()[0])
        frame = client.require(await _request(client, "release", id), "terminal/release was never answered")
        end = time.monotonic() + client.timeouts.answer
        while _runs(pid) and time.monotonic() < end:  # noqa: ASYNC110 (another process ends)
            await asyncio.sleep(client.timeouts.quiet / 4)
        client.require(not _runs(pid), "a command continues after its terminal was released", frame)


def _runs(pid: int) -> bool:
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            return file.read().rpartition(b")")[2].split()[0] != b"Z"
    except OSError:
        return False


@must("client.terminal.15", "initialize.md#gates", needs=f"!{TERMINALS}")
async def what_is_not_offered_is_not_run(client: ClientUnderTest) -> None:
    """Without the capability no command is run."""
    async with client.turn():
        client.assume_capabilities_stated()
        path = client.absent_path()
        frame = client.require(await _create_terminal(client, f"touch {path}"), "terminal/create was never answered")
        is_run = "terminalId" in frame.result or os.path.exists(path)
        client.require(not is_run, "a command is run by a client that runs none", frame)
