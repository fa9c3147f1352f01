"""Tool calls of an agent."""

from __future__ import annotations

from itertools import pairwise

from dragoman.conformance.agent.update import wire_update
from dragoman.conformance.harness.agent import QUESTION, AgentUnderTest
from dragoman.conformance.harness.peer import Json, ReceivedFrame
from dragoman.conformance.json_shape import Shape, absolute, content_block, natural, non_empty, one_of
from dragoman.conformance.requirement import must, should

KINDS = one_of(
    "read", "edit", "delete", "move", "search", "execute", "think", "fetch", "switch_mode", "other"
)  # fmt: skip
STATUSES = one_of("pending", "in_progress", "completed", "failed")
FINISHED = ("completed", "failed")


async def run_tool_calls(agent: AgentUnderTest, *purposes: str) -> list[ReceivedFrame]:
    """Run turns for these purposes; return the updates of tool calls, inconclusive if there are none."""
    for purpose in purposes:
        await agent.run_turn(purpose)
    await agent.collect()
    found = agent.updates("tool_call", "tool_call_update")
    agent.assume(any(frame.kind == "tool_call" for frame in found), "the agent made no tool call")
    return found


async def _require_shape(agent: AgentUnderTest, shape: Shape, *purposes: str, kind: str = "") -> None:
    for frame in await run_tool_calls(agent, *purposes):
        if not kind or frame.kind == kind:
            agent.require_shape(wire_update(frame), shape, frame, frame.kind)


@must("agent.toolcall.01", "tool-calls.md#fields")
async def calls_have_id_and_title(agent: AgentUnderTest) -> None:
    """A tool call has an id and a title."""
    await _require_shape(agent, {"toolCallId": non_empty, "title": str}, "read", "write", kind="tool_call")


@must("agent.toolcall.02", "tool-calls.md#kinds")
async def kinds_are_known(agent: AgentUnderTest) -> None:
    """The kind of a tool call is known."""
    await _require_shape(agent, {"kind?": KINDS}, "read", "write", "run")


@must("agent.toolcall.03", "tool-calls.md#statuses")
async def statuses_are_known(agent: AgentUnderTest) -> None:
    """The status of a tool call is known."""
    await _require_shape(agent, {"status?": STATUSES}, "read", "write")


@must("agent.toolcall.04", "peers.md#tool-call-order")
async def calls_are_announced(agent: AgentUnderTest) -> None:
    """A tool call is announced before it is updated."""
    known: set[Json] = set()
    for frame in await run_tool_calls(agent, "read", "write"):
        call = wire_update(frame).get("toolCallId")
        if frame.kind == "tool_call":
            known.add(call)
        else:
            agent.require(call in known, f"the tool call {call!r} was updated and never announced", frame)


@should("agent.toolcall.05", "peers.md#tool-call-order")
async def ids_are_used_once(agent: AgentUnderTest) -> None:
    """Every tool call of a session has an id of its own."""
    announced = [frame for frame in await run_tool_calls(agent, "read", "read") if frame.kind == "tool_call"]
    agent.assume(len(announced) >= 2, "the agent made fewer than two tool calls")
    ids = [wire_update(frame).get("toolCallId") for frame in announced]
    agent.require(len(set(ids)) == len(ids), f"an id was used for two tool calls: {ids}", *announced)


def status_history(found: list[ReceivedFrame]) -> dict[str, list[tuple[str, ReceivedFrame]]]:
    """Return the statuses of each tool call, in order."""
    moves: dict[str, list[tuple[str, ReceivedFrame]]] = {}
    for frame in found:
        status = wire_update(frame).get("status") or ("pending" if frame.kind == "tool_call" else None)
        if isinstance(status, str):
            moves.setdefault(str(wire_update(frame).get("toolCallId")), []).append((status, frame))
    return moves


@should("agent.toolcall.06", "tool-calls.md#statuses, peers.md#tool-call-order")
async def calls_are_finished(agent: AgentUnderTest) -> None:
    """At the end of a turn every tool call is finished."""
    for call, moves in status_history(await run_tool_calls(agent, "read")).items():
        last, frame = moves[-1]
        agent.require(last in FINISHED, f"the turn is over and the tool call {call!r} is {last}", frame)


@must("agent.toolcall.07", "tool-calls.md#statuses, draft.md#status-machine")
async def finished_calls_stay_finished(agent: AgentUnderTest) -> None:
    """A tool call that is finished stays finished."""
    # Another final status is a second end. A new tool call with a used id is not.
    for call, moves in status_history(await run_tool_calls(agent, "read", "write")).items():
        for (before, first), (after, frame) in pairwise(moves):
            changed = before in FINISHED and after != before and frame.kind != "tool_call"
            agent.require(not changed, f"the tool call {call!r} was {before} and is {after} again", first, frame)


ENTRY_TYPES = one_of("content", "diff", "terminal")


@must("agent.toolcall.08", "tool-calls.md#content")
async def contents_are_wrapped(agent: AgentUnderTest) -> None:
    """The content of a tool call is a list of contents, diffs and terminals."""
    # Official readers drop a bare block silently (docs/protocol/tool-calls.md#content).
    await _require_shape(agent, {"content?": [{"type": ENTRY_TYPES, "content?": content_block}]}, "read", "write")


@must("agent.toolcall.09", "json-rpc.md#paths-and-lines")
async def locations_are_absolute(agent: AgentUnderTest) -> None:
    """The path of a location is absolute."""
    await _require_shape(agent, {"locations?": [{"path": absolute}]}, "read", "write")


@must("agent.toolcall.10", "tool-calls.md#diff")
async def diffs_are_complete(agent: AgentUnderTest) -> None:
    """A diff has an absolute path and the new text."""
    found = [entry for frame in await run_tool_calls(agent, "write") for entry in _entries(frame, "diff")]
    agent.assume(found, "the agent showed no diff")
    for frame, entry in found:
        agent.require_shape(entry, {"path": absolute, "newText": str, "oldText?": str}, frame, "diff")


def _entries(frame: ReceivedFrame, kind: str) -> list[tuple[ReceivedFrame, Json]]:
    content = wire_update(frame).get("content") or []
    return [(frame, entry) for entry in content if isinstance(entry, dict) and entry.get("type") == kind]


@must("agent.toolcall.11", "tool-calls.md#terminals-shown, peers.md#foreign-terminals", "v1 banjo")
async def terminals_are_the_clients(agent: AgentUnderTest) -> None:
    """A terminal that is shown was created by the client."""
    found = [entry for frame in await run_tool_calls(agent, "run") for entry in _entries(frame, "terminal")]
    agent.assume(found, "the agent showed no terminal")
    for frame, entry in found:
        known = entry.get("terminalId") == "terminal-1"
        agent.require(known, f"the terminal {entry.get('terminalId')!r} was not made by the client", frame)


@must("agent.toolcall.12", "tool-calls.md#statuses")
async def running_calls_do_not_wait_again(agent: AgentUnderTest) -> None:
    """A running tool call does not go back to pending."""
    for call, moves in status_history(await run_tool_calls(agent, "read")).items():
        for (before, first), (after, frame) in pairwise(moves):
            back = before == "in_progress" and after == "pending"
            agent.require(not back, f"the tool call {call!r} ran and is pending again", first, frame)


@must("agent.toolcall.13", "tool-calls.md#locations, peers.md#nulls")
async def lines_are_numbers(agent: AgentUnderTest) -> None:
    """The line of a location is an integer."""
    await _require_shape(agent, {"locations?": [{"line?": natural}]}, "read")


@should("agent.toolcall.14", "tool-calls.md#kinds, peers.md#tool-call-order")
async def calls_state_their_kind(agent: AgentUnderTest) -> None:
    """A tool call states its kind."""
    await _require_shape(agent, {"kind": str}, "read", kind="tool_call")


@should("agent.toolcall.15", "tool-calls.md#fields")
async def calls_state_their_input(agent: AgentUnderTest) -> None:
    """A tool call states its input."""
    given: dict[str, bool] = {}
    found = await run_tool_calls(agent, "read")
    for frame in found:
        call = str(wire_update(frame).get("toolCallId"))
        given[call] = given.get(call, False) or wire_update(frame).get("rawInput") is not None
    for frame in agent.calls(QUESTION):
        call = frame.params.get("toolCall", {})
        given[call.get("toolCallId", "")] = call.get("rawInput") is not None or given.get(call.get("toolCallId"), False)
    missing = [call for call, said in given.items() if not said]
    agent.require(not missing, f"the input of the tool calls {missing} was never sent", found[0])
