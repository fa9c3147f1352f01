"""Probes of a client's answers to questions."""

from __future__ import annotations

from dragoman.conformance.harness.client import ClientStage
from dragoman.conformance.harness.peer import Heard, Json
from dragoman.conformance.probe import probe

OPTIONS = [
    {"optionId": "allow-1", "name": "Allow", "kind": "allow_once"},
    {"optionId": "allow-2", "name": "Always allow", "kind": "allow_always"},
    {"optionId": "reject-1", "name": "Reject", "kind": "reject_once"},
]
METHOD = "session/request_permission"


def asked(stage: ClientStage, options: Json, id: str = "leave", **tool: Json) -> str:
    """Announce a tool call and ask for leave."""
    call = {"toolCallId": f"call-{id}", "title": "Look something up", "kind": "fetch", **tool}
    stage.update("tool_call", **{**call, "status": "pending"})
    stage.call(METHOD, {"sessionId": stage.session, "toolCall": call, "options": options}, id=id)
    return id


async def outcome(stage: ClientStage, id: str) -> tuple[Heard, Json]:
    """The outcome of a question, which must have one."""
    heard = await stage.answered(id, stage.pace.turn)
    stage.require(heard is not None, "a question for leave was never answered")
    assert heard is not None
    stage.require("result" in heard.message, "a question for leave was answered with an error", heard)
    result = heard.message["result"]
    return heard, result.get("outcome") if isinstance(result, dict) else None


def chosen(given: Json) -> Json:
    """The id of the chosen option; None for cancelled, and for shapes another probe is about."""
    return given.get("optionId") if isinstance(given, dict) and given.get("outcome") == "selected" else None


async def _choice(stage: ClientStage, options: list[Json], **tool: Json) -> None:
    """One of these options must be chosen, or none."""
    prompt = await stage.begun()
    heard, given = await outcome(stage, asked(stage, options, **tool))
    choice = chosen(given)
    ids = [option["optionId"] for option in options]
    stage.require(choice is None or choice in ids, f"{choice!r} was chosen, which is not among {ids}", heard)
    stage.end(prompt)


@probe("client.permission.01")
async def an_option_is_chosen(stage: ClientStage) -> None:
    """Or none; never another."""
    await _choice(stage, OPTIONS)


@probe("client.permission.02")
async def the_outcome_has_a_shape(stage: ClientStage) -> None:
    """{"outcome": {"outcome": "selected", "optionId": ...}}, or cancelled."""
    prompt = await stage.begun()
    heard, given = await outcome(stage, asked(stage, OPTIONS))
    stage.require(isinstance(given, dict), "the outcome is not an object", heard)
    stage.require(given.get("outcome") in ("selected", "cancelled"), "the outcome is neither of the two", heard)
    good = given["outcome"] == "cancelled" or isinstance(given.get("optionId"), str)
    stage.require(good, "an option was chosen without its id", heard)
    stage.end(prompt)


@probe("client.permission.03")
async def option_ids_are_opaque(stage: ClientStage) -> None:
    """Upper case, spaces and all."""
    await _choice(stage, [{"optionId": " Proceed/Once #1 ", "name": "Allow", "kind": "allow_once"}])


@probe("client.permission.04")
async def unknown_kinds_are_borne(stage: ClientStage) -> None:
    """Beside those it knows."""
    await _choice(stage, [{"optionId": "later", "name": "Ask me later", "kind": "defer"}, *OPTIONS])


@probe("client.permission.05")
async def nothing_cannot_be_chosen(stage: ClientStage) -> None:
    """To refuse the question is fine."""
    prompt = await stage.begun()
    heard = await stage.answered(asked(stage, []), stage.pace.turn)
    stage.require(heard is not None, "a question without options was never answered")
    assert heard is not None
    result = heard.message.get("result")
    choice = chosen(result.get("outcome")) if isinstance(result, dict) else None
    stage.require(choice is None, f"{choice!r} was chosen where there were no options", heard)
    stage.end(prompt)


@probe("client.permission.06")
async def two_questions_get_two_answers(stage: ClientStage) -> None:
    """Agents run tools side by side."""
    prompt = await stage.begun()
    for id in ("first", "second"):
        asked(stage, OPTIONS, id)
    await stage.until(lambda heard: len(_answers(stage)) == 2, stage.pace.turn)
    left = {"first", "second"} - _answers(stage)
    stage.require(not left, f"of two questions at once, {', '.join(sorted(left))} was never answered")
    stage.end(prompt)


def _answers(stage: ClientStage) -> set[str]:
    return {each.message.get("id") for each in stage.heard if each.is_reply} & {"first", "second"}


@probe("client.permission.07")
async def little_need_be_said(stage: ClientStage) -> None:
    """As hermes says it."""
    prompt = await stage.begun()
    stage.update("tool_call", toolCallId="call-little", title="Something", kind="other", status="pending")
    call = {"toolCallId": "call-little", "title": "Something"}
    stage.call(METHOD, {"sessionId": stage.session, "toolCall": call, "options": OPTIONS}, id="little")
    await outcome(stage, "little")
    stage.end(prompt)


@probe("client.permission.08")
async def refusals_are_all_there_is(stage: ClientStage) -> None:
    """No option to allow."""
    await _choice(stage, [{"optionId": "never", "name": "Reject", "kind": "reject_once"}])


FORM = {"type": "object", "properties": {"name": {"type": "string", "title": "Your name"}}, "required": ["name"]}


async def _form(stage: ClientStage) -> tuple[Heard, Json]:
    params = {"sessionId": stage.session, "mode": "form", "message": "Who are you?", "requestedSchema": FORM}
    heard = await stage.answered(stage.call("elicitation/create", params, id="form"), stage.pace.turn)
    stage.require(heard is not None, "a form was never answered")
    assert heard is not None
    result = heard.message.get("result")
    stage.require(isinstance(result, dict), "a form was answered with an error", heard)
    return heard, result


@probe("client.permission.09")
async def a_form_has_three_answers(stage: ClientStage) -> None:
    """Accept, decline, cancel."""
    prompt = await stage.begun()
    heard, result = await _form(stage)
    action = result.get("action")
    stage.require(action in ("accept", "decline", "cancel"), f"a form was answered with {action!r}", heard)
    stage.end(prompt)


@probe("client.permission.10")
async def a_form_is_filled_in(stage: ClientStage) -> None:
    """A name is required."""
    prompt = await stage.begun()
    heard, result = await _form(stage)
    content = result.get("content")
    if result.get("action") == "accept":
        filled = isinstance(content, dict) and isinstance(content.get("name"), str)
        stage.require(filled, "an accepted form lacks a value it requires", heard)
    stage.end(prompt)


@probe("client.permission.11")
async def modes_are_kept_to(stage: ClientStage) -> None:
    """A link, for a client that opens none."""
    prompt = await stage.begun()
    params = {"sessionId": stage.session, "mode": "url", "message": "Sign in", "elicitationId": "e1"}
    id = stage.call("elicitation/create", {**params, "url": "https://agent.example/in"}, id="link")
    heard = await stage.answered(id)
    stage.require(heard is not None, "a question in a mode that is not offered was never answered")
    assert heard is not None
    stage.require("error" in heard.message, "a question in a mode that is not offered was answered", heard)
    stage.end(prompt)


@probe("client.permission.12")
async def stray_completions_are_passed_over(stage: ClientStage) -> None:
    """Of a link nobody was given."""
    prompt = await stage.begun()
    stage.tell("elicitation/complete", {"elicitationId": "never-asked"})
    await stage.survived(prompt, "the completion of a question nobody asked")
