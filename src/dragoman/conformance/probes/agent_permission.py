"""Probes of how an agent asks for leave, and what it does with the answer."""

from __future__ import annotations

import os

from dragoman.conformance import json_shape
from dragoman.conformance.harness.agent import REJECT, AgentStage, Spoken
from dragoman.conformance.harness.peer import Heard, Json
from dragoman.conformance.json_shape import fault
from dragoman.conformance.probe import probe
from dragoman.conformance.probes.agent_toolcall import statuses

QUESTION = "session/request_permission"
# What an agent does to a file or a machine through its client.
DEEDS = ("fs/write_text_file", "terminal/create")
KINDS = json_shape.text("allow_once", "allow_always", "reject_once", "reject_always")


async def asked(stage: AgentStage) -> tuple[Spoken, Heard]:
    """A turn that waits for leave to write a file."""
    await stage.opened()
    stage.hold(QUESTION)
    turn = stage.begin(stage.words("write"))
    question = await stage.until(lambda heard: heard.method == QUESTION, stage.pace.turn)
    if question is None:
        stage.unsure("the agent asked for no permission")
    assert question is not None
    return turn, question


def _done(stage: AgentStage) -> tuple[bool, list[Heard]]:
    """Whether the file is there, and the requests that did something."""
    deeds = [heard for heard in stage.heard if heard.method in DEEDS]
    return os.path.exists(stage.new) or bool(deeds), deeds


async def _waiting(stage: AgentStage) -> tuple[Spoken, Heard]:
    """A turn that waits for leave and has done nothing yet, which another probe is about."""
    turn, question = await asked(stage)
    await stage.silence()
    if _done(stage)[0]:
        stage.unsure("the file was written before the answer", question)
    stage.mark(question)
    return turn, question


async def _is_no_leave(stage: AgentStage, what: str, result: Json) -> None:
    turn, question = await _waiting(stage)
    if question.is_request:
        stage.reply(question, result)
    else:
        stage.answer_question(question, result)
    del stage.serves[QUESTION]
    await stage.ended(turn)
    await stage.silence()
    done, deeds = _done(stage)
    stage.require(not done, f"{what} was taken for leave: the file was written", *deeds)


@probe("agent.permission.01")
async def questions_are_whole(stage: AgentStage) -> None:
    """A client has to draw a dialogue from it."""
    _, question = await asked(stage)
    drawing = {"sessionId": json_shape.some, "toolCall": {"toolCallId": json_shape.some}, "options": json_shape.many}
    words = fault(question.message.get("params"), drawing)
    stage.require(not words, words, question)


@probe("agent.permission.02")
async def options_are_whole(stage: AgentStage) -> None:
    """A kind that nobody knows makes strict clients refuse the question."""
    _, question = await asked(stage)
    words = fault(question.message["params"].get("options"), [{"optionId": str, "name": str, "kind": KINDS}], "options")
    stage.require(not words, words, question)


@probe("agent.permission.03")
async def options_differ(stage: AgentStage) -> None:
    """Else yes and no are the same answer."""
    _, question = await asked(stage)
    ids = [option.get("optionId") for option in question.message["params"].get("options") or []]
    stage.require(len(set(ids)) == len(ids), f"two options have the same id: {ids}", question)


@probe("agent.permission.04")
async def calls_are_announced_before_they_are_asked_for(stage: AgentStage) -> None:
    """The client shows what it is about."""
    _, question = await asked(stage)
    known = {heard.update.get("toolCallId") for heard in stage.updates("tool_call")}
    call = (question.message["params"].get("toolCall") or {}).get("toolCallId")
    if call is None:
        stage.unsure("the question names no tool call", question)
    stage.require(call in known, f"leave is asked for the tool call {call!r}, which was not announced", question)


@probe("agent.permission.05")
async def refused_is_refused(stage: AgentStage) -> None:
    """A file that must not be written."""
    turn, question = await _waiting(stage)
    stage.leave = REJECT
    stage.answer_question(question, stage.decided(question.params))
    await stage.ended(turn)
    done, deeds = _done(stage)
    stage.require(not done, "leave was refused, and the file was written", question, *deeds)


@probe("agent.permission.06")
async def nothing_is_done_before(stage: AgentStage) -> None:
    """The question is open for a while."""
    _, question = await asked(stage)
    await stage.silence()
    done, deeds = _done(stage)
    stage.require(not done, "the file was written while the question for leave was open", question, *deeds)


@probe("agent.permission.07")
async def closed_questions_are_no_leave(stage: AgentStage) -> None:
    """The dialogue was closed."""
    await _is_no_leave(stage, "the outcome cancelled", {"outcome": {"outcome": "cancelled"}})


@probe("agent.permission.08")
async def refused_turns_end(stage: AgentStage) -> None:
    """With whatever reason."""
    await stage.opened()
    stage.leave = REJECT
    turn = await stage.ended(stage.begin(stage.words("write")))
    questions = [heard for heard in stage.heard if heard.method == QUESTION]
    if not questions or (stage.dialect != "crow" and not questions[0].is_request):
        stage.unsure("the agent asked for no permission that can be answered")
    stage.require(turn.answer, "a turn in which leave was refused was not answered")


@probe("agent.permission.09")
async def refused_calls_are_not_completed(stage: AgentStage) -> None:
    """Failed says it best in v1."""
    await stage.opened()
    stage.leave = REJECT
    await stage.prompted(stage.words("write"))
    questions = [heard for heard in stage.heard if heard.method == QUESTION]
    if not questions:
        stage.unsure("the agent asked for no permission")
    if _done(stage)[0]:
        stage.unsure("what was refused was done")
    call = str((questions[0].message["params"].get("toolCall") or {}).get("toolCallId"))
    found = [heard for heard in stage.updates() if heard.kind in ("tool_call", "tool_call_update")]
    wrong = [heard for status, heard in statuses(found).get(call, []) if status == "completed"]
    stage.require(not wrong, "a tool call that was refused is told as completed", *questions, *wrong)


@probe("agent.permission.10")
async def errors_are_no_leave(stage: AgentStage) -> None:
    """A client that cannot ask."""
    turn, question = await _waiting(stage)
    stage.refuse(question, -32601, "Method not found")
    await stage.ended(turn)
    await stage.silence()
    done, deeds = _done(stage)
    stage.require(not done, "an error was taken for leave: the file was written", question, *deeds)


@probe("agent.permission.11")
async def unknown_options_are_no_leave(stage: AgentStage) -> None:
    """An id that was not among them."""
    outcome = {"outcome": {"outcome": "selected", "optionId": "no-such-option"}}
    await _is_no_leave(stage, "an option that was not offered", outcome)


@probe("agent.permission.12")
async def questions_name_their_session(stage: AgentStage) -> None:
    """A client may have several on the screen."""
    _, question = await asked(stage)
    found = question.message["params"].get("sessionId")
    stage.require(found == stage.session, f"a question names the session {found!r}, not the one at work", question)


@probe("agent.permission.13")
async def nonsense_is_no_leave(stage: AgentStage) -> None:
    """A text where an outcome belongs."""
    await _is_no_leave(stage, "an answer that makes no sense", {"outcome": "yes"})


@probe("agent.permission.14")
async def questions_can_be_answered(stage: AgentStage) -> None:
    """A notification could not."""
    _, question = await asked(stage)
    stage.require("id" in question.message, "a question for leave has no id", question)


@probe("agent.permission.15")
async def there_is_a_way_to_refuse(stage: AgentStage) -> None:
    """By its kind, for clients that answer by rules."""
    _, question = await asked(stage)
    kinds = [option.get("kind") for option in question.message["params"].get("options") or []]
    stage.require(set(kinds) & set(REJECT), f"the options are {kinds}: none refuses", question)
