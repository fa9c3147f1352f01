"""Cancelling a turn at an agent."""

from __future__ import annotations

from dragoman.conformance.harness.agent import AgentUnderTest, PromptTurn
from dragoman.conformance.harness.peer import ReceivedFrame
from dragoman.conformance.requirement import may, must, should

DONE = frozenset({"completed", "failed", "cancelled", "denied"})
SAID = frozenset({"agent_message_chunk", "agent_thought_chunk", "tool_call", "tool_call_update", "plan"})


async def start_slow_turn(agent: AgentUnderTest, session: str = "") -> PromptTurn:
    """Start a turn that takes long; return it once it has begun."""
    if not agent.session:
        await agent.open_session()
    turn = agent.start_turn(agent.prompt_for("slow"), session)
    await agent.wait_update("tool_call", "agent_message_chunk", "agent_thought_chunk", seconds=agent.timeouts.turn)
    await agent.collect()  # a turn that ends by itself in this moment is none that takes long
    if any(frame.is_reply and frame.message.get("id") == turn.id for frame in agent.received):
        agent.inconclusive("the turn that should take long was over at once", agent.received[-1])
    return turn


async def cancel_slow_turn(agent: AgentUnderTest) -> PromptTurn:
    """Cancel a long turn; return it when it is answered."""
    turn = await start_slow_turn(agent)
    agent.cancel()
    await agent.wait_turn(turn, agent.timeouts.turn)
    if turn.answer is None:
        agent.inconclusive("a turn that was cancelled was not answered")
    return turn


@must("agent.cancel.01", "prompt-turns.md#cancel, peers.md#after-cancel")
async def cancelled_turns_are_answered(agent: AgentUnderTest) -> None:
    """A turn that is cancelled is answered soon."""
    turn = await start_slow_turn(agent)
    agent.cancel()
    await agent.wait_turn(turn, agent.timeouts.turn)
    agent.require(turn.answer, f"a turn that was cancelled was not answered within {agent.timeouts.turn:g} seconds")


@must("agent.cancel.02", "prompt-turns.md#cancel, peers.md#after-cancel")
async def cancelling_is_no_error(agent: AgentUnderTest) -> None:
    """A turn that is cancelled is not answered with an error."""
    turn = await cancel_slow_turn(agent)
    assert turn.answer is not None
    agent.require(
        "error" not in turn.answer.message, "a turn that was cancelled was answered with an error", turn.answer
    )


@must("agent.cancel.03", "prompt-turns.md#cancel, peers.md#after-cancel", "v1 banjo crow draft")
async def cancelled_turns_state_so(agent: AgentUnderTest) -> None:
    """A turn that is cancelled ends as cancelled."""
    turn = await cancel_slow_turn(agent)
    if not turn.stop:
        agent.inconclusive("the turn ended without a reason", turn.answer)
    agent.require(turn.stop == "cancelled", f"a turn that was cancelled ended as {turn.stop!r}", turn.answer)


async def _require_unaffected(agent: AgentUnderTest, after: str) -> None:
    turn = await agent.wait_turn(agent.start_turn(agent.prompt_for("plain")))
    if turn.answer is None:
        agent.require(False, f"after {after} the next turn was not answered")
    agent.require_result(turn.answer, f"the turn after {after}")
    agent.require(turn.stop != "cancelled", f"the turn after {after} ended as cancelled, too", turn.answer)


@must("agent.cancel.04", "peers.md#after-cancel")
async def cancelling_does_not_stick(agent: AgentUnderTest) -> None:
    """After a cancelled turn the next one goes its own way."""
    await cancel_slow_turn(agent)
    await _require_unaffected(agent, "a turn that was cancelled")


@must("agent.cancel.05", "prompt-turns.md#cancel")
async def cancelling_nothing_does_nothing(agent: AgentUnderTest) -> None:
    """A cancel when nothing runs does nothing to the next turn."""
    await agent.open_session()
    agent.cancel()
    await agent.collect()
    await _require_unaffected(agent, "a cancel of nothing")


@must("agent.cancel.06", "prompt-turns.md#cancel", "v1 banjo 2025.1 draft")
async def unknown_sessions_are_passed_over(agent: AgentUnderTest) -> None:
    """A cancel for a session that is not there is passed over."""
    await agent.open_session()
    agent.cancel("no-such-session")
    found = agent.unrequested_replies(await agent.collect())
    agent.require(not found, "a cancel for a session that is not there was answered", *found)
    await agent.require_alive("a cancel for a session that is not there")


async def wait_permission_request(agent: AgentUnderTest) -> tuple[PromptTurn, ReceivedFrame]:
    """Start a turn that waits for permission."""
    await agent.open_session()
    agent.hold("session/request_permission")
    turn = agent.start_turn(agent.prompt_for("ask"))
    question = await agent.wait_for(lambda frame: frame.method == "session/request_permission", agent.timeouts.turn)
    if question is None:
        agent.inconclusive("the agent did not ask for permission")
    return turn, question


@must(
    "agent.cancel.07", "prompt-turns.md#cancel, peers.md#after-cancel, peers.md#cancel-with-question", "v1 banjo draft"
)
async def open_questions_are_no_obstacle(agent: AgentUnderTest) -> None:
    """A turn cancelled at an open question ends as cancelled."""
    turn, question = await wait_permission_request(agent)
    agent.cancel()
    agent.answer_permission(question, {"outcome": {"outcome": "cancelled"}})
    await agent.wait_turn(turn)
    agent.require(turn.answer, "a turn cancelled at an open question was not answered")
    assert turn.answer is not None
    outcome = turn.stop or turn.answer.message.get("error")
    agent.require(turn.stop == "cancelled", f"a turn cancelled at an open question ended as {outcome!r}", turn.answer)


@must("agent.cancel.08", "peers.md#late-permission-answers", "v1 banjo draft")
async def late_answers_are_passed_over(agent: AgentUnderTest) -> None:
    """An answer to a question that came too late is passed over."""
    turn, question = await wait_permission_request(agent)
    agent.cancel()
    await agent.wait_turn(turn, agent.timeouts.answer)
    agent.answer_permission(question, {"outcome": {"outcome": "cancelled"}})
    await agent.collect()
    await agent.require_alive("an answer to a question of a turn that was over")


@must("agent.cancel.09", "prompt-turns.md#cancel")
async def cancelling_twice_ends_once(agent: AgentUnderTest) -> None:
    """Cancelling twice ends a turn once."""
    turn = await start_slow_turn(agent)
    agent.cancel()
    agent.cancel()
    await agent.wait_turn(turn)
    await agent.collect()
    found = [frame for frame in agent.received if frame.is_reply and frame.message.get("id") == turn.id]
    if not found:
        agent.inconclusive("a turn that was cancelled was not answered")
    agent.require(len(found) == 1, f"a turn cancelled twice was answered {len(found)} times", *found)


@must("agent.cancel.10", "prompt-turns.md#cancel")
async def early_cancels_are_handled(agent: AgentUnderTest) -> None:
    """A cancel right behind the prompt is heard."""
    await agent.open_session()
    turn = agent.start_turn(agent.prompt_for("slow"))
    agent.cancel()
    await agent.wait_turn(turn)
    agent.require(turn.answer, "a turn cancelled right behind its prompt was not answered")


@must("agent.cancel.11", "prompt-turns.md#cancel-request", "v1 banjo")
async def cancelled_requests_are_answered(agent: AgentUnderTest) -> None:
    """A request taken back with $/cancel_request is still answered."""
    turn = await start_slow_turn(agent)
    agent.notify("$/cancel_request", {"requestId": turn.id})
    await agent.wait_turn(turn, agent.timeouts.quiet * 2)
    if turn.answer is None:
        agent.cancel()
        await agent.wait_turn(turn)
    agent.require(turn.answer, "a request that was cancelled was never answered")


@must("agent.cancel.12", "prompt-turns.md#cancel-request, peers.md#errors-without-id", "v1 banjo")
async def taking_back_nothing_is_passed_over(agent: AgentUnderTest) -> None:
    """$/cancel_request for nothing is passed over."""
    await agent.initialize()
    agent.notify("$/cancel_request", {"requestId": 999_999})
    found = agent.unrequested_replies(await agent.collect())
    agent.require(not found, "$/cancel_request for nothing was answered", *found)


@must("agent.cancel.13", "prompt-turns.md#cancel")
async def other_sessions_go_on(agent: AgentUnderTest) -> None:
    """Cancelling one session leaves the others at work."""
    first, second = await agent.open_two_sessions()
    going = await start_slow_turn(agent, second)
    agent.cancel(first)
    frame = await agent.wait_reply(going.id, agent.timeouts.quiet * 2)
    agent.require(frame is None, "cancelling one session ended the turn of another", frame)
    agent.cancel(second)
    await agent.wait_turn(going)


@should("agent.cancel.14", "peers.md#tool-call-order", "v1 banjo draft")
async def tool_calls_are_finished(agent: AgentUnderTest) -> None:
    """No tool call is left unfinished by a cancelled turn."""
    turn = await cancel_slow_turn(agent)
    await agent.collect()
    status: dict[str, str] = {}
    for frame in agent.updates(start=turn.start):
        if frame.kind in ("tool_call", "tool_call_update"):
            call = str(frame.update.get("toolCallId"))
            status[call] = str(frame.update.get("status") or status.get(call, "pending"))
    if not status:
        agent.inconclusive("no tool call was under way")
    left = [call for call, found in status.items() if found not in DONE]
    agent.require(not left, f"{len(left)} tool calls are unfinished after a cancelled turn", turn.answer)


@should("agent.cancel.15", "peers.md#updates-outside-turns")
async def nothing_is_sent_afterwards(agent: AgentUnderTest) -> None:
    """Nothing is said after the answer to a cancelled turn."""
    turn = await cancel_slow_turn(agent)
    late = [frame for frame in await agent.collect() if frame.kind in SAID]
    agent.require(not late, "the agent continues after the answer to a cancelled turn", turn.answer, *late)


@must("agent.cancel.16", "prompt-turns.md#cancel-request", "v1")
async def cancelled_requests_have_their_error_code(agent: AgentUnderTest) -> None:
    """$/cancel_request takes back what the agent supports with -32800 or a result."""
    turn = await start_slow_turn(agent)
    agent.notify("$/cancel_request", {"requestId": turn.id})
    await agent.wait_turn(turn, agent.timeouts.quiet * 3)
    if turn.answer is None:
        agent.skip("the agent does not support $/cancel_request")
    assert turn.answer is not None
    error = turn.answer.message.get("error")
    found = error.get("code") if isinstance(error, dict) else None
    agent.require(found in (None, -32800), f"a request that was cancelled was refused with {found}", turn.answer)


@may("agent.cancel.17", "prompt-turns.md#cancel-request, peers.md#late-permission-answers", "v1 banjo")
async def open_questions_are_cancelled_by_id(agent: AgentUnderTest) -> None:
    """Questions of a cancelled turn may be taken back with $/cancel_request, which names one that is open."""
    turn, question = await wait_permission_request(agent)
    agent.cancel()
    await agent.wait_turn(turn, agent.timeouts.answer)
    await agent.collect()
    cancels = [frame for frame in agent.received if frame.message.get("method") == "$/cancel_request"]
    if not cancels:
        agent.skip("the agent takes no question back")
    id = question.message.get("id")
    wrong = [frame for frame in cancels if (frame.message.get("params") or {}).get("requestId") != id]
    agent.require(not wrong, f"a request was cancelled that is not open; the open question is {id!r}", *wrong)
