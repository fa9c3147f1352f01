"""Faults of JSON-RPC at a client, each found by the requirement of its id."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from dragoman.conformance.client_seeding import answers, deaf, dies, is_call, says
from dragoman.conformance.client_twin import ClientFault
from dragoman.conformance.seeding import Whole, listens, replies, speaks
from dragoman.conformance.twin import Json, Tape, seeded


def _with_id(edit: Callable[[Json], Json]) -> Whole:
    def whole(_: Tape, message: Json) -> Iterable[Json]:
        yield {**message, "id": edit(message.get("id"))} if "method" not in message else message

    return whole


def _noisy(_: Tape, message: Json) -> Iterable[Json]:
    yield message
    if isinstance(message, dict) and message.get("method") == "session/new":
        yield b"opening a session now"


def _same_id(tape: Tape, message: Json) -> Iterable[Json]:
    """The prompt has the id that initialize had."""
    if message.get("method") == "session/prompt":
        tape.notes["prompt"] = message["id"]
        return [{**message, "id": _introduction(tape)}]
    return [message]


def _introduction(tape: Tape) -> Json:
    return next(each["id"] for each in tape.asked.values() if each.get("method") == "initialize")


def _same_id_back(tape: Tape, message: Json) -> Iterable[Json]:
    """Its own bookkeeping must still work, or it would never see the end of a turn."""
    if "method" not in message and "prompt" in tape.notes and message.get("id") == _introduction(tape):
        return [{**message, "id": tape.notes["prompt"]}]
    return [message]


def _no_id(meant: Callable[[Json], bool]) -> ClientFault:
    """A client that takes such an error for the answer to what it waits for."""

    def change(tape: Tape, message: Json) -> Iterable[Json]:
        if isinstance(message, dict) and "error" in message and meant(message):
            last = list(tape.asked.values())[-1]
            return [{**message, "id": last["id"]}]
        return (message,)

    return ClientFault(hears=change)


def _mixed_up(tape: Tape, message: Json) -> Iterable[Json]:
    """A request with the id of our open prompt is taken for its answer."""
    prompts = [each["id"] for each in tape.asked.values() if each.get("method") == "session/prompt"]
    if "method" in message and message.get("id") in prompts:
        return [{"jsonrpc": "2.0", "id": message["id"], "result": {"stopReason": "end_turn"}}]
    return [message]


def _second_answer(tape: Tape, message: Json) -> Iterable[Json]:
    if "method" not in message and "id" in message:
        seen = tape.notes.setdefault("seen", [])
        if message["id"] in seen:
            tape.die()
            return ()
        seen.append(message["id"])
    return [message]


def _only_three(tape: Tape, message: Json) -> Iterable[Json]:
    """More than three at once are forgotten."""
    if message.get("method") == "_vendor/many":
        tape.notes["many"] = tape.notes.get("many", 0) + 1
        if tape.notes["many"] > 3:
            return []
    return [message]


def _forgives(tape: Tape, message: Json) -> Iterable[Json]:
    """An error of a code it does not know is no answer to it."""
    error = message.get("error")
    return [] if isinstance(error, dict) and error.get("code", 0) > 0 else [message]


def _loses_interest(tape: Tape, message: Json) -> Iterable[Json]:
    """What was taken back is never answered."""
    if "method" not in message and message.get("id") in tape.notes.get("taken", []):
        return []
    return [message]


def _notes_taken(tape: Tape, message: Json) -> Iterable[Json]:
    if isinstance(message, dict) and message.get("method") == "$/cancel_request":
        tape.notes.setdefault("taken", []).append(message["params"]["requestId"])
    return [message]


def _batches(tape: Tape, message: Json) -> Iterable[Json]:
    """The parts of an array are answered as if nothing were wrong."""
    if isinstance(message, list):
        for each in message:
            if "id" in each:
                tape.say({"jsonrpc": "2.0", "id": each["id"], "result": None})
    return [message]


def _parse_error(tape: Tape, message: Json) -> Iterable[Json]:
    if isinstance(message, bytes) and message.endswith(b'"id":'):
        tape.say({"jsonrpc": "2.0", "id": 0, "error": {"code": -32603, "message": "Internal error"}})
    return [message]


def _accepts(_: Tape, message: Json) -> Iterable[Json]:
    yield {"jsonrpc": "2.0", "id": message["id"], "result": None}


def _stringly(_: Tape, message: Json) -> Iterable[Json]:
    yield {**message, "error": {**message["error"], "code": str(message["error"]["code"])}}


def _both(_: Tape, message: Json) -> Iterable[Json]:
    yield {**message, "result": None}


def _last(message: Json) -> bool:
    return isinstance(message, dict) and "method" in message and "id" in message and list(message)[-1] == "id"


def _grants(_: Tape, message: Json) -> Iterable[Json]:
    outcome = {"outcome": {"outcome": "cancelled"}}
    return [{"jsonrpc": "2.0", "id": message["id"], "result": outcome} if message["id"] == "mistyped" else message]


seeded("client.rpc.01", speaks(lambda _, message: [{k: v for k, v in message.items() if k != "jsonrpc"}]))
seeded("client.rpc.02", says(_noisy))
seeded("client.rpc.03", ClientFault(says=speaks(_same_id).says, hears=listens(_same_id_back).hears))
seeded("client.rpc.04", deaf(is_call("craft/no_such_method")))
seeded("client.rpc.05", replies("_vendor/no_such_extension", _accepts))
seeded("client.rpc.06", answers(is_call("qwen/notify/session/prompt-suggestion"), "none"))
seeded("client.rpc.07", answers(is_call("_auth/status_update"), None))
seeded("client.rpc.08", dies(lambda message: isinstance(message, bytes) and message.endswith(b"session/upda")))
seeded("client.rpc.09", ClientFault(hears=_parse_error))
seeded("client.rpc.10", dies(lambda message: isinstance(message, int)))
seeded("client.rpc.11", dies(lambda message: isinstance(message, list) and len(message) > 1))
seeded("client.rpc.12", ClientFault(hears=_batches))
seeded("client.rpc.13", dies(lambda message: isinstance(message, dict) and message.get("id") == 987654))
seeded("client.rpc.14", _no_id(lambda message: "id" not in message))
seeded("client.rpc.15", _no_id(lambda message: "id" in message and message["id"] is None))
seeded("client.rpc.16", speaks(_with_id(lambda id: id[:16] if isinstance(id, str) and len(id) > 30 else id)))
seeded("client.rpc.17", listens(_mixed_up))
seeded("client.rpc.18", deaf(_last))
seeded("client.rpc.19", listens(_second_answer))
seeded("client.rpc.20", speaks(_with_id(lambda id: int(id) if isinstance(id, str) and id.isdigit() else id)))
seeded(
    "client.rpc.21",
    deaf(lambda message: isinstance(message, dict) and "method" in message and message.get("id", 1) == 0),
)
seeded("client.rpc.22", deaf(lambda message: isinstance(message, dict) and "trace" in message))
seeded("client.rpc.23", replies("_vendor/question", _stringly))
seeded("client.rpc.24", replies("_dragoman/fence", _both))
seeded(
    "client.rpc.25",
    deaf(
        lambda message: (
            isinstance(message, dict) and "id" in message and "method" in message and "params" not in message
        )
    ),
)
seeded("client.rpc.26", listens(_only_three))
seeded("client.rpc.27", listens(_forgives))
seeded("client.rpc.28", ClientFault(hears=_notes_taken, says=speaks(_loses_interest).says))
seeded("client.rpc.29", answers(is_call("$/cancel_request"), None))
seeded("client.rpc.30", replies("session/request_permission", _grants))
