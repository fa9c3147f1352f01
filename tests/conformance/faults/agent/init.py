"""Faults in an agent's initialize."""

from __future__ import annotations

from collections.abc import Iterable

from dragoman.conformance.agent.init import UNHEARD_OF
from tests.conformance.faults.edits import (
    Edit,
    apply_edit,
    edit_all_incoming,
    edit_errors,
    edit_incoming,
    edit_replies,
    edit_results,
    fail_with,
    with_,
)
from tests.conformance.faults.fault import Fault, FaultContext, Json, seed


def offering(**members: Json) -> Fault:
    """Change the agent's capabilities; a dict changes a group, None removes a member."""

    def edit(result: Json) -> None:
        capabilities = result["agentCapabilities"]
        for name, value in members.items():
            capabilities[name] = {**capabilities.get(name, {}), **value} if isinstance(value, dict) else value
            if isinstance(value, dict):
                capabilities[name] = {member: item for member, item in capabilities[name].items() if item is not None}

    return edit_results("initialize", edit)


def refusing(method: str, matches: Edit, code: int = -32602) -> Fault:
    """Refuse requests that match."""

    def edit_message(context: FaultContext, message: Json) -> Iterable[Json]:
        if matches(message.get("params")):
            error = {"code": code, "message": "Invalid params"}
            context.send({"jsonrpc": "2.0", "id": message.get("id"), "error": error})
        else:
            yield message

    return edit_incoming(method, edit_message)


def accepting(method: str, result: Json, matches: Edit = lambda _: True) -> Fault:
    """Answer requests that match with this result instead of an error."""

    def edit_message(context: FaultContext, message: Json) -> Iterable[Json]:
        odd = "error" in message and matches(context.request(message).get("params") or {})
        yield {"jsonrpc": "2.0", "id": message["id"], "result": result} if odd else message

    return edit_replies(method, edit_message)


def _asks_for_unknown_version(context: FaultContext, message: Json) -> bool:
    params = context.request(message).get("params")
    return isinstance(params, dict) and params.get("protocolVersion") == UNHEARD_OF


def _accept_any_version(context: FaultContext, message: Json) -> Iterable[Json]:
    is_odd = _asks_for_unknown_version(context, message)
    yield {**message, "result": {**message["result"], "protocolVersion": UNHEARD_OF}} if is_odd else message


def _edit_known_version(edit: Edit) -> Fault:
    """Edit the results of initialize, but not the answer to an unknown version: agent.init.04 judges that one."""

    def edit_message(context: FaultContext, message: Json) -> Iterable[Json]:
        is_edited = "result" in message and not _asks_for_unknown_version(context, message)
        yield {**message, "result": apply_edit(message["result"], edit)} if is_edited else message

    return edit_replies("initialize", edit_message)


def _not_again(context: FaultContext, message: Json) -> Iterable[Json]:
    context.notes["introduced"] = context.notes.get("introduced", 0) + 1
    if context.notes["introduced"] < 2:
        yield message


def _refuse_second_initialize(context: FaultContext, message: Json) -> Iterable[Json]:
    is_initialize = message.get("method") == "initialize"
    is_refusing = context.notes.get("resents")
    context.notes["resents"] = is_refusing or (is_initialize and not isinstance(message.get("params"), dict))
    if not (is_refusing and is_initialize):
        yield message


def _missing(context: FaultContext, message: Json) -> Iterable[Json]:
    yield from fail_with(-32601, "Method not found")(context, message)


def _open_before_initialize(context: FaultContext, message: Json) -> Iterable[Json]:
    too_early = "error" in message and all(each["method"] != "initialize" for each in context.requests_in.values())
    yield {"jsonrpc": "2.0", "id": message["id"], "result": {"sessionId": "s"}} if too_early else message


seed("agent.init.01", _edit_known_version(lambda _: ["initialized"]))
seed("agent.init.02", _edit_known_version(with_(protocolVersion="1")))
seed("agent.init.03", edit_results("initialize", with_(protocolVersion=2)))
seed("agent.init.04", edit_replies("initialize", _accept_any_version))
seed("agent.init.05", offering(loadSession="yes"))
seed("agent.init.06", offering(promptCapabilities={"image": 1}))
seed("agent.init.07", offering(sessionCapabilities={"resume": True}))
seed("agent.init.08", edit_results("initialize", lambda result: {**result, "agentInfo": {"name": "everything"}}))
seed("agent.init.09", edit_results("initialize", lambda result: {**result, "agentInfo": {"name": "everything"}}))
seed("agent.init.10", edit_results("initialize", with_(authMethods=[{"name": "Sign in"}])))
seed("agent.init.11", edit_errors("session/new", with_(code=-32600)))
seed("agent.init.12", edit_replies("session/new", _open_before_initialize))
seed("agent.init.13", edit_incoming("initialize", _not_again))
seed("agent.init.14", refusing("initialize", lambda params: "skillOfTheFuture" in str(params)))
seed("agent.init.15", refusing("initialize", lambda params: "clientInfo" not in params))
seed("agent.init.16", edit_replies("session/fork", _missing))
seed("agent.init.17", offering(sessionCapabilities={"list": None}))
seed("agent.init.18", edit_all_incoming(_refuse_second_initialize))
seed("agent.init.19", refusing("initialize", lambda params: "'fs': None" in str(params)))
