"""Faults in how an agent asks for leave."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path

from dragoman.conformance.seeding import calls, params, updates, with_, without
from dragoman.conformance.twin import Fault, Json, Tape, seeded

QUESTION = "session/request_permission"
LEAVE = {"outcome": {"outcome": "selected", "optionId": "allow_once"}}


def _about_a_file(told: Json) -> bool:
    return told.get("toolCall", {}).get("kind") == "edit" or "Write" in str(told)


def _options(edit: Callable[[list[Json]], list[Json]]) -> Fault:
    return params(QUESTION, lambda told: {**told, "options": edit(told["options"])} if _about_a_file(told) else told)


def _allowed(question: Json) -> Json:
    """The answer that allows what was asked."""
    options = question["params"]["options"]
    chosen = next(option["optionId"] for option in options if option["kind"].startswith("allow"))
    return {"outcome": {"outcome": "selected", "optionId": chosen}}


def taking(meant: Callable[[Json, Json], bool]) -> Fault:
    """Answers of which something holds are taken for leave."""

    def hearing(tape: Tape, message: Json) -> Iterable[Json]:
        if isinstance(message, dict) and "method" not in message and "id" in message:
            found = [each for each in tape.asked.values() if each["id"] == message["id"] and each["method"] == QUESTION]
            if found and meant(message, found[0]):
                message = {"jsonrpc": "2.0", "id": message["id"], "result": _allowed(found[0])}
        yield message

    return Fault(hears=hearing)


def _chosen(message: Json) -> Json:
    outcome = (message.get("result") or {}).get("outcome")
    return outcome.get("optionId", outcome.get("outcome")) if isinstance(outcome, dict) else outcome


def _is_refusal(message: Json, question: Json) -> bool:
    kinds = {option["optionId"]: option["kind"] for option in question["params"]["options"]}
    return str(kinds.get(_chosen(message), "")).startswith("reject")


def _hasty(tape: Tape, message: Json) -> Iterable[Json]:
    """The file is written with the question, by the agent itself."""
    yield message
    for location in message["params"].get("toolCall", {}).get("locations") or []:
        Path(location["path"]).write_text("hasty")


def _never_ends(tape: Tape, message: Json) -> Iterable[Json]:
    return () if tape.method(message) == "session/prompt" and tape.notes.get("refused") else (message,)


def _notes_refusals(tape: Tape, message: Json) -> Iterable[Json]:
    if isinstance(message, dict) and "method" not in message:
        found = [each for each in tape.asked.values() if each["id"] == message.get("id")]
        if found and found[0]["method"] == QUESTION and _is_refusal(message, found[0]):
            tape.notes["refused"] = True
    yield message


def _without_id(_: Tape, message: Json) -> Iterable[Json]:
    yield without("id")(message) if _about_a_file(message["params"]) else message


def _stranger(told: Json) -> Json:
    return {**told, "toolCall": {**told["toolCall"], "toolCallId": "stranger"}}


seeded("agent.permission.01", params(QUESTION, with_(toolCall={})))
seeded(
    "agent.permission.02", _options(lambda options: [*options, {"optionId": "x", "name": "Perhaps", "kind": "maybe"}])
)
seeded("agent.permission.03", _options(lambda options: [*options, options[0]]))
seeded("agent.permission.04", params(QUESTION, _stranger))
seeded("agent.permission.05", taking(_is_refusal))
seeded("agent.permission.06", calls(QUESTION, _hasty))
seeded("agent.permission.07", taking(lambda message, _: _chosen(message) == "cancelled"))
seeded("agent.permission.08", Fault(says=_never_ends, hears=_notes_refusals))
seeded(
    "agent.permission.09",
    updates("tool_call_update", lambda u: {**u, "status": "completed"} if u.get("status") == "failed" else u),
)
seeded("agent.permission.10", taking(lambda message, _: "error" in message))
seeded("agent.permission.11", taking(lambda message, _: _chosen(message) == "no-such-option"))
seeded("agent.permission.12", params(QUESTION, with_(sessionId="another")))
seeded("agent.permission.13", taking(lambda message, _: _chosen(message) == "yes"))
seeded("agent.permission.14", calls(QUESTION, _without_id))
seeded("agent.permission.15", _options(lambda options: [option for option in options if "allow" in option["kind"]]))
