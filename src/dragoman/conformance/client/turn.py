"""The end of a turn at a client."""

from __future__ import annotations

from dragoman.conformance.harness.client import ClientUnderTest
from dragoman.conformance.harness.peer import Json
from dragoman.conformance.requirement import Probe, must


def ends_turn(sentence: str, what: str, reason: str, **members: Json) -> Probe:
    """Return a probe: the client ends the turn after an answer with this stop reason and these members."""

    async def probe(client: ClientUnderTest) -> None:
        prompt = await client.begin_turn()
        client.reply(prompt, {"stop_reason" if client.dialect == "crow" else "stopReason": reason, **members})
        await client.require_end(what)

    probe.__doc__ = sentence
    return probe


must("client.turn.01", "prompt-turns.md#stop-reasons", "v1 banjo draft")(
    ends_turn("A turn may end with max_tokens.", "the stop reason max_tokens", "max_tokens")
)
must("client.turn.02", "prompt-turns.md#stop-reasons", "v1 banjo")(
    ends_turn("A turn may end with max_turn_requests.", "the stop reason max_turn_requests", "max_turn_requests")
)
must("client.turn.03", "prompt-turns.md#stop-reasons", "v1 banjo")(
    ends_turn("A turn may end with refusal.", "the stop reason refusal", "refusal")
)
must("client.turn.04", "peers.md#unknown-session", "v1 banjo crow draft")(
    ends_turn("A turn may end with cancelled though it was not cancelled.", "the stop reason cancelled", "cancelled")
)
must("client.turn.05", "peers.md#sdk-stop-reason", "v1 banjo")(
    ends_turn("A turn may end for an unknown reason.", "an unknown stop reason", "out_of_credits")
)
must("client.turn.06", "peers.md#unknown-fields", "v1 banjo")(
    ends_turn("The usage in an answer may be null.", "a usage of null", "end_turn", usage=None)
)
must("client.turn.07", "peers.md#unknown-fields", "v1 banjo")(
    ends_turn(
        "Unknown members in an answer are ignored.", "unknown members", "end_turn", quota={"left": 3}, _meta={"x": [1]}
    )
)
must("client.turn.09", "dialect-matrix.md#prompts", "draft crow")(
    ends_turn("A turn may end with the stop reason error.", "the stop reason error", "error")
)


@must("client.turn.08", "errors.md#error-object")
async def an_error_ends_a_turn(client: ClientUnderTest) -> None:
    """A turn may end with an error, and the client does not crash."""
    prompt = await client.begin_turn()
    client.refuse(prompt, -32603, "Internal error")
    await client.require_end("an error in place of a stop reason")


@must("client.turn.10", "prompt-turns.md#stop-reasons")
async def turns_may_end_without_a_message(client: ClientUnderTest) -> None:
    """A turn may end without any message."""
    prompt = await client.wait_prompt()
    client.end_turn(prompt)
    await client.require_end("a turn in which nothing was sent")


async def _end_with_error(client: ClientUnderTest, code: int, message: str, data: Json, what: str) -> None:
    prompt = await client.begin_turn()
    error = {"code": code, "message": message, "data": data}
    client.send({"jsonrpc": "2.0", "id": prompt.message["id"], "error": error})
    await client.require_end(what)


@must("client.turn.11", "peers.md#method-not-found-text, peers.md#missing-params")
async def errors_have_data_of_any_shape(client: ClientUnderTest) -> None:
    """The data of an error may be a string, a list or an object."""
    # Python agents send a list of faults, others an object or a string.
    data = [{"type": "missing", "loc": ["prompt", 0, "text"], "msg": "Field required", "input": None}, "and more"]
    await _end_with_error(client, -32602, "Invalid params", data, "an error whose data is a list")


@must("client.turn.12", "peers.md#unknown-session")
async def sessions_are_forgotten(client: ClientUnderTest) -> None:
    """A session that the agent no longer knows ends the turn, whatever the error."""
    data = {"sessionId": client.session}
    await _end_with_error(client, -32002, "Resource not found", data, "a session the agent no longer knows")
