"""Terminals of a client."""

from __future__ import annotations

import asyncio
import os
import time

from dragoman.conformance.harness.client import ClientUnderTest
from dragoman.conformance.harness.peer import Json, ReceivedFrame
from dragoman.conformance.requirement import must

NEEDS = "client.terminal"


# Longer than any probe waits for an answer: an answer in time did not wait for the end.
FOREVER = "sleep 300"


async def create_terminal(client: ClientUnderTest, line: str, **more: Json) -> str:
    """Return a terminal that runs this line in a shell; inconclusive if the client gives none."""
    frame = client.assume(await _request_terminal(client, line, **more), "terminal/create was not answered in time")
    return _terminal(client, frame)


def _terminal(client: ClientUnderTest, frame: ReceivedFrame) -> str:
    client.assume(
        "error" not in frame.message, "the client refuses to run commands; let it allow that (as with --yes)", frame
    )
    result = frame.message["result"]
    id = result.get("terminalId") if isinstance(result, dict) else None
    client.require(isinstance(id, str), "terminal/create was answered without a terminalId", frame)
    return str(id)


async def _request_terminal(client: ClientUnderTest, line: str, **more: Json) -> ReceivedFrame | None:
    params = {"sessionId": client.session, "command": "/bin/sh", "args": ["-c", line], **more}
    return await client.request("terminal/create", params, seconds=client.timeouts.turn)


def terminal_params(client: ClientUnderTest, id: str) -> Json:
    """Return the params of the other calls."""
    return {"sessionId": client.session, "terminalId": id}


async def wait_command(client: ClientUnderTest, id: str) -> Json:
    """Wait for the end of a command; return it."""
    return await client.request_result("terminal/wait_for_exit", terminal_params(client, id))


async def output(client: ClientUnderTest, id: str) -> Json:
    """Return the output so far."""
    return await client.request_result("terminal/output", terminal_params(client, id))


async def command_output(client: ClientUnderTest, line: str, **more: Json) -> str:
    """Return the output of a command after its end."""
    id = await create_terminal(client, line, **more)
    await wait_command(client, id)
    return str((await output(client, id)).get("output", ""))


async def release_and_end(client: ClientUnderTest, prompt: ReceivedFrame, id: str) -> None:
    """Release the terminal and end the turn, so that nothing keeps running."""
    client.call("terminal/release", terminal_params(client, id))
    client.end_turn(prompt)


@must("client.terminal.01", "files-terminals.md#terminal-create", needs=NEEDS)
async def create_does_not_wait(client: ClientUnderTest) -> None:
    """terminal/create is answered at once, not when the command ends."""
    prompt = await client.begin_turn()
    frame = client.require(await _request_terminal(client, FOREVER), "terminal/create was not answered in time")
    await release_and_end(client, prompt, _terminal(client, frame))


@must("client.terminal.02", "files-terminals.md#terminal-output", needs=NEEDS)
async def output_has_two_members(client: ClientUnderTest) -> None:
    """The output has a text and says whether it was cut."""
    prompt = await client.begin_turn()
    id = await create_terminal(client, "printf hello")
    await wait_command(client, id)
    result = await output(client, id)
    client.require(result.get("output") == "hello", f"the output is {result.get('output')!r}", client.received[-1])
    client.require(
        result.get("truncated") is False, "the answer does not say whether the output was cut", client.received[-1]
    )
    await release_and_end(client, prompt, id)


@must("client.terminal.03", "files-terminals.md#terminal-output", needs=NEEDS)
async def the_exit_code_is_reported(client: ClientUnderTest) -> None:
    """The end of a command is told with its exit code."""
    prompt = await client.begin_turn()
    id = await create_terminal(client, "exit 7")
    result = await wait_command(client, id)
    client.require(
        result.get("exitCode") == 7, f"the exit code is {result.get('exitCode')!r}, not 7", client.received[-1]
    )
    await release_and_end(client, prompt, id)


@must("client.terminal.04", "files-terminals.md#terminal-kill", needs=NEEDS)
async def a_killed_terminal_keeps_its_output(client: ClientUnderTest) -> None:
    """A killed terminal still has its output."""
    prompt = await client.begin_turn()
    id = await create_terminal(client, f"printf early; {FOREVER}")
    await _wait_output(client, id, "early")
    await client.request_result("terminal/kill", terminal_params(client, id))
    result = await output(client, id)
    client.require("early" in str(result.get("output")), "a killed terminal lost its output", client.received[-1])
    await release_and_end(client, prompt, id)


async def _wait_output(client: ClientUnderTest, id: str, text: str) -> None:
    """Wait until the command has printed this."""
    end = time.monotonic() + client.timeouts.turn
    while text not in str((await output(client, id)).get("output")):
        client.assume(time.monotonic() <= end, f"the command never printed {text!r}")
        await asyncio.sleep(client.timeouts.quiet / 4)


@must("client.terminal.05", "files-terminals.md#terminal-release", needs=NEEDS)
async def a_released_terminal_is_gone(client: ClientUnderTest) -> None:
    """A released terminal is gone."""
    async with client.turn():
        id = await create_terminal(client, "printf done")
        await wait_command(client, id)
        await client.request_result("terminal/release", terminal_params(client, id))
        frame = await client.request("terminal/output", terminal_params(client, id))
        client.require(frame is not None and "error" in frame.message, "a released terminal still has an output", frame)


@must("client.terminal.06", "files-terminals.md#truncation", needs=NEEDS)
async def the_end_of_the_output_is_kept(client: ClientUnderTest) -> None:
    """Output over the limit loses its beginning, and says so."""
    # Ask for ten bytes of a hundred. A character is never cut.
    prompt = await client.begin_turn()
    id = await create_terminal(client, "printf 'begin%095dend' 0", outputByteLimit=10)
    await wait_command(client, id)
    result = await output(client, id)
    client.assume(
        "truncated" in result,
        "the answer does not say whether output was cut, which another requirement is about",
        client.received[-1],
    )
    text = str(result.get("output"))
    client.require(
        text.endswith("end") and "begin" not in text, f"of the output {text!r} was kept", client.received[-1]
    )
    client.require(len(text.encode()) <= 10, f"{len(text.encode())} bytes were kept, not 10", client.received[-1])
    client.require(
        result.get("truncated") is True, "the answer does not say that the output was cut", client.received[-1]
    )
    await release_and_end(client, prompt, id)


@must("client.terminal.07", "files-terminals.md#terminal-create", needs=NEEDS)
async def arguments_and_environment_arrive(client: ClientUnderTest) -> None:
    """Arguments and environment reach the command."""
    async with client.turn():
        env = [{"name": "DRAGOMAN_CHECK", "value": "a value"}]
        text = await command_output(client, 'printf "%s|%s" "$DRAGOMAN_CHECK" "two words"', env=env)
        client.require(text == "a value|two words", f"the command saw {text!r}", client.received[-1])


@must("client.terminal.08", "files-terminals.md#terminal-create", needs=NEEDS)
async def the_folder_is_the_given_one(client: ClientUnderTest) -> None:
    """A command runs in the folder it was given."""
    async with client.turn():
        folder = os.path.join(client.cwd, "dragoman-check-folder")
        os.makedirs(folder, exist_ok=True)
        try:
            text = await command_output(client, "pwd -P", cwd=folder)
        finally:
            os.rmdir(folder)
        client.require(
            text.strip() == os.path.realpath(folder), f"the command ran in {text.strip()!r}", client.received[-1]
        )


@must("client.terminal.09", "json-rpc.md#concurrency", needs=NEEDS)
async def waiting_blocks_no_other_request(client: ClientUnderTest) -> None:
    """While somebody waits for a command, others are answered."""
    prompt = await client.begin_turn()
    id = await create_terminal(client, FOREVER)
    client.call("terminal/wait_for_exit", terminal_params(client, id), id="waiting")
    frame = await client.request("terminal/output", terminal_params(client, id))
    client.require(frame is not None, "no request is answered while another one waits for a command")
    await release_and_end(client, prompt, id)


@must("client.terminal.10", "files-terminals.md#terminal-output", needs=NEEDS)
async def a_running_command_has_no_end(client: ClientUnderTest) -> None:
    """A command that runs has no exit status yet."""
    prompt = await client.begin_turn()
    id = await create_terminal(client, FOREVER)
    result = await output(client, id)
    client.require(result.get("exitStatus") is None, "a command that runs has an exit status", client.received[-1])
    await release_and_end(client, prompt, id)


@must("client.terminal.11", "files-terminals.md#terminal-output", needs=NEEDS)
async def unknown_terminals_are_errors(client: ClientUnderTest) -> None:
    """A terminal nobody made is an error."""
    async with client.turn():
        frame = client.require(
            await client.request("terminal/output", terminal_params(client, "no-such-terminal")),
            "terminal/output of an unknown terminal was never answered",
        )
        client.require("error" in frame.message, "an unknown terminal has an output", frame)


@must("client.terminal.12", "files-terminals.md#terminal-create", needs=NEEDS)
async def missing_programs_are_errors(client: ClientUnderTest) -> None:
    """A command that cannot be started is an error, and nothing worse."""
    prompt = await client.begin_turn()
    params = {"sessionId": client.session, "command": "/no/such/program", "args": []}
    frame = await client.request("terminal/create", params, seconds=client.timeouts.turn)
    client.require(frame is not None, "terminal/create of a missing program was never answered")
    await client.require_alive(prompt, "a program that cannot be started")


@must("client.terminal.13", "peers.md#line-slices", needs=NEEDS)
async def who_waits_hears_of_a_kill(client: ClientUnderTest) -> None:
    """Who waits for a command that is killed gets an answer."""
    prompt = await client.begin_turn()
    id = await create_terminal(client, f"exec {FOREVER}")
    client.call("terminal/wait_for_exit", terminal_params(client, id), id="waiting")
    client.call("terminal/kill", terminal_params(client, id), id="killing")
    frame = await client.wait_reply("waiting")
    client.require(frame is not None, "a wait for a killed command never ends")
    await release_and_end(client, prompt, id)


@must("client.terminal.14", "files-terminals.md#terminal-release", needs=NEEDS)
async def release_ends_the_command(client: ClientUnderTest) -> None:
    """Release ends a command that still runs."""
    async with client.turn():
        id = await create_terminal(client, f"echo $$; exec {FOREVER}")
        await _wait_output(client, id, "\n")
        pid = int(str((await output(client, id)).get("output")).split()[0])
        frame = await client.request("terminal/release", terminal_params(client, id))
        client.require(frame is not None, "terminal/release was never answered")
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


@must("client.terminal.15", "initialize.md#gates", needs=f"!{NEEDS}")
async def what_is_not_offered_is_not_run(client: ClientUnderTest) -> None:
    """Without the capability no command is run."""
    async with client.turn():
        init_params = next(frame.params for frame in client.received if frame.method == "initialize")
        if client.dialect == "banjo" and "clientCapabilities" not in init_params:  # where it has to be said
            client.inconclusive("the client did not say what it offers")
        path = client.absent_path()
        frame = client.require(await _request_terminal(client, f"touch {path}"), "terminal/create was never answered")
        result = frame.message.get("result")
        is_made = isinstance(result, dict) and "terminalId" in result
        client.require(not is_made and not os.path.exists(path), "a command is run by a client that runs none", frame)
