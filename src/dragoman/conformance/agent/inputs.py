"""MCP servers, initial modes and options, attachments and content blocks that an agent is given."""

from __future__ import annotations

import os
import pathlib
import sys

from dragoman.conformance import json_shape
from dragoman.conformance.agent.files import READ, WRITE, requests
from dragoman.conformance.harness import hello
from dragoman.conformance.harness.agent import AgentUnderTest
from dragoman.conformance.harness.peer import Json, ReceivedFrame
from dragoman.conformance.json_shape import mismatch
from dragoman.conformance.requirement import may, must, should

SECRET = "check-secret-5f3a"

# A minimal MCP server: it answers initialize and has no tools.
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


def servers(agent: AgentUnderTest) -> Json:
    """Return one stdio MCP server with a secret in its environment, as the dialect writes it."""
    started = {"command": sys.executable, "args": ["-c", SERVER]}
    if agent.dialect == "draft":
        return [{"name": "check", "transport": {"type": "stdio", **started, "env": {"CHECK_KEY": SECRET}}}]
    return [{"name": "check", **started, "env": [{"name": "CHECK_KEY", "value": SECRET}]}]


@must("agent.session.36", "initialize.md#agent-capabilities, sessions.md#mcp-servers", "v1 banjo crow draft")
async def servers_are_accepted(agent: AgentUnderTest) -> None:
    """An MCP server that is a command may be given with a session."""
    await agent.initialize()
    params = {**hello.new_session(agent.dialect, agent.cwd, "one"), "mcpServers": servers(agent)}
    agent.require_result(
        await agent.request("session/new", params, agent.timeouts.start), "a session with an MCP server"
    )


@must("agent.session.37", "draft.md#mcp-trust", "v1 banjo crow draft")
async def secrets_are_not_shown(agent: AgentUnderTest) -> None:
    """What is secret about an MCP server is not told to the user."""
    await agent.open_session(mcpServers=servers(agent))
    await agent.prompt(agent.prompt_for("tour"))
    found = [frame for frame in agent.received if SECRET.encode() in frame.raw]
    agent.require(not found, "a secret of an MCP server was shown", *found)


@must("agent.dialect.56", "dialects.md#y2025-mcp", "2025.1")
async def servers_come_with_initialize(agent: AgentUnderTest) -> None:
    """MCP servers are taken with initialize, as url and credentials."""
    script = pathlib.Path(agent.cwd, "check-server")
    script.write_text(f"#!{sys.executable}\n{SERVER}", encoding="utf-8")
    script.chmod(0o755)
    params = hello.initialize(agent.dialect, agent.cwd, hello.ALL[agent.dialect])
    server = {"name": "check", "url": f"stdio://{script}", "credentials": {"key": SECRET}}
    frame = await agent.request("initialize", {**params, "mcp_servers": [server]}, agent.timeouts.start)
    agent.require_result(frame, "initialize with an MCP server")


# --- how a session begins -----------------------------------------------------------------------------------------


async def _session_capability(agent: AgentUnderTest, name: str) -> Json:
    """Return a list in the session capabilities of the draft."""
    result = await agent.initialize()
    can = (result.get("capabilities") or {}).get("sessionCapabilities")
    found = can.get(name) if isinstance(can, dict) else None
    return found if isinstance(found, list) else []


@must("agent.draft.27", "draft.md#new-session")
async def sessions_begin_in_a_mode(agent: AgentUnderTest) -> None:
    """A new session begins in the mode it was asked for."""
    # Ask for the mode listed last, which is hardly the default.
    modes = await _session_capability(agent, "modes")
    if len(modes) < 2:
        agent.skip("the agent has no modes to choose from")
    await agent.open_session(initialMode=modes[-1], systemPrompt="Answer in one sentence.")
    frame = await agent.request("session/set_mode", {"sessionId": agent.session, "mode": modes[0]})
    before = (frame.message.get("result") or {}).get("previousMode") if frame else None
    if before is None:
        agent.inconclusive("the mode could not be changed", frame)
    agent.require(before == modes[-1], f"a session asked for in {modes[-1]!r} began in {before!r}", frame)


@must("agent.draft.28", "draft.md#new-session")
async def sessions_begin_with_options(agent: AgentUnderTest) -> None:
    """A new session begins with the options it was given."""
    options = await _session_capability(agent, "configOptions")
    if not options:
        agent.skip("the agent has no options")
    value = "loud" if agent.agent_name() == "everything" else "x"
    await agent.open_session(configOptions={options[0]: value})
    params = {"sessionId": agent.session, "key": options[0], "value": value}
    frame = await agent.request("session/set_config_option", params)
    result = frame.message.get("result") if frame else None
    if not isinstance(result, dict) or "previousValue" not in result:
        agent.inconclusive("the previous value of the option is missing", frame)
    previous = result["previousValue"]
    agent.require(
        previous == value, f"a session was given {value!r} for {options[0]!r} and began with {previous!r}", frame
    )


@must("agent.dialect.61", "dialects.md#y2025-sessions", "2025.1")
async def sessions_begin_in_a_listed_mode(agent: AgentUnderTest) -> None:
    """A new session may begin in a mode that was told."""
    modes = ((await agent.initialize()).get("capabilities") or {}).get("supported_modes")
    if not isinstance(modes, list) or not modes:
        agent.skip("the agent has no modes")
    frame = await agent.request("session/new", {"session_id": "in-a-mode", "mode": modes[-1]}, agent.timeouts.start)
    agent.require_result(frame, f"a session in the mode {modes[-1]!r}")


@must("agent.dialect.58", "dialects.md#y2025-sessions", "2025.1")
async def sessions_are_loaded_by_id(agent: AgentUnderTest) -> None:
    """A session can be loaded by its id, and that is answered with ok."""
    await agent.run_turn("plain")
    frame = await agent.request("session/load", {"session_id": agent.session}, agent.timeouts.turn)
    problem = mismatch(agent.require_result(frame, "session/load"), {"status": json_shape.one_of("ok")})
    agent.require(not problem, problem, frame)


# --- what stands in a prompt --------------------------------------------------------------------------------------


async def _require_accepted(agent: AgentUnderTest, what: str, *blocks: Json, **members: Json) -> None:
    """Require that a prompt of these raw blocks is answered with a result."""
    first = {"type": "text", "text": agent.prompt_for("plain")}
    named = "session_id" if agent.dialect == "2025.1" else "sessionId"
    params = {named: agent.session, "content": [first, *blocks], **members}
    frame = await agent.request("session/prompt", params, agent.timeouts.turn)
    if frame is None:
        agent.inconclusive("the agent did not end the turn in time")
    agent.require_result(frame, what)


@must("agent.dialect.59", "dialects.md#y2025-content", "2025.1")
async def resources_lie_flat(agent: AgentUnderTest) -> None:
    """Resources and links are taken, flat as they lie there."""
    await agent.open_session()
    resource = {"type": "resource", "uri": "file:///a.txt", "mime_type": "text/plain", "content": "one"}
    link = {"type": "resource_link", "uri": f"file://{agent.file}", "mime_type": "text/plain"}
    await _require_accepted(agent, "a prompt with a resource and a link", resource, link)


@must("agent.dialect.60", "dialects.md#y2025-content, dialects.md#y2025-capabilities", "2025.1")
async def pictures_and_audio_is_accepted(agent: AgentUnderTest) -> None:
    """Pictures and sounds are taken where that is offered."""
    can = (await agent.initialize()).get("capabilities") or {}
    samples = [("image", "png", PICTURE), ("audio", "wav", SOUND)]
    blocks = [{"type": kind, "format": form, "data": data} for kind, form, data in samples if can.get(kind) is True]
    if not blocks:
        agent.skip("the agent takes neither images nor audio")
    await agent.open_session()
    await _require_accepted(agent, "a prompt with " + " and ".join(str(block["type"]) for block in blocks), *blocks)


@must("agent.draft.30", "draft.md#prompt")
async def attachments_are_accepted(agent: AgentUnderTest) -> None:
    """Files attached to a prompt are taken where that is offered."""
    can = ((await agent.initialize()).get("capabilities") or {}).get("promptCapabilities")
    if not isinstance(can, dict) or can.get("attachments") is not True:
        agent.skip("the agent takes no attachments")
    await agent.open_session()
    attached = [{"name": "notes", "path": agent.file, "mimeType": "text/plain"}]
    await _require_accepted(agent, "a prompt with a file attached", attachments=attached)


@should("agent.draft.36", "draft.md#content-blocks")
async def blocks_are_accepted(agent: AgentUnderTest) -> None:
    """All blocks of content are taken, with bytes or with a url."""
    await agent.open_session()
    await _require_accepted(
        agent,
        "a prompt of all kinds of blocks",
        {"type": "image", "source": {"type": "base64", "mediaType": "image/png", "data": PICTURE}},
        {"type": "image", "source": {"type": "url", "mediaType": "image/png", "url": "https://example.org/a.png"}},
        {"type": "audio", "source": {"type": "base64", "mediaType": "audio/wav", "data": SOUND}},
        {"type": "resource", "uri": "file:///a.txt", "mimeType": "text/plain", "content": "one"},
        {"type": "resource_link", "uri": f"file://{agent.file}", "title": "Notes"},
    )


@may("agent.files.23", "dialects.md#banjo-content-merging", "v1 banjo")
async def links_are_read_by_their_path(agent: AgentUnderTest) -> None:
    """A link in a prompt may be read through the client, by the path that it names."""
    # An agent need not read the file.
    await agent.open_session()
    link = {"type": "resource_link", "uri": f"file://{agent.file}", "name": "notes.txt"}
    await agent.prompt([{"type": "text", "text": agent.prompt_for("plain")}, link])
    found = requests(agent, READ)
    if not found:
        agent.skip("the agent does not read what is linked")
    wrong = [frame for frame in found if frame.params.get("path") != agent.file]
    agent.require(not wrong, f"something else was read than {agent.file}, which was linked", *wrong)


# --- modes that mean something ------------------------------------------------------------------------------------


async def _in_mode(agent: AgentUnderTest, mode: str) -> None:
    """Choose a mode by its name; skip if the agent has none of that name."""
    result = await agent.initialize()
    await agent.open_session()
    if agent.dialect == "draft":
        known = ((result.get("capabilities") or {}).get("sessionCapabilities") or {}).get("modes") or []
    else:
        known = [each.get("id") for each in (agent.setup.get("modes") or {}).get("availableModes") or []]
    if mode not in known:
        agent.skip(f"the agent has no mode {mode}")
    frame = await agent.request_in_dialect("session/set_mode", {"sessionId": agent.session, "modeId": mode})
    if frame is None or "error" in frame.message:
        agent.inconclusive(f"the mode {mode} could not be chosen", frame)


def _questions(agent: AgentUnderTest) -> list[ReceivedFrame]:
    return [frame for frame in agent.received if frame.method == "session/request_permission"]


@must("agent.dialect.11", "dialects.md#banjo-modes", "banjo")
async def nothing_is_asked_where_all_is_allowed(agent: AgentUnderTest) -> None:
    """In the mode bypassPermissions nothing is asked."""
    await _in_mode(agent, "bypassPermissions")
    await agent.prompt(agent.prompt_for("write"))
    agent.require(not _questions(agent), "permission is requested in bypassPermissions", *_questions(agent))
    if not requests(agent, WRITE) and not os.path.exists(agent.new):
        agent.inconclusive("the agent wrote nothing")


@must("agent.dialect.12", "dialects.md#banjo-modes, draft.md#modes", "banjo draft")
async def plans_are_not_carried_out(agent: AgentUnderTest) -> None:
    """In the mode plan nothing is written."""
    await _in_mode(agent, "plan")
    await agent.prompt(agent.prompt_for("write"))
    written = requests(agent, WRITE)
    agent.require(not written and not os.path.exists(agent.new), "a file was written in the mode plan", *written)
