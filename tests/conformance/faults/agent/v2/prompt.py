"""Faults in how a v2 agent takes prompts."""

from __future__ import annotations

from collections.abc import Iterable

from tests.conformance.faults.edits import edit_results, with_, without
from tests.conformance.faults.fault import Fault, FaultContext, Json, seed
from tests.conformance.faults.v2_edits import (
    PROMPT,
    add_after,
    answer_with,
    change_updates,
    drop_update,
    during,
    edit_state,
    on_request,
    only,
    prompts,
    refuse,
    text_of,
    update_of,
    with_update,
)

HELLO, SLOW, STREAM, STEER = "hello", "/slow", "/stream", "/steer"
RECEIPT = {"messageId": "m"}
IDLE = {"sessionUpdate": "state_update", "state": "idle", "stopReason": "end_turn"}


def _is_idle(update: Json) -> bool:
    return bool(update["state"] == "idle")


def _first_message(edit: object) -> Fault:
    """Edit the first user message only."""

    def change(context: FaultContext, message: Json, update: Json) -> Iterable[Json]:
        is_first = not context.notes.get("seen")
        context.notes["seen"] = True
        yield with_update(message, {**update, **edit}) if is_first else message  # type: ignore[dict-item]

    return change_updates("user_message", change)


def _is_block(kind: str) -> object:
    return lambda _, message: [each.get("type") for each in message["params"].get("prompt") or ()] == [kind]


def _states(context: FaultContext, message: Json) -> None:
    """Note the state of each session."""
    update = update_of(message) if isinstance(message, dict) else {}
    if update.get("sessionUpdate") == "state_update":
        context.notes[message["params"]["sessionId"]] = update["state"]


def _note_states(context: FaultContext, message: Json) -> Iterable[Json]:
    _states(context, message)
    return (message,)


def _refuse_busy(context: FaultContext, message: Json) -> Iterable[Json]:
    is_prompt = isinstance(message, dict) and message.get("method") == PROMPT
    if is_prompt and context.notes.get(message["params"].get("sessionId"), "idle") != "idle":
        context.send({"jsonrpc": "2.0", "id": message["id"], "error": {"code": -32600, "message": "busy"}})
        return ()
    return (message,)


def _drop_elsewhere(context: FaultContext, message: Json) -> Iterable[Json]:
    if not isinstance(message, dict) or message.get("method") != PROMPT:
        return (message,)
    own = message["params"].get("sessionId")
    is_busy = any(state != "idle" for session, state in context.notes.items() if session != own)
    return () if is_busy else (message,)


def _forget_second(context: FaultContext, _: Json) -> bool:
    found = prompts(context)
    return len(found) == 2 and found[0].startswith(STREAM) and found[1].startswith(HELLO)


def _swap(context: FaultContext, message: Json) -> Iterable[Json]:
    """Answer the third prompt before the second."""
    if not isinstance(message, dict) or context.method(message) != PROMPT:
        return (message,)
    texts, text = prompts(context), text_of(context.request(message)["params"])
    if len(texts) < 3 or not texts[0].startswith(STREAM):
        return (message,)
    if text.startswith(HELLO):
        context.notes["kept"] = message
        return ()
    return (message, context.notes.pop("kept")) if text.startswith("/think") and "kept" in context.notes else (message,)


def _same_ids(context: FaultContext, message: Json) -> Iterable[Json]:
    if isinstance(message, dict):
        if context.method(message) == PROMPT and "result" in message:
            return ({**message, "result": RECEIPT},)
        if update_of(message).get("sessionUpdate") == "user_message" and not context.is_running("session/resume"):
            return (with_update(message, {**update_of(message), **RECEIPT}),)
    return (message,)


def _users_id(context: FaultContext, message: Json) -> Iterable[Json]:
    """Give the agent's message the id of the user's."""
    if isinstance(message, dict):
        if context.method(message) == PROMPT and "result" in message:
            context.notes["user"] = message["result"]["messageId"]
        update = update_of(message)
        is_said = update.get("sessionUpdate") == "agent_message_chunk" and during(HELLO)(context, message)
        if is_said and not context.is_running("session/resume") and "user" in context.notes:
            return (with_update(message, {**update, "messageId": context.notes["user"]}),)
    return (message,)


def _ends_early(context: FaultContext, message: Json) -> Iterable[Json]:
    yield message
    texts = prompts(context)
    if (
        isinstance(message, dict)
        and context.method(message) == PROMPT
        and len(texts) == 2
        and texts[0].startswith(STEER)
    ):
        session = context.request(message)["params"]["sessionId"]
        yield {"jsonrpc": "2.0", "method": "session/update", "params": {"sessionId": session, "update": IDLE}}


LATE = {"sessionUpdate": "agent_message_chunk", "messageId": "late", "content": {"type": "text", "text": "more"}}

seed("agent.v2prompt.01", edit_results(PROMPT, without("messageId")))
seed("agent.v2prompt.02", _first_message({"messageId": "another"}))
seed("agent.v2prompt.03", _first_message({"content": [{"type": "text", "text": "something else"}]}))
seed("agent.v2prompt.04", edit_results(PROMPT, with_(stopReason="end_turn")))
seed("agent.v2prompt.05", Fault(outgoing=lambda c, m: () if c.method(m) == PROMPT and only(SLOW)(c, m) else (m,)))
seed("agent.v2prompt.06", drop_update("state_update", during(HELLO), lambda update: update["state"] == "running"))
seed("agent.v2prompt.07", drop_update("state_update", only(HELLO), _is_idle))
seed("agent.v2prompt.08", edit_state("idle", without("stopReason"), only(HELLO)))
seed("agent.v2prompt.09", edit_state("idle", with_(stopReason="exhausted"), only(HELLO)))
seed("agent.v2prompt.10", add_after("state_update", LATE, only("/tour"), _is_idle))
seed("agent.v2prompt.11", add_after("state_update", IDLE, only(HELLO), _is_idle))
seed("agent.v2prompt.12", answer_with(PROMPT, RECEIPT, lambda _, m: m["params"].get("prompt") == []))
seed("agent.v2prompt.13", answer_with(PROMPT, RECEIPT, _is_block("scent")))  # type: ignore[arg-type]
seed("agent.v2prompt.14", refuse(PROMPT, _is_block("resource_link")))  # type: ignore[arg-type]
seed("agent.v2prompt.15", refuse(PROMPT, _is_block("image")))  # type: ignore[arg-type]
seed("agent.v2prompt.16", edit_state("idle", with_(stopReason="end_turn"), during("/error")))
seed("agent.v2prompt.17", Fault(outgoing=_note_states, incoming=_refuse_busy))
seed("agent.v2prompt.18", on_request(PROMPT, lambda *_: (), _forget_second))
seed("agent.v2prompt.19", Fault(outgoing=_swap))
seed("agent.v2prompt.20", Fault(outgoing=_same_ids))
seed("agent.v2prompt.21", Fault(outgoing=_note_states, incoming=_drop_elsewhere))
seed("agent.v2prompt.22", Fault(outgoing=_users_id))
seed("agent.v2prompt.23", Fault(outgoing=_ends_early))
