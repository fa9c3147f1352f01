"""Cancellation at a v2 agent: of work, of held prompts, of questions, of one tool call or terminal."""

from __future__ import annotations

from dragoman.conformance.agent.v2.rpc import INVALID_PARAMS
from dragoman.conformance.agent.v2.work import (
    Work,
    open_calls,
    run_work,
    start_slow_work,
    start_work,
    state,
    states,
    updates,
    wait_end,
    wait_question,
    wait_receipt,
    wait_update,
    wire,
)
from dragoman.conformance.harness.agent import CANCELLED, AgentUnderTest
from dragoman.conformance.harness.peer import Json, ReceivedFrame
from dragoman.conformance.requirement import must, should

REQUEST_CANCELLED = -32800


async def _cancel(agent: AgentUnderTest, work: Work) -> ReceivedFrame:
    """Cancel work and return its idle."""
    agent.cancel(work.session)
    await wait_end(agent, work)
    return agent.assume(work.idle, "the cancelled work did not end")


@must("agent.v2cancel.01", "v2.md#cancel")
async def cancelled_work_ends(agent: AgentUnderTest) -> None:
    """session/cancel ends the work: idle is told."""
    work = await start_slow_work(agent)
    agent.cancel()
    await wait_end(agent, work)
    agent.require(work.idle, "the cancelled work goes on", work.receipt)


@must("agent.v2cancel.02", "v2.md#cancel")
async def cancelled_work_says_so(agent: AgentUnderTest) -> None:
    """Cancelled work ends with the stop reason cancelled."""
    idle = await _cancel(agent, await start_slow_work(agent))
    reason = wire(idle).get("stopReason")
    agent.require(reason == "cancelled", f"cancelled work has the stop reason {reason!r}", idle)


@must("agent.v2cancel.03", "v2.md#cancel")
async def open_calls_end(agent: AgentUnderTest) -> None:
    """Tool calls of cancelled work get a final status before its idle."""
    work = await start_slow_work(agent)
    idle = await _cancel(agent, work)
    agent.assume(updates(agent, "tool_call_update", start=work.start), "no tool call was open")
    agent.require(not open_calls(agent, work.start), "a tool call of cancelled work is still open", idle)


@must("agent.v2cancel.04", "v2.md#cancel")
async def held_prompts_are_answered(agent: AgentUnderTest) -> None:
    """session/cancel answers held prompts with -32800."""
    work = await start_slow_work(agent)
    second = await start_work(agent, "plain")
    await agent.collect()
    agent.skip_unless(not agent.replies(second.id), "the agent inserts prompts during its work")
    agent.cancel()
    receipt = await wait_receipt(agent, second)
    agent.require_error(receipt, "a held prompt of cancelled work", REQUEST_CANCELLED)
    await wait_end(agent, work)


@must("agent.v2cancel.05", "v2.md#cancel")
async def a_cancel_without_work_does_nothing(agent: AgentUnderTest) -> None:
    """session/cancel without work sends nothing."""
    await run_work(agent, "plain")
    await agent.collect()
    agent.cancel()
    found = [each for each in await agent.collect() if state(each) or each.is_reply]
    agent.require_none(found, "a cancel without work was told")


@must("agent.v2cancel.06", "v2.md#cancel")
async def the_next_prompt_works(agent: AgentUnderTest) -> None:
    """A prompt after a cancel is worked on."""
    await _cancel(agent, await start_slow_work(agent))
    work = await start_work(agent, "plain")
    await wait_end(agent, work)
    idle = agent.require(work.idle, "a prompt after a cancel is not worked on", work.receipt)
    agent.require(wire(idle).get("stopReason") != "cancelled", "a prompt after a cancel was cancelled too", idle)


@must("agent.v2cancel.07", "v2.md#cancel")
async def a_cancel_does_not_wait_for_the_user(agent: AgentUnderTest) -> None:
    """Cancelled work ends although its question was never answered."""
    work, question = await wait_question(agent, "ask")
    agent.cancel()
    await wait_end(agent, work)
    agent.require(work.idle, "cancelled work waits for the answer to its question", question)


@should("agent.v2cancel.08", "v2.md#cancel")
async def questions_are_withdrawn(agent: AgentUnderTest) -> None:
    """The open question of cancelled work is withdrawn by $/cancel_request."""
    work, question = await wait_question(agent, "ask")
    await _cancel(agent, work)
    await agent.collect()
    found = [frame for frame in agent.received if frame.message and frame.message.get("method") == "$/cancel_request"]
    ids = [frame.wire_params.get("requestId") for frame in found]
    agent.require(question.message["id"] in ids, "the question of cancelled work was not withdrawn", question)


@must("agent.v2cancel.09", "v2.md#cancel")
async def late_answers_do_nothing(agent: AgentUnderTest) -> None:
    """A late answer to a question of cancelled work has no effect."""
    work, question = await wait_question(agent, "ask")
    await _cancel(agent, work)
    await agent.collect()
    agent.answer_permission(question, CANCELLED)
    agent.require_none([f for f in await agent.collect() if wire(f)], "a late answer had an effect", question)


@must("agent.v2cancel.10", "v2.md#cancel")
async def other_sessions_go_on(agent: AgentUnderTest) -> None:
    """A cancel in one session does not touch the work of another."""
    first, second = await agent.open_two_sessions()
    one = await start_slow_work(agent, "slow", first)
    two = await start_slow_work(agent, "slow", second)
    await _cancel(agent, one)
    await agent.collect()
    ended = [f for f in states(agent, two.start, second) if state(f) == "idle" and wire(f).get("stopReason")]
    agent.require_none(ended, "a cancel ended the work of another session")


@should("agent.v2cancel.11", "v2.md#cancel")
async def a_held_prompt_can_be_withdrawn(agent: AgentUnderTest) -> None:
    """$/cancel_request for a held prompt is answered with -32800."""
    work = await start_slow_work(agent)
    second = await start_work(agent, "plain")
    await agent.collect()
    agent.skip_unless(not agent.replies(second.id), "the agent inserts prompts during its work")
    agent.notify("$/cancel_request", {"requestId": second.id})
    receipt = await wait_receipt(agent, second, agent.timeouts.answer)
    agent.require_error(receipt, "a held prompt that was withdrawn", REQUEST_CANCELLED)
    await _cancel(agent, work)


@must("agent.v2cancel.12", "v2.md#cancel")
async def an_inserted_prompt_stays(agent: AgentUnderTest) -> None:
    """$/cancel_request for a prompt that was answered has no effect."""
    work = await start_slow_work(agent)
    agent.notify("$/cancel_request", {"requestId": work.id})
    ended = [frame for frame in await agent.collect() if state(frame) == "idle"]
    agent.require_none(ended, "$/cancel_request ended the work of an answered prompt")


@must("agent.v2cancel.13", "v2.md#cancel")
async def cancelled_is_no_error(agent: AgentUnderTest) -> None:
    """The idle of cancelled work has no error."""
    idle = await _cancel(agent, await start_slow_work(agent))
    agent.require(not wire(idle).get("error"), "cancelled work ended with an error", idle)


# --- one tool call, one terminal --------------------------------------------------------------------------------------


async def _cancellable(agent: AgentUnderTest, purpose: str, kind: str, member: str) -> tuple[Work, Json]:
    """Start work with a part that can be cancelled; return it and the id of the part."""
    await agent.open_session()
    agent.skip_unless(agent.has_prompt(purpose), "no prompt makes this agent offer the cancel of a part")
    work = await start_work(agent, purpose)
    frame = await wait_update(agent, kind, matches=lambda update: bool(update.get("capabilities")))
    agent.skip_unless(frame, "the agent offers no cancel of a part")
    assert frame is not None
    return work, wire(frame).get(member)


async def _cancel_part(agent: AgentUnderTest, method: str, **params: Json) -> ReceivedFrame | None:
    return await agent.request(method, {"sessionId": agent.session, **params})


@must("agent.v2cancel.14", "v2.md#cancel-a-part")
async def one_call_is_cancelled(agent: AgentUnderTest) -> None:
    """tool_call/cancel is answered, and the call becomes cancelled."""
    work, id = await _cancellable(agent, "wait", "tool_call_update", "toolCallId")
    agent.require_result(await _cancel_part(agent, "tool_call/cancel", toolCallId=id), "tool_call/cancel")
    await wait_end(agent, work)
    statuses = [wire(f).get("status") for f in updates(agent, "tool_call_update") if wire(f).get("toolCallId") == id]
    is_cancelled = [each for each in statuses if each][-1:] == ["cancelled"]
    agent.require(is_cancelled, "a cancelled tool call does not say so", agent.received[-1])


@must("agent.v2cancel.15", "v2.md#cancel-a-part")
async def the_work_goes_on(agent: AgentUnderTest) -> None:
    """After the cancel of one tool call the work goes on, and does not end as cancelled."""
    work, id = await _cancellable(agent, "wait", "tool_call_update", "toolCallId")
    await _cancel_part(agent, "tool_call/cancel", toolCallId=id)
    await wait_end(agent, work)
    idle = agent.assume(work.idle, "the work did not end")
    agent.require(wire(idle).get("stopReason") != "cancelled", "the cancel of one call cancelled the work", idle)


@must("agent.v2cancel.16", "v2.md#cancel-a-part")
async def unknown_calls_are_refused(agent: AgentUnderTest) -> None:
    """tool_call/cancel of an unknown call is refused with -32602."""
    await agent.open_session()
    frame = await _cancel_part(agent, "tool_call/cancel", toolCallId="no-such-call")
    agent.require_error(frame, "the cancel of an unknown tool call", INVALID_PARAMS)


@must("agent.v2cancel.17", "v2.md#cancel-a-part")
async def unknown_terminals_are_refused(agent: AgentUnderTest) -> None:
    """terminal/cancel of an unknown terminal is refused with -32602."""
    await agent.open_session()
    frame = await _cancel_part(agent, "terminal/cancel", terminalId="no-such-terminal")
    agent.require_error(frame, "the cancel of an unknown terminal", INVALID_PARAMS)


@must("agent.v2cancel.18", "v2.md#cancel-a-part")
async def ended_calls_are_refused(agent: AgentUnderTest) -> None:
    """tool_call/cancel of a call that has ended is refused with -32602."""
    work = await run_work(agent, "tour")
    calls = agent.assume(updates(agent, "tool_call_update", start=work.start), "the agent made no tool call")
    frame = await _cancel_part(agent, "tool_call/cancel", toolCallId=wire(calls[-1]).get("toolCallId"))
    agent.require_error(frame, "the cancel of a tool call that has ended", INVALID_PARAMS)


@must("agent.v2cancel.19", "v2.md#cancel-a-part")
async def a_cancelled_terminal_ends(agent: AgentUnderTest) -> None:
    """terminal/cancel ends the command: the terminal gets an exit status."""
    work, id = await _cancellable(agent, "endless", "terminal_update", "terminalId")
    agent.assume_result(await _cancel_part(agent, "terminal/cancel", terminalId=id), "terminal/cancel was refused")
    await wait_end(agent, work)
    ended = [f for f in updates(agent, "terminal_update") if wire(f).get("exitStatus") is not None]
    agent.require(ended, "a cancelled terminal has no exit status", agent.received[-1])
