"""Faults in an agent's sessions."""

from __future__ import annotations

from collections.abc import Iterable

from dragoman.conformance.faults.agent_init import accepting
from dragoman.conformance.seeding import calls, errors, fails, hears, replies, results, speaks, with_
from dragoman.conformance.twin import Fault, Json, Tape, seeded


def _request(tape: Tape, reply: Json) -> Json:
    """The params of the request that a reply answers."""
    return tape.request(reply).get("params")


def _always_the_first(tape: Tape, message: Json) -> Iterable[Json]:
    if "result" in message:
        first = tape.notes.setdefault("first", message["result"]["sessionId"])
        message = {**message, "result": {**message["result"], "sessionId": first}}
    yield message


def _opens(meant: str) -> Fault:
    """Sessions are opened that should not be: where this is in the params."""

    def whole(tape: Tape, message: Json) -> Iterable[Json]:
        odd = "error" in message and meant in str(_request(tape, message))
        yield {"jsonrpc": "2.0", "id": message["id"], "result": {"sessionId": "made-up"}} if odd else message

    return replies("session/new", whole)


def _ends_anyhow(tape: Tape, message: Json) -> Iterable[Json]:
    unknown = "error" in message and "no-such-session" in str(_request(tape, message))
    yield {"jsonrpc": "2.0", "id": message["id"], "result": {"stopReason": "end_turn"}} if unknown else message


def _wrong_number(tape: Tape, message: Json) -> Iterable[Json]:
    if "error" in message and "no-such-session" in str(_request(tape, message)):
        message = {**message, "error": {"code": -32603, "message": "Internal error"}}
    yield message


def _options(edit: str, value: Json) -> Fault:
    """Every option of a new session has another value of one member, or lacks it."""

    def change(result: Json) -> None:
        for option in result["configOptions"]:
            option[edit] = value
            if value is None:
                del option[edit]

    return results("session/new", change)


def _shows_switches(tape: Tape, message: Json) -> Iterable[Json]:
    """To clients that announced nothing of the kind."""
    announced = any("boolean" in str(each) for each in tape.heard.values() if each["method"] == "initialize")
    if "result" in message and not announced:
        switch = {"id": "extra", "name": "Extra", "type": "boolean", "currentValue": False}
        options = [*message["result"]["configOptions"], switch]
        message = {**message, "result": {**message["result"], "configOptions": options}}
    yield message


def _while(method: str, kind: str) -> Fault:
    """Updates of one kind are lost while a request of this method is under way."""

    def whole(tape: Tape, message: Json) -> Iterable[Json]:
        lost = tape.busy(method) and message["params"]["update"]["sessionUpdate"] == kind
        if not lost:
            yield message

    return calls("session/update", whole)


def _after_the_answer(tape: Tape, message: Json) -> Iterable[Json]:
    held: list[Json] = tape.notes.setdefault("held", [])
    if message.get("method") == "session/update" and tape.busy("session/load"):
        held.append(message)
        return
    yield message
    if tape.method(message) == "session/load":
        yield from held
        held.clear()


def _tells_again(tape: Tape, message: Json) -> Iterable[Json]:
    chunk = {"sessionUpdate": "user_message_chunk", "content": {"type": "text", "text": "again"}}
    session = message["params"]["sessionId"]
    if session != "no-such-session":
        tape.say({"jsonrpc": "2.0", "method": "session/update", "params": {"sessionId": session, "update": chunk}})
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

    return results("session/list", change)


def _every_folder(_: Tape, message: Json) -> Iterable[Json]:
    params = {name: value for name, value in message["params"].items() if name != "cwd"}
    odd = message["params"].get("cwd") == "/no/such/folder"
    yield {**message, "params": params} if odd else message


def _from_the_top(_: Tape, message: Json) -> Iterable[Json]:
    yield {**message, "params": {name: value for name, value in message["params"].items() if name != "cursor"}}


def _only_says(method: str) -> Fault:
    """It is answered and not done, unless a turn is under way."""

    def whole(tape: Tape, message: Json) -> Iterable[Json]:
        if tape.busy() or message["params"]["sessionId"] in ("none", "no-such-session"):
            yield message
        else:
            tape.say({"jsonrpc": "2.0", "id": message["id"], "result": {}})

    return hears(method, whole)


def _ends_well(tape: Tape, message: Json) -> Iterable[Json]:
    closing = any(request["method"] == "session/close" for request in tape.heard.values())
    yield {**message, "result": {"stopReason": "end_turn"}} if closing and "result" in message else message


def _the_original(tape: Tape, message: Json) -> Iterable[Json]:
    if "result" in message:
        message = {**message, "result": {**message["result"], "sessionId": _request(tape, message)["sessionId"]}}
    yield message


def _without_directories(_: Tape, message: Json) -> Iterable[Json]:
    yield {**message, "params": {**message["params"], "additionalDirectories": []}}


def _first_name(tape: Tape, message: Json) -> Iterable[Json]:
    if tape.method(message) == "session/new" and "result" in message:
        tape.notes.setdefault("first", message["result"]["sessionId"])
        tape.notes["count"] = tape.notes.get("count", 0) + 1
    is_chunk = message.get("method") == "session/update" and "message_chunk" in str(message["params"])
    if is_chunk and tape.notes.get("count", 0) > 1 and not tape.busy("session/load"):
        message = {**message, "params": {**message["params"], "sessionId": tape.notes["first"]}}
    yield message


def one_at_a_time(tape: Tape, message: Json) -> Iterable[Json]:
    """A prompt is lost while a turn runs in another session."""
    session = message["params"].get("sessionId")
    if not any(each.get("sessionId") != session for each in tape.others(message)):
        yield message


def _upset(tape: Tape, message: Json) -> Iterable[Json]:
    failed = any(
        each["method"] == "session/load" and each["params"].get("sessionId") == "no-such-session"
        for each in tape.heard.values()
    )
    yield from fails(-32603)(tape, message) if failed else [message]


def _unwilling(tape: Tape, message: Json) -> Iterable[Json]:
    """Modes cannot be chosen, unless a turn runs."""
    yield from fails(-32603)(tape, message) if "result" in message and not tape.busy() else [message]


def _wrong_close(tape: Tape, message: Json) -> Iterable[Json]:
    unknown = "no-such-session" in str(_request(tape, message))
    yield from fails(-32603)(tape, message) if unknown else [message]


seeded("agent.session.01", results("session/new", with_(sessionId="")))
seeded("agent.session.02", replies("session/new", _always_the_first))
seeded("agent.session.03", _opens("'cwd': 'some/folder'"))
seeded("agent.session.04", errors("session/new", with_(code=-32603)))
seeded("agent.session.05", _opens("'none'"))
seeded("agent.session.06", replies("session/prompt", _ends_anyhow))
seeded("agent.session.07", replies("session/prompt", _wrong_number))
seeded(
    "agent.session.08",
    results("session/new", lambda result: {**result, "modes": {**result["modes"], "currentModeId": "?"}}),
)
seeded("agent.session.09", replies("session/set_mode", _unwilling))
seeded("agent.session.10", accepting("session/set_mode", {}))
seeded("agent.session.11", _options("name", None))
seeded("agent.session.12", _options("currentValue", "no such value"))
seeded(
    "agent.session.13",
    results("session/set_config_option", lambda result: {"configOptions": result["configOptions"][1:]}),
)
seeded(
    "agent.session.14",
    accepting(
        "session/set_config_option", {"configOptions": []}, lambda told: told.get("configId") == "no-such-option"
    ),
)
seeded("agent.session.15", replies("session/new", _shows_switches))
seeded("agent.session.16", _while("session/load", "user_message_chunk"))
seeded("agent.session.17", _while("session/load", "agent_message_chunk"))
seeded("agent.session.18", speaks(_after_the_answer))
seeded("agent.session.19", accepting("session/load", {}))
seeded("agent.session.20", hears("session/resume", _tells_again))
seeded("agent.session.21", accepting("session/resume", {}))
seeded("agent.session.22", _sessions("folder"))
seeded("agent.session.23", _sessions("all"))
seeded("agent.session.24", hears("session/list", _every_folder))
seeded("agent.session.25", _only_says("session/close"))
seeded("agent.session.26", replies("session/prompt", _ends_well))
seeded("agent.session.27", _only_says("session/delete"))
seeded("agent.session.28", replies("session/delete", fails(-32602)))
seeded("agent.session.29", replies("session/fork", _the_original))
seeded("agent.session.30", hears("session/new", _without_directories))
seeded("agent.session.31", speaks(_first_name))
seeded("agent.session.32", hears("session/prompt", one_at_a_time))
seeded("agent.session.33", replies("session/prompt", _upset))
seeded("agent.session.34", Fault(says=_sessions("cursor").says, hears=hears("session/list", _from_the_top).hears))
seeded("agent.session.35", replies("session/close", _wrong_close))
