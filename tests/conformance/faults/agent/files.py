"""Faults in what an agent asks its client for."""

from __future__ import annotations

from collections.abc import Iterable

from tests.conformance.faults.edits import edit_calls, edit_params, fail_with, with_, without
from tests.conformance.faults.fault import Fault, FaultContext, Json, seed

READ, WRITE, CREATE, RELEASE = "fs/read_text_file", "fs/write_text_file", "terminal/create", "terminal/release"
FORM = "elicitation/create"


def announced(introduction: Json) -> dict[str, Json]:
    """Return the client's capabilities; empty where its initialize makes no sense."""
    params = introduction.get("params")
    found = params.get("clientCapabilities") if isinstance(params, dict) else None
    return found if isinstance(found, dict) else {}


def also_request(words: str, method: str, **members: Json) -> Fault:
    """A prompt with this text makes the agent send this request, though the client offers nothing."""

    def on_incoming(context: FaultContext, message: Json) -> Iterable[Json]:
        if isinstance(message, dict) and message.get("method") == "initialize":
            params = announced(message)
            files = params.get("fs") or {}
            context.notes["lent"] = bool(files.get("writeTextFile") or params.get("terminal")) or not params
            context.notes["lent"] |= method == WRITE and not files.get("readTextFile")
        matches = isinstance(message, dict) and message.get("method") == "session/prompt" and words in str(message)
        if matches and not context.notes.get("lent"):
            request = {"sessionId": message["params"]["sessionId"], **members}
            context.send({"jsonrpc": "2.0", "id": f"also {method}", "method": method, "params": request})
        if not (isinstance(message, dict) and message.get("id") == f"also {method}"):
            yield message

    return Fault(incoming=on_incoming)


def fail_turn_after_error(method: str, matches: str = "") -> Fault:
    """Fail a turn when this request of the agent got an error, or this in the answer."""

    def on_incoming(context: FaultContext, message: Json) -> Iterable[Json]:
        if isinstance(message, dict) and "method" not in message:
            found = [each for each in context.requests_out.values() if each["id"] == message.get("id")]
            bad = "error" in message if not matches else matches in str(message)
            if found and found[0]["method"] == method and bad:
                context.notes["upset"] = True
        yield message

    def on_outgoing(context: FaultContext, message: Json) -> Iterable[Json]:
        if context.method(message) == "session/prompt" and context.notes.get("upset"):
            return fail_with(-32603)(context, message)
        return (message,)

    return Fault(outgoing=on_outgoing, incoming=on_incoming)


def _is_cancelled(context: FaultContext) -> bool:
    return any(each["method"] == "session/cancel" for each in context.notifications_in)


def _drop_release(context: FaultContext, message: Json) -> Iterable[Json]:
    """Drop the release, unnoticed by the agent."""
    if not _is_cancelled(context):
        context.deliver({"jsonrpc": "2.0", "id": message["id"], "result": {}})
        return
    yield message


def _keeps_when_cancelled(context: FaultContext, message: Json) -> Iterable[Json]:
    if _is_cancelled(context):
        context.deliver({"jsonrpc": "2.0", "id": message["id"], "result": {}})
        return
    yield message


def _use_after_release(_: FaultContext, message: Json) -> Iterable[Json]:
    yield message
    yield {**message, "id": "again", "method": "terminal/output"}


def _answers_itself(context: FaultContext, message: Json) -> Iterable[Json]:
    if not (isinstance(message, dict) and message.get("id") == "again"):
        yield message


def _links_anyway(context: FaultContext, message: Json) -> Iterable[Json]:
    """To clients that support forms only."""
    if isinstance(message, dict) and message.get("method") == "initialize":
        context.notes["forms"] = announced(message).get("elicitation") == {"form": {}}
    matches = isinstance(message, dict) and message.get("method") == "session/prompt" and "/link" in str(message)
    if matches and context.notes.get("forms"):
        request = {
            "sessionId": message["params"]["sessionId"],
            "mode": "url",
            "message": "Go there",
            "elicitationId": "e",
        }
        request["url"] = "https://example.org"
        context.send({"jsonrpc": "2.0", "id": "link", "method": FORM, "params": request})
    if not (isinstance(message, dict) and message.get("id") == "link"):
        yield message


def _without_request(_: FaultContext, message: Json) -> Iterable[Json]:
    yield {**message, "params": {**message["params"], "requestId": 3}}


def _never_ends(context: FaultContext, message: Json) -> Iterable[Json]:
    nonsense = context.notes.get("upset")
    return () if nonsense and context.method(message) == "session/prompt" else (message,)


seed("agent.files.01", also_request("/read", READ, path="/etc/hostname"))
seed("agent.files.02", also_request("/run", CREATE, command="true"))
seed("agent.files.03", also_request("/write", WRITE, path="/tmp/made.txt", content="x"))
seed("agent.files.04", edit_params(READ, with_(path="notes.txt")))
seed("agent.files.05", edit_params(READ, with_(line=0)))
seed("agent.files.06", edit_params(WRITE, without("content")))
seed("agent.files.07", fail_turn_after_error(READ, "'Resource not found'"))
seed("agent.files.08", edit_params(CREATE, with_(env={"A": "b"})))
seed("agent.files.09", edit_calls(RELEASE, _drop_release))
seed("agent.files.10", Fault(outgoing=edit_calls(RELEASE, _use_after_release).outgoing, incoming=_answers_itself))
seed("agent.files.11", edit_params("terminal/wait_for_exit", with_(terminalId="terminal-2")))
seed("agent.files.12", edit_calls(RELEASE, _keeps_when_cancelled))
seed("agent.files.13", fail_turn_after_error(CREATE))
seed("agent.files.14", fail_turn_after_error(WRITE, "'result': None"))
seed("agent.files.15", also_request("/form", FORM, mode="form", message="?", requestedSchema={"properties": {}}))
seed("agent.files.16", edit_params(FORM, without("requestedSchema")))
seed("agent.files.17", edit_params(FORM, without("elicitationId")))
seed("agent.files.18", fail_turn_after_error(FORM, "decline"))
seed("agent.files.19", Fault(incoming=_links_anyway))
seed("agent.files.20", edit_calls(FORM, _without_request))
seed("agent.files.21", Fault(outgoing=_never_ends, incoming=fail_turn_after_error(READ, "'content': 5").incoming))
