"""Faults in the turns of a v2 client."""

from __future__ import annotations

from collections.abc import Iterable

from tests.conformance.faults.edits import Matches, disconnect_on, drop, edit_calls, edit_params, ignore_on, with_
from tests.conformance.faults.fault import ClientFault, FaultContext, Json, seed, trait
from tests.conformance.faults.v2_edits import update_of

PROMPT, CANCEL = "session/prompt", "session/cancel"


def _receipt(message: Json) -> str:
    """Return the message id of a receipt, or ""."""
    found = message.get("result") if isinstance(message, dict) and "method" not in message else None
    return str(found.get("messageId", "")) if isinstance(found, dict) else ""


def _idle(context: FaultContext) -> Json:
    prompt = next(each for each in context.requests_out.values() if each["method"] == PROMPT)
    update = {"sessionUpdate": "state_update", "state": "idle", "stopReason": "end_turn"}
    params = {"sessionId": prompt["params"]["sessionId"], "update": update}
    return {"jsonrpc": "2.0", "method": "session/update", "params": params}


def _end_at_receipt(context: FaultContext, message: Json) -> Iterable[Json]:
    yield message
    if _receipt(message) == "m1":
        yield _idle(context)


def _ignore_bare_end(context: FaultContext, message: Json) -> Iterable[Json]:
    """Ignore the end of a turn in which nothing but one piece of text came."""
    update = update_of(message) if isinstance(message, dict) else {}
    kind = update.get("sessionUpdate", "request" if isinstance(message, dict) and "method" in message else "")
    if kind:
        context.notes.setdefault("kinds", []).append(kind)
    expected = ["user_message", "state_update", "agent_message_chunk", "state_update"]
    is_end = update.get("state") == "idle" and update.get("stopReason") == "end_turn"
    return () if is_end and context.notes["kinds"][-4:] == expected == context.notes["kinds"] else (message,)


def _end_at_queued(context: FaultContext, message: Json) -> Iterable[Json]:
    update = update_of(message) if isinstance(message, dict) else {}
    if update.get("state") == "idle" and "stopReason" not in update and not context.notes.get("running"):
        context.notes["queued"] = True
    context.notes["running"] = context.notes.get("running") or update.get("state") == "running"
    yield message
    if _receipt(message) and context.notes.get("queued"):
        yield _idle(context)


def _crash_at_bare_idle(context: FaultContext, message: Json) -> Iterable[Json]:
    update = update_of(message) if isinstance(message, dict) else {}
    context.notes["running"] = context.notes.get("running") or update.get("state") == "running"
    if update.get("state") == "idle" and "stopReason" not in update and context.notes["running"]:
        context.disconnect()
        return ()
    return (message,)


def _update_has(**members: Json) -> Matches:
    return lambda message: isinstance(message, dict) and members.items() <= update_of(message).items()


def _is_error(code: int) -> Matches:
    return lambda message: isinstance(message, dict) and message.get("error", {}).get("code") == code


seed("client.v2turn.01", edit_params(PROMPT, with_(prompt=[])))
seed("client.v2turn.02", edit_params(PROMPT, with_(prompt=[{"type": "text"}])))
seed("client.v2turn.03", ClientFault(incoming=_end_at_receipt))
seed("client.v2turn.04", ClientFault(incoming=_ignore_bare_end))
seed("client.v2turn.05", ClientFault(incoming=_end_at_queued))
seed("client.v2turn.06", disconnect_on(_update_has(sessionUpdate="user_message", messageId="m6")))
seed("client.v2turn.07", disconnect_on(_update_has(sessionUpdate="user_message", messageId="m7")))
seed("client.v2turn.08", ignore_on(lambda message: _receipt(message) == "m8"))
seed("client.v2turn.09", disconnect_on(_is_error(-32602)))
seed("client.v2turn.10", disconnect_on(_update_has(stopReason="max_tokens")))
seed("client.v2turn.11", disconnect_on(_update_has(stopReason="refusal")))
seed("client.v2turn.12", disconnect_on(_update_has(stopReason="_out_of_credits")))
seed("client.v2turn.13", ClientFault(incoming=_crash_at_bare_idle))
seed("client.v2turn.14", disconnect_on(_update_has(stopReason="error")))
seed("client.v2turn.15", disconnect_on(_update_has(state="_napping")))
seed("client.v2turn.16", disconnect_on(_update_has(state="requires_action")))
seed(
    "client.v2turn.17", disconnect_on(lambda message: isinstance(message, dict) and "background" in update_of(message))
)
seed("client.v2turn.18", disconnect_on(lambda message: isinstance(message, dict) and "_meta" in update_of(message)))
seed("client.v2turn.19", trait("hides deaths"))
seed("client.v2turn.20", edit_calls(CANCEL, drop))
seed("client.v2turn.21", disconnect_on(_update_has(stopReason="cancelled")))
seed("client.v2turn.22", disconnect_on(_is_error(-32800)))
