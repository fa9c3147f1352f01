"""Probes of what an agent asks its client for: files and terminals."""

from __future__ import annotations

from typing import Any

from dragoman.conformance import json_shape
from dragoman.conformance.harness import hello
from dragoman.conformance.harness.agent import AgentStage, Spoken
from dragoman.conformance.harness.peer import Heard, Json
from dragoman.conformance.json_shape import Drawing, fault
from dragoman.conformance.probe import probe

READ, WRITE, CREATE, RELEASE = "fs/read_text_file", "fs/write_text_file", "terminal/create", "terminal/release"
READING: dict[str, Any] = {
    "v1": {"fs": {"readTextFile": True, "writeTextFile": False}, "terminal": False},
    "banjo": {"fs": {"readTextFile": True, "writeTextFile": False}, "terminal": False},
    "draft": {"fs": {"read": True, "write": False}, "terminal": {"create": False}},
}


def requests(stage: AgentStage, *begins: str) -> list[Heard]:
    """The agent's requests whose method begins so."""
    return [heard for heard in stage.heard if heard.is_request and heard.method.startswith(begins)]


async def _not_asked(stage: AgentStage, lent: Any, what: str, begins: str | tuple[str, ...], *purposes: str) -> None:
    await stage.opened(capabilities=lent)
    for purpose in purposes:
        await stage.prompted(stage.words(purpose))
    found = requests(stage, *([begins] if isinstance(begins, str) else begins))
    stage.require(not found, f"{what} was asked for, and the client lends none", *found)


@probe("agent.files.01")
async def files_are_lent(stage: AgentStage) -> None:
    """Reading and writing."""
    await _not_asked(stage, hello.NOTHING[stage.dialect], "a file", "fs/", "read", "write")


@probe("agent.files.02")
async def terminals_are_lent(stage: AgentStage) -> None:
    """A command is run."""
    await _not_asked(stage, hello.NOTHING[stage.dialect], "a terminal", "terminal/", "run")


@probe("agent.files.03")
async def writing_is_lent_apart(stage: AgentStage) -> None:
    """A client that only shows what is on the screen."""
    await _not_asked(stage, READING[stage.dialect], "writing", WRITE, "write")


@probe("agent.files.22")
async def what_is_not_named_is_not_lent(stage: AgentStage) -> None:
    """A client that names no capability at all."""
    await _not_asked(stage, {}, "something", ("fs/", "terminal/"), "read", "write", "run")


async def asked(stage: AgentStage, purpose: str, method: str) -> list[Heard]:
    """The requests of a method in a turn for some purpose; none makes the probe inconclusive."""
    await stage.did(purpose)
    found = requests(stage, method)
    if not found:
        stage.unsure(f"the agent did not ask for {method}")
    return found


async def _drawn(stage: AgentStage, purpose: str, method: str, drawing: Drawing) -> None:
    for heard in await asked(stage, purpose, method):
        words = fault(heard.message.get("params"), drawing)
        stage.require(not words, f"{method}: {words}", heard)


@probe("agent.files.04")
async def files_are_named(stage: AgentStage) -> None:
    """So that the client can check the folder of that session."""
    await _drawn(stage, "read", READ, {"sessionId": json_shape.some, "path": json_shape.absolute})


@probe("agent.files.05")
async def lines_begin_with_one(stage: AgentStage) -> None:
    """Where a line is said at all."""
    await _drawn(stage, "read", READ, {"line?": json_shape.line, "limit?": json_shape.count})


@probe("agent.files.06")
async def texts_are_written(stage: AgentStage) -> None:
    """And nothing else."""
    await _drawn(stage, "write", WRITE, {"path": str, "content": str})


async def _goes_on(stage: AgentStage, purpose: str, method: str, answer: Any, what: str) -> None:
    await stage.opened()
    stage.serves[method] = lambda _: answer
    turn = await stage.ended(stage.begin(stage.words(purpose)))
    if not requests(stage, method):
        stage.unsure(f"the agent did not ask for {method}")
    stage.granted(turn.answer, f"a turn in which {what}")


@probe("agent.files.07")
async def missing_files_are_survived(stage: AgentStage) -> None:
    """The client says there is none."""
    code = stage.code("resource_not_found")
    await _goes_on(stage, "read", READ, {"refused": code, "why": "Resource not found"}, "a file could not be had")


@probe("agent.files.08")
async def terminals_are_described(stage: AgentStage) -> None:
    """As the table of the method has it."""
    variable = {"name": json_shape.some, "value": str}
    drawing = {
        "sessionId": json_shape.some,
        "command": json_shape.some,
        "args?": [str],
        "env?": [variable],
        "cwd?": json_shape.absolute,
    }
    await _drawn(stage, "run", CREATE, drawing)


@probe("agent.files.09")
async def terminals_are_released(stage: AgentStage) -> None:
    """By the end of the turn."""
    made = await asked(stage, "run", CREATE)
    await stage.silence()
    released = requests(stage, RELEASE)
    stage.require(released, "a terminal was never released", *made)


@probe("agent.files.10")
async def released_is_released(stage: AgentStage) -> None:
    """Its id means nothing from then on."""
    await asked(stage, "run", CREATE)
    await stage.silence()
    found = requests(stage, "terminal/")
    at = next((number for number, heard in enumerate(found) if heard.method == RELEASE), None)
    if at is None:
        stage.unsure("the terminal was not released")
    later = [heard for heard in found[(at or 0) + 1 :] if heard.method != CREATE]
    stage.require(not later, "a terminal was used after it was released", *later)


@probe("agent.files.11")
async def terminals_are_known(stage: AgentStage) -> None:
    """By the id that the client gave."""
    await asked(stage, "run", CREATE)
    for heard in requests(stage, "terminal/"):
        found = heard.params.get("terminalId") if isinstance(heard.params, dict) else None
        known = heard.method == CREATE or found == "terminal-1"
        stage.require(known, f"{heard.method} for the terminal {found!r}, which the client did not make", heard)


@probe("agent.files.12")
async def cancelled_terminals_are_released(stage: AgentStage) -> None:
    """A command that does not end."""
    await stage.opened()
    stage.hold("terminal/wait_for_exit")
    running = {"output": "", "truncated": False}
    stage.serves["terminal/output"] = lambda _: running
    turn = stage.begin(stage.words("run"))
    made = await stage.until(lambda heard: heard.method == CREATE, stage.pace.turn)
    if made is None:
        stage.unsure("the agent asked for no terminal")
    await stage.silence()
    stage.cancel()
    await stage.ended(turn)
    await stage.silence()
    stage.require(requests(stage, RELEASE), "the terminal of a cancelled turn was never released", made)


@probe("agent.files.13")
async def missing_terminals_are_survived(stage: AgentStage) -> None:
    """The client cannot start the command."""
    await _goes_on(stage, "run", CREATE, {"refused": -32603, "why": "no such command"}, "a terminal could not be had")


async def _answered(stage: AgentStage, purpose: str, method: str, result: Json) -> Spoken:
    """A turn in which the first request of this method is answered so."""
    await stage.opened()
    stage.hold(method)
    turn = stage.begin(stage.words(purpose))
    asked_for = await stage.until(lambda heard: heard.method == method, stage.pace.turn)
    if asked_for is None:
        stage.unsure(f"the agent did not ask for {method}")
    assert asked_for is not None
    stage.reply(asked_for, result)
    return await stage.ended(turn)


@probe("agent.files.14")
async def null_is_an_empty_result(stage: AgentStage) -> None:
    """As several clients answer a write."""
    turn = await _answered(stage, "write", WRITE, None)
    stage.granted(turn.answer, "a turn in which a write was answered with null")


@probe("agent.files.21")
async def nonsense_is_survived(stage: AgentStage) -> None:
    """A number where the content of a file belongs."""
    turn = await _answered(stage, "read", READ, {"content": 5})
    stage.require(turn.answer, "a turn in which a read was answered with nonsense never ended")
