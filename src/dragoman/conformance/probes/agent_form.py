"""Probes of the forms and links that an agent shows."""

from __future__ import annotations

from dragoman.conformance import json_shape
from dragoman.conformance.harness import hello
from dragoman.conformance.harness.agent import AgentStage
from dragoman.conformance.json_shape import fault
from dragoman.conformance.probe import probe
from dragoman.conformance.probes.agent_files import asked, requests

CREATE = "elicitation/create"


@probe("agent.files.15")
async def forms_are_announced(stage: AgentStage) -> None:
    """A client that has no place for them."""
    await stage.opened(capabilities=hello.NOTHING[stage.dialect])
    await stage.prompted(stage.words("form"))
    found = requests(stage, CREATE)
    stage.require(not found, "a form was shown to a client that announced none", *found)


@probe("agent.files.16")
async def forms_are_whole(stage: AgentStage) -> None:
    """A client draws the fields."""
    drawing = {"message": str, "mode": json_shape.text("form", "url"), "requestedSchema": {"properties": dict}}
    for heard in await asked(stage, "form", CREATE):
        words = fault(heard.message.get("params"), drawing)
        stage.require(not words, f"form: {words}", heard)


@probe("agent.files.17")
async def links_are_whole(stage: AgentStage) -> None:
    """A client shows the whole URL."""
    for heard in await asked(stage, "link", CREATE):
        words = fault(
            heard.message.get("params"), {"message": str, "elicitationId": json_shape.some, "url": json_shape.some}
        )
        stage.require(not words, f"link: {words}", heard)


@probe("agent.files.18")
async def declined_forms_are_survived(stage: AgentStage) -> None:
    """People may say no."""
    await stage.opened()
    turn = await stage.ended(stage.begin(stage.words("form")))
    if not requests(stage, CREATE):
        stage.unsure("the agent showed no form")
    stage.granted(turn.answer, "a turn in which a form was declined")


@probe("agent.files.19")
async def links_are_announced_apart(stage: AgentStage) -> None:
    """Each mode has its own switch."""
    await stage.opened(capabilities={**hello.NOTHING[stage.dialect], "elicitation": {"form": {}}})
    await stage.prompted(stage.words("link"))
    found = [heard for heard in requests(stage, CREATE) if heard.params.get("mode") == "url"]
    stage.require(not found, "a link was shown to a client that announced forms only", *found)


@probe("agent.files.20")
async def forms_have_one_subject(stage: AgentStage) -> None:
    """A session (and perhaps a tool call), or a request."""
    for heard in await asked(stage, "form", CREATE):
        both = ("sessionId" in heard.message["params"]) + ("requestId" in heard.message["params"])
        stage.require(both == 1, "a form names " + ("both session and request" if both else "no subject"), heard)


@probe("agent.files.24")
async def ends_name_their_link(stage: AgentStage) -> None:
    """A link that was followed."""
    await stage.opened()
    stage.serves[CREATE] = lambda _: {"action": "accept"}
    await stage.prompted(stage.words("link"))
    await stage.silence()
    ended = [heard for heard in stage.heard if heard.method == "elicitation/complete"]
    if not ended:
        stage.skip("the agent tells no end of a link")
    shown = [heard.params.get("elicitationId") for heard in requests(stage, CREATE)]
    if None in shown:
        stage.unsure("a link was shown without an id", *requests(stage, CREATE))
    for heard in ended:
        id = heard.params.get("elicitationId") if isinstance(heard.params, dict) else None
        stage.require(id in shown, f"the end of {id!r} is told, and shown was {shown}", heard)
