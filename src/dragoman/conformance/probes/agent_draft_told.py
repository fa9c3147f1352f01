"""Probes of what an agent tells in the draft's words: its abilities, changes, outputs, places and failures."""

from __future__ import annotations

from dragoman.conformance import json_shape
from dragoman.conformance.harness.agent import AgentStage
from dragoman.conformance.harness.peer import Json
from dragoman.conformance.json_shape import Drawing, fault
from dragoman.conformance.probe import probe
from dragoman.conformance.probes.agent_cancel import running
from dragoman.conformance.probes.agent_toolcall import calls
from dragoman.conformance.probes.agent_update import drawn, told

TREE: Drawing = {
    "loadSession?": bool,
    "promptCapabilities?": {"streaming?": bool, "cancellation?": bool, "attachments?": bool},
    "mcpCapabilities?": {"servers?": bool, "transport?": [str]},
    "sessionCapabilities?": {"modes?": [str], "configOptions?": [str], "persistence?": bool},
}
HUNK = {"oldStart": int, "oldLines": int, "newStart": int, "newLines": int, "content": str}
RAN = {"terminalId?": str, "command?": str, "exitCode?": int, "stdout?": str, "stderr?": str}
OUTPUTS: dict[Json, Drawing] = {
    "text": {"text": str},
    "diff": {"path": json_shape.some, "hunks": [HUNK]},
    "terminal": RAN,
}
PLACE = {"path": json_shape.some, "line?": int, "column?": int, "endLine?": int, "endColumn?": int}


@probe("agent.draft.29")
async def missing_sessions_have_a_number(stage: AgentStage) -> None:
    """A client opens a new one at that."""
    await stage.initialized()
    heard = await stage.asked("session/load", {"sessionId": "no-such-session"})
    if heard is None or "error" not in heard.message:
        stage.unsure("loading an unknown session was not refused", heard)
    stage.refused(heard, "loading an unknown session", stage.code("session_not_found"))


@probe("agent.draft.31")
async def cancels_have_reasons(stage: AgentStage) -> None:
    """It is for the log."""
    turn = await running(stage)
    stage.tell("session/cancel", {"sessionId": stage.session, "reason": "the user changed their mind"})
    await stage.ended(turn, stage.pace.turn)
    stage.require(turn.answer, "a turn that was cancelled with a reason was not answered")


drawn(
    "agent.draft.32", "option", "config_option_update", {"key": json_shape.some, "currentValue": object, "source?": str}
)
drawn(
    "agent.draft.33",
    "mode",
    "current_mode_update",
    {"currentMode": json_shape.some, "previousMode?": str, "reason?": str},
)


@probe("agent.draft.34")
async def outputs_are_of_three_kinds(stage: AgentStage) -> None:
    """Of a read, a write and a command."""
    found = [(heard, told(heard)) for heard in await calls(stage, "read", "write", "run")]
    shown = [(heard, data["output"]) for heard, data in found if isinstance(data, dict) and data.get("output")]
    if not shown:
        stage.unsure("no tool call told its output")
    for heard, output in shown:
        kind = output.get("type") if isinstance(output, dict) else None
        stage.require(kind in OUTPUTS, f"the output of a tool is of the type {kind!r}", heard)
        words = fault(output, OUTPUTS[kind], "output")
        stage.require(not words, words, heard)


@probe("agent.draft.35")
async def places_are_places(stage: AgentStage) -> None:
    """Where they are told."""
    found = [(heard, told(heard)) for heard in await calls(stage, "read", "write")]
    shown = [(heard, data["location"]) for heard, data in found if isinstance(data, dict) and data.get("location")]
    if not shown:
        stage.skip("no tool call told its place")
    for heard, place in shown:
        words = fault(place, PLACE, "location")
        stage.require(not words, words, heard)


@probe("agent.draft.37")
async def abilities_are_a_tree(stage: AgentStage) -> None:
    """Each leaf of its type."""
    result = await stage.initialized()
    if not isinstance(result.get("capabilities"), dict):
        stage.unsure("the agent does not tell what it can do", stage.introduction)
    words = fault(result["capabilities"], TREE, "capabilities")
    stage.require(not words, words, stage.introduction)


@probe("agent.draft.38")
async def failures_say_why(stage: AgentStage) -> None:
    """A file that the client does not give."""
    await stage.opened()
    stage.serves["fs/read_text_file"] = lambda _: {"refused": -32004, "why": "the file is gone"}
    found = [(heard, told(heard)) for heard in await calls(stage, "read")]
    failed = [(heard, data) for heard, data in found if isinstance(data, dict) and data.get("status") == "failed"]
    if not failed:
        stage.unsure("no tool call was told as failed")
    for heard, data in failed:
        stage.require(data.get("error") or data.get("output"), "a tool call failed and does not say why", heard)


@probe("agent.draft.39")
async def demands_are_a_tree(stage: AgentStage) -> None:
    """The client's words for what it can do."""
    demanded = (await stage.initialized()).get("requiredClientCapabilities")
    if demanded is None:
        stage.skip("the agent demands nothing")
    stage.require(isinstance(demanded, dict), "what the client must be able to do is no object", stage.introduction)
