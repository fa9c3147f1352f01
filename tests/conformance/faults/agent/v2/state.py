"""Faults in the states of a v2 agent and in its background work."""

from __future__ import annotations

from collections.abc import Iterable

from tests.conformance.faults.edits import with_, without
from tests.conformance.faults.fault import Fault, FaultContext, Json, seed
from tests.conformance.faults.v2_edits import (
    change_updates,
    drop_update,
    during,
    edit_state,
    edit_update,
    only,
    prompts,
    update_of,
    with_update,
)

STATE, CALL = "state_update", "tool_call_update"


def _wait_on(context: FaultContext, message: Json, update: Json) -> Iterable[Json]:
    """Tell requires_action again where running is due."""
    if update["state"] == "requires_action":
        context.notes["waits"] = True
    elif update["state"] == "running" and context.notes.get("waits"):
        update = {**update, "state": "requires_action"}
    yield with_update(message, update)


def _untyped(update: Json) -> Json:
    return {**update, "background": [without("type")(item) for item in update["background"]]}


def _ghost(update: Json) -> Json:
    return {**update, "background": [*update["background"], {"type": "tool_call", "toolCallId": "ghost"}]}


def _vanish(_: FaultContext, message: Json, update: Json) -> Iterable[Json]:
    """List a tool call, and never tell its end."""
    if update.get("status") == "completed":
        return
    yield message
    if update.get("status") == "in_progress":
        item = {"type": "tool_call", "toolCallId": update["toolCallId"]}
        yield with_update(message, {"sessionUpdate": STATE, "state": "running", "background": [item]})


def _note_background(context: FaultContext, message: Json) -> Iterable[Json]:
    found = update_of(message).get("background") if isinstance(message, dict) else None
    if found:
        context.notes["id"] = found[0]["toolCallId"]
    return (message,)


def _end_background(context: FaultContext, message: Json) -> Iterable[Json]:
    if isinstance(message, dict) and message.get("method") == "session/cancel" and "id" in context.notes:
        update = {"sessionUpdate": CALL, "toolCallId": context.notes["id"], "status": "cancelled"}
        params = {"sessionId": message["params"]["sessionId"], "update": update}
        context.send({"jsonrpc": "2.0", "method": "session/update", "params": params})
    return (message,)


def _second_running(context: FaultContext, message: Json, update: Json) -> Iterable[Json]:
    if update["state"] == "running":
        context.notes["count"] = context.notes.get("count", 0) + 1
        if context.notes["count"] == 2:
            return
    yield message


def _note_closed(context: FaultContext, message: Json) -> Iterable[Json]:
    outcome = message.get("result", {}).get("outcome") if isinstance(message, dict) and "result" in message else None
    if isinstance(outcome, dict) and outcome.get("outcome") == "cancelled":
        context.notes["closed"] = True
    return (message,)


def _stay(context: FaultContext, message: Json) -> Iterable[Json]:
    is_idle = isinstance(message, dict) and update_of(message).get("state") == "idle"
    is_cancelled = any(each["method"] == "session/cancel" for each in context.notifications_in)
    is_ask = prompts(context)[-1:] == ["/ask"]
    return () if is_idle and is_ask and context.notes.get("closed") and not is_cancelled else (message,)


def _lists(update: Json) -> bool:
    return bool(update.get("background"))


ERROR = {"code": -32603, "message": "nothing is wrong"}

seed("agent.v2state.01", edit_state("running", with_(state="busy"), during("/tour")))
seed("agent.v2state.02", drop_update(STATE, during("/ask"), lambda update: update["state"] == "requires_action"))
seed("agent.v2state.03", change_updates(STATE, _wait_on, during("/ask")))
seed("agent.v2state.04", edit_state("running", with_(stopReason="end_turn"), during("/tour")))
seed("agent.v2state.05", edit_state("idle", with_(error={"code": -32603}), during("/error")))
seed("agent.v2state.06", edit_state("idle", with_(error=ERROR), only("hello")))
seed("agent.v2state.07", edit_update(STATE, _untyped, matches=_lists))
seed("agent.v2state.08", edit_update(STATE, _ghost, matches=_lists))
seed("agent.v2state.09", edit_update(STATE, without("background"), during("hello")))
seed("agent.v2state.10", change_updates(CALL, _vanish, during("/background 0")))
seed("agent.v2state.11", Fault(outgoing=_note_background, incoming=_end_background))
seed("agent.v2state.12", change_updates(STATE, _second_running, during("/wake")))
seed("agent.v2state.13", Fault(outgoing=_stay, incoming=_note_closed))
