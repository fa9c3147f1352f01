"""Faults in an agent's logins."""

from __future__ import annotations

from collections.abc import Iterable

from dragoman.conformance.faults.agent_files import announced
from dragoman.conformance.faults.agent_init import offering
from dragoman.conformance.seeding import fails, hears, replies, results, with_, without
from dragoman.conformance.twin import Fault, Json, Tape, seeded

LOGIN = {"id": "key", "name": "Key"}
OFFERED = results("initialize", with_(authMethods=[LOGIN]))


def _accepting(meant: str) -> Fault:
    """A login that is offered, and another one that is taken."""

    def whole(tape: Tape, message: Json) -> Iterable[Json]:
        taken = meant == str(message["params"].get("methodId", "nothing"))
        error = {"code": -32602, "message": "there is no such login"}
        tape.say({"jsonrpc": "2.0", "id": message["id"], **({"result": {}} if taken else {"error": error})})
        return ()

    return Fault(says=OFFERED.says, hears=hears("authenticate", whole).hears)


def _offering(*logins: Json) -> Fault:
    """These logins are offered; whatever is chosen is refused."""
    return Fault(says=results("initialize", with_(authMethods=list(logins))).says, hears=_accepting("never").hears)


def _in_a_terminal(tape: Tape, message: Json) -> Iterable[Json]:
    """To clients that announced it; its environment is a list, as those of MCP servers are."""
    login = {**LOGIN, "type": "terminal", "env": [{"name": "A", "value": "b"}]}
    if "result" in message and announced(tape.request(message)).get("auth") == {"terminal": True}:
        message = {**message, "result": {**message["result"], "authMethods": [login]}}
    yield message


seeded("agent.auth.01", _accepting("no-such-login"))
seeded("agent.auth.02", replies("session/new", fails(-32603, "Authentication required")))
seeded("agent.auth.03", _offering({"id": "tty", "name": "Terminal", "type": "terminal"}))
seeded("agent.auth.04", offering(auth={"logout": {}}))
seeded("agent.auth.05", _accepting("nothing"))
seeded("agent.auth.06", _offering(LOGIN, LOGIN))
seeded("agent.auth.07", results("initialize", without("authMethods")))
seeded("agent.auth.08", replies("initialize", _in_a_terminal))
