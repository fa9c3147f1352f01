"""Faults of agents in what they are given: MCP servers, modes, options, attachments, other blocks."""

from __future__ import annotations

from collections.abc import Iterable

from dragoman.conformance.faults.agent_init import accepting, refusing
from dragoman.conformance.seeding import calls, fails, hears, replies, results, without
from dragoman.conformance.twin import Fault, Json, Tape, seeded

NEW, PROMPT, SET_MODE, OPTION = "session/new", "session/prompt", "session/set_mode", "session/set_config_option"


def _remembers(tape: Tape, message: Json) -> Iterable[Json]:
    """The environment of the first MCP server that is given."""
    servers = message["params"].get("mcpServers")
    for server in servers if isinstance(servers, list) else []:
        for each in server.get("env") or []:
            tape.notes["secret"] = each.get("value")
    yield message


def _tells(tape: Tape, message: Json) -> Iterable[Json]:
    yield message
    if "secret" in tape.notes and message["params"].get("update", {}).get("sessionUpdate") == "tool_call":
        content = {"type": "text", "text": f"My key is {tape.notes.pop('secret')}."}
        update = {"sessionUpdate": "agent_thought_chunk", "content": content}
        yield {**message, "params": {**message["params"], "update": update}}


def _forgetting(method: str, name: str) -> Fault:
    """This member of the params is not looked at."""
    return hears(method, lambda _, message: [{**message, "params": without(name)(message["params"])}])


def _holds(kind: str) -> Fault:
    """Prompts with a block of this type are refused."""
    return refusing(PROMPT, lambda told: any(block.get("type") == kind for block in told.get("content") or []))


def _reads_elsewhere(tape: Tape, message: Json) -> Iterable[Json]:
    """A link makes the agent read a file; the answer is for nobody."""
    told = message["params"]
    if any(isinstance(block, dict) and block.get("type") == "resource_link" for block in told.get("prompt") or []):
        asked = {"sessionId": told.get("sessionId"), "path": "/etc/hostname"}
        tape.say({"jsonrpc": "2.0", "id": "linked", "method": "fs/read_text_file", "params": asked})
    yield message


def _pretends(mode: str, truly: str) -> Fault:
    """A mode of this name is offered, and is really another one."""

    def edit(result: Json) -> None:
        if isinstance(result.get("modes"), dict):
            result["modes"]["availableModes"].append({"id": mode, "name": mode})

    def whole(_: Tape, message: Json) -> Iterable[Json]:
        told = message["params"]
        yield {**message, "params": {name: truly if value == mode else value for name, value in told.items()}}

    return Fault(says=results(NEW, edit).says, hears=hears(SET_MODE, whole).hears)


def _lends_all(_: Tape, message: Json) -> Iterable[Json]:
    """A client that names nothing is taken for one that lends everything."""
    told = message["params"]
    if told.get("clientCapabilities") == {}:
        everything = {"fs": {"readTextFile": True, "writeTextFile": True}, "terminal": True}
        message = {**message, "params": {**told, "clientCapabilities": everything}}
    yield message


def _another(_: Tape, message: Json) -> Iterable[Json]:
    yield {**message, "params": {"elicitationId": "another"}}


def _stuck(result: Json) -> None:
    """Switches stay as they were."""
    for option in result.get("configOptions") or []:
        if option.get("type") == "boolean":
            option["currentValue"] = not option["currentValue"]


seeded("agent.session.36", refusing(NEW, lambda told: bool(told.get("mcpServers")) and told["mcpServers"] != "none"))
seeded("agent.session.37", Fault(says=calls("session/update", _tells).says, hears=hears(NEW, _remembers).hears))
seeded("agent.session.38", accepting(OPTION, {"configOptions": []}, lambda told: told.get("value") == "no-such-value"))
seeded("agent.session.39", results(OPTION, _stuck))
seeded("agent.files.22", hears("initialize", _lends_all))
seeded("agent.files.23", hears(PROMPT, _reads_elsewhere))
seeded("agent.files.24", calls("elicitation/complete", _another))
seeded("agent.dialect.11", _pretends("bypassPermissions", "ask"))
seeded("agent.dialect.12", _pretends("plan", "code"))
seeded("agent.dialect.56", refusing("initialize", lambda told: bool(told.get("mcp_servers"))))
seeded("agent.dialect.58", replies("session/load", fails(-32601, "Method not found")))
seeded("agent.dialect.59", _holds("resource"))
seeded("agent.dialect.60", _holds("audio"))
seeded("agent.dialect.61", refusing(NEW, lambda told: told.get("mode") not in (None, "agent")))
seeded("agent.draft.27", _forgetting(NEW, "initialMode"))
seeded("agent.draft.28", _forgetting(NEW, "configOptions"))
seeded("agent.draft.30", refusing(PROMPT, lambda told: "attachments" in told))
seeded("agent.draft.36", _holds("image"))
