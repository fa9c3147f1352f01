"""Probes of the end of a turn at a client."""

from __future__ import annotations

from dragoman.conformance.harness.client import ClientStage
from dragoman.conformance.harness.peer import Json
from dragoman.conformance.probe import Probe, probe

# The number of the requirement: what the answer is, and its result in v1.
ENDS: dict[str, tuple[str, Json]] = {
    "01": ("the stop reason max_tokens", {"stopReason": "max_tokens"}),
    "02": ("the stop reason max_turn_requests", {"stopReason": "max_turn_requests"}),
    "03": ("the stop reason refusal", {"stopReason": "refusal"}),
    "04": ("the stop reason cancelled", {"stopReason": "cancelled"}),
    "05": ("a stop reason nobody knows", {"stopReason": "out_of_credits"}),
    "06": ("a usage of null", {"stopReason": "end_turn", "usage": None}),
    "07": ("members nobody knows", {"stopReason": "end_turn", "quota": {"left": 3}, "_meta": {"x": [1]}}),
    "09": ("the stop reason error", {"stopReason": "error"}),
}


def ending(what: str, result: Json) -> Probe:
    """A probe: the client comes to a proper end after this answer."""

    async def ended(stage: ClientStage) -> None:
        prompt = await stage.begun()
        wire = {"stop_reason": result["stopReason"]} if stage.dialect == "crow" else result
        stage.reply(prompt, wire)
        await stage.concluded(what)

    return ended


for _number, (_what, _result) in ENDS.items():
    probe(f"client.turn.{_number}")(ending(_what, _result))


@probe("client.turn.08")
async def an_error_ends_a_turn(stage: ClientStage) -> None:
    """The agent's model failed, say."""
    prompt = await stage.begun()
    stage.refuse(prompt, -32603, "Internal error")
    await stage.concluded("an error in place of a stop reason")


@probe("client.turn.10")
async def silence_is_an_answer(stage: ClientStage) -> None:
    """No update at all."""
    prompt = await stage.prompted()
    stage.end(prompt)
    await stage.concluded("a turn in which nothing was said")


async def _failed(stage: ClientStage, code: int, message: str, data: Json, what: str) -> None:
    prompt = await stage.begun()
    error = {"code": code, "message": message, "data": data}
    stage.send({"jsonrpc": "2.0", "id": prompt.message["id"], "error": error})
    await stage.concluded(what)


@probe("client.turn.11")
async def errors_have_data_of_any_shape(stage: ClientStage) -> None:
    """A list of faults, as Python's agents send it; others send a tree, or one text."""
    data = [{"type": "missing", "loc": ["prompt", 0, "text"], "msg": "Field required", "input": None}, "and more"]
    await _failed(stage, -32602, "Invalid params", data, "an error whose data is a list")


@probe("client.turn.12")
async def sessions_are_forgotten(stage: ClientStage) -> None:
    """Agents use three codes for it; this is the newest."""
    data = {"sessionId": stage.session}
    await _failed(stage, -32002, "Resource not found", data, "a session the agent no longer knows")
