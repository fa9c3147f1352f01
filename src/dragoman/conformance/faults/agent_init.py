"""Faults in an agent's introduction."""

from __future__ import annotations

from collections.abc import Iterable

from dragoman.conformance.seeding import Edit, errors, fails, hears, listens, replies, results, with_
from dragoman.conformance.twin import Fault, Json, Tape, seeded


def offering(**members: Json) -> Fault:
    """The agent's capabilities are told otherwise; a dict changes a group, None removes a member."""

    def edit(result: Json) -> None:
        told = result["agentCapabilities"]
        for name, value in members.items():
            told[name] = {**told.get(name, {}), **value} if isinstance(value, dict) else value
            if isinstance(value, dict):
                told[name] = {member: item for member, item in told[name].items() if item is not None}

    return results("initialize", edit)


def refusing(method: str, meant: Edit, code: int = -32602) -> Fault:
    """Requests of which something holds are refused."""

    def whole(tape: Tape, message: Json) -> Iterable[Json]:
        if meant(message.get("params")):
            error = {"code": code, "message": "Invalid params"}
            tape.say({"jsonrpc": "2.0", "id": message.get("id"), "error": error})
        else:
            yield message

    return hears(method, whole)


def accepting(method: str, result: Json, meant: Edit = lambda _: True) -> Fault:
    """What should be refused is answered with this, where something holds of what was asked."""

    def whole(tape: Tape, message: Json) -> Iterable[Json]:
        odd = "error" in message and meant(tape.request(message).get("params") or {})
        yield {"jsonrpc": "2.0", "id": message["id"], "result": result} if odd else message

    return replies(method, whole)


def _agrees(tape: Tape, message: Json) -> Iterable[Json]:
    wanted = tape.request(message).get("params")
    wanted = wanted.get("protocolVersion") if isinstance(wanted, dict) else None
    is_odd = wanted == 65535
    yield {**message, "result": {**message["result"], "protocolVersion": wanted}} if is_odd else message


def _not_again(tape: Tape, message: Json) -> Iterable[Json]:
    tape.notes["introduced"] = tape.notes.get("introduced", 0) + 1
    if tape.notes["introduced"] < 2:
        yield message


def _resents(tape: Tape, message: Json) -> Iterable[Json]:
    is_introduction = message.get("method") == "initialize"
    resents = tape.notes.get("resents")
    tape.notes["resents"] = resents or (is_introduction and not isinstance(message.get("params"), dict))
    if not (resents and is_introduction):
        yield message


def _missing(tape: Tape, message: Json) -> Iterable[Json]:
    yield from fails(-32601, "Method not found")(tape, message)


def _early(tape: Tape, message: Json) -> Iterable[Json]:
    too_early = "error" in message and all(each["method"] != "initialize" for each in tape.heard.values())
    yield {"jsonrpc": "2.0", "id": message["id"], "result": {"sessionId": "s"}} if too_early else message


seeded("agent.init.01", results("initialize", lambda _: ["initialized"]))
seeded("agent.init.02", results("initialize", with_(protocolVersion="1")))
seeded("agent.init.03", results("initialize", with_(protocolVersion=2)))
seeded("agent.init.04", replies("initialize", _agrees))
seeded("agent.init.05", offering(loadSession="yes"))
seeded("agent.init.06", offering(promptCapabilities={"image": 1}))
seeded("agent.init.07", offering(sessionCapabilities={"resume": True}))
seeded("agent.init.08", results("initialize", lambda result: {**result, "agentInfo": {"name": "everything"}}))
seeded("agent.init.09", results("initialize", lambda result: {**result, "agentInfo": {"name": "everything"}}))
seeded("agent.init.10", results("initialize", with_(authMethods=[{"name": "Sign in"}])))
seeded("agent.init.11", errors("session/new", with_(code=-32600)))
seeded("agent.init.12", replies("session/new", _early))
seeded("agent.init.13", hears("initialize", _not_again))
seeded("agent.init.14", refusing("initialize", lambda params: "skillOfTheFuture" in str(params)))
seeded("agent.init.15", refusing("initialize", lambda params: "clientInfo" not in params))
seeded("agent.init.16", replies("session/fork", _missing))
seeded("agent.init.17", offering(sessionCapabilities={"list": None}))
seeded("agent.init.18", listens(_resents))
seeded("agent.init.19", refusing("initialize", lambda params: "'fs': None" in str(params)))
