"""Faults in the initialize of a v2 agent."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from tests.conformance.faults.edits import edit_results, with_, without
from tests.conformance.faults.fault import FaultContext, Json, seed
from tests.conformance.faults.v2_edits import (
    When,
    answer_with,
    deliver_as,
    edit_answer,
    on_request,
    params_have,
    refuse,
)

INIT = "initialize"
INFO = {"name": "everything", "version": "1"}
RESULT: Json = {"protocolVersion": 2, "info": INFO, "capabilities": {"session": {}}}


def _result(edit: Callable[[Json], Json]) -> Callable[[FaultContext, Json], Json]:
    return lambda _, message: {**message, "result": edit(message["result"])} if "result" in message else message


def _count(context: FaultContext, method: str) -> int:
    return sum(each.get("method") == method for each in context.requests_in.values())


def _first_lacks_info(context: FaultContext, _: Json) -> bool:
    found = [each for each in context.requests_in.values() if each.get("method") == INIT]
    return len(found) > 1 and "info" not in found[0]["params"]


def _has_session(context: FaultContext, _: Json) -> bool:
    return _count(context, "session/new") > 0


def _no_data(_: FaultContext, message: Json) -> Json:
    return {**message, "error": without("data")(message["error"])} if "error" in message else message


def _list_early(context: FaultContext, message: Json) -> Iterable[Json]:
    if _count(context, INIT):
        return (message,)
    context.send({"jsonrpc": "2.0", "id": message["id"], "result": {"sessions": []}})
    return ()


_NAMELESS: When = lambda _, message: "info" not in message["params"]  # noqa: E731

seed("agent.v2init.01", edit_answer(INIT, _result(with_(protocolVersion=7)), params_have(protocolVersion=2)))
seed("agent.v2init.02", edit_results(INIT, with_(info={"name": "everything"})))
seed("agent.v2init.03", edit_results(INIT, lambda result: result["capabilities"].update(voice=True)))
seed("agent.v2init.04", edit_answer(INIT, _result(with_(protocolVersion=3)), params_have(protocolVersion=3)))
seed("agent.v2init.05", answer_with(INIT, RESULT, params_have(protocolVersion=1)))
seed("agent.v2init.06", deliver_as(INIT, with_(info=INFO), _NAMELESS))
seed("agent.v2init.07", deliver_as(INIT, with_(protocolVersion=2), params_have(protocolVersion="two")))
seed("agent.v2init.08", edit_answer(INIT, _no_data, params_have(protocolVersion=0)))
seed("agent.v2init.09", on_request("session/list", _list_early))
seed("agent.v2init.10", refuse(INIT, _first_lacks_info, -32600))
seed("agent.v2init.11", answer_with(INIT, RESULT, _has_session))
seed("agent.v2init.12", edit_results(INIT, with_(authMethods=[{"name": "Key", "type": "agent"}])))
seed("agent.v2init.13", edit_results(INIT, with_(agentInfo=INFO)))
seed("agent.v2init.14", refuse(INIT, lambda _, message: "weather" in message["params"]))
seed("agent.v2init.15", answer_with("auth/login", {}))
