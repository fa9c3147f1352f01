"""Faults in how a v2 agent lists, resumes, replays and closes sessions."""

from __future__ import annotations

from collections.abc import Iterable

from tests.conformance.faults.edits import edit_results, with_, without
from tests.conformance.faults.fault import Fault, FaultContext, Json, seed
from tests.conformance.faults.v2_edits import (
    PROMPT,
    RESUME,
    UPDATE,
    answer_with,
    change_updates,
    deliver_as,
    drop_update,
    edit_answer,
    is_replaying,
    is_resuming,
    params_have,
    refuse,
    update_of,
    with_update,
)

LIST, CLOSE, DELETE = "session/list", "session/close", "session/delete"


def _message(session: str, kind: str, **members: Json) -> Json:
    update = {"sessionUpdate": kind, **members}
    return {"jsonrpc": "2.0", "method": UPDATE, "params": {"sessionId": session, "update": update}}


def _empty_list(_: FaultContext, message: Json) -> Json:
    return {**message, "result": {"sessions": []}}


def _before_answer(kind: str, replay: bool, **members: Json) -> Fault:
    """Send an update before the answer to a resume."""

    def change(context: FaultContext, message: Json) -> Iterable[Json]:
        if isinstance(message, dict) and context.method(message) == RESUME and "result" in message:
            params = context.request(message)["params"]
            if bool(params.get("replayFrom")) is replay:
                yield _message(params["sessionId"], kind, **members)
        yield message

    return Fault(outgoing=change)


def _new_ids(context: FaultContext, message: Json) -> Iterable[Json]:
    """Give the messages of the second replay other ids."""
    update = update_of(message) if isinstance(message, dict) else {}
    replays = [each for each in context.requests_in.values() if each.get("method") == RESUME]
    if "messageId" in update and len(replays) > 1 and is_replaying(context):
        return (with_update(message, {**update, "messageId": f"{update['messageId']}-again"}),)
    return (message,)


def _drop_said(context: FaultContext, message: Json) -> Iterable[Json]:
    kind = str(update_of(message).get("sessionUpdate", "")) if isinstance(message, dict) else ""
    return () if kind.startswith("agent_message") and is_replaying(context) else (message,)


def _no_data(_: FaultContext, message: Json) -> Json:
    return {**message, "error": without("data")(message["error"])} if "error" in message else message


def _other_code(_: FaultContext, message: Json) -> Json:
    return {**message, "error": {**message["error"], "code": -32602}} if "error" in message else message


def _late_update(context: FaultContext, message: Json) -> Iterable[Json]:
    yield message
    if isinstance(message, dict) and context.method(message) == CLOSE:
        session = context.request(message)["params"]["sessionId"]
        yield _message(session, "session_info_update", title="Too late")


def _is_closed(context: FaultContext, message: Json) -> bool:
    methods = [each.get("method") for each in context.requests_in.values()]
    return CLOSE in methods and RESUME not in methods and message["params"].get("sessionId") != "no-such-session"


def _was_closed(context: FaultContext, _: Json) -> bool:
    return CLOSE in [each.get("method") for each in context.requests_in.values()]


def _still_listed(context: FaultContext, message: Json) -> Json:
    deleted = [each["params"]["sessionId"] for each in context.requests_in.values() if each.get("method") == DELETE]
    if "result" not in message:
        return message
    kept = [{"sessionId": id, "cwd": "/"} for id in deleted]
    return {**message, "result": {**message["result"], "sessions": [*message["result"]["sessions"], *kept]}}


seed("agent.v2resume.01", edit_answer(LIST, _empty_list, lambda _, m: "cwd" not in m["params"]))
seed("agent.v2resume.02", deliver_as(LIST, without("cwd"), lambda _, m: "cwd" in m["params"]))
seed("agent.v2resume.03", deliver_as(LIST, without("cursor"), lambda _, m: "cursor" in m["params"]))
seed("agent.v2resume.04", drop_update("state_update", lambda context, _: is_resuming(context)))
seed("agent.v2resume.05", _before_answer("agent_message", False, messageId="m", content=[]))
seed("agent.v2resume.06", Fault(outgoing=_drop_said))
seed("agent.v2resume.07", drop_update("state_update", lambda context, _: is_replaying(context)))
seed("agent.v2resume.08", Fault(outgoing=_new_ids))
seed(
    "agent.v2resume.09",
    change_updates(
        "agent_message",
        lambda context, message, update: () if is_replaying(context) and not update["content"] else [message],
    ),
)
seed(
    "agent.v2resume.10",
    deliver_as(RESUME, with_(replayFrom={"type": "start"}), params_have(replayFrom={"type": "full-moon"})),
)
seed("agent.v2resume.11", edit_answer(RESUME, _no_data, params_have(sessionId="no-such-session")))
seed("agent.v2resume.12", edit_answer(PROMPT, _other_code, params_have(sessionId="no-such-session")))
seed("agent.v2resume.13", _before_answer("notice", True, severity="info", title="Again"))
seed("agent.v2resume.14", edit_results(CLOSE, lambda _: "closed"))
seed(
    "agent.v2resume.15",
    drop_update("state_update", lambda context, _: context.is_running(CLOSE), lambda update: update["state"] == "idle"),
)
seed("agent.v2resume.16", Fault(outgoing=_late_update))
seed("agent.v2resume.17", answer_with(PROMPT, {"messageId": "m"}, _is_closed))
seed("agent.v2resume.18", refuse(RESUME, _was_closed, -32603))
seed("agent.v2resume.19", edit_answer(LIST, _still_listed))
