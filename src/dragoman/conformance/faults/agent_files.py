"""Faults in what an agent asks its client for."""

from __future__ import annotations

from collections.abc import Iterable

from dragoman.conformance.seeding import calls, fails, params, with_, without
from dragoman.conformance.twin import Fault, Json, Tape, seeded

READ, WRITE, CREATE, RELEASE = "fs/read_text_file", "fs/write_text_file", "terminal/create", "terminal/release"
FORM = "elicitation/create"


def announced(introduction: Json) -> dict[str, Json]:
    """What the client told it can do; nothing where its introduction makes no sense."""
    told = introduction.get("params")
    found = told.get("clientCapabilities") if isinstance(told, dict) else None
    return found if isinstance(found, dict) else {}


def also_asking(words: str, method: str, **members: Json) -> Fault:
    """A prompt with these words makes the agent ask for this, where the client said that it lends nothing."""

    def hearing(tape: Tape, message: Json) -> Iterable[Json]:
        if isinstance(message, dict) and message.get("method") == "initialize":
            told = announced(message)
            files = told.get("fs") or {}
            tape.notes["lent"] = bool(files.get("writeTextFile") or told.get("terminal")) or not told
            tape.notes["lent"] |= method == WRITE and not files.get("readTextFile")
        meant = isinstance(message, dict) and message.get("method") == "session/prompt" and words in str(message)
        if meant and not tape.notes.get("lent"):
            asked = {"sessionId": message["params"]["sessionId"], **members}
            tape.say({"jsonrpc": "2.0", "id": f"also {method}", "method": method, "params": asked})
        if not (isinstance(message, dict) and message.get("id") == f"also {method}"):
            yield message

    return Fault(hears=hearing)


def upset(method: str, meant: str = "") -> Fault:
    """A turn fails when this request of the agent was answered with an error, or with this in the answer."""

    def hearing(tape: Tape, message: Json) -> Iterable[Json]:
        if isinstance(message, dict) and "method" not in message:
            found = [each for each in tape.asked.values() if each["id"] == message.get("id")]
            bad = "error" in message if not meant else meant in str(message)
            if found and found[0]["method"] == method and bad:
                tape.notes["upset"] = True
        yield message

    def saying(tape: Tape, message: Json) -> Iterable[Json]:
        if tape.method(message) == "session/prompt" and tape.notes.get("upset"):
            return fails(-32603)(tape, message)
        return (message,)

    return Fault(says=saying, hears=hearing)


def _is_cancelled(tape: Tape) -> bool:
    return any(each["method"] == "session/cancel" for each in tape.told)


def _keeps(tape: Tape, message: Json) -> Iterable[Json]:
    """The release is never said, and nobody inside notices."""
    if not _is_cancelled(tape):
        tape.give({"jsonrpc": "2.0", "id": message["id"], "result": {}})
        return
    yield message


def _keeps_when_cancelled(tape: Tape, message: Json) -> Iterable[Json]:
    if _is_cancelled(tape):
        tape.give({"jsonrpc": "2.0", "id": message["id"], "result": {}})
        return
    yield message


def _looks_again(_: Tape, message: Json) -> Iterable[Json]:
    yield message
    yield {**message, "id": "again", "method": "terminal/output"}


def _hears_itself(tape: Tape, message: Json) -> Iterable[Json]:
    if not (isinstance(message, dict) and message.get("id") == "again"):
        yield message


def _links_anyway(tape: Tape, message: Json) -> Iterable[Json]:
    """To clients with forms and nothing else."""
    if isinstance(message, dict) and message.get("method") == "initialize":
        tape.notes["forms"] = announced(message).get("elicitation") == {"form": {}}
    meant = isinstance(message, dict) and message.get("method") == "session/prompt" and "/link" in str(message)
    if meant and tape.notes.get("forms"):
        asked = {
            "sessionId": message["params"]["sessionId"],
            "mode": "url",
            "message": "Go there",
            "elicitationId": "e",
        }
        asked["url"] = "https://example.org"
        tape.say({"jsonrpc": "2.0", "id": "link", "method": FORM, "params": asked})
    if not (isinstance(message, dict) and message.get("id") == "link"):
        yield message


def _unasked(_: Tape, message: Json) -> Iterable[Json]:
    yield {**message, "params": {**message["params"], "requestId": 3}}


def _never_ends(tape: Tape, message: Json) -> Iterable[Json]:
    nonsense = tape.notes.get("upset")
    return () if nonsense and tape.method(message) == "session/prompt" else (message,)


seeded("agent.files.01", also_asking("/read", READ, path="/etc/hostname"))
seeded("agent.files.02", also_asking("/run", CREATE, command="true"))
seeded("agent.files.03", also_asking("/write", WRITE, path="/tmp/made.txt", content="x"))
seeded("agent.files.04", params(READ, with_(path="notes.txt")))
seeded("agent.files.05", params(READ, with_(line=0)))
seeded("agent.files.06", params(WRITE, without("content")))
seeded("agent.files.07", upset(READ, "'Resource not found'"))
seeded("agent.files.08", params(CREATE, with_(env={"A": "b"})))
seeded("agent.files.09", calls(RELEASE, _keeps))
seeded("agent.files.10", Fault(says=calls(RELEASE, _looks_again).says, hears=_hears_itself))
seeded("agent.files.11", params("terminal/wait_for_exit", with_(terminalId="terminal-2")))
seeded("agent.files.12", calls(RELEASE, _keeps_when_cancelled))
seeded("agent.files.13", upset(CREATE))
seeded("agent.files.14", upset(WRITE, "'result': None"))
seeded("agent.files.15", also_asking("/form", FORM, mode="form", message="?", requestedSchema={"properties": {}}))
seeded("agent.files.16", params(FORM, without("requestedSchema")))
seeded("agent.files.17", params(FORM, without("elicitationId")))
seeded("agent.files.18", upset(FORM, "decline"))
seeded("agent.files.19", Fault(hears=_links_anyway))
seeded("agent.files.20", calls(FORM, _unasked))
seeded("agent.files.21", Fault(says=_never_ends, hears=upset(READ, "'content': 5").hears))
