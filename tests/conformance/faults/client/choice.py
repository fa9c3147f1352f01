"""Faults in how a client uses what its agent offers."""

from __future__ import annotations

from collections.abc import Iterable

from dragoman.conformance.harness.client import OLDER
from tests.conformance.faults.client.update import update
from tests.conformance.faults.edits import disconnect_on, edit_all_incoming, edit_params, with_, without
from tests.conformance.faults.fault import ClientFault, FaultContext, Json, seed


def _is_refused(context: FaultContext, message: Json, method: str) -> bool:
    """Return whether this is an error in answer to a request of ours."""
    request = [each["id"] for each in context.requests_out.values() if each["method"] == method]
    return isinstance(message, dict) and "error" in message and message.get("id") in request


def _disconnect_on_refused_mode(context: FaultContext, message: Json) -> Iterable[Json]:
    if _is_refused(context, message, "session/set_mode"):
        context.disconnect()
        return ()
    return (message,)


def _notes_refused_loads(context: FaultContext, message: Json) -> Iterable[Json]:
    if _is_refused(context, message, "session/load"):
        context.notes["refused"] = True
    return (message,)


def _prompt_after_refusal(context: FaultContext, message: Json) -> Iterable[Json]:
    if isinstance(message, dict) and message.get("method") == "session/prompt" and context.notes.get("refused"):
        return [{**message, "params": {**message["params"], "sessionId": OLDER}}]
    return [message]


def _strip_cursor(params: Json) -> Json:
    return {**params, "cursor": params["cursor"].strip("=")} if "cursor" in params else params


seed("client.choice.01", edit_params("session/set_mode", with_(modeId="Code")))
seed("client.choice.02", ClientFault(incoming=_disconnect_on_refused_mode))
seed("client.choice.03", edit_params("session/set_config_option", with_(value="Large")))
seed("client.choice.04", edit_params("session/load", with_(cwd=".")))
seed(
    "client.choice.05", disconnect_on(lambda message: "user_message" in str(update(message)) and OLDER in str(message))
)
seed(
    "client.choice.06",
    ClientFault(incoming=edit_all_incoming(_notes_refused_loads).incoming, outgoing=_prompt_after_refusal),
)
seed("client.choice.07", edit_params("session/list", _strip_cursor))
seed("client.choice.08", edit_params("session/resume", without("cwd")))
