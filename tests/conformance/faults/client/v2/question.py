"""Faults in how a v2 client answers questions."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from tests.conformance.faults.edits import disconnect_on, ignore_on, is_call
from tests.conformance.faults.fault import ClientFault, FaultContext, Json, seed

QUESTION = "session/request_permission"


def _question(matches: Callable[[Json], bool]) -> Callable[[Json], bool]:
    return lambda message: is_call(QUESTION)(message) and matches(message["params"])


def _about(kind: str) -> ClientFault:
    """Ignore questions about this type of subject."""
    return ignore_on(_question(lambda params: (params.get("subject") or {}).get("type") == kind))


def _is_plain(params: Json) -> bool:
    return (
        set(params) == {"sessionId", "title", "options"} and params["title"] == "May I?" and len(params["options"]) == 2
    )


def _answer(method: str, result: Json, matches: Callable[[Json], bool] = lambda _: True) -> ClientFault:
    """Answer requests with this result."""

    def change(context: FaultContext, message: Json) -> Iterable[Json]:
        if is_call(method)(message) and matches(message["params"]):
            context.send({"jsonrpc": "2.0", "id": message["id"], "result": result})
            return ()
        return (message,)

    return ClientFault(incoming=change)


def _offers(id: str) -> Callable[[Json], bool]:
    return lambda params: any(option["optionId"] == id for option in params["options"])


def _second(context: FaultContext, message: Json) -> Iterable[Json]:
    if _question(lambda params: bool(params["title"] == "Both?"))(message):
        context.notes["count"] = context.notes.get("count", 0) + 1
        if context.notes["count"] == 2:
            return ()
    return (message,)


PERHAPS = {"outcome": {"outcome": "selected", "optionId": "perhaps"}}

seed("client.v2question.01", ignore_on(_question(lambda params: _is_plain(params) and not _offers("perhaps")(params))))
seed("client.v2question.02", _about("tool_call"))
seed("client.v2question.03", _about("command"))
seed("client.v2question.04", _about("_spell"))
seed("client.v2question.05", ignore_on(_question(lambda params: "description" in params)))
seed("client.v2question.06", _answer(QUESTION, PERHAPS, _offers("perhaps")))
seed("client.v2question.07", disconnect_on(is_call("$/cancel_request")))
seed("client.v2question.08", ClientFault(incoming=_second))
seed("client.v2question.09", _answer("fs/read_text_file", {"content": "secret"}))
seed("client.v2question.10", _answer("terminal/create", {"terminalId": "t"}))
seed("client.v2question.11", _answer("elicitation/create", {}))
seed("client.v2question.12", ignore_on(_question(lambda params: bool(params["title"] == "Already?"))))
