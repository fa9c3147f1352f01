"""Faults in the questions of a v2 agent."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from tests.conformance.faults.edits import edit_params, with_, without
from tests.conformance.faults.fault import Fault, FaultContext, Json, seed
from tests.conformance.faults.v2_edits import PROMPT, on_request, prompts, text_of

QUESTION = "session/request_permission"


def _options(edit: Callable[[list[Json]], list[Json]]) -> Fault:
    return edit_params(QUESTION, lambda params: {**params, "options": edit(params["options"])})


def _outcome(message: Json) -> Json:
    found = message.get("result") if isinstance(message, dict) and "method" not in message else None
    outcome = found.get("outcome") if isinstance(found, dict) else None
    return outcome if isinstance(outcome, dict) else {}


def _write_on(matches: Callable[[Json], bool]) -> Fault:
    """Write the file of /write on answers that match, and say nothing of it."""

    def change(context: FaultContext, message: Json) -> Iterable[Json]:
        written = [text for text in prompts(context) if text.startswith("/write ")]
        if written and _outcome(message) and matches(_outcome(message)):
            with open(written[-1].split(" ")[1], "w", encoding="utf-8") as file:
                file.write("hello")
        return (message,)

    return Fault(incoming=change)


def _reject(_: FaultContext, message: Json) -> Iterable[Json]:
    outcome = _outcome(message)
    if str(outcome.get("optionId", "")).startswith("allow") and outcome["outcome"] == "selected":
        message = {**message, "result": {"outcome": {**outcome, "optionId": "reject_once"}}}
    return (message,)


def _send_form(context: FaultContext, message: Json) -> Iterable[Json]:
    first = next(each for each in context.requests_in.values() if each["method"] == "initialize")
    if text_of(message["params"]) == "/form" and not first["params"]["capabilities"]:
        schema = {"type": "object", "properties": {"name": {"type": "string"}}}
        params = {
            "sessionId": message["params"]["sessionId"],
            "mode": "form",
            "message": "Who?",
            "requestedSchema": schema,
        }
        context.send({"jsonrpc": "2.0", "id": "form", "method": "elicitation/create", "params": params})
    return (message,)


seed("agent.v2question.01", edit_params(QUESTION, with_(title="")))
seed("agent.v2question.02", _options(lambda _: []))
seed("agent.v2question.03", _options(lambda options: [*options[:-1], without("name")(options[-1])]))
seed("agent.v2question.04", _options(lambda options: [*options, options[0]]))
seed("agent.v2question.05", _options(lambda options: [*options[:-1], {**options[-1], "kind": "maybe"}]))
seed(
    "agent.v2question.06",
    edit_params(QUESTION, lambda params: {**params, "subject": without("type")(params["subject"])}),
)
seed("agent.v2question.07", edit_params(QUESTION, with_(toolCall={"toolCallId": "call"})))
seed("agent.v2question.08", Fault(incoming=_reject))
seed("agent.v2question.09", _write_on(lambda outcome: outcome.get("optionId") == "reject_once"))
seed("agent.v2question.10", _write_on(lambda outcome: outcome.get("outcome") == "cancelled"))
seed("agent.v2question.11", _write_on(lambda outcome: outcome.get("outcome") == "_perhaps"))
seed("agent.v2question.12", _write_on(lambda outcome: outcome.get("optionId") == "not-offered"))
seed("agent.v2question.13", on_request(PROMPT, _send_form))
seed("agent.v2question.14", edit_params("elicitation/create", without("requestedSchema")))
