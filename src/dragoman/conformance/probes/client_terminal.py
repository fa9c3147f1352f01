"""Probes of the terminals a client lends."""

from __future__ import annotations

import asyncio
import os
import time

from dragoman.conformance.harness.client import ClientStage
from dragoman.conformance.harness.peer import Heard, Json
from dragoman.conformance.probe import probe

# Longer than any probe waits for an answer, so that an answer in time is one that did not wait for the end.
FOREVER = "sleep 300"


async def made(stage: ClientStage, line: str, **more: Json) -> str:
    """A terminal that runs this line in a shell; a client that does not give one makes the probe inconclusive."""
    heard = await _asked_for(stage, line, **more)
    if heard is None:
        stage.unsure("terminal/create was not answered in time")
    assert heard is not None
    return _terminal(stage, heard)


def _terminal(stage: ClientStage, heard: Heard) -> str:
    if "error" in heard.message:
        stage.unsure("the client refuses to run commands; let it allow that (as with --yes)", heard)
    result = heard.message["result"]
    id = result.get("terminalId") if isinstance(result, dict) else None
    stage.require(isinstance(id, str), "terminal/create was answered without a terminalId", heard)
    return str(id)


async def _asked_for(stage: ClientStage, line: str, **more: Json) -> Heard | None:
    params = {"sessionId": stage.session, "command": "/bin/sh", "args": ["-c", line], **more}
    return await stage.ask("terminal/create", params, seconds=stage.pace.turn)


def about(stage: ClientStage, id: str) -> Json:
    """The params of every other call."""
    return {"sessionId": stage.session, "terminalId": id}


async def ended(stage: ClientStage, id: str) -> Json:
    """The end of a command, waited for."""
    return await stage.fact("terminal/wait_for_exit", about(stage, id))


async def output(stage: ClientStage, id: str) -> Json:
    """What it printed so far."""
    return await stage.fact("terminal/output", about(stage, id))


async def printed(stage: ClientStage, line: str, **more: Json) -> str:
    """What a command printed until its end."""
    id = await made(stage, line, **more)
    await ended(stage, id)
    return str((await output(stage, id)).get("output", ""))


async def quit(stage: ClientStage, prompt: Heard, id: str) -> None:
    """Release and end, so that nothing keeps running."""
    stage.call("terminal/release", about(stage, id))
    stage.end(prompt)


@probe("client.terminal.01")
async def create_does_not_wait(stage: ClientStage) -> None:
    """The command takes minutes."""
    prompt = await stage.begun()
    heard = await _asked_for(stage, FOREVER)
    stage.require(heard is not None, "terminal/create was not answered in time")
    assert heard is not None
    await quit(stage, prompt, _terminal(stage, heard))


@probe("client.terminal.02")
async def output_has_two_members(stage: ClientStage) -> None:
    """output and truncated."""
    prompt = await stage.begun()
    id = await made(stage, "printf hello")
    await ended(stage, id)
    result = await output(stage, id)
    stage.require(result.get("output") == "hello", f"the output is {result.get('output')!r}", stage.heard[-1])
    stage.require(result.get("truncated") is False, "it is not said whether the output was cut", stage.heard[-1])
    await quit(stage, prompt, id)


@probe("client.terminal.03")
async def the_exit_code_is_told(stage: ClientStage) -> None:
    """Not zero, so that no default can be meant."""
    prompt = await stage.begun()
    id = await made(stage, "exit 7")
    result = await ended(stage, id)
    stage.require(result.get("exitCode") == 7, f"the exit code is {result.get('exitCode')!r}, not 7", stage.heard[-1])
    await quit(stage, prompt, id)


@probe("client.terminal.04")
async def a_killed_terminal_keeps_its_output(stage: ClientStage) -> None:
    """Agents look at it to see how far it came."""
    prompt = await stage.begun()
    id = await made(stage, f"printf early; {FOREVER}")
    await _said(stage, id, "early")
    await stage.fact("terminal/kill", about(stage, id))
    result = await output(stage, id)
    stage.require("early" in str(result.get("output")), "a killed terminal lost its output", stage.heard[-1])
    await quit(stage, prompt, id)


async def _said(stage: ClientStage, id: str, text: str) -> None:
    """Wait until the command printed this."""
    end = time.monotonic() + stage.pace.turn
    while text not in str((await output(stage, id)).get("output")):
        if time.monotonic() > end:
            stage.unsure(f"the command never printed {text!r}")
        await asyncio.sleep(stage.pace.quiet / 4)


@probe("client.terminal.05")
async def a_released_terminal_is_gone(stage: ClientStage) -> None:
    """Its id means nothing any more."""
    prompt = await stage.begun()
    id = await made(stage, "printf done")
    await ended(stage, id)
    await stage.fact("terminal/release", about(stage, id))
    heard = await stage.ask("terminal/output", about(stage, id))
    stage.require(heard is not None and "error" in heard.message, "a released terminal still has an output", heard)
    stage.end(prompt)


@probe("client.terminal.06")
async def the_end_of_the_output_is_kept(stage: ClientStage) -> None:
    """A hundred bytes, of which ten are asked for; a letter is never cut."""
    prompt = await stage.begun()
    id = await made(stage, "printf 'begin%095dend' 0", outputByteLimit=10)
    await ended(stage, id)
    result = await output(stage, id)
    if "truncated" not in result:
        stage.unsure("it is not said whether output was cut, which another requirement is about", stage.heard[-1])
    text = str(result.get("output"))
    stage.require(text.endswith("end") and "begin" not in text, f"of the output {text!r} was kept", stage.heard[-1])
    stage.require(len(text.encode()) <= 10, f"{len(text.encode())} bytes were kept, not 10", stage.heard[-1])
    stage.require(result.get("truncated") is True, "it is not said that the output was cut", stage.heard[-1])
    await quit(stage, prompt, id)


@probe("client.terminal.07")
async def arguments_and_environment_arrive(stage: ClientStage) -> None:
    """With a space in each."""
    prompt = await stage.begun()
    env = [{"name": "DRAGOMAN_CHECK", "value": "a value"}]
    text = await printed(stage, 'printf "%s|%s" "$DRAGOMAN_CHECK" "two words"', env=env)
    stage.require(text == "a value|two words", f"the command saw {text!r}", stage.heard[-1])
    stage.end(prompt)


@probe("client.terminal.08")
async def the_folder_is_the_given_one(stage: ClientStage) -> None:
    """A folder inside the session's."""
    prompt = await stage.begun()
    folder = os.path.join(stage.cwd, "dragoman-check-folder")
    os.makedirs(folder, exist_ok=True)
    try:
        text = await printed(stage, "pwd -P", cwd=folder)
    finally:
        os.rmdir(folder)
    stage.require(text.strip() == os.path.realpath(folder), f"the command ran in {text.strip()!r}", stage.heard[-1])
    stage.end(prompt)


@probe("client.terminal.09")
async def waiting_holds_nobody_up(stage: ClientStage) -> None:
    """While one waits for a long command."""
    prompt = await stage.begun()
    id = await made(stage, FOREVER)
    stage.call("terminal/wait_for_exit", about(stage, id), id="waiting")
    heard = await stage.ask("terminal/output", about(stage, id))
    stage.require(heard is not None, "nothing is answered while somebody waits for a command")
    await quit(stage, prompt, id)


@probe("client.terminal.10")
async def a_running_command_has_no_end(stage: ClientStage) -> None:
    """The status comes with the end."""
    prompt = await stage.begun()
    id = await made(stage, FOREVER)
    result = await output(stage, id)
    stage.require(result.get("exitStatus") is None, "a command that runs has an exit status", stage.heard[-1])
    await quit(stage, prompt, id)


@probe("client.terminal.11")
async def unknown_terminals_are_errors(stage: ClientStage) -> None:
    """Not null, which would be taken for an answer."""
    prompt = await stage.begun()
    heard = await stage.ask("terminal/output", about(stage, "no-such-terminal"))
    stage.require(heard is not None, "terminal/output of an unknown terminal was never answered")
    assert heard is not None
    stage.require("error" in heard.message, "a terminal nobody made has an output", heard)
    stage.end(prompt)


@probe("client.terminal.12")
async def missing_programs_are_errors(stage: ClientStage) -> None:
    """A terminal that ends at once with 127 is fine too."""
    prompt = await stage.begun()
    params = {"sessionId": stage.session, "command": "/no/such/program", "args": []}
    heard = await stage.ask("terminal/create", params, seconds=stage.pace.turn)
    stage.require(heard is not None, "terminal/create of a missing program was never answered")
    await stage.survived(prompt, "a program that cannot be started")


@probe("client.terminal.13")
async def who_waits_hears_of_a_kill(stage: ClientStage) -> None:
    """toad never tells."""
    prompt = await stage.begun()
    id = await made(stage, f"exec {FOREVER}")
    stage.call("terminal/wait_for_exit", about(stage, id), id="waiting")
    stage.call("terminal/kill", about(stage, id), id="killing")
    heard = await stage.answered("waiting")
    stage.require(heard is not None, "who waits for a command that is killed never hears of it")
    await quit(stage, prompt, id)


@probe("client.terminal.14")
async def release_ends_the_command(stage: ClientStage) -> None:
    """Seen by its process."""
    prompt = await stage.begun()
    id = await made(stage, f"echo $$; exec {FOREVER}")
    await _said(stage, id, "\n")
    pid = int(str((await output(stage, id)).get("output")).split()[0])
    heard = await stage.ask("terminal/release", about(stage, id))
    stage.require(heard is not None, "terminal/release was never answered")
    end = time.monotonic() + stage.pace.answer
    while _runs(pid) and time.monotonic() < end:  # noqa: ASYNC110 (another process ends)
        await asyncio.sleep(stage.pace.quiet / 4)
    stage.require(not _runs(pid), "a command goes on after its terminal was released", heard)
    stage.end(prompt)


def _runs(pid: int) -> bool:
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            return file.read().rpartition(b")")[2].split()[0] != b"Z"
    except OSError:
        return False


@probe("client.terminal.15")
async def what_is_not_offered_is_not_run(stage: ClientStage) -> None:
    """A command that would leave something behind."""
    prompt = await stage.begun()
    told = next(heard.params for heard in stage.heard if heard.method == "initialize")
    if stage.dialect == "banjo" and "clientCapabilities" not in told:  # where it has to be said
        stage.unsure("the client did not say what it lends")
    path = stage.absent()
    heard = await _asked_for(stage, f"touch {path}")
    stage.require(heard is not None, "terminal/create was never answered")
    assert heard is not None
    result = heard.message.get("result")
    is_made = isinstance(result, dict) and "terminalId" in result
    stage.require(not is_made and not os.path.exists(path), "a command is run by a client that runs none", heard)
    stage.end(prompt)
