"""Faults in an agent's logins."""

from __future__ import annotations

from collections.abc import Iterable

from tests.conformance.faults.agent.files import announced
from tests.conformance.faults.agent.init import offering
from tests.conformance.faults.edits import edit_incoming, edit_replies, edit_results, fail_with, with_, without
from tests.conformance.faults.fault import Fault, FaultContext, Json, seed

LOGIN = {"id": "key", "name": "Key"}
OFFERED = edit_results("initialize", with_(authMethods=[LOGIN]))


def _accepting(matches: str) -> Fault:
    """Offer one login and accept another one."""

    def edit_message(context: FaultContext, message: Json) -> Iterable[Json]:
        taken = matches == str(message["params"].get("methodId", "nothing"))
        error = {"code": -32602, "message": "there is no such login"}
        context.send({"jsonrpc": "2.0", "id": message["id"], **({"result": {}} if taken else {"error": error})})
        return ()

    return Fault(outgoing=OFFERED.outgoing, incoming=edit_incoming("authenticate", edit_message).incoming)


def _offering(*logins: Json) -> Fault:
    """Offer these logins and refuse every choice."""
    return Fault(
        outgoing=edit_results("initialize", with_(authMethods=list(logins))).outgoing,
        incoming=_accepting("never").incoming,
    )


def _in_a_terminal(context: FaultContext, message: Json) -> Iterable[Json]:
    """To clients that announced it, with an environment that is a list, as for MCP servers."""
    login = {**LOGIN, "type": "terminal", "env": [{"name": "A", "value": "b"}]}
    if "result" in message and announced(context.request(message)).get("auth") == {"terminal": True}:
        message = {**message, "result": {**message["result"], "authMethods": [login]}}
    yield message


seed("agent.auth.01", _accepting("no-such-login"))
seed("agent.auth.02", edit_replies("session/new", fail_with(-32603, "Authentication required")))
seed("agent.auth.03", _offering({"id": "tty", "name": "Terminal", "type": "terminal"}))
seed("agent.auth.04", offering(auth={"logout": {}}))
seed("agent.auth.05", _accepting("nothing"))
seed("agent.auth.06", _offering(LOGIN, LOGIN))
seed("agent.auth.07", edit_results("initialize", without("authMethods")))
seed("agent.auth.08", edit_replies("initialize", _in_a_terminal))
seed(
    "agent.auth.09",
    Fault(
        outgoing=edit_replies("session/new", fail_with(-32000, "Authentication required")).outgoing,
        incoming=_accepting("key").incoming,
    ),
)
