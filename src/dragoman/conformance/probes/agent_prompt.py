"""Probes of prompts and turns at an agent."""

from __future__ import annotations

from base64 import b64encode

from dragoman.agents.everything import samples
from dragoman.conformance.harness import hello
from dragoman.conformance.harness.agent import AgentStage
from dragoman.conformance.harness.peer import Json
from dragoman.conformance.json_shape import count, fault
from dragoman.conformance.probe import probe

HUNDRED = 100


@probe("agent.prompt.01")
async def turns_end_with_a_reason(stage: AgentStage) -> None:
    """A plain turn."""
    await stage.opened()
    turn = await stage.ended(stage.begin(stage.words("plain")))
    stage.granted(turn.answer, "a prompt")
    stage.require(turn.stop, f"the answer to a prompt has no {hello.STOP[stage.dialect]}", turn.answer)


@probe("agent.prompt.02")
async def reasons_are_known(stage: AgentStage) -> None:
    """In v1 they are a closed list, and strict clients fail at others."""
    turn = await stage.did("plain")
    if not turn.stop:
        stage.unsure("the turn ended without a reason", turn.answer)
    known = hello.STOPS[stage.dialect]
    stage.require(
        turn.stop in known, f"the stop reason {turn.stop!r} is none of {', '.join(sorted(known))}", turn.answer
    )


async def _takes(stage: AgentStage, what: str, *blocks: Json) -> None:
    await stage.opened()
    said = {"type": "text", "text": "What do you make of this? Answer in one sentence."}
    turn = await stage.ended(stage.begin([said, *blocks]))
    stage.granted(turn.answer, f"a prompt with {what}")


@probe("agent.prompt.03")
async def links_are_accepted(stage: AgentStage) -> None:
    """To a file of the workspace."""
    await _takes(stage, "a link", {"type": "resource_link", "uri": f"file://{stage.file}", "name": "notes.txt"})


@probe("agent.prompt.04")
async def pictures_are_accepted(stage: AgentStage) -> None:
    """A small one."""
    data = b64encode(samples.picture()).decode()
    await _takes(stage, "a picture", {"type": "image", "data": data, "mimeType": "image/png"})


@probe("agent.prompt.05")
async def sounds_are_accepted(stage: AgentStage) -> None:
    """A short one."""
    data = b64encode(samples.sound()).decode()
    await _takes(stage, "a sound", {"type": "audio", "data": data, "mimeType": "audio/wav"})


@probe("agent.prompt.06")
async def embedded_texts_are_accepted(stage: AgentStage) -> None:
    """As editors send what is on the screen."""
    held = {"uri": f"file://{stage.file}", "mimeType": "text/plain", "text": "first line"}
    await _takes(stage, "a text inside", {"type": "resource", "resource": held})


@probe("agent.prompt.07")
async def embedded_bytes_are_accepted(stage: AgentStage) -> None:
    """The other form of the same."""
    held = {"uri": "file:///dot.png", "mimeType": "image/png", "blob": b64encode(samples.picture()).decode()}
    await _takes(stage, "bytes inside", {"type": "resource", "resource": held})


async def _answers(stage: AgentStage, what: str, blocks: list[Json]) -> None:
    await stage.opened()
    turn = await stage.ended(stage.begin(blocks))
    stage.require(turn.answer, f"{what} was not answered")


@probe("agent.prompt.08")
async def empty_prompts_are_answered(stage: AgentStage) -> None:
    """With a turn or with an error."""
    await _answers(stage, "an empty prompt", [])


@probe("agent.prompt.09")
async def prompts_need_content(stage: AgentStage) -> None:
    """The session is there, the prompt is not."""
    await stage.opened()
    heard = await stage.asked("session/prompt", {hello.SESSION[stage.dialect]: stage.session})
    stage.refused(heard, "a prompt without content", -32602)


@probe("agent.prompt.10")
async def unknown_blocks_are_answered(stage: AgentStage) -> None:
    """A block of a type nobody knows."""
    await _answers(stage, "a prompt with a block of an unknown type", [{"type": "hologram", "data": "x"}])


@probe("agent.prompt.11")
async def the_agent_says_something(stage: AgentStage) -> None:
    """To a greeting."""
    turn = await stage.did("plain")
    told = stage.updates("agent_message_chunk", turn.start)
    stage.require(told, "the turn ended without a word to the user", turn.answer)


@probe("agent.prompt.12")
async def a_failed_turn_is_not_the_end(stage: AgentStage) -> None:
    """An error, then a plain turn."""
    turn = await stage.did("error")
    if turn.answer is None or "error" not in turn.answer.message:
        stage.unsure("the turn that should fail did not", turn.answer)
    turn = await stage.ended(stage.begin(stage.words("plain")))
    stage.granted(turn.answer, "a prompt after a turn that failed")


@probe("agent.prompt.13")
async def prompts_at_once_are_both_answered(stage: AgentStage) -> None:
    """Refused, queued or instead of the first: all are answers. After a while we cancel."""
    await stage.opened()
    first = stage.begin(stage.words("slow"))
    await stage.silence()
    second = stage.begin(stage.words("plain"))
    await stage.silence()
    stage.cancel()
    await stage.ended(first)
    await stage.ended(second)
    stage.require(first.answer, "of two prompts at once the first was never answered")
    stage.require(second.answer, "of two prompts at once the second was never answered")


@probe("agent.prompt.14")
async def prompts_follow_each_other(stage: AgentStage) -> None:
    """Three of them."""
    await stage.opened()
    for which in ("first", "second", "third"):
        turn = await stage.ended(stage.begin(stage.words("plain")))
        stage.granted(turn.answer, f"the {which} prompt of a session")


@probe("agent.prompt.15")
async def tokens_are_counted_in_whole_numbers(stage: AgentStage) -> None:
    """Where they are told."""
    await stage.opened()
    turn = await stage.prompted(stage.words("usage" if stage.name_of_agent() == "everything" else "plain"))
    assert turn.answer is not None
    usage = (turn.answer.message.get("result") or {}).get("usage")
    if usage is None:
        stage.skip("the agent does not tell what a turn cost")
    words = fault(usage, {"totalTokens": count, "inputTokens": count, "outputTokens": count}, "usage")
    stage.require(not words, words, turn.answer)


@probe("agent.prompt.16")
async def nobody_cancelled(stage: AgentStage) -> None:
    """A plain turn."""
    turn = await stage.did("plain")
    stage.require(turn.stop != "cancelled", "a turn that nobody cancelled ended as cancelled", turn.answer)


@probe("agent.prompt.17")
async def session_ids_are_texts(stage: AgentStage) -> None:
    """A number in its place."""
    await stage.opened()
    method, params = stage.spelled("session/prompt", {"sessionId": "x", "prompt": [{"type": "text", "text": "hello"}]})
    heard = await stage.asked(method, {**params, hello.SESSION[stage.dialect]: 17})
    stage.refused(heard, "a prompt whose session is a number")


@probe("agent.prompt.18")
async def long_prompts_are_answered(stage: AgentStage) -> None:
    """A hundred blocks of text."""
    blocks = [{"type": "text", "text": f"part {number}"} for number in range(HUNDRED)]
    await _answers(stage, "a prompt of a hundred blocks", blocks)


@probe("agent.prompt.19")
async def refusals_are_no_errors(stage: AgentStage) -> None:
    """An agent that refuses has understood."""
    turn = await stage.did("refuse")
    stage.granted(turn.answer, "a prompt that the agent refuses")
    stage.require(turn.stop == "refusal", f"a refusal was told as {turn.stop!r}", turn.answer)


@probe("agent.prompt.20")
async def annotations_are_accepted(stage: AgentStage) -> None:
    """Both are for whoever understands them."""
    extras = {"annotations": {"audience": ["assistant"], "priority": 0.5}, "_meta": {"example.org/from": "check"}}
    await _takes(stage, "annotations", {"type": "text", "text": "hello", **extras})
