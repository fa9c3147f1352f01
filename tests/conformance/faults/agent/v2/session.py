"""Faults in the sessions and options of a v2 agent."""

from __future__ import annotations

from tests.conformance.faults.edits import Edit, edit_results, with_, without
from tests.conformance.faults.fault import FaultContext, Json, seed
from tests.conformance.faults.v2_edits import (
    When,
    answer_with,
    deliver_as,
    drop_update,
    edit_answer,
    edit_update,
    params_have,
    refuse,
)

NEW, SET = "session/new", "session/set_config_option"


def _option(id: str, edit: Edit) -> Edit:
    """Edit one option of a result."""

    def change(result: Json) -> Json:
        options = result.get("configOptions") or []
        return {**result, "configOptions": [edit(each) if each["configId"] == id else each for each in options]}

    return change


def _same_id(context: FaultContext, message: Json) -> Json:
    if "result" not in message:
        return message
    first = context.notes.setdefault("session", message["result"]["sessionId"])
    return {**message, "result": {**message["result"], "sessionId": first}}


def _double(result: Json) -> Json:
    options = result.get("configOptions") or []
    return {**result, "configOptions": [*options, *options[:1]]}


def _has_server(kind: str) -> When:
    return lambda _, message: any(each.get("type") == kind for each in message["params"].get("mcpServers") or ())


def _has_twins(_: FaultContext, message: Json) -> bool:
    return len(message["params"].get("mcpServers") or ()) == 2


def _untag(update: Json) -> Json:
    first, *rest = update["availableCommands"]
    return {**update, "availableCommands": [without("type")(first), *rest]}


_no_servers = without("mcpServers")

seed("agent.v2session.01", edit_results(NEW, with_(sessionId="")))
seed("agent.v2session.02", edit_answer(NEW, _same_id))
seed("agent.v2session.03", refuse(NEW, lambda _, m: m["params"].get("mcpServers", 0) is None))
seed("agent.v2session.04", deliver_as(NEW, with_(cwd="/"), params_have(cwd="work")))
seed("agent.v2session.05", deliver_as(NEW, with_(cwd="/"), lambda _, message: "cwd" not in message["params"]))
seed("agent.v2session.06", deliver_as(NEW, _no_servers, _has_server("pigeon")))
seed("agent.v2session.07", deliver_as(NEW, _no_servers, _has_server("sse")))
seed("agent.v2session.08", edit_results(NEW, _option("model", without("name"))))
seed("agent.v2session.09", edit_results(NEW, _option("model", with_(currentValue="elsewhere"))))
seed("agent.v2session.10", edit_results(NEW, _option("model", with_(options=[]))))
seed("agent.v2session.11", edit_results(NEW, _option("verbose", with_(currentValue="false"))))
seed("agent.v2session.12", edit_results(NEW, _double))
seed("agent.v2session.13", edit_results(SET, _option("model", with_(currentValue="plain"))))
seed("agent.v2session.14", refuse(SET, params_have(type="boolean")))
seed("agent.v2session.15", answer_with(SET, {"configOptions": []}, params_have(configId="no-such")))
seed("agent.v2session.16", answer_with(SET, {"configOptions": []}, params_have(value="no-such")))
seed("agent.v2session.17", deliver_as(SET, with_(type="id"), params_have(type="moon")))
seed("agent.v2session.18", drop_update("config_option_update"))
seed("agent.v2session.19", edit_update("available_commands_update", _untag))
seed("agent.v2session.20", deliver_as(NEW, _no_servers, _has_twins))
