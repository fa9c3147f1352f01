"""Questions of a v2 agent: permission requests and what follows from the answers, forms."""

from __future__ import annotations

import os

from dragoman.conformance.agent.v2.work import run_work, start_work, wait_end, wait_question
from dragoman.conformance.harness.agent import CANCELLED, QUESTION, REJECT, AgentUnderTest
from dragoman.conformance.harness.peer import Json, ReceivedFrame
from dragoman.conformance.json_shape import absolute, non_empty, non_empty_list, one_of
from dragoman.conformance.requirement import must

OPTION_KINDS = one_of("allow_once", "allow_always", "reject_once", "reject_always")


async def _question(agent: AgentUnderTest) -> ReceivedFrame:
    await agent.open_session()
    _, question = await wait_question(agent, "write")
    return question


async def _answer(agent: AgentUnderTest, outcome: Json) -> None:
    """Answer the question before a file is written with this outcome, and wait for the end of the work."""
    await agent.open_session()
    work, question = await wait_question(agent, "write")
    agent.reply(question, outcome)
    await wait_end(agent, work)
    agent.assume(work.idle, "the work did not end")


def _require_not_written(agent: AgentUnderTest, why: str) -> None:
    agent.require(not os.path.exists(agent.new), why, *agent.calls(QUESTION))


@must("agent.v2question.01", "v2.md#permission")
async def questions_have_a_title(agent: AgentUnderTest) -> None:
    """A permission request has a title that is not empty."""
    agent.require_params(await _question(agent), {"title": non_empty, "description?": str})


@must("agent.v2question.02", "v2.md#permission")
async def questions_have_options(agent: AgentUnderTest) -> None:
    """A permission request has at least one option."""
    agent.require_params(await _question(agent), {"options": non_empty_list})


@must("agent.v2question.03", "v2.md#permission")
async def options_have_a_name(agent: AgentUnderTest) -> None:
    """An option has an id and a name."""
    agent.require_params(await _question(agent), {"options": [{"optionId": non_empty, "name": str}]})


@must("agent.v2question.04", "v2.md#permission")
async def option_ids_are_unique(agent: AgentUnderTest) -> None:
    """Two options of a question have different ids."""
    question = await _question(agent)
    options = question.wire_params.get("options")
    ids = [each.get("optionId") for each in options or () if isinstance(each, dict)]
    agent.require(len(set(ids)) == len(ids), "two options have the same id", question)


@must("agent.v2question.05", "v2.md#permission")
async def option_kinds_are_known(agent: AgentUnderTest) -> None:
    """The kind of an option is one of the protocol's, or begins with an underscore."""
    agent.require_params(await _question(agent), {"options": [{"kind": OPTION_KINDS}]})


@must("agent.v2question.06", "v2.md#permission")
async def subjects_are_complete(agent: AgentUnderTest) -> None:
    """The subject of a question has a type; a tool call has its id, a command its folder."""
    question = await _question(agent)
    subject = agent.skip_unless(question.wire_params.get("subject"), "the agent's questions have no subject")
    agent.require_shape(subject, {"type": non_empty}, question, "subject")
    if subject["type"] == "tool_call":
        agent.require_shape(subject, {"toolCall": {"toolCallId": non_empty}}, question, "subject")
    elif subject["type"] == "command":
        agent.require_shape(subject, {"command": non_empty, "cwd": absolute}, question, "subject")


@must("agent.v2question.07", "v2.md#permission")
async def the_tool_call_is_in_the_subject(agent: AgentUnderTest) -> None:
    """A permission request has no toolCall of its own: it is in the subject."""
    question = await _question(agent)
    agent.require("toolCall" not in question.wire_params, "a question has toolCall, which is of version 1", question)


@must("agent.v2question.08", "v2.md#permission")
async def allowed_work_is_done(agent: AgentUnderTest) -> None:
    """What the user allows is done."""
    await agent.open_session()
    await run_work(agent, "write")
    asked = agent.assume(agent.calls(QUESTION), "the agent did not ask for permission")
    agent.assume(agent.permission_outcome(asked[0]) != CANCELLED, "the question has no option that allows it")
    agent.require(os.path.exists(agent.new), "the user allowed it, and it was not done", *agent.calls(QUESTION))


@must("agent.v2question.09", "v2.md#permission")
async def refused_work_is_not_done(agent: AgentUnderTest) -> None:
    """What the user refuses is not done."""
    await agent.open_session()
    agent.permission_kinds = REJECT
    await run_work(agent, "write")
    agent.assume(agent.calls(QUESTION), "the agent did not ask for permission")
    _require_not_written(agent, "the user refused it, and it was done")


@must("agent.v2question.10", "v2.md#permission")
async def closed_questions_allow_nothing(agent: AgentUnderTest) -> None:
    """A question that was closed without an answer allows nothing."""
    await _answer(agent, CANCELLED)
    _require_not_written(agent, "the question was closed, and it was done")


@must("agent.v2question.11", "v2.md#permission")
async def unknown_outcomes_allow_nothing(agent: AgentUnderTest) -> None:
    """An unknown outcome allows nothing."""
    await _answer(agent, {"outcome": {"outcome": "_perhaps", "optionId": "allow_once"}})
    _require_not_written(agent, "the outcome is unknown, and it was done")


@must("agent.v2question.12", "v2.md#permission")
async def unknown_options_allow_nothing(agent: AgentUnderTest) -> None:
    """An option that was not offered allows nothing."""
    await _answer(agent, {"outcome": {"outcome": "selected", "optionId": "not-offered"}})
    _require_not_written(agent, "the option was not offered, and it was done")


@must("agent.v2question.13", "v2.md#elicitation")
async def forms_need_the_capability(agent: AgentUnderTest) -> None:
    """A client that did not announce forms gets none."""
    await agent.open_session(capabilities={})
    agent.assume(agent.has_prompt("form"), "no prompt makes this agent ask for a form")
    await wait_end(agent, await start_work(agent, "form"))
    agent.require_none(agent.calls("elicitation/create"), "the agent sent a form to a client without forms")


@must("agent.v2question.14", "v2.md#elicitation")
async def forms_have_a_mode(agent: AgentUnderTest) -> None:
    """A form has a message, the mode form and a schema."""
    await agent.open_session()
    await wait_end(agent, await start_work(agent, "form"))
    for frame in agent.assume(agent.calls("elicitation/create"), "the agent sent no form"):
        agent.require_params(frame, {"message": non_empty, "mode": non_empty, "requestedSchema": dict})
