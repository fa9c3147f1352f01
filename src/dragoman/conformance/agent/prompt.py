"""Prompts and turns at an agent."""

from __future__ import annotations

from dragoman.agents.everything import samples
from dragoman.conformance.harness import hello
from dragoman.conformance.harness.agent import AgentUnderTest
from dragoman.conformance.harness.peer import Json
from dragoman.conformance.json_shape import natural
from dragoman.conformance.requirement import must, should

HUNDRED = 100
PICTURE, SOUND = samples.picture(), samples.sound()


@must("agent.prompt.01", "prompt-turns.md#stop-reasons", "v1 banjo crow draft")
async def turns_end_with_a_reason(agent: AgentUnderTest) -> None:
    """A turn ends with an answer that has a stop reason."""
    turn = await agent.try_turn("plain")
    agent.require_result(turn.answer, "a prompt")
    agent.require(turn.stop, f"the answer to a prompt has no {hello.STOP[agent.dialect]}", turn.answer)


@must("agent.prompt.02", "prompt-turns.md#stop-reasons, dialect-matrix.md#prompts", "v1 banjo crow draft")
async def reasons_are_known(agent: AgentUnderTest) -> None:
    """The stop reason is one that the dialect knows."""
    # In v1 the list is closed, and strict clients fail on other values.
    turn = await agent.run_turn("plain")
    agent.assume(turn.stop, "the turn ended without a reason", turn.answer)
    known = hello.STOPS[agent.dialect]
    why = f"the stop reason {turn.stop!r} is none of {', '.join(sorted(known))}"
    agent.require(turn.stop in known, why, turn.answer)


async def _require_accepted(agent: AgentUnderTest, what: str, *blocks: Json) -> None:
    question = {"type": "text", "text": "What do you make of this? Answer in one sentence."}
    turn = await agent.try_prompt([question, *blocks])
    agent.require_result(turn.answer, f"a prompt with {what}")


async def require_accepted_blocks(agent: AgentUnderTest, what: str, *blocks: Json, **members: Json) -> None:
    """Require that a prompt of these blocks, raw as the draft and 2025.1 write them, is answered with a result."""
    session = agent.session or await agent.open_session()
    first = {"type": "text", "text": agent.prompt_for("plain")}
    params = {hello.SESSION[agent.dialect]: session, "content": [first, *blocks], **members}
    frame = await agent.request("session/prompt", params, agent.timeouts.turn)
    agent.require_result(agent.assume(frame, "the agent did not end the turn in time"), what)


@must("agent.prompt.03", "prompt-turns.md#prompt-content", "v1 banjo")
async def links_are_accepted(agent: AgentUnderTest) -> None:
    """A link to a resource is always accepted."""
    await _require_accepted(agent, "a link", agent.file_link())


@must("agent.prompt.04", "prompt-turns.md#prompt-content", "v1 banjo", needs="agent.promptCapabilities.image")
async def images_are_accepted(agent: AgentUnderTest) -> None:
    """An image is accepted where that is offered."""
    await _require_accepted(agent, "a picture", {"type": "image", "data": PICTURE, "mimeType": "image/png"})


@must("agent.prompt.05", "prompt-turns.md#prompt-content", "v1 banjo", needs="agent.promptCapabilities.audio")
async def audio_is_accepted(agent: AgentUnderTest) -> None:
    """Audio is accepted where that is offered."""
    await _require_accepted(agent, "a sound", {"type": "audio", "data": SOUND, "mimeType": "audio/wav"})


@must("agent.prompt.06", "prompt-turns.md#prompt-content", "v1 banjo", needs="agent.promptCapabilities.embeddedContext")
async def embedded_texts_are_accepted(agent: AgentUnderTest) -> None:
    """An embedded text is accepted where that is offered."""
    resource = {"uri": f"file://{agent.file}", "mimeType": "text/plain", "text": "first line"}
    await _require_accepted(agent, "a text inside", {"type": "resource", "resource": resource})


@must("agent.prompt.07", "prompt-turns.md#prompt-content", "v1 banjo", needs="agent.promptCapabilities.embeddedContext")
async def embedded_bytes_are_accepted(agent: AgentUnderTest) -> None:
    """Embedded bytes are accepted where embedded context is offered."""
    resource = {"uri": "file:///dot.png", "mimeType": "image/png", "blob": PICTURE}
    await _require_accepted(agent, "bytes inside", {"type": "resource", "resource": resource})


async def _require_answered(agent: AgentUnderTest, what: str, blocks: list[Json]) -> None:
    turn = await agent.try_prompt(blocks)
    agent.require(turn.answer, f"{what} was not answered")


@must("agent.prompt.08", "prompt-turns.md#prompt")
async def empty_prompts_are_answered(agent: AgentUnderTest) -> None:
    """An empty prompt is answered, with a result or an error."""
    await _require_answered(agent, "an empty prompt", [])


@must("agent.prompt.09", "prompt-turns.md#prompt, peers.md#missing-params")
async def prompts_need_content(agent: AgentUnderTest) -> None:
    """A prompt without content is refused with -32602."""
    session = await agent.open_session()
    params = {hello.SESSION[agent.dialect]: session}
    await agent.require_refused("session/prompt", params, "a prompt without content", -32602)


@must("agent.prompt.10", "extensions.md#lenient-reading")
async def unknown_blocks_are_answered(agent: AgentUnderTest) -> None:
    """A block of an unknown type is answered, with a result or an error."""
    await _require_answered(agent, "a prompt with a block of an unknown type", [{"type": "hologram", "data": "x"}])


@should("agent.prompt.11", "updates.md#chunks")
async def the_agent_says_something(agent: AgentUnderTest) -> None:
    """The agent sends a message in a plain turn."""
    turn = await agent.run_turn("plain")
    chunks = agent.updates("agent_message_chunk", start=turn.start)
    agent.require(chunks, "the turn ended without a message to the user", turn.answer)


@must("agent.prompt.12", "prompt-turns.md#one-turn")
async def a_failed_turn_is_not_the_end(agent: AgentUnderTest) -> None:
    """After a failed turn the session accepts another prompt."""
    turn = await agent.run_turn("error")
    agent.assume_error(turn.answer, "the turn that should fail did not")
    await agent.require_turn_result("plain", "a prompt after a turn that failed")


@must("agent.prompt.13", "peers.md#second-prompt")
async def prompts_at_once_are_both_answered(agent: AgentUnderTest) -> None:
    """A prompt sent while a turn runs is answered, and so is the first."""
    # The agent may refuse it, queue it or replace the first turn.
    await agent.open_session()
    first = agent.start_turn("slow")
    await agent.collect()
    second = agent.start_turn("plain")
    await agent.collect()
    agent.cancel()
    await agent.wait_turn(first)
    await agent.wait_turn(second)
    agent.require(first.answer, "of two prompts at once the first was never answered")
    agent.require(second.answer, "of two prompts at once the second was never answered")


@must("agent.prompt.14", "prompt-turns.md#one-turn")
async def prompts_follow_each_other(agent: AgentUnderTest) -> None:
    """A session accepts one prompt after the other."""
    await agent.open_session()
    for which in ("first", "second", "third"):
        await agent.require_turn_result("plain", f"the {which} prompt of a session")


@must("agent.prompt.15", "prompt-turns.md#usage", "v1")
async def tokens_are_counted_in_whole_numbers(agent: AgentUnderTest) -> None:
    """The numbers of tokens in the answer are integers."""
    await agent.open_session()
    turn = await agent.prompt(agent.prompt_for("usage" if agent.agent_name() == "everything" else "plain"))
    agent.require_usage(turn, {"totalTokens": natural, "inputTokens": natural, "outputTokens": natural})


@must("agent.prompt.16", "prompt-turns.md#stop-reasons", "v1 banjo crow draft")
async def no_turn_ends_as_cancelled_by_itself(agent: AgentUnderTest) -> None:
    """A turn that was not cancelled does not end as cancelled."""
    turn = await agent.run_turn("plain")
    agent.require(turn.stop != "cancelled", "a turn ended as cancelled without a cancel", turn.answer)


@must("agent.prompt.17", "errors.md#wrong-params")
async def session_ids_are_strings(agent: AgentUnderTest) -> None:
    """A prompt whose session id is not a string is refused."""
    await agent.require_session_refused(17, "a prompt whose session is a number")


@must("agent.prompt.18", "prompt-turns.md#prompt")
async def long_prompts_are_answered(agent: AgentUnderTest) -> None:
    """A prompt of a hundred blocks is answered."""
    blocks = [{"type": "text", "text": f"part {number}"} for number in range(HUNDRED)]
    await _require_answered(agent, "a prompt of a hundred blocks", blocks)


@should("agent.prompt.19", "prompt-turns.md#stop-reasons", "v1 banjo")
async def refusals_are_no_errors(agent: AgentUnderTest) -> None:
    """A refusal is reported as the stop reason refusal, not as an error."""
    turn = await agent.run_turn("refuse")
    agent.require_result(turn.answer, "a prompt that the agent refuses")
    agent.require(turn.stop == "refusal", f"a refusal was reported as {turn.stop!r}", turn.answer)


@must("agent.prompt.20", "extensions.md#meta", "v1 banjo")
async def annotations_are_accepted(agent: AgentUnderTest) -> None:
    """Annotations and _meta on a block are accepted."""
    extras = {"annotations": {"audience": ["assistant"], "priority": 0.5}, "_meta": {"example.org/from": "check"}}
    await _require_accepted(agent, "annotations", {"type": "text", "text": "hello", **extras})
