"""Probes of what an agent is given beside words: MCP servers, a first mode, options, attachments, other blocks."""

from __future__ import annotations

import os
import pathlib
import sys

from dragoman.conformance import json_shape
from dragoman.conformance.harness import hello
from dragoman.conformance.harness.agent import AgentStage
from dragoman.conformance.harness.peer import Heard, Json
from dragoman.conformance.json_shape import fault
from dragoman.conformance.probe import probe
from dragoman.conformance.probes.agent_files import READ, WRITE, requests

SECRET = "check-secret-5f3a"

# The least that an MCP server can be: it introduces itself and has no tools.
SERVER = """
import json, sys
for line in sys.stdin:
    asked = json.loads(line)
    if "id" in asked:
        info = {"protocolVersion": "2025-06-18", "capabilities": {}, "serverInfo": {"name": "check", "version": "1"}}
        result = info if asked["method"] == "initialize" else {"tools": []}
        print(json.dumps({"jsonrpc": "2.0", "id": asked["id"], "result": result}), flush=True)
"""

PICTURE = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNkYPhfDwAChwGA60e6kgAAAABJRU5ErkJggg=="
SOUND = "UklGRiQAAABXQVZFZm10IBAAAAABAAEAQB8AAEAfAAABAAgAZGF0YQAAAAA="


def servers(stage: AgentStage) -> Json:
    """One MCP server that is a command, with a secret in its environment, as the dialect spells it."""
    started = {"command": sys.executable, "args": ["-c", SERVER]}
    if stage.dialect == "draft":
        return [{"name": "check", "transport": {"type": "stdio", **started, "env": {"CHECK_KEY": SECRET}}}]
    return [{"name": "check", **started, "env": [{"name": "CHECK_KEY", "value": SECRET}]}]


@probe("agent.session.36")
async def servers_are_taken(stage: AgentStage) -> None:
    """Every agent can start one."""
    await stage.initialized()
    params = {**hello.new_session(stage.dialect, stage.cwd, "one"), "mcpServers": servers(stage)}
    stage.granted(await stage.asked("session/new", params, stage.pace.start), "a session with an MCP server")


@probe("agent.session.37")
async def secrets_are_not_told(stage: AgentStage) -> None:
    """Neither in what is said nor in what is shown of tools."""
    await stage.opened(mcpServers=servers(stage))
    await stage.prompted(stage.words("tour"))
    found = [heard for heard in stage.heard if SECRET.encode() in heard.raw]
    stage.require(not found, "what is secret about an MCP server was told", *found)


@probe("agent.dialect.56")
async def servers_come_with_initialize(stage: AgentStage) -> None:
    """A script that is its own interpreter's."""
    script = pathlib.Path(stage.cwd, "check-server")
    script.write_text(f"#!{sys.executable}\n{SERVER}", encoding="utf-8")
    script.chmod(0o755)
    params = hello.initialize(stage.dialect, stage.cwd, hello.ALL[stage.dialect])
    server = {"name": "check", "url": f"stdio://{script}", "credentials": {"key": SECRET}}
    heard = await stage.asked("initialize", {**params, "mcp_servers": [server]}, stage.pace.start)
    stage.granted(heard, "initialize with an MCP server")


# --- how a session begins -----------------------------------------------------------------------------------------


async def _abilities(stage: AgentStage, name: str) -> Json:
    """What the agent told of itself: a list of the draft's session capabilities."""
    result = await stage.initialized()
    can = (result.get("capabilities") or {}).get("sessionCapabilities")
    found = can.get(name) if isinstance(can, dict) else None
    return found if isinstance(found, list) else []


@probe("agent.draft.27")
async def sessions_begin_in_a_mode(stage: AgentStage) -> None:
    """The last that was told: it is hardly the one that a session begins in anyway."""
    modes = await _abilities(stage, "modes")
    if len(modes) < 2:
        stage.skip("the agent has no modes to choose from")
    await stage.opened(initialMode=modes[-1], systemPrompt="Answer in one sentence.")
    heard = await stage.asked("session/set_mode", {"sessionId": stage.session, "mode": modes[0]})
    before = (heard.message.get("result") or {}).get("previousMode") if heard else None
    if before is None:
        stage.unsure("the mode could not be changed", heard)
    stage.require(before == modes[-1], f"a session asked for in {modes[-1]!r} began in {before!r}", heard)


@probe("agent.draft.28")
async def sessions_begin_with_options(stage: AgentStage) -> None:
    """What an option may hold is not told, but for our own agent."""
    options = await _abilities(stage, "configOptions")
    if not options:
        stage.skip("the agent has no options")
    value = "loud" if stage.name_of_agent() == "everything" else "x"
    await stage.opened(configOptions={options[0]: value})
    params = {"sessionId": stage.session, "key": options[0], "value": value}
    heard = await stage.asked("session/set_config_option", params)
    result = heard.message.get("result") if heard else None
    if not isinstance(result, dict) or "previousValue" not in result:
        stage.unsure("it was not told what the option held before", heard)
    held = result["previousValue"]
    stage.require(held == value, f"a session was given {value!r} for {options[0]!r} and began with {held!r}", heard)


@probe("agent.dialect.61")
async def sessions_begin_in_a_told_mode(stage: AgentStage) -> None:
    """Of those that the introduction lists."""
    modes = ((await stage.initialized()).get("capabilities") or {}).get("supported_modes")
    if not isinstance(modes, list) or not modes:
        stage.skip("the agent has no modes")
    heard = await stage.asked("session/new", {"session_id": "in-a-mode", "mode": modes[-1]}, stage.pace.start)
    stage.granted(heard, f"a session in the mode {modes[-1]!r}")


@probe("agent.dialect.58")
async def sessions_are_loaded_by_id(stage: AgentStage) -> None:
    """The client's own, after a turn."""
    await stage.did("plain")
    heard = await stage.asked("session/load", {"session_id": stage.session}, stage.pace.turn)
    words = fault(stage.granted(heard, "session/load"), {"status": json_shape.text("ok")})
    stage.require(not words, words, heard)


# --- what stands in a prompt --------------------------------------------------------------------------------------


async def _taken(stage: AgentStage, what: str, *blocks: Json, **members: Json) -> None:
    """A prompt of these blocks, as they are on the wire, is answered with a result."""
    first = {"type": "text", "text": stage.words("plain")}
    named = "session_id" if stage.dialect == "2025.1" else "sessionId"
    params = {named: stage.session, "content": [first, *blocks], **members}
    heard = await stage.asked("session/prompt", params, stage.pace.turn)
    if heard is None:
        stage.unsure("the agent did not end the turn in time")
    stage.granted(heard, what)


@probe("agent.dialect.59")
async def resources_lie_flat(stage: AgentStage) -> None:
    """Beside the text."""
    await stage.opened()
    resource = {"type": "resource", "uri": "file:///a.txt", "mime_type": "text/plain", "content": "one"}
    link = {"type": "resource_link", "uri": f"file://{stage.file}", "mime_type": "text/plain"}
    await _taken(stage, "a prompt with a resource and a link", resource, link)


@probe("agent.dialect.60")
async def pictures_and_sounds_are_taken(stage: AgentStage) -> None:
    """Each by its own switch."""
    can = (await stage.initialized()).get("capabilities") or {}
    shown = [("image", "png", PICTURE), ("audio", "wav", SOUND)]
    blocks = [{"type": kind, "format": form, "data": data} for kind, form, data in shown if can.get(kind) is True]
    if not blocks:
        stage.skip("the agent takes neither pictures nor sounds")
    await stage.opened()
    await _taken(stage, "a prompt with " + " and ".join(str(block["type"]) for block in blocks), *blocks)


@probe("agent.draft.30")
async def attachments_are_taken(stage: AgentStage) -> None:
    """A file that is there."""
    can = ((await stage.initialized()).get("capabilities") or {}).get("promptCapabilities")
    if not isinstance(can, dict) or can.get("attachments") is not True:
        stage.skip("the agent takes no attachments")
    await stage.opened()
    attached = [{"name": "notes", "path": stage.file, "mimeType": "text/plain"}]
    await _taken(stage, "a prompt with a file attached", attachments=attached)


@probe("agent.draft.36")
async def blocks_are_taken(stage: AgentStage) -> None:
    """Two pictures, for one is elsewhere."""
    await stage.opened()
    await _taken(
        stage,
        "a prompt of all kinds of blocks",
        {"type": "image", "source": {"type": "base64", "mediaType": "image/png", "data": PICTURE}},
        {"type": "image", "source": {"type": "url", "mediaType": "image/png", "url": "https://example.org/a.png"}},
        {"type": "audio", "source": {"type": "base64", "mediaType": "audio/wav", "data": SOUND}},
        {"type": "resource", "uri": "file:///a.txt", "mimeType": "text/plain", "content": "one"},
        {"type": "resource_link", "uri": f"file://{stage.file}", "title": "Notes"},
    )


@probe("agent.files.23")
async def links_are_read_by_their_path(stage: AgentStage) -> None:
    """A file that the client lends; who does not look is in their right."""
    await stage.opened()
    link = {"type": "resource_link", "uri": f"file://{stage.file}", "name": "notes.txt"}
    await stage.prompted([{"type": "text", "text": stage.words("plain")}, link])
    found = requests(stage, READ)
    if not found:
        stage.skip("the agent does not read what is linked")
    wrong = [heard for heard in found if heard.params.get("path") != stage.file]
    stage.require(not wrong, f"something else was read than {stage.file}, which was linked", *wrong)


# --- modes that mean something ------------------------------------------------------------------------------------


async def _in_mode(stage: AgentStage, mode: str) -> None:
    """Choose a mode by its name; agents that have none of that name need not know what it means."""
    result = await stage.initialized()
    await stage.opened()
    if stage.dialect == "draft":
        known = ((result.get("capabilities") or {}).get("sessionCapabilities") or {}).get("modes") or []
    else:
        known = [each.get("id") for each in (stage.setup.get("modes") or {}).get("availableModes") or []]
    if mode not in known:
        stage.skip(f"the agent has no mode {mode}")
    heard = await stage.requested("session/set_mode", {"sessionId": stage.session, "modeId": mode})
    if heard is None or "error" in heard.message:
        stage.unsure(f"the mode {mode} could not be chosen", heard)


def _questions(stage: AgentStage) -> list[Heard]:
    return [heard for heard in stage.heard if heard.method == "session/request_permission"]


@probe("agent.dialect.11")
async def nothing_is_asked_where_all_is_allowed(stage: AgentStage) -> None:
    """A file is written."""
    await _in_mode(stage, "bypassPermissions")
    await stage.prompted(stage.words("write"))
    stage.require(not _questions(stage), "leave is asked for in bypassPermissions", *_questions(stage))
    if not requests(stage, WRITE) and not os.path.exists(stage.new):
        stage.unsure("the agent wrote nothing")


@probe("agent.dialect.12")
async def plans_are_not_carried_out(stage: AgentStage) -> None:
    """Whatever is asked for."""
    await _in_mode(stage, "plan")
    await stage.prompted(stage.words("write"))
    written = requests(stage, WRITE)
    stage.require(not written and not os.path.exists(stage.new), "a file was written in the mode plan", *written)
