"""Probes of taking back at an agent."""

from __future__ import annotations

from dragoman.conformance.harness.agent import AgentStage, Spoken
from dragoman.conformance.harness.peer import Heard
from dragoman.conformance.probe import probe

DONE = frozenset({"completed", "failed", "cancelled", "denied"})
SAID = frozenset({"agent_message_chunk", "agent_thought_chunk", "tool_call", "tool_call_update", "plan"})


async def running(stage: AgentStage, session: str = "") -> Spoken:
    """A turn that takes long, and has begun."""
    if not stage.session:
        await stage.opened()
    turn = stage.begin(stage.words("slow"), session)
    await stage.until_kind("tool_call", "agent_message_chunk", "agent_thought_chunk", seconds=stage.pace.turn)
    await stage.silence()  # a turn that ends by itself in this moment is none that takes long
    if any(heard.is_reply and heard.message.get("id") == turn.id for heard in stage.heard):
        stage.unsure("the turn that should take long was over at once", stage.heard[-1])
    return turn


async def cancelled(stage: AgentStage) -> Spoken:
    """A turn that was cancelled and answered."""
    turn = await running(stage)
    stage.cancel()
    await stage.ended(turn, stage.pace.turn)
    if turn.answer is None:
        stage.unsure("a turn that was cancelled was not answered")
    return turn


@probe("agent.cancel.01")
async def cancelled_turns_are_answered(stage: AgentStage) -> None:
    """Long before the turn would have ended by itself."""
    turn = await running(stage)
    stage.cancel()
    await stage.ended(turn, stage.pace.turn)
    stage.require(turn.answer, f"a turn that was cancelled was not answered within {stage.pace.turn:g} seconds")


@probe("agent.cancel.02")
async def cancelling_is_no_error(stage: AgentStage) -> None:
    """Whatever breaks inside when work is broken off."""
    turn = await cancelled(stage)
    assert turn.answer is not None
    stage.require(
        "error" not in turn.answer.message, "a turn that was cancelled was answered with an error", turn.answer
    )


@probe("agent.cancel.03")
async def cancelled_turns_say_so(stage: AgentStage) -> None:
    """Else a client shows half an answer as a whole one."""
    turn = await cancelled(stage)
    if not turn.stop:
        stage.unsure("the turn ended without a reason", turn.answer)
    stage.require(turn.stop == "cancelled", f"a turn that was cancelled ended as {turn.stop!r}", turn.answer)


async def _unaffected(stage: AgentStage, after: str) -> None:
    turn = await stage.ended(stage.begin(stage.words("plain")))
    if turn.answer is None:
        stage.require(False, f"after {after} the next turn was not answered")
    stage.granted(turn.answer, f"the turn after {after}")
    stage.require(turn.stop != "cancelled", f"the turn after {after} ended as cancelled, too", turn.answer)


@probe("agent.cancel.04")
async def cancelling_does_not_stick(stage: AgentStage) -> None:
    """The next prompt is another one."""
    await cancelled(stage)
    await _unaffected(stage, "a turn that was cancelled")


@probe("agent.cancel.05")
async def cancelling_nothing_does_nothing(stage: AgentStage) -> None:
    """No turn has ever run here."""
    await stage.opened()
    stage.cancel()
    await stage.silence()
    await _unaffected(stage, "a cancel of nothing")


@probe("agent.cancel.06")
async def unknown_sessions_are_passed_over(stage: AgentStage) -> None:
    """A notification has no answer, not even an error."""
    await stage.opened()
    stage.cancel("no-such-session")
    found = stage.unasked(await stage.silence())
    stage.require(not found, "a cancel for a session that is not there was answered", *found)
    await stage.alive("a cancel for a session that is not there")


async def asked(stage: AgentStage) -> tuple[Spoken, Heard]:
    """A turn that waits for leave."""
    await stage.opened()
    stage.hold("session/request_permission")
    turn = stage.begin(stage.words("ask"))
    question = await stage.until(lambda heard: heard.method == "session/request_permission", stage.pace.turn)
    if question is None:
        stage.unsure("the agent asked for no permission")
    assert question is not None
    return turn, question


@probe("agent.cancel.07")
async def open_questions_are_no_obstacle(stage: AgentStage) -> None:
    """The client cancels, and answers the question as it has to."""
    turn, question = await asked(stage)
    stage.cancel()
    stage.answer_question(question, {"outcome": {"outcome": "cancelled"}})
    await stage.ended(turn)
    stage.require(turn.answer, "a turn cancelled at an open question was not answered")
    assert turn.answer is not None
    told = turn.stop or turn.answer.message.get("error")
    stage.require(turn.stop == "cancelled", f"a turn cancelled at an open question ended as {told!r}", turn.answer)


@probe("agent.cancel.08")
async def late_answers_are_passed_over(stage: AgentStage) -> None:
    """The turn is over before the question is answered."""
    turn, question = await asked(stage)
    stage.cancel()
    await stage.ended(turn, stage.pace.answer)
    stage.answer_question(question, {"outcome": {"outcome": "cancelled"}})
    await stage.silence()
    await stage.alive("an answer to a question of a turn that was over")


@probe("agent.cancel.09")
async def cancelling_twice_ends_once(stage: AgentStage) -> None:
    """Impatient people press a key more than once."""
    turn = await running(stage)
    stage.cancel()
    stage.cancel()
    await stage.ended(turn)
    await stage.silence()
    found = [heard for heard in stage.heard if heard.is_reply and heard.message.get("id") == turn.id]
    if not found:
        stage.unsure("a turn that was cancelled was not answered")
    stage.require(len(found) == 1, f"a turn cancelled twice was answered {len(found)} times", *found)


@probe("agent.cancel.10")
async def early_cancels_are_heard(stage: AgentStage) -> None:
    """Not a moment between the two."""
    await stage.opened()
    turn = stage.begin(stage.words("slow"))
    stage.cancel()
    await stage.ended(turn)
    stage.require(turn.answer, "a turn cancelled right behind its prompt was not answered")


@probe("agent.cancel.11")
async def requests_taken_back_are_answered(stage: AgentStage) -> None:
    """Supported or not; in the end the whole turn is cancelled."""
    turn = await running(stage)
    stage.tell("$/cancel_request", {"requestId": turn.id})
    await stage.ended(turn, stage.pace.quiet * 2)
    if turn.answer is None:
        stage.cancel()
        await stage.ended(turn)
    stage.require(turn.answer, "a request that was taken back was never answered")


@probe("agent.cancel.12")
async def taking_back_nothing_is_passed_over(stage: AgentStage) -> None:
    """The answer and the cancel may cross."""
    await stage.initialized()
    stage.tell("$/cancel_request", {"requestId": 999_999})
    found = stage.unasked(await stage.silence())
    stage.require(not found, "$/cancel_request for nothing was answered", *found)


@probe("agent.cancel.13")
async def other_sessions_go_on(stage: AgentStage) -> None:
    """Two long turns; one is cancelled."""
    first, second = await stage.opened_two()
    going = await running(stage, second)
    stage.cancel(first)
    heard = await stage.answered(going.id, stage.pace.quiet * 2)
    stage.require(heard is None, "cancelling one session ended the turn of another", heard)
    stage.cancel(second)
    await stage.ended(going)


@probe("agent.cancel.14")
async def tool_calls_are_finished(stage: AgentStage) -> None:
    """A client shows them as running for ever."""
    turn = await cancelled(stage)
    await stage.silence()
    status: dict[str, str] = {}
    for heard in stage.updates(start=turn.start):
        if heard.kind in ("tool_call", "tool_call_update"):
            call = str(heard.update.get("toolCallId"))
            status[call] = str(heard.update.get("status") or status.get(call, "pending"))
    if not status:
        stage.unsure("no tool call was under way")
    left = [call for call, found in status.items() if found not in DONE]
    stage.require(not left, f"{len(left)} tool calls are unfinished after a cancelled turn", turn.answer)


@probe("agent.cancel.15")
async def nothing_is_said_afterwards(stage: AgentStage) -> None:
    """What had to be said is said before the answer."""
    turn = await cancelled(stage)
    late = [heard for heard in await stage.silence() if heard.kind in SAID]
    stage.require(not late, "the agent goes on after the answer to a cancelled turn", turn.answer, *late)


@probe("agent.cancel.16")
async def requests_taken_back_have_their_number(stage: AgentStage) -> None:
    """An agent that pays no attention is in its right."""
    turn = await running(stage)
    stage.tell("$/cancel_request", {"requestId": turn.id})
    await stage.ended(turn, stage.pace.quiet * 3)
    if turn.answer is None:
        stage.skip("the agent does not support $/cancel_request")
    assert turn.answer is not None
    error = turn.answer.message.get("error")
    found = error.get("code") if isinstance(error, dict) else None
    stage.require(found in (None, -32800), f"a request that was taken back was refused with {found}", turn.answer)


@probe("agent.cancel.17")
async def open_questions_are_taken_back_by_id(stage: AgentStage) -> None:
    """So that the client closes the right dialog."""
    turn, question = await asked(stage)
    stage.cancel()
    await stage.ended(turn, stage.pace.answer)
    await stage.silence()
    taken = [heard for heard in stage.heard if heard.message.get("method") == "$/cancel_request"]
    if not taken:
        stage.skip("the agent takes no question back")
    id = question.message.get("id")
    wrong = [heard for heard in taken if (heard.message.get("params") or {}).get("requestId") != id]
    stage.require(not wrong, f"a request was taken back that is not open; the open question is {id!r}", *wrong)
