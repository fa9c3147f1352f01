"""Clients that cannot bear what comes early or late, or that bring it into another order."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from dragoman.conformance.client_twin import ClientFault
from dragoman.conformance.faults.client_turn import result
from dragoman.conformance.faults.client_update import block, update
from dragoman.conformance.seeding import calls, listens, replies
from dragoman.conformance.twin import Json, Tape, seeded


def asked(tape: Tape, method: str) -> bool:
    """Whether the client made such a request."""
    return any(each.get("method") == method for each in tape.asked.values())


def kind(message: Json) -> str:
    """The kind of update a message has."""
    return str(update(message).get("sessionUpdate", ""))


def dies_when(meant: Callable[[Tape, Json], bool]) -> ClientFault:
    """A client that breaks down when something comes at a moment it did not expect."""

    def change(tape: Tape, message: Json) -> Iterable[Json]:
        if "sessionId" in result(message):
            tape.notes["opened"] = True
        reason = result(message).get("stopReason")
        if meant(tape, message):
            tape.die()
            return ()
        if reason:
            tape.notes["ended"] = reason
        return (message,)

    return ClientFault(hears=listens(change).hears)


def _early(name: str) -> ClientFault:
    """At an update of the session that is being opened."""
    return dies_when(
        lambda tape, message: kind(message) == name and asked(tape, "session/new") and "opened" not in tape.notes
    )


def _before_prompt(tape: Tape, message: Json) -> bool:
    before = "opened" in tape.notes and not asked(tape, "session/prompt")
    return before and kind(message) == "agent_message_chunk"


def _text(message: Json) -> str:
    return str(block(update(message)).get("text", ""))


def _overtaken(tape: Tape, message: Json) -> Iterable[Json]:
    """A long piece takes longer than the short ones behind it."""
    if _text(message).startswith("piece-0."):
        tape.notes["slow"] = message
        return []
    slow = tape.notes.get("slow")
    if slow and "piece-5." in _text(message):
        tape.notes["slow"] = None
        return [message, slow]
    return [message]


def _cut_off(tape: Tape, message: Json) -> Iterable[Json]:
    """What is handled while the answer comes is lost."""
    return [] if _text(message).startswith(("tail-48.", "tail-49.")) else [message]


def _tired(tape: Tape, message: Json) -> bool:
    tape.notes["count"] = tape.notes.get("count", 0) + (kind(message) != "")
    return bool(tape.notes["count"] > 2000)


def _unannounced(tape: Tape, message: Json) -> Iterable[Json]:
    if tape.notes.get("about") not in tape.notes.get("announced", []):
        return [{"jsonrpc": "2.0", "id": message["id"], "error": {"code": -32602, "message": "unknown tool call"}}]
    return [message]


def _announced(tape: Tape, message: Json) -> Iterable[Json]:
    if kind(message) == "tool_call":
        tape.notes.setdefault("announced", []).append(update(message)["toolCallId"])
    if message.get("method") == "session/request_permission":
        call = message["params"].get("toolCall")
        tape.notes["about"] = call.get("toolCallId") if isinstance(call, dict) else None
    return [message]


def _question_open(tape: Tape, message: Json) -> bool:
    if message.get("method") == "session/request_permission":
        tape.notes["open"] = True
    return "open" in tape.notes and "stopReason" in result(message) and "answered" not in tape.notes


def _answered(tape: Tape, message: Json) -> Iterable[Json]:
    tape.notes["answered"] = True
    return [message]


def _as_request(_: Tape, message: Json) -> Iterable[Json]:
    return [{**message, "id": "cancel"}]


def _consents(tape: Tape, message: Json) -> Iterable[Json]:
    if "cancelled" in tape.notes:
        return [{**message, "result": {"outcome": {"outcome": "selected", "optionId": "yes"}}}]
    return [message]


def _notes_cancel(then: Callable[[Tape, Json], Iterable[Json]] | None = None) -> Callable[[Tape, Json], Iterable[Json]]:
    def change(tape: Tape, message: Json) -> Iterable[Json]:
        if isinstance(message, dict) and message.get("method") == "session/cancel":
            tape.notes["cancelled"] = True
        return then(tape, message) if then else (message,)

    return change


def _after_cancel(meant: Callable[[Json], bool]) -> ClientFault:
    """A client that does not hear such a thing once it has cancelled."""
    hears = listens(lambda tape, message: [] if "cancelled" in tape.notes and meant(message) else [message]).hears
    return ClientFault(hears=hears, says=_notes_cancel())


def _open_call(tape: Tape, message: Json) -> Iterable[Json]:
    """A turn is not over for it while a tool call is in progress."""
    if update(message).get("status") == "in_progress":
        tape.notes["busy"] = True
    return [] if "busy" in tape.notes and "stopReason" in result(message) else [message]


def _prompts_again(_: Tape, message: Json) -> Iterable[Json]:
    params = {**message["params"], "prompt": [{"type": "text", "text": "And now?"}]}
    return [message, {"jsonrpc": "2.0", "id": "again", "method": "session/prompt", "params": params}]


def _busy(tape: Tape, message: Json) -> Iterable[Json]:
    """Nobody is served while a prompt is open."""
    return [] if message.get("method") == "_vendor/in_turn" else [message]


def _takes_back_another(_: Tape, message: Json) -> Iterable[Json]:
    return [message, {"jsonrpc": "2.0", "method": "$/cancel_request", "params": {"requestId": 424_242}}]


seeded("client.order.01", _early("available_commands_update"))
seeded("client.order.02", dies_when(_before_prompt))
seeded("client.order.03", dies_when(lambda tape, message: "ended" in tape.notes and kind(message) == "usage_update"))
seeded("client.order.04", listens(_overtaken))
seeded("client.order.05", listens(_cut_off))
seeded("client.order.06", dies_when(_tired))
seeded(
    "client.order.07",
    ClientFault(hears=listens(_announced).hears, says=replies("session/request_permission", _unannounced).says),
)
seeded(
    "client.order.08",
    ClientFault(hears=dies_when(_question_open).hears, says=replies("session/request_permission", _answered).says),
)
seeded("client.order.09", calls("session/cancel", _as_request))
seeded("client.order.10", ClientFault(says=_notes_cancel(replies("session/request_permission", _consents).says)))
seeded(
    "client.order.11",
    ClientFault(
        hears=dies_when(
            lambda tape, message: "cancelled" in tape.notes and kind(message) == "agent_message_chunk"
        ).hears,
        says=_notes_cancel(),
    ),
)
seeded("client.order.12", _after_cancel(lambda message: result(message).get("stopReason") == "end_turn"))
seeded("client.order.13", _after_cancel(lambda message: "error" in message))
seeded("client.order.14", listens(_open_call))
seeded(
    "client.order.15",
    dies_when(lambda tape, message: tape.notes.get("ended") == "cancelled" and kind(message) == "agent_message_chunk"),
)
seeded("client.order.16", listens(_busy))
seeded("client.order.17", calls("session/cancel", _prompts_again))
seeded("client.order.18", _early("user_message_chunk"))
seeded("client.order.19", calls("session/cancel", _takes_back_another))
