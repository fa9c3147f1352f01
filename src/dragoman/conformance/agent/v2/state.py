"""States of a v2 agent: what they say and when, and background work."""

from __future__ import annotations

from dragoman.conformance.agent.v2.work import (
    FINAL,
    Work,
    run_work,
    start_work,
    state,
    states,
    updates,
    wait_end,
    wait_question,
    wait_update,
    wire,
)
from dragoman.conformance.harness.agent import CANCELLED, QUESTION, AgentUnderTest
from dragoman.conformance.harness.peer import Json, ReceivedFrame
from dragoman.conformance.json_shape import non_empty, one_of
from dragoman.conformance.requirement import may, must, should

STATES = one_of("running", "idle", "requires_action", "unknown")


@must("agent.v2state.01", "v2.md#states")
async def states_are_known(agent: AgentUnderTest) -> None:
    """A state is one of the protocol's, or begins with an underscore."""
    work = await run_work(agent, "tour")
    for frame in states(agent, work.start):
        agent.require_shape(wire(frame), {"state": STATES}, frame)


@should("agent.v2state.02", "v2.md#states")
async def a_question_requires_action(agent: AgentUnderTest) -> None:
    """While work waits for the user, the state is requires_action."""
    work, question = await wait_question(agent, "ask")
    await agent.collect()
    told = [state(frame) for frame in states(agent, work.start)]
    agent.require(told[-1:] == ["requires_action"], "the work waits for the user and no state says so", question)


@must("agent.v2state.03", "v2.md#states")
async def an_answer_lets_the_work_run(agent: AgentUnderTest) -> None:
    """After requires_action the state is running or idle when the user has answered."""
    work, question = await wait_question(agent, "ask")
    await agent.collect()
    waiting = [frame for frame in states(agent, work.start) if state(frame) == "requires_action"]
    agent.assume(waiting, "the agent did not tell requires_action")
    agent.answer_permission(question, agent.permission_outcome(question))
    await wait_end(agent, work)
    later = [state(f) for f in states(agent, work.start) if agent.received.index(f) > agent.received.index(waiting[-1])]
    agent.require(later[:1] == ["running"] or later == ["idle"], f"after requires_action came {later[:1]}", question)


@must("agent.v2state.04", "v2.md#states")
async def stop_reasons_are_of_idle(agent: AgentUnderTest) -> None:
    """Only idle has a stop reason."""
    work = await run_work(agent, "tour")
    wrong = [each for each in states(agent, work.start) if state(each) != "idle" and wire(each).get("stopReason")]
    agent.require_none(wrong, "a state other than idle has a stop reason")


@must("agent.v2state.05", "v2.md#states")
async def errors_are_complete(agent: AgentUnderTest) -> None:
    """The error of an idle has a code and a message."""
    idle = await _failed(agent)
    error = agent.skip_unless(wire(idle).get("error"), "the agent gives no details of an error")
    agent.require_shape(error, {"code": int, "message": str}, idle, "error")


async def _failed(agent: AgentUnderTest) -> ReceivedFrame:
    work = await start_work(agent, "failure")
    await wait_end(agent, work)
    agent.assume(work.receipt is not None and "result" in work.receipt.message, "the prompt was refused", work.receipt)
    return agent.assume(work.idle, "the work did not end")


@must("agent.v2state.06", "v2.md#states")
async def errors_are_of_failed_work(agent: AgentUnderTest) -> None:
    """Only an idle with the stop reason error has an error."""
    await run_work(agent, "plain")
    wrong = [f for f in states(agent) if wire(f).get("error") and wire(f).get("stopReason") != "error"]
    agent.require_none(wrong, "a state without the stop reason error has an error")


# --- background work --------------------------------------------------------------------------------------------------


async def _background(agent: AgentUnderTest, purpose: str = "background") -> tuple[Work, list[ReceivedFrame]]:
    """Run work that leaves something in the background; return the states that list it."""
    await agent.open_session()
    agent.skip_unless(agent.has_prompt(purpose), "no prompt makes this agent work in the background")
    work = await run_work(agent, purpose)
    return work, [frame for frame in states(agent, work.start) if wire(frame).get("background")]


def _ids(frame: ReceivedFrame) -> set[Json]:
    found = wire(frame).get("background")
    items = found if isinstance(found, list) else []
    return {item.get("toolCallId") or item.get("terminalId") for item in items if isinstance(item, dict)}


@must("agent.v2state.07", "v2.md#background-work")
async def background_work_has_a_type(agent: AgentUnderTest) -> None:
    """An item of background work has a type, and the id that its type needs."""
    _, listed = await _background(agent)
    agent.assume(listed, "the agent lists no background work")
    members = {"terminal": "terminalId", "tool_call": "toolCallId", "subagent": "sessionId"}
    for frame in listed:
        for item in wire(frame)["background"]:
            agent.require_shape(item, {"type": non_empty}, frame, "background")
            member = members.get(item["type"])
            agent.require(member is None or item.get(member), f"background work has no {member}", frame)


@must("agent.v2state.08", "v2.md#background-work")
async def background_work_is_announced(agent: AgentUnderTest) -> None:
    """Background work is announced by its own update before it is listed."""
    _, listed = await _background(agent)
    first = agent.assume(listed, "the agent lists no background work")[0]
    before = agent.received[: agent.received.index(first)]
    known = {wire(frame).get("toolCallId") or wire(frame).get("terminalId") for frame in before}
    missing = _ids(first) - known - {None}
    agent.require(not missing, "background work is listed before its own update", first)


@must("agent.v2state.09", "v2.md#background-work")
async def background_work_stays_listed(agent: AgentUnderTest) -> None:
    """An agent that reported background work has the list on every later state of the session."""
    _, listed = await _background(agent)
    agent.assume(listed, "the agent lists no background work")
    later = await run_work(agent, "plain")
    lacking = [frame for frame in states(agent, later.start) if not isinstance(wire(frame).get("background"), list)]
    agent.require_none(lacking, "a state lacks the list of background work")


@must("agent.v2state.10", "v2.md#background-work")
async def the_end_of_background_work_is_told(agent: AgentUnderTest) -> None:
    """The end of background work is told before a list without it."""
    await _background(agent, "brief")
    listed: set[Json] = set()
    ended: set[Json] = set()
    for frame in agent.received:
        update = wire(frame)
        if update.get("status") in FINAL or update.get("exitStatus") is not None:
            ended.add(update.get("toolCallId") or update.get("terminalId"))
        if update.get("background") is not None:
            gone = listed - _ids(frame)
            agent.require(gone <= ended, "background work left the list without an end", frame)
            listed = _ids(frame)
    calls = {wire(frame).get("toolCallId") for frame in updates(agent, "tool_call_update")}
    agent.assume(calls, "the agent started no background work")


@must("agent.v2state.11", "v2.md#cancel")
async def background_work_survives_a_cancel(agent: AgentUnderTest) -> None:
    """session/cancel does not end background work."""
    _, listed = await _background(agent)
    ids = _ids(agent.assume(listed, "the agent lists no background work")[-1])
    agent.cancel()
    found = [each for each in await agent.collect() if wire(each).get("toolCallId") in ids]
    ended = [each for each in found if wire(each).get("status") in FINAL]
    agent.require_none(ended, "a cancel without work ended background work")


@may("agent.v2state.12", "v2.md#states")
async def own_work_is_told(agent: AgentUnderTest) -> None:
    """Work that no prompt began is told by running and idle."""
    await agent.open_session()
    agent.skip_unless(agent.has_prompt("wake"), "no prompt makes this agent work by itself")
    work = await start_work(agent, "wake")
    await wait_end(agent, work, 1)
    if len(updates(agent, "agent_message_chunk", start=work.start)) < 2:
        await wait_update(agent, "agent_message_chunk")
    said = updates(agent, "agent_message_chunk", start=work.start)
    agent.assume(len(said) >= 2, "the agent did not work by itself")
    await agent.collect()
    told = [state(frame) for frame in states(agent, work.start)]
    agent.require(told == ["running", "idle"] * 2, "work without a prompt was not told by running and idle", said[-1])


@must("agent.v2state.13", "v2.md#permission")
async def a_closed_question_ends_the_wait(agent: AgentUnderTest) -> None:
    """When the user closes the only question, the work goes on or ends."""
    work, question = await wait_question(agent, "ask")
    agent.answer_permission(question, CANCELLED)
    await wait_end(agent, work)
    agent.require(work.idle, "the work does not end after its question was closed", agent.calls(QUESTION)[0])
