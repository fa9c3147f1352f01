"""Faults in an agent's sessions."""

from __future__ import annotations

from collections.abc import Iterable

from tests.conformance.faults.agent.init import accepting, refusing
from tests.conformance.faults.edits import (
    edit_all_outgoing,
    edit_calls,
    edit_errors,
    edit_incoming,
    edit_replies,
    edit_results,
    fail_with,
    with_,
)
from tests.conformance.faults.fault import Fault, FaultContext, Json, seed


def _request(context: FaultContext, reply: Json) -> Json:
    """Return the params of the request that a reply answers."""
    return context.request(reply).get("params")


def _always_the_first(context: FaultContext, message: Json) -> Iterable[Json]:
    if "result" in message:
        first = context.notes.setdefault("first", message["result"]["sessionId"])
        message = {**message, "result": {**message["result"], "sessionId": first}}
    yield message


def _opens(matches: str) -> Fault:
    """Open sessions that should not be opened: where this is in the params."""

    def edit_message(context: FaultContext, message: Json) -> Iterable[Json]:
        odd = "error" in message and matches in str(_request(context, message))
        yield {"jsonrpc": "2.0", "id": message["id"], "result": {"sessionId": "made-up"}} if odd else message

    return edit_replies("session/new", edit_message)


def _end_turn_in_unknown_session(context: FaultContext, message: Json) -> Iterable[Json]:
    unknown = "error" in message and "no-such-session" in str(_request(context, message))
    yield {"jsonrpc": "2.0", "id": message["id"], "result": {"stopReason": "end_turn"}} if unknown else message


def _wrong_number(context: FaultContext, message: Json) -> Iterable[Json]:
    if "error" in message and "no-such-session" in str(_request(context, message)):
        message = {**message, "error": {"code": -32603, "message": "Internal error"}}
    yield message


def _options(edit: str, value: Json) -> Fault:
    """Change or remove one member of every option of a new session."""

    def change(result: Json) -> None:
        for option in result["configOptions"]:
            option[edit] = value
            if value is None:
                del option[edit]

    return edit_results("session/new", change)


def _shows_switches(context: FaultContext, message: Json) -> Iterable[Json]:
    """To clients that did not announce it."""
    announced = any("boolean" in str(each) for each in context.requests_in.values() if each["method"] == "initialize")
    if "result" in message and not announced:
        switch = {"id": "extra", "name": "Extra", "type": "boolean", "currentValue": False}
        options = [*message["result"]["configOptions"], switch]
        message = {**message, "result": {**message["result"], "configOptions": options}}
    yield message


def _while(method: str, kind: str) -> Fault:
    """Lose updates of one kind while a request of this method runs."""

    def edit_message(context: FaultContext, message: Json) -> Iterable[Json]:
        lost = context.is_running(method) and message["params"]["update"]["sessionUpdate"] == kind
        if not lost:
            yield message

    return edit_calls("session/update", edit_message)


def _after_the_answer(context: FaultContext, message: Json) -> Iterable[Json]:
    held: list[Json] = context.notes.setdefault("held", [])
    is_history = "available_commands" not in str(message.get("params"))
    if message.get("method") == "session/update" and is_history and context.is_running("session/load"):
        held.append(message)
        return
    yield message
    if context.method(message) == "session/load":
        yield from held
        held.clear()


def _commands_after_the_answer(context: FaultContext, message: Json) -> Iterable[Json]:
    yield message
    session = context.request(message).get("params", {}).get("sessionId")
    update = {"sessionUpdate": "available_commands_update", "availableCommands": []}
    yield {"jsonrpc": "2.0", "method": "session/update", "params": {"sessionId": session, "update": update}}


def _null(_: FaultContext, message: Json) -> Iterable[Json]:
    yield {**message, "result": None} if "result" in message else message


def _replay_on_resume(context: FaultContext, message: Json) -> Iterable[Json]:
    chunk = {"sessionUpdate": "user_message_chunk", "content": {"type": "text", "text": "again"}}
    session = message["params"]["sessionId"]
    if session != "no-such-session":
        context.send({"jsonrpc": "2.0", "method": "session/update", "params": {"sessionId": session, "update": chunk}})
    yield message


def _sessions(edit: object) -> Fault:
    def change(result: Json) -> None:
        if edit == "folder":
            for session in result["sessions"]:
                session["cwd"] = "some/folder"
        elif edit == "cursor":
            result["nextCursor"] = "the same"
        else:
            result["sessions"] = []

    return edit_results("session/list", change)


def _every_folder(_: FaultContext, message: Json) -> Iterable[Json]:
    params = {name: value for name, value in message["params"].items() if name != "cwd"}
    odd = message["params"].get("cwd") == "/no/such/folder"
    yield {**message, "params": params} if odd else message


def _ignore_cursor(_: FaultContext, message: Json) -> Iterable[Json]:
    yield {**message, "params": {name: value for name, value in message["params"].items() if name != "cursor"}}


def _answer_without_effect(method: str) -> Fault:
    """Answer and do nothing, unless a turn runs."""

    def edit_message(context: FaultContext, message: Json) -> Iterable[Json]:
        if context.is_running() or message["params"]["sessionId"] in ("none", "no-such-session"):
            yield message
        else:
            context.send({"jsonrpc": "2.0", "id": message["id"], "result": {}})

    return edit_incoming(method, edit_message)


def _end_turn_on_close(context: FaultContext, message: Json) -> Iterable[Json]:
    closing = any(request["method"] == "session/close" for request in context.requests_in.values())
    yield {**message, "result": {"stopReason": "end_turn"}} if closing and "result" in message else message


def _the_original(context: FaultContext, message: Json) -> Iterable[Json]:
    if "result" in message:
        message = {**message, "result": {**message["result"], "sessionId": _request(context, message)["sessionId"]}}
    yield message


def _without_directories(_: FaultContext, message: Json) -> Iterable[Json]:
    yield {**message, "params": {**message["params"], "additionalDirectories": []}}


def _first_name(context: FaultContext, message: Json) -> Iterable[Json]:
    if context.method(message) == "session/new" and "result" in message:
        context.notes.setdefault("first", message["result"]["sessionId"])
        context.notes["count"] = context.notes.get("count", 0) + 1
    is_chunk = message.get("method") == "session/update" and "message_chunk" in str(message["params"])
    if is_chunk and context.notes.get("count", 0) > 1 and not context.is_running("session/load"):
        message = {**message, "params": {**message["params"], "sessionId": context.notes["first"]}}
    yield message


def one_at_a_time(context: FaultContext, message: Json) -> Iterable[Json]:
    """Lose a prompt while a turn runs in another session."""
    session = message["params"].get("sessionId")
    if not any(each.get("sessionId") != session for each in context.other_prompts(message)):
        yield message


def _fail_after_failed_load(context: FaultContext, message: Json) -> Iterable[Json]:
    failed = any(
        each["method"] == "session/load" and each["params"].get("sessionId") == "no-such-session"
        for each in context.requests_in.values()
    )
    yield from fail_with(-32603)(context, message) if failed else [message]


def _refuse_modes_when_idle(context: FaultContext, message: Json) -> Iterable[Json]:
    """Modes cannot be chosen, unless a turn runs."""
    yield from fail_with(-32603)(context, message) if "result" in message and not context.is_running() else [message]


def _wrong_close(context: FaultContext, message: Json) -> Iterable[Json]:
    unknown = "no-such-session" in str(_request(context, message))
    yield from fail_with(-32603)(context, message) if unknown else [message]


seed("agent.session.01", edit_results("session/new", with_(sessionId="")))
seed("agent.session.02", edit_replies("session/new", _always_the_first))
seed("agent.session.03", _opens("'cwd': 'some/folder'"))
seed("agent.session.04", edit_errors("session/new", with_(code=-32603)))
seed("agent.session.05", _opens("'none'"))
seed("agent.session.06", edit_replies("session/prompt", _end_turn_in_unknown_session))
seed("agent.session.07", edit_replies("session/prompt", _wrong_number))
seed(
    "agent.session.08",
    edit_results("session/new", lambda result: {**result, "modes": {**result["modes"], "currentModeId": "?"}}),
)
seed("agent.session.09", edit_replies("session/set_mode", _refuse_modes_when_idle))
seed("agent.session.10", accepting("session/set_mode", {}))
seed("agent.session.11", _options("name", None))
seed("agent.session.12", _options("currentValue", "no such value"))
seed(
    "agent.session.13",
    edit_results("session/set_config_option", lambda result: {"configOptions": result["configOptions"][1:]}),
)
seed(
    "agent.session.14",
    accepting(
        "session/set_config_option", {"configOptions": []}, lambda told: told.get("configId") == "no-such-option"
    ),
)
seed("agent.session.15", edit_replies("session/new", _shows_switches))
seed("agent.session.16", _while("session/load", "user_message_chunk"))
seed("agent.session.17", _while("session/load", "agent_message_chunk"))
seed("agent.session.18", edit_all_outgoing(_after_the_answer))
seed("agent.session.19", accepting("session/load", {}))
seed("agent.session.20", edit_incoming("session/resume", _replay_on_resume))
seed("agent.session.21", accepting("session/resume", {}))
seed("agent.session.22", _sessions("folder"))
seed("agent.session.23", _sessions("all"))
seed("agent.session.24", edit_incoming("session/list", _every_folder))
seed("agent.session.25", _answer_without_effect("session/close"))
seed("agent.session.26", edit_replies("session/prompt", _end_turn_on_close))
seed("agent.session.27", _answer_without_effect("session/delete"))
seed("agent.session.28", edit_replies("session/delete", fail_with(-32602)))
seed("agent.session.29", edit_replies("session/fork", _the_original))
seed("agent.session.30", edit_incoming("session/new", _without_directories))
seed("agent.session.31", edit_all_outgoing(_first_name))
seed("agent.session.32", edit_incoming("session/prompt", one_at_a_time))
seed("agent.session.33", edit_replies("session/prompt", _fail_after_failed_load))
seed(
    "agent.session.34",
    Fault(outgoing=_sessions("cursor").outgoing, incoming=edit_incoming("session/list", _ignore_cursor).incoming),
)
seed("agent.session.35", edit_replies("session/close", _wrong_close))
seed("agent.session.40", edit_replies("session/load", _commands_after_the_answer))
seed("agent.session.41", edit_replies("session/load", _null))
seed(
    "agent.session.42",
    refusing("session/new", lambda params: str((params.get("additionalDirectories") or [""])[0]).startswith("/")),
)
