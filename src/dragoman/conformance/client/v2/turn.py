"""Turns of a v2 client: the prompt, the order of receipt, message and states, the end, the cancel."""

from __future__ import annotations

import uuid

from dragoman.conformance.harness.client import ClientUnderTest
from dragoman.conformance.harness.client_environment import ClientExit
from dragoman.conformance.harness.peer import Json, ReceivedFrame
from dragoman.conformance.json_shape import content_block, non_empty, non_empty_list
from dragoman.conformance.requirement import must, should


def _idle(client: ClientUnderTest, **members: Json) -> None:
    client.update("state_update", state="idle", **members)


def _user_message(client: ClientUnderTest, prompt: ReceivedFrame, id: str = "m1") -> None:
    client.update("user_message", messageId=id, content=prompt.wire_params.get("prompt"))


async def _require_shown(client: ClientUnderTest, what: str) -> ClientExit:
    """Send text and the end of the work; require that the client shows the text: it did not end before."""
    client.require(client.closed is None, f"the client closed the connection after {what}")
    await client.sync()
    mark = f"check-{uuid.uuid4().hex[:8]}"
    client.chunk(f"{mark}\n")
    _idle(client, stopReason="end_turn")
    end = await client.require_no_crash(f"the client crashed after {what}")
    client.require(end.shows(mark), f"the client had ended its turn after {what}")
    return end


async def _begin(client: ClientUnderTest) -> ReceivedFrame:
    """Wait for the prompt; show text so that it is known whether the client shows any."""
    prompt = await client.wait_prompt()
    client.chunk("check-begin\n")
    return prompt


@must("client.v2turn.01", "v2.md#insertion")
async def prompts_have_content(client: ClientUnderTest) -> None:
    """A prompt has its session and at least one content block."""
    prompt = await client.wait_prompt()
    client.require_params(prompt, {"sessionId": non_empty, "prompt": non_empty_list})


@must("client.v2turn.02", "v2.md#insertion")
async def content_blocks_are_known(client: ClientUnderTest) -> None:
    """The content of a prompt has types that every agent accepts."""
    prompt = await client.wait_prompt()
    for block in prompt.wire_params.get("prompt") or ():
        client.require(content_block(block), "a content block of a prompt is not valid", prompt)


@must("client.v2turn.03", "v2.md#insertion")
async def a_receipt_is_not_the_end(client: ClientUnderTest) -> None:
    """The answer to a prompt does not end the turn: later text is shown."""
    prompt = await _begin(client)
    _user_message(client, prompt)
    client.reply(prompt, {"messageId": "m1"})
    client.update("state_update", state="running")
    await client.collect()
    await _require_shown(client, "the answer to its prompt")


@must("client.v2turn.04", "v2.md#states")
async def idle_ends_the_turn(client: ClientUnderTest) -> None:
    """An idle with a stop reason ends the turn."""
    prompt = await client.begin_turn()
    client.end_turn(prompt)
    await client.require_end("idle with end_turn")


@must("client.v2turn.05", "v2.md#states")
async def a_queued_idle_is_not_the_end(client: ClientUnderTest) -> None:
    """An idle without a stop reason before the answer, as after session setup, does not end the turn."""
    prompt = await _begin(client)
    _idle(client)
    await client.collect()
    client.accept_prompt(prompt)
    await _require_shown(client, "an idle that was queued before its work")


@must("client.v2turn.06", "v2.md#insertion")
async def the_message_may_come_after_the_answer(client: ClientUnderTest) -> None:
    """The user's message may come after the answer to the prompt."""
    prompt = await _begin(client)
    client.reply(prompt, {"messageId": "m6"})
    client.update("state_update", state="running")
    _user_message(client, prompt, "m6")
    await _require_shown(client, "a user message after the answer")


@must("client.v2turn.07", "v2.md#states")
async def running_may_come_first(client: ClientUnderTest) -> None:
    """The state running may come before the user's message and the answer."""
    prompt = await _begin(client)
    client.update("state_update", state="running")
    await client.collect()
    _user_message(client, prompt, "m7")
    client.reply(prompt, {"messageId": "m7"})
    await _require_shown(client, "running before the answer")


@must("client.v2turn.08", "v2.md#states")
async def the_answer_may_come_last(client: ClientUnderTest) -> None:
    """The whole work, idle included, may come before the answer: then the answer ends the turn."""
    prompt = await _begin(client)
    _user_message(client, prompt, "m8")
    client.update("state_update", state="running")
    _idle(client, stopReason="end_turn")
    await client.collect()
    client.reply(prompt, {"messageId": "m8"})
    await client.require_end("an answer after the whole work")


@must("client.v2turn.09", "v2.md#errors")
async def a_refused_prompt_ends_the_turn(client: ClientUnderTest) -> None:
    """An error in answer to a prompt ends the turn without a crash."""
    prompt = await _begin(client)
    client.refuse(prompt, -32602, "Invalid params")
    await client.require_end("a refused prompt")


def _ends(id: str, sentence: str, what: str, **members: Json) -> None:
    """Require that work may end with this idle."""

    async def probe(client: ClientUnderTest) -> None:
        await client.begin_turn()
        _idle(client, **members)
        await client.require_end(what)

    probe.__doc__ = sentence
    must(id, "v2.md#states")(probe)


_ends("client.v2turn.10", "Work may end with max_tokens.", "the stop reason max_tokens", stopReason="max_tokens")
_ends("client.v2turn.11", "Work may end with refusal.", "the stop reason refusal", stopReason="refusal")
_ends("client.v2turn.12", "Work may end for an unknown reason.", "an unknown reason", stopReason="_out_of_credits")
_ends("client.v2turn.13", "Work may end without a stop reason.", "an idle without a reason")
_ends(
    "client.v2turn.14",
    "Work may end with an error and its details.",
    "the stop reason error",
    stopReason="error",
    error={"code": -32603, "message": "The model is gone", "data": {"retry": 3}},
)


def _goes_on(id: str, sentence: str, what: str, **members: Json) -> None:
    """Require that the turn goes on after this state."""

    async def probe(client: ClientUnderTest) -> None:
        await client.begin_turn()
        client.update("state_update", **members)
        await client.collect()
        await _require_shown(client, what)

    probe.__doc__ = sentence
    must(id, "v2.md#states")(probe)


_goes_on("client.v2turn.15", "An unknown state does not end the turn.", "an unknown state", state="_napping")
_goes_on("client.v2turn.16", "requires_action does not end the turn.", "requires_action", state="requires_action")
_goes_on(
    "client.v2turn.17",
    "A state with background work does not end the turn.",
    "a state with background work",
    state="running",
    background=[{"type": "tool_call", "toolCallId": "b"}, {"type": "_vendor", "id": 1}],
)


@must("client.v2turn.18", "v2.md#states")
async def a_repeated_idle_does_no_harm(client: ClientUnderTest) -> None:
    """A repeated idle does no harm."""
    await client.begin_turn()
    _idle(client, stopReason="end_turn")
    _idle(client, stopReason="end_turn", _meta={"again": True})
    await client.require_end("a repeated idle")


@must("client.v2turn.19", "v2.md#states")
async def a_dead_agent_ends_the_turn(client: ClientUnderTest) -> None:
    """An agent that ends between the answer and idle ends the turn with an error."""
    await client.begin_turn()
    await client.environment.exit_agent(3)
    end = await client.wait_exit()
    if end.status is None:
        client.require(not client.environment.is_watched, "the client still waits for an agent that is gone")
    client.require(end.status != 0, "the client reports success although its agent ended during work")


@must("client.v2turn.20", "v2.md#cancel")
async def the_user_can_cancel(client: ClientUnderTest) -> None:
    """When the user cancels, the client sends session/cancel for its session."""
    await client.begin_turn()
    await client.sync()
    client.assume(client.environment.interrupt(), "the client cannot be interrupted")
    found = await client.wait_method("session/cancel", client.timeouts.turn)
    found = client.require(found, "the client does not send session/cancel")
    client.require(found.wire_params.get("sessionId") == client.session, "session/cancel has another session", found)


@must("client.v2turn.21", "v2.md#cancel")
async def a_cancel_ends_with_idle(client: ClientUnderTest) -> None:
    """Cancelled work ends with idle and the stop reason cancelled."""
    await client.begin_turn()
    await client.sync()
    client.assume(client.environment.interrupt(), "the client cannot be interrupted")
    client.assume(await client.wait_method("session/cancel", client.timeouts.turn), "session/cancel was not sent")
    _idle(client, stopReason="cancelled")
    await client.require_end("idle with cancelled")


@should("client.v2turn.22", "v2.md#cancel")
async def a_cancelled_prompt_is_no_crash(client: ClientUnderTest) -> None:
    """A prompt that is answered with -32800 after a cancel ends the turn without a crash."""
    prompt = await _begin(client)
    await client.sync()
    client.assume(client.environment.interrupt(), "the client cannot be interrupted")
    client.assume(await client.wait_method("session/cancel", client.timeouts.turn), "session/cancel was not sent")
    client.refuse(prompt, -32800, "Request cancelled")
    await client.require_end("a prompt that was cancelled")
