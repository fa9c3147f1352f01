"""Probes of an agent's tool calls."""

from __future__ import annotations

from itertools import pairwise

from dragoman.conformance import json_shape
from dragoman.conformance.harness.agent import AgentStage
from dragoman.conformance.harness.peer import Heard, Json
from dragoman.conformance.json_shape import Drawing, fault
from dragoman.conformance.probe import probe
from dragoman.conformance.probes.agent_update import told

KINDS = json_shape.text(
    "read", "edit", "delete", "move", "search", "execute", "think", "fetch", "switch_mode", "other"
)  # fmt: skip
STATUSES = json_shape.text("pending", "in_progress", "completed", "failed")
FINISHED = ("completed", "failed")


async def calls(stage: AgentStage, *purposes: str) -> list[Heard]:
    """All that is told of tool calls in turns for some purposes; none makes the probe inconclusive."""
    if not stage.session:
        await stage.opened()
    for purpose in purposes:
        await stage.prompted(stage.words(purpose))
    await stage.silence()
    found = [heard for heard in stage.updates() if heard.kind in ("tool_call", "tool_call_update")]
    if not any(heard.kind == "tool_call" for heard in found):
        stage.unsure("the agent made no tool call")
    return found


async def _drawn(stage: AgentStage, drawing: Drawing, *purposes: str, kind: str = "") -> None:
    for heard in await calls(stage, *purposes):
        if not kind or heard.kind == kind:
            words = fault(told(heard), drawing)
            stage.require(not words, f"{heard.kind}: {words}", heard)


@probe("agent.toolcall.01")
async def calls_have_id_and_title(stage: AgentStage) -> None:
    """The id for the client, the title for people."""
    await _drawn(stage, {"toolCallId": json_shape.some, "title": str}, "read", "write", kind="tool_call")


@probe("agent.toolcall.02")
async def kinds_are_known(stage: AgentStage) -> None:
    """A closed list in v1."""
    await _drawn(stage, {"kind?": KINDS}, "read", "write", "run")


@probe("agent.toolcall.03")
async def statuses_are_known(stage: AgentStage) -> None:
    """`cancelled` is none of them in v1."""
    await _drawn(stage, {"status?": STATUSES}, "read", "write")


@probe("agent.toolcall.04")
async def calls_are_announced(stage: AgentStage) -> None:
    """tool_call first, tool_call_update later."""
    known: set[Json] = set()
    for heard in await calls(stage, "read", "write"):
        call = told(heard).get("toolCallId")
        if heard.kind == "tool_call":
            known.add(call)
        else:
            stage.require(call in known, f"the tool call {call!r} was told of and never announced", heard)


@probe("agent.toolcall.05")
async def ids_are_used_once(stage: AgentStage) -> None:
    """Over two turns."""
    announced = [heard for heard in await calls(stage, "read", "read") if heard.kind == "tool_call"]
    if len(announced) < 2:
        stage.unsure("the agent made fewer than two tool calls")
    ids = [told(heard).get("toolCallId") for heard in announced]
    stage.require(len(set(ids)) == len(ids), f"an id was used for two tool calls: {ids}", *announced)


def statuses(found: list[Heard]) -> dict[str, list[tuple[str, Heard]]]:
    """The statuses of each tool call, in the order they were told."""
    moves: dict[str, list[tuple[str, Heard]]] = {}
    for heard in found:
        status = told(heard).get("status") or ("pending" if heard.kind == "tool_call" else None)
        if isinstance(status, str):
            moves.setdefault(str(told(heard).get("toolCallId")), []).append((status, heard))
    return moves


@probe("agent.toolcall.06")
async def calls_are_finished(stage: AgentStage) -> None:
    """Completed or failed."""
    for call, moves in statuses(await calls(stage, "read")).items():
        last, heard = moves[-1]
        stage.require(last in FINISHED, f"the turn is over and the tool call {call!r} is {last}", heard)


@probe("agent.toolcall.07")
async def finished_is_finished(stage: AgentStage) -> None:
    """Another status after the last one is a second ending; a call announced anew with a used id is another matter."""
    for call, moves in statuses(await calls(stage, "read", "write")).items():
        for (before, first), (after, heard) in pairwise(moves):
            changed = before in FINISHED and after != before and heard.kind != "tool_call"
            stage.require(not changed, f"the tool call {call!r} was {before} and is {after} again", first, heard)


ENTRY_TYPES = json_shape.text("content", "diff", "terminal")


@probe("agent.toolcall.08")
async def contents_are_wrapped(stage: AgentStage) -> None:
    """A bare block is silently dropped by official readers (reference 1.9)."""
    await _drawn(stage, {"content?": [{"type": ENTRY_TYPES, "content?": json_shape.block}]}, "read", "write")


@probe("agent.toolcall.09")
async def locations_are_absolute(stage: AgentStage) -> None:
    """An editor opens them."""
    await _drawn(stage, {"locations?": [{"path": json_shape.absolute}]}, "read", "write")


@probe("agent.toolcall.10")
async def diffs_are_whole(stage: AgentStage) -> None:
    """The old text is null for a new file."""
    found = [entry for heard in await calls(stage, "write") for entry in _entries(heard, "diff")]
    if not found:
        stage.unsure("the agent showed no diff")
    for heard, entry in found:
        words = fault(entry, {"path": json_shape.absolute, "newText": str, "oldText?": str})
        stage.require(not words, f"diff: {words}", heard)


def _entries(heard: Heard, kind: str) -> list[tuple[Heard, Json]]:
    content = told(heard).get("content") or []
    return [(heard, entry) for entry in content if isinstance(entry, dict) and entry.get("type") == kind]


@probe("agent.toolcall.11")
async def terminals_are_the_clients(stage: AgentStage) -> None:
    """A client has nothing to show for another."""
    found = [entry for heard in await calls(stage, "run") for entry in _entries(heard, "terminal")]
    if not found:
        stage.unsure("the agent showed no terminal")
    for heard, entry in found:
        known = entry.get("terminalId") == "terminal-1"
        stage.require(known, f"the terminal {entry.get('terminalId')!r} was not made by the client", heard)


@probe("agent.toolcall.12")
async def running_calls_do_not_wait_again(stage: AgentStage) -> None:
    """From pending to in_progress, not back."""
    for call, moves in statuses(await calls(stage, "read")).items():
        for (before, first), (after, heard) in pairwise(moves):
            back = before == "in_progress" and after == "pending"
            stage.require(not back, f"the tool call {call!r} ran and is pending again", first, heard)


@probe("agent.toolcall.13")
async def lines_are_numbers(stage: AgentStage) -> None:
    """Or absent, or null."""
    await _drawn(stage, {"locations?": [{"line?": json_shape.count}]}, "read")


@probe("agent.toolcall.14")
async def calls_say_their_kind(stage: AgentStage) -> None:
    """Clients choose an icon by it, and rules for permission."""
    await _drawn(stage, {"kind": str}, "read", kind="tool_call")


@probe("agent.toolcall.15")
async def calls_say_their_input(stage: AgentStage) -> None:
    """With the announcement or soon after."""
    given: dict[str, bool] = {}
    found = await calls(stage, "read")
    for heard in found:
        call = str(told(heard).get("toolCallId"))
        given[call] = given.get(call, False) or told(heard).get("rawInput") is not None
    missing = [call for call, said in given.items() if not said]
    stage.require(not missing, f"what the tool calls {missing} were given was never told", found[0])
