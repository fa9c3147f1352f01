"""Cancelling a turn at an agent."""

from __future__ import annotations

from dragoman.conformance.harness.agent import CANCELLED, AgentUnderTest
from dragoman.conformance.harness.peer import ReceivedFrame
from dragoman.conformance.harness.prompt_turn import PromptTurn
from dragoman.conformance.requirement import may, must, should

DONE = frozenset({"completed", "failed", "cancelled", "denied"})
SAID = frozenset({"agent_message_chunk", "agent_thought_chunk", "tool_call", "tool_call_update", "plan"})


async def _cancel_slow_turn(agent: AgentUnderTest) -> tuple[PromptTurn, ReceivedFrame]:
    """Cancel a long turn; return it with its answer."""
    turn = await agent.start_slow_turn()
    agent.cancel()
    await agent.wait_turn(turn, agent.timeouts.turn)
    return turn, agent.assume(turn.answer, "a turn that was cancelled was not answered")


@must("agent.cancel.01", "prompt-turns.md#cancel, peers.md#after-cancel")
async def cancelled_turns_are_answered(agent: AgentUnderTest) -> None:
    """A cancelled turn is answered soon."""
    turn = await agent.start_slow_turn()
    agent.cancel()
    await agent.wait_turn(turn, agent.timeouts.turn)
    agent.require(turn.answer, f"a turn that was cancelled was not answered within {agent.timeouts.turn:g} seconds")


@must("agent.cancel.02", "prompt-turns.md#cancel, peers.md#after-cancel")
async def cancelling_is_no_error(agent: AgentUnderTest) -> None:
    """A cancelled turn is not answered with an error."""
    _, answer = await _cancel_slow_turn(agent)
    agent.require("error" not in answer.message, "a turn that was cancelled was answered with an error", answer)


@must("agent.cancel.03", "prompt-turns.md#cancel, peers.md#after-cancel", "v1 banjo crow draft")
async def cancelled_turns_state_so(agent: AgentUnderTest) -> None:
    """A cancelled turn ends as cancelled."""
    turn, answer = await _cancel_slow_turn(agent)
    agent.assume(turn.stop, "the turn ended without a reason", answer)
    agent.require(turn.stop == "cancelled", f"a turn that was cancelled ended as {turn.stop!r}", answer)


async def _require_unaffected(agent: AgentUnderTest, after: str) -> None:
    turn = await agent.try_turn("plain")
    agent.require_result(turn.answer, f"the turn after {after}")
    agent.require(turn.stop != "cancelled", f"the turn after {after} ended as cancelled, too", turn.answer)


@must("agent.cancel.04", "peers.md#after-cancel")
async def the_next_turn_is_not_cancelled(agent: AgentUnderTest) -> None:
    """A cancel does not affect the next turn."""
    await _cancel_slow_turn(agent)
    await _require_unaffected(agent, "a turn that was cancelled")


@must("agent.cancel.05", "prompt-turns.md#cancel")
async def cancelling_nothing_does_nothing(agent: AgentUnderTest) -> None:
    """A cancel when nothing runs does not affect the next turn."""
    await agent.open_session()
    agent.cancel()
    await agent.collect()
    await _require_unaffected(agent, "a cancel of nothing")


@must("agent.cancel.06", "prompt-turns.md#cancel", "v1 banjo 2025.1 draft")
async def unknown_sessions_are_ignored(agent: AgentUnderTest) -> None:
    """A cancel for a session that does not exist is ignored."""
    await agent.open_session()
    agent.cancel("no-such-session")
    agent.require_none(await agent.stray_replies(), "a cancel for a session that is not there was answered")
    await agent.require_alive("a cancel for a session that is not there")


@must(
    "agent.cancel.07", "prompt-turns.md#cancel, peers.md#after-cancel, peers.md#cancel-with-question", "v1 banjo draft"
)
async def open_questions_are_no_obstacle(agent: AgentUnderTest) -> None:
    """A turn cancelled while a permission request is open ends as cancelled."""
    turn, question = await agent.wait_question("ask")
    await agent.cancel_question(turn, question)
    answer = agent.require(turn.answer, "a turn cancelled at an open permission request was not answered")
    outcome = turn.stop or answer.message.get("error")
    agent.require(
        turn.stop == "cancelled", f"a turn cancelled at an open permission request ended as {outcome!r}", answer
    )


@must("agent.cancel.08", "peers.md#late-permission-answers", "v1 banjo draft")
async def late_answers_are_ignored(agent: AgentUnderTest) -> None:
    """An answer to a permission request that comes too late is ignored."""
    turn, question = await agent.wait_question("ask")
    agent.cancel()
    await agent.wait_turn(turn, agent.timeouts.answer)
    agent.answer_permission(question, CANCELLED)
    await agent.collect()
    await agent.require_alive("an answer to a permission request of a turn that was over")


@must("agent.cancel.09", "prompt-turns.md#cancel")
async def cancelling_twice_ends_once(agent: AgentUnderTest) -> None:
    """Cancelling a turn twice ends it once."""
    turn = await agent.start_slow_turn()
    agent.cancel()
    agent.cancel()
    await agent.wait_turn(turn)
    await agent.collect()
    found = agent.assume(agent.replies(turn.id), "a turn that was cancelled was not answered")
    agent.require(len(found) == 1, f"a turn cancelled twice was answered {len(found)} times", *found)


@must("agent.cancel.10", "prompt-turns.md#cancel")
async def early_cancels_are_handled(agent: AgentUnderTest) -> None:
    """A cancel right after the prompt takes effect."""
    await agent.open_session()
    turn = agent.start_turn("slow")
    agent.cancel()
    await agent.wait_turn(turn)
    agent.require(turn.answer, "a turn cancelled right behind its prompt was not answered")


@must("agent.cancel.11", "prompt-turns.md#cancel-request", "v1 banjo")
async def cancelled_requests_are_answered(agent: AgentUnderTest) -> None:
    """A request cancelled with $/cancel_request is still answered."""
    turn = await agent.start_slow_turn()
    agent.notify("$/cancel_request", {"requestId": turn.id})
    await agent.wait_turn(turn, agent.timeouts.quiet * 2)
    if turn.answer is None:
        agent.cancel()
        await agent.wait_turn(turn)
    agent.require(turn.answer, "a request that was cancelled was never answered")


@must("agent.cancel.12", "prompt-turns.md#cancel-request, peers.md#errors-without-id", "v1 banjo")
async def cancelling_no_request_is_ignored(agent: AgentUnderTest) -> None:
    """$/cancel_request for a request that does not exist is ignored."""
    await agent.initialize()
    agent.notify("$/cancel_request", {"requestId": 999_999})
    agent.require_none(await agent.stray_replies(), "$/cancel_request for nothing was answered")


@must("agent.cancel.13", "prompt-turns.md#cancel")
async def other_sessions_go_on(agent: AgentUnderTest) -> None:
    """Cancelling one session does not affect the others."""
    first, second = await agent.open_two_sessions()
    async with agent.slow_turn(second) as turn:
        agent.cancel(first)
        frame = await agent.wait_reply(turn.id, agent.timeouts.quiet * 2)
        is_end = frame is not None and "end_turn" in frame.result.values()
        agent.assume(not is_end, "the other session's turn ended by itself", frame)
        agent.require(frame is None, "cancelling one session ended the turn of another", frame)


@should("agent.cancel.14", "peers.md#tool-call-order", "v1 banjo draft")
async def tool_calls_are_finished(agent: AgentUnderTest) -> None:
    """A cancelled turn leaves no tool call unfinished."""
    turn, answer = await _cancel_slow_turn(agent)
    await agent.collect()
    status: dict[str, str] = {}
    for frame in agent.updates("tool_call", "tool_call_update", start=turn.start):
        call = str(frame.update.get("toolCallId"))
        status[call] = str(frame.update.get("status") or status.get(call, "pending"))
    agent.assume(status, "no tool call was under way")
    left = [call for call, found in status.items() if found not in DONE]
    agent.require(not left, f"{len(left)} tool calls are unfinished after a cancelled turn", answer)


@must("agent.cancel.15", "prompt-turns.md#cancel, peers.md#updates-outside-turns")
async def nothing_is_sent_afterwards(agent: AgentUnderTest) -> None:
    """Nothing is sent after the answer to a cancelled turn."""
    _, answer = await _cancel_slow_turn(agent)
    late = [frame for frame in await agent.collect() if frame.kind in SAID]
    agent.require_none(late, "the agent continues after the answer to a cancelled turn", answer)


@must("agent.cancel.16", "prompt-turns.md#cancel-request", "v1")
async def cancelled_requests_have_their_error_code(agent: AgentUnderTest) -> None:
    """A request cancelled with $/cancel_request, where supported, is answered with -32800 or a result."""
    turn = await agent.start_slow_turn()
    agent.notify("$/cancel_request", {"requestId": turn.id})
    await agent.wait_turn(turn, agent.timeouts.quiet * 3)
    answer = agent.skip_unless(turn.answer, "the agent does not support $/cancel_request")
    found = answer.error.get("code")
    agent.require(found in (None, -32800), f"a request that was cancelled was refused with {found}", answer)


@may("agent.cancel.17", "prompt-turns.md#cancel-request, peers.md#late-permission-answers", "v1 banjo")
async def open_questions_are_cancelled_by_id(agent: AgentUnderTest) -> None:
    """Permission requests of a cancelled turn may be cancelled with $/cancel_request, which names an open one."""
    turn, question = await agent.wait_question("ask")
    agent.cancel()
    await agent.wait_turn(turn, agent.timeouts.answer)
    await agent.collect()
    cancels = agent.skip_unless(agent.calls("$/cancel_request"), "the agent cancels no permission request")
    id = question.message.get("id")
    wrong = [frame for frame in cancels if frame.wire_params.get("requestId") != id]
    agent.require_none(wrong, f"a request was cancelled that is not open; the open one is {id!r}")
