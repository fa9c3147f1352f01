"""Faults in an agent's turns."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from dragoman.conformance.faults.agent_init import refusing
from dragoman.conformance.seeding import calls, fails, hears, replies, results, with_, without
from dragoman.conformance.twin import Fault, Json, Tape, seeded


def with_block(kind: str, part: str = "") -> Fault:
    """Prompts with such a block are refused."""

    def meant(params: Any) -> bool:
        blocks = params.get("prompt") or []
        return any(block.get("type") == kind and part in str(block) for block in blocks)

    return refusing("session/prompt", meant)


def lost(meant: str) -> Fault:
    """Prompts with this in their params are never answered."""

    def whole(_: Tape, message: Json) -> Iterable[Json]:
        if meant not in str(message["params"]):
            yield message

    return hears("session/prompt", whole)


def _long_ones(_: Tape, message: Json) -> Iterable[Json]:
    if len(message["params"].get("prompt", [])) < 100:
        yield message


def _wrong_number(tape: Tape, message: Json) -> Iterable[Json]:
    lacks = "prompt" not in (tape.request(message).get("params") or {"prompt": 1})
    yield from fails(-32603)(tape, message) if lacks and "error" in message else [message]


def _mute(tape: Tape, message: Json) -> Iterable[Json]:
    if not tape.busy() or message["params"]["update"]["sessionUpdate"] != "agent_message_chunk":
        yield message


def _upset(tape: Tape, message: Json) -> Iterable[Json]:
    if tape.notes.get("failed"):
        message = {"jsonrpc": "2.0", "id": message["id"], "error": {"code": -32603, "message": "still upset"}}
    if message.get("error", {}).get("message", "").startswith("you asked"):
        tape.notes["failed"] = True
    yield message


def _never_the_second(tape: Tape, message: Json) -> Iterable[Json]:
    session = message["params"].get("sessionId")
    if not any(each.get("sessionId") == session for each in tape.others(message)):
        yield message


def _tired(tape: Tape, message: Json) -> Iterable[Json]:
    tape.notes["turns"] = tape.notes.get("turns", 0) + 1
    if tape.notes["turns"] < 3:
        yield message


def _cancelled(tape: Tape, message: Json) -> Iterable[Json]:
    cancelled = any(each["method"] == "session/cancel" for each in tape.told)
    is_end = message.get("result", {}).get("stopReason") == "end_turn"
    yield {**message, "result": {"stopReason": "cancelled"}} if is_end and not cancelled else message


def _takes_numbers(tape: Tape, message: Json) -> Iterable[Json]:
    if message["params"].get("sessionId") == 17:
        tape.say({"jsonrpc": "2.0", "id": message["id"], "result": {"stopReason": "end_turn"}})
    else:
        yield message


def _refuses_with_an_error(tape: Tape, message: Json) -> Iterable[Json]:
    refused = message.get("result", {}).get("stopReason") == "refusal"
    yield from fails(-32603, "I will not")(tape, message) if refused else [message]


def _tokens(result: Json) -> None:
    if "usage" in result:
        result["usage"]["inputTokens"] = "10"


seeded(
    "agent.prompt.01",
    results("session/prompt", lambda r: without("stopReason")(r) if r["stopReason"] == "end_turn" else r),
)
seeded(
    "agent.prompt.02",
    results("session/prompt", lambda r: with_(stopReason="done")(r) if r["stopReason"] == "end_turn" else r),
)
seeded("agent.prompt.03", with_block("resource_link"))
seeded("agent.prompt.04", with_block("image"))
seeded("agent.prompt.05", with_block("audio"))
seeded("agent.prompt.06", with_block("resource", "'text'"))
seeded("agent.prompt.07", with_block("resource", "'blob'"))
seeded("agent.prompt.08", lost("'prompt': []"))
seeded("agent.prompt.09", replies("session/prompt", _wrong_number))
seeded("agent.prompt.10", lost("hologram"))
seeded("agent.prompt.11", calls("session/update", _mute))
seeded("agent.prompt.12", replies("session/prompt", _upset))
seeded("agent.prompt.13", hears("session/prompt", _never_the_second))
seeded("agent.prompt.14", hears("session/prompt", _tired))
seeded("agent.prompt.15", results("session/prompt", _tokens))
seeded("agent.prompt.16", replies("session/prompt", _cancelled))
seeded("agent.prompt.17", hears("session/prompt", _takes_numbers))
seeded("agent.prompt.18", hears("session/prompt", _long_ones))
seeded("agent.prompt.19", replies("session/prompt", _refuses_with_an_error))
seeded("agent.prompt.20", with_block("text", "annotations"))
