"""Faults in an agent's turns."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from tests.conformance.faults.agent.init import refusing
from tests.conformance.faults.edits import (
    edit_calls,
    edit_incoming,
    edit_replies,
    edit_results,
    fail_with,
    with_,
    without,
)
from tests.conformance.faults.fault import Fault, FaultContext, Json, seed


def with_block(kind: str, part: str = "") -> Fault:
    """Refuse prompts with such a block."""

    def matches(params: Any) -> bool:
        blocks = params.get("prompt") or []
        return any(block.get("type") == kind and part in str(block) for block in blocks)

    return refusing("session/prompt", matches)


def lost(matches: str) -> Fault:
    """Never answer prompts with this in their params."""

    def edit_message(_: FaultContext, message: Json) -> Iterable[Json]:
        if matches not in str(message["params"]):
            yield message

    return edit_incoming("session/prompt", edit_message)


def _long_ones(_: FaultContext, message: Json) -> Iterable[Json]:
    if len(message["params"].get("prompt", [])) < 100:
        yield message


def _wrong_number(context: FaultContext, message: Json) -> Iterable[Json]:
    lacks = "prompt" not in (context.request(message).get("params") or {"prompt": 1})
    yield from fail_with(-32603)(context, message) if lacks and "error" in message else [message]


def _drop_message_chunks(context: FaultContext, message: Json) -> Iterable[Json]:
    if not context.is_running() or message["params"]["update"]["sessionUpdate"] != "agent_message_chunk":
        yield message


def _fail_after_error(context: FaultContext, message: Json) -> Iterable[Json]:
    if context.notes.get("failed"):
        message = {"jsonrpc": "2.0", "id": message["id"], "error": {"code": -32603, "message": "still upset"}}
    if message.get("error", {}).get("message", "").startswith("you asked"):
        context.notes["failed"] = True
    yield message


def _never_the_second(context: FaultContext, message: Json) -> Iterable[Json]:
    session = message["params"].get("sessionId")
    if not any(each.get("sessionId") == session for each in context.other_prompts(message)):
        yield message


def _ignore_third_prompt(context: FaultContext, message: Json) -> Iterable[Json]:
    context.notes["turns"] = context.notes.get("turns", 0) + 1
    if context.notes["turns"] < 3:
        yield message


def _cancelled(context: FaultContext, message: Json) -> Iterable[Json]:
    cancelled = any(each["method"] == "session/cancel" for each in context.notifications_in)
    is_end = message.get("result", {}).get("stopReason") == "end_turn"
    yield {**message, "result": {"stopReason": "cancelled"}} if is_end and not cancelled else message


def _takes_numbers(context: FaultContext, message: Json) -> Iterable[Json]:
    if message["params"].get("sessionId") == 17:
        context.send({"jsonrpc": "2.0", "id": message["id"], "result": {"stopReason": "end_turn"}})
    else:
        yield message


def _refuses_with_an_error(context: FaultContext, message: Json) -> Iterable[Json]:
    refused = message.get("result", {}).get("stopReason") == "refusal"
    yield from fail_with(-32603, "I will not")(context, message) if refused else [message]


def _tokens(result: Json) -> None:
    if "usage" in result:
        result["usage"]["inputTokens"] = "10"


seed(
    "agent.prompt.01",
    edit_results("session/prompt", lambda r: without("stopReason")(r) if r["stopReason"] == "end_turn" else r),
)
seed(
    "agent.prompt.02",
    edit_results("session/prompt", lambda r: with_(stopReason="done")(r) if r["stopReason"] == "end_turn" else r),
)
seed("agent.prompt.03", with_block("resource_link"))
seed("agent.prompt.04", with_block("image"))
seed("agent.prompt.05", with_block("audio"))
seed("agent.prompt.06", with_block("resource", "'text'"))
seed("agent.prompt.07", with_block("resource", "'blob'"))
seed("agent.prompt.08", lost("'prompt': []"))
seed("agent.prompt.09", edit_replies("session/prompt", _wrong_number))
seed("agent.prompt.10", lost("hologram"))
seed("agent.prompt.11", edit_calls("session/update", _drop_message_chunks))
seed("agent.prompt.12", edit_replies("session/prompt", _fail_after_error))
seed("agent.prompt.13", edit_incoming("session/prompt", _never_the_second))
seed("agent.prompt.14", edit_incoming("session/prompt", _ignore_third_prompt))
seed("agent.prompt.15", edit_results("session/prompt", _tokens))
seed("agent.prompt.16", edit_replies("session/prompt", _cancelled))
seed("agent.prompt.17", edit_incoming("session/prompt", _takes_numbers))
seed("agent.prompt.18", edit_incoming("session/prompt", _long_ones))
seed("agent.prompt.19", edit_replies("session/prompt", _refuses_with_an_error))
seed("agent.prompt.20", with_block("text", "annotations"))
