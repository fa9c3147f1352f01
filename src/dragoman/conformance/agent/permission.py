"""Permission requests of an agent, and what it does with the answer."""

from __future__ import annotations

import os

from dragoman.conformance.agent.toolcall import status_history
from dragoman.conformance.harness.agent import CANCELLED, QUESTION, REJECT, AgentUnderTest
from dragoman.conformance.harness.peer import Json, ReceivedFrame
from dragoman.conformance.harness.prompt_turn import PromptTurn
from dragoman.conformance.json_shape import non_empty, non_empty_list, one_of
from dragoman.conformance.requirement import must, should

# What an agent does to a file or a machine through its client.
DEEDS = ("fs/write_text_file", "terminal/create")
KINDS = one_of("allow_once", "allow_always", "reject_once", "reject_always")


def _deeds(agent: AgentUnderTest) -> list[ReceivedFrame]:
    return [frame for frame in agent.received if frame.method in DEEDS]


def _is_written(agent: AgentUnderTest) -> bool:
    return os.path.exists(agent.new) or bool(_deeds(agent))


def _require_unwritten(agent: AgentUnderTest, why: str, *proof: ReceivedFrame) -> None:
    agent.require(not _is_written(agent), why, *proof, *_deeds(agent))


async def _wait_for_permission(agent: AgentUnderTest) -> tuple[PromptTurn, ReceivedFrame]:
    """Start a turn that waits for permission; inconclusive if it wrote something before."""
    turn, question = await agent.wait_question("write")
    await agent.collect()
    agent.assume(not _is_written(agent), "the file was written before the answer", question)
    agent.mark(question)
    return turn, question


async def _require_denied(agent: AgentUnderTest, what: str, result: Json) -> None:
    turn, question = await _wait_for_permission(agent)
    if question.is_request:
        agent.reply(question, result)
    else:
        agent.answer_permission(question, result)
    del agent.handlers[QUESTION]
    await agent.wait_turn(turn)
    await agent.collect()
    _require_unwritten(agent, f"{what} was taken as permission: the file was written")


@must("agent.permission.01", "permission.md#ask", "v1 banjo")
async def questions_are_complete(agent: AgentUnderTest) -> None:
    """A permission request has a session, a tool call and at least one option."""
    _, question = await agent.wait_question("write")
    shape = {"sessionId": non_empty, "toolCall": {"toolCallId": non_empty}, "options": non_empty_list}
    agent.require_params(question, shape)


@must("agent.permission.02", "permission.md#options, peers.md#unknown-option-kinds", "v1 banjo")
async def options_are_complete(agent: AgentUnderTest) -> None:
    """Every option has an id, a name and a known kind."""
    # Strict clients refuse a question with an unknown kind.
    _, question = await agent.wait_question("write")
    shape = [{"optionId": str, "name": str, "kind": KINDS}]
    agent.require_shape(question.wire_params.get("options"), shape, question, "options")


@must("agent.permission.03", "permission.md#options", "v1 banjo")
async def options_differ(agent: AgentUnderTest) -> None:
    """No two options of a permission request have the same id."""
    _, question = await agent.wait_question("write")
    ids = [option.get("optionId") for option in question.wire_params.get("options") or []]
    agent.require(len(set(ids)) == len(ids), f"two options have the same id: {ids}", question)


@should("agent.permission.04", "peers.md#tool-call-order", "v1 banjo")
async def calls_are_announced_before_they_are_asked_for(agent: AgentUnderTest) -> None:
    """The tool call of a permission request was announced before."""
    _, question = await agent.wait_question("write")
    known = {frame.update.get("toolCallId") for frame in agent.updates("tool_call")}
    call = (question.wire_params.get("toolCall") or {}).get("toolCallId")
    agent.assume(call is not None, "the permission request names no tool call", question)
    why = f"permission is requested for the tool call {call!r}, which was not announced"
    agent.require(call in known, why, question)


@must("agent.permission.05", "permission.md#ask, draft.md#trust", "v1 banjo crow draft")
async def denied_actions_are_not_done(agent: AgentUnderTest) -> None:
    """What was denied is not done."""
    turn, question = await _wait_for_permission(agent)
    agent.permission_kinds = REJECT
    agent.answer_permission(question, agent.permission_outcome(question))
    await agent.wait_turn(turn)
    _require_unwritten(agent, "permission was denied, and the file was written", question)


@must("agent.permission.06", "permission.md#ask, draft.md#tool-call-order", "v1 banjo crow draft")
async def nothing_is_done_before(agent: AgentUnderTest) -> None:
    """Nothing is done before the answer."""
    _, question = await agent.wait_question("write")
    await agent.collect()
    _require_unwritten(agent, "the file was written while the permission request was open", question)


@must("agent.permission.07", "permission.md#ask", "v1 banjo")
async def closed_questions_are_no_permission(agent: AgentUnderTest) -> None:
    """The outcome cancelled is not permission."""
    await _require_denied(agent, "the outcome cancelled", CANCELLED)


@must("agent.permission.08", "permission.md#ask", "v1 banjo crow draft")
async def refused_turns_end(agent: AgentUnderTest) -> None:
    """A turn in which permission was denied ends."""
    await agent.open_session()
    agent.permission_kinds = REJECT
    turn = await agent.try_turn("write")
    questions = agent.calls(QUESTION)
    can_answer = questions and (agent.dialect == "crow" or questions[0].is_request)
    agent.assume(can_answer, "the agent sent no permission request that can be answered")
    agent.require(turn.answer, "a turn in which permission was denied was not answered")


@should("agent.permission.09", "permission.md#ask", "v1 banjo")
async def refused_calls_are_not_completed(agent: AgentUnderTest) -> None:
    """A tool call that was denied is not reported as completed."""
    await agent.open_session()
    agent.permission_kinds = REJECT
    await agent.run_turn("write")
    questions = agent.assume(agent.calls(QUESTION), "the agent did not ask for permission")
    agent.assume(not _is_written(agent), "what was refused was done")
    call = str((questions[0].wire_params.get("toolCall") or {}).get("toolCallId"))
    found = agent.updates("tool_call", "tool_call_update")
    wrong = [frame for status, frame in status_history(found).get(call, []) if status == "completed"]
    agent.require_none(wrong, "a tool call that was refused is reported as completed", *questions)


@must("agent.permission.10", "permission.md#ask", "v1 banjo draft")
async def errors_are_no_permission(agent: AgentUnderTest) -> None:
    """An error in answer to a permission request is not permission."""
    turn, question = await _wait_for_permission(agent)
    agent.refuse(question, -32601, "Method not found")
    await agent.wait_turn(turn)
    await agent.collect()
    _require_unwritten(agent, "an error was taken as permission: the file was written", question)


@must("agent.permission.11", "permission.md#unknown-outcomes", "v1 banjo")
async def unknown_options_are_no_permission(agent: AgentUnderTest) -> None:
    """An option that was not offered is not permission."""
    outcome = {"outcome": {"outcome": "selected", "optionId": "no-such-option"}}
    await _require_denied(agent, "an option that was not offered", outcome)


@must("agent.permission.12", "permission.md#ask", "v1 banjo draft")
async def questions_name_their_session(agent: AgentUnderTest) -> None:
    """A permission request names the session it belongs to."""
    _, question = await agent.wait_question("write")
    found = question.wire_params.get("sessionId")
    agent.require(found == agent.session, f"a permission request names the session {found!r}, not its own", question)


@must("agent.permission.13", "extensions.md#lenient-reading", "v1 banjo")
async def nonsense_is_no_permission(agent: AgentUnderTest) -> None:
    """An answer that makes no sense is not permission."""
    await _require_denied(agent, "an answer that makes no sense", {"outcome": "yes"})


@must("agent.permission.14", "permission.md#ask", "v1 banjo draft")
async def questions_can_be_answered(agent: AgentUnderTest) -> None:
    """A permission request is a request, with an id."""
    _, question = await agent.wait_question("write")
    agent.require("id" in question.message, "a permission request has no id", question)


@should("agent.permission.15", "permission.md#options", "v1 banjo")
async def there_is_a_way_to_refuse(agent: AgentUnderTest) -> None:
    """A permission request offers a way to deny it."""
    _, question = await agent.wait_question("write")
    kinds = [option.get("kind") for option in question.wire_params.get("options") or []]
    agent.require(set(kinds) & set(REJECT), f"the options are {kinds}: none refuses", question)
