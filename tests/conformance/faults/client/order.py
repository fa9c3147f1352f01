"""Clients that fail on early or late messages, or reorder them."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from tests.conformance.faults.client.turn import result
from tests.conformance.faults.client.update import block, update
from tests.conformance.faults.edits import edit_all_incoming, edit_calls, edit_replies
from tests.conformance.faults.fault import ClientFault, FaultContext, Json, seed


def request(context: FaultContext, method: str) -> bool:
    """Return whether the client made such a request."""
    return any(each.get("method") == method for each in context.requests_out.values())


def kind(message: Json) -> str:
    """Return the kind of update of a message."""
    return str(update(message).get("sessionUpdate", ""))


def dies_when(matches: Callable[[FaultContext, Json], bool]) -> ClientFault:
    """A client that crashes when something comes at an unexpected moment."""

    def change(context: FaultContext, message: Json) -> Iterable[Json]:
        if "sessionId" in result(message):
            context.notes["opened"] = True
        reason = result(message).get("stopReason")
        if matches(context, message):
            context.disconnect()
            return ()
        if reason:
            context.notes["ended"] = reason
        return (message,)

    return ClientFault(incoming=edit_all_incoming(change).incoming)


def _early(name: str) -> ClientFault:
    """At an update of the session that is being opened."""
    return dies_when(
        lambda context, message: (
            kind(message) == name and request(context, "session/new") and "opened" not in context.notes
        )
    )


def _before_prompt(context: FaultContext, message: Json) -> bool:
    before = "opened" in context.notes and not request(context, "session/prompt")
    return before and kind(message) == "agent_message_chunk"


def _text(message: Json) -> str:
    return str(block(update(message)).get("text", ""))


def _overtaken(context: FaultContext, message: Json) -> Iterable[Json]:
    """A long piece takes longer than the short ones behind it."""
    if _text(message).startswith("piece-0."):
        context.notes["slow"] = message
        return []
    slow = context.notes.get("slow")
    if slow and "piece-5." in _text(message):
        context.notes["slow"] = None
        return [message, slow]
    return [message]


def _cut_off(context: FaultContext, message: Json) -> Iterable[Json]:
    """Lose what is handled while the answer comes."""
    return [] if _text(message).startswith(("tail-48.", "tail-49.")) else [message]


def _tired(context: FaultContext, message: Json) -> bool:
    context.notes["count"] = context.notes.get("count", 0) + (kind(message) != "")
    return bool(context.notes["count"] > 2000)


def _unannounced(context: FaultContext, message: Json) -> Iterable[Json]:
    if context.notes.get("about") not in context.notes.get("announced", []):
        return [{"jsonrpc": "2.0", "id": message["id"], "error": {"code": -32602, "message": "unknown tool call"}}]
    return [message]


def _announced(context: FaultContext, message: Json) -> Iterable[Json]:
    if kind(message) == "tool_call":
        context.notes.setdefault("announced", []).append(update(message)["toolCallId"])
    if message.get("method") == "session/request_permission":
        call = message["params"].get("toolCall")
        context.notes["about"] = call.get("toolCallId") if isinstance(call, dict) else None
    return [message]


def _question_open(context: FaultContext, message: Json) -> bool:
    if message.get("method") == "session/request_permission":
        context.notes["open"] = True
    return "open" in context.notes and "stopReason" in result(message) and "answered" not in context.notes


def _answered(context: FaultContext, message: Json) -> Iterable[Json]:
    context.notes["answered"] = True
    return [message]


def _as_request(_: FaultContext, message: Json) -> Iterable[Json]:
    return [{**message, "id": "cancel"}]


def _consents(context: FaultContext, message: Json) -> Iterable[Json]:
    if "cancelled" in context.notes:
        return [{**message, "result": {"outcome": {"outcome": "selected", "optionId": "yes"}}}]
    return [message]


def _notes_cancel(
    then: Callable[[FaultContext, Json], Iterable[Json]] | None = None,
) -> Callable[[FaultContext, Json], Iterable[Json]]:
    def change(context: FaultContext, message: Json) -> Iterable[Json]:
        if isinstance(message, dict) and message.get("method") == "session/cancel":
            context.notes["cancelled"] = True
        return then(context, message) if then else (message,)

    return change


def _after_cancel(matches: Callable[[Json], bool]) -> ClientFault:
    """A client that ignores such messages once it has cancelled."""
    hears = edit_all_incoming(
        lambda context, message: [] if "cancelled" in context.notes and matches(message) else [message]
    ).incoming
    return ClientFault(incoming=hears, outgoing=_notes_cancel())


def _open_call(context: FaultContext, message: Json) -> Iterable[Json]:
    """Wait on while a tool call is in progress."""
    if update(message).get("status") == "in_progress":
        context.notes["busy"] = True
    return [] if "busy" in context.notes and "stopReason" in result(message) else [message]


def _prompts_again(_: FaultContext, message: Json) -> Iterable[Json]:
    params = {**message["params"], "prompt": [{"type": "text", "text": "And now?"}]}
    return [message, {"jsonrpc": "2.0", "id": "again", "method": "session/prompt", "params": params}]


def _busy(context: FaultContext, message: Json) -> Iterable[Json]:
    """Answer no request while a prompt is open."""
    return [] if message.get("method") == "_vendor/in_turn" else [message]


def _takes_back_another(_: FaultContext, message: Json) -> Iterable[Json]:
    return [message, {"jsonrpc": "2.0", "method": "$/cancel_request", "params": {"requestId": 424_242}}]


seed("client.order.01", _early("available_commands_update"))
seed("client.order.02", dies_when(_before_prompt))
seed(
    "client.order.03", dies_when(lambda context, message: "ended" in context.notes and kind(message) == "usage_update")
)
seed("client.order.04", edit_all_incoming(_overtaken))
seed("client.order.05", edit_all_incoming(_cut_off))
seed("client.order.06", dies_when(_tired))
seed(
    "client.order.07",
    ClientFault(
        incoming=edit_all_incoming(_announced).incoming,
        outgoing=edit_replies("session/request_permission", _unannounced).outgoing,
    ),
)
seed(
    "client.order.08",
    ClientFault(
        incoming=dies_when(_question_open).incoming,
        outgoing=edit_replies("session/request_permission", _answered).outgoing,
    ),
)
seed("client.order.09", edit_calls("session/cancel", _as_request))
seed(
    "client.order.10",
    ClientFault(outgoing=_notes_cancel(edit_replies("session/request_permission", _consents).outgoing)),
)
seed(
    "client.order.11",
    ClientFault(
        incoming=dies_when(
            lambda context, message: "cancelled" in context.notes and kind(message) == "agent_message_chunk"
        ).incoming,
        outgoing=_notes_cancel(),
    ),
)
seed("client.order.12", _after_cancel(lambda message: result(message).get("stopReason") == "end_turn"))
seed("client.order.13", _after_cancel(lambda message: "error" in message))
seed("client.order.14", edit_all_incoming(_open_call))
seed(
    "client.order.15",
    dies_when(
        lambda context, message: context.notes.get("ended") == "cancelled" and kind(message) == "agent_message_chunk"
    ),
)
seed("client.order.16", edit_all_incoming(_busy))
seed("client.order.17", edit_calls("session/cancel", _prompts_again))
seed("client.order.18", _early("user_message_chunk"))
seed("client.order.19", edit_calls("session/cancel", _takes_back_another))
