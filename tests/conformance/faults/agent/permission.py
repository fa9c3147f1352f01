"""Faults in how an agent asks for permission."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path

from tests.conformance.faults.edits import edit_calls, edit_params, edit_updates, with_, without
from tests.conformance.faults.fault import Fault, FaultContext, Json, seed

QUESTION = "session/request_permission"
LEAVE = {"outcome": {"outcome": "selected", "optionId": "allow_once"}}


def _about_a_file(params: Json) -> bool:
    return params.get("toolCall", {}).get("kind") == "edit" or "Write" in str(params)


def _options(edit: Callable[[list[Json]], list[Json]]) -> Fault:
    return edit_params(
        QUESTION, lambda params: {**params, "options": edit(params["options"])} if _about_a_file(params) else params
    )


def _allowed(question: Json) -> Json:
    """Return the answer that allows the request."""
    options = question["params"]["options"]
    chosen = next(option["optionId"] for option in options if option["kind"].startswith("allow"))
    return {"outcome": {"outcome": "selected", "optionId": chosen}}


def accept_answers(matches: Callable[[Json, Json], bool]) -> Fault:
    """Treat answers that match as permission."""

    def on_incoming(context: FaultContext, message: Json) -> Iterable[Json]:
        if isinstance(message, dict) and "method" not in message and "id" in message:
            found = [
                each
                for each in context.requests_out.values()
                if each["id"] == message["id"] and each["method"] == QUESTION
            ]
            if found and matches(message, found[0]):
                message = {"jsonrpc": "2.0", "id": message["id"], "result": _allowed(found[0])}
        yield message

    return Fault(incoming=on_incoming)


def _chosen_option(message: Json) -> Json:
    outcome = (message.get("result") or {}).get("outcome")
    return outcome.get("optionId", outcome.get("outcome")) if isinstance(outcome, dict) else outcome


def _is_refusal(message: Json, question: Json) -> bool:
    kinds = {option["optionId"]: option["kind"] for option in question["params"]["options"]}
    return str(kinds.get(_chosen_option(message), "")).startswith("reject")


def _write_before_answer(context: FaultContext, message: Json) -> Iterable[Json]:
    """Write the file with the question, by the agent itself."""
    yield message
    for location in message["params"].get("toolCall", {}).get("locations") or []:
        Path(location["path"]).write_text("hasty")


def _never_ends(context: FaultContext, message: Json) -> Iterable[Json]:
    return () if context.method(message) == "session/prompt" and context.notes.get("refused") else (message,)


def _notes_refusals(context: FaultContext, message: Json) -> Iterable[Json]:
    if isinstance(message, dict) and "method" not in message:
        found = [each for each in context.requests_out.values() if each["id"] == message.get("id")]
        if found and found[0]["method"] == QUESTION and _is_refusal(message, found[0]):
            context.notes["refused"] = True
    yield message


def _without_id(_: FaultContext, message: Json) -> Iterable[Json]:
    yield without("id")(message) if _about_a_file(message["params"]) else message


def _ask_for_unknown_call(params: Json) -> Json:
    return {**params, "toolCall": {**params["toolCall"], "toolCallId": "stranger"}}


seed("agent.permission.01", edit_params(QUESTION, with_(toolCall={})))
seed("agent.permission.02", _options(lambda options: [*options, {"optionId": "x", "name": "Perhaps", "kind": "maybe"}]))
seed("agent.permission.03", _options(lambda options: [*options, options[0]]))
seed("agent.permission.04", edit_params(QUESTION, _ask_for_unknown_call))
seed("agent.permission.05", accept_answers(_is_refusal))
seed("agent.permission.06", edit_calls(QUESTION, _write_before_answer))
seed("agent.permission.07", accept_answers(lambda message, _: _chosen_option(message) == "cancelled"))
seed("agent.permission.08", Fault(outgoing=_never_ends, incoming=_notes_refusals))
seed(
    "agent.permission.09",
    edit_updates("tool_call_update", lambda u: {**u, "status": "completed"} if u.get("status") == "failed" else u),
)
seed("agent.permission.10", accept_answers(lambda message, _: "error" in message))
seed("agent.permission.11", accept_answers(lambda message, _: _chosen_option(message) == "no-such-option"))
seed("agent.permission.12", edit_params(QUESTION, with_(sessionId="another")))
seed("agent.permission.13", accept_answers(lambda message, _: _chosen_option(message) == "yes"))
seed("agent.permission.14", edit_calls(QUESTION, _without_id))
seed("agent.permission.15", _options(lambda options: [option for option in options if "allow" in option["kind"]]))
