"""What only banjo, crow and 2025.1 ask of an agent."""

from __future__ import annotations

import os
import pathlib
import sys
import uuid
from typing import Any

from dragoman.conformance.agent.files import WRITE, require_request_shape, run_and_collect
from dragoman.conformance.agent.prompt import PICTURE, SOUND, require_accepted_blocks
from dragoman.conformance.agent.session import MCP_SECRET, MCP_SERVER
from dragoman.conformance.agent.update import require_update_frames, updates_match
from dragoman.conformance.harness.agent import QUESTION, AgentUnderTest
from dragoman.conformance.json_shape import absolute, non_empty, non_empty_list, one_of
from dragoman.conformance.requirement import must

STATUS = one_of("pending", "in_progress", "completed")

# --- banjo ------------------------------------------------------------------------------------------------------

MODELS = {"availableModels": [{"id": non_empty, "name": str}], "currentModelId": non_empty}


@must("agent.dialect.01", "dialects.md#banjo-new-session", "banjo")
async def sessions_have_options_models_and_modes(agent: AgentUnderTest) -> None:
    """A new session has its options, models and modes."""
    await agent.open_session()
    agent.require_shape(agent.setup, {"configOptions": list, "models": dict, "modes": dict}, agent.session_reply)


@must("agent.dialect.02", "dialects.md#banjo-models", "banjo")
async def models_are_complete(agent: AgentUnderTest) -> None:
    """Models have ids and names, and the current one is among them."""
    await agent.open_session()
    models: Any = agent.setup.get("models")
    agent.assume(isinstance(models, dict), "the session has no models")
    agent.require_shape(models, MODELS, agent.session_reply, "models")
    known = [model["id"] for model in models["availableModels"]]
    current = models["currentModelId"]
    agent.require(current in known, f"the current model {current!r} is none of {known}", agent.session_reply)


async def _change_model(agent: AgentUnderTest) -> tuple[str, Any]:
    await agent.open_session()
    models: Any = agent.setup.get("models") or {}
    current = models.get("currentModelId")
    offered = [model.get("id") for model in models.get("availableModels") or []]
    agent.assume(current in offered, "the current model is none of those that can be chosen", agent.session_reply)
    others = [model for model in offered if model != current]
    agent.assume(others, "the session has no other model")
    params = {"sessionId": agent.session, "modelId": others[0]}
    return others[0], await agent.request("session/set_model", params)


@must("agent.dialect.03", "dialects.md#banjo-models", "banjo")
async def models_can_be_chosen(agent: AgentUnderTest) -> None:
    """session/set_model is answered with an empty object."""
    _, frame = await _change_model(agent)
    agent.require_result(frame, "session/set_model", dict)


@must("agent.dialect.04", "dialects.md#banjo-models", "banjo")
async def changes_of_model_are_reported(agent: AgentUnderTest) -> None:
    """A change of model is reported."""
    model, _ = await _change_model(agent)
    await agent.collect()
    updates = [frame for frame in agent.received if "current_model_update" in str(frame.message)]
    agent.require(updates, "the model was changed and no current_model_update was sent")
    update = updates[-1].message["params"]["update"]
    agent.require(update.get("currentModelId") == model, "current_model_update names another model", updates[-1])


@must("agent.dialect.05", "dialects.md#banjo-modes", "banjo")
async def the_old_member_is_read(agent: AgentUnderTest) -> None:
    """A mode may be set with the old member mode."""
    await agent.open_session()
    modes = agent.assume(agent.available_modes(), "the session has no modes")
    params = {"sessionId": agent.session, "mode": modes[-1]}
    agent.require_result(await agent.request("session/set_mode", params), "a mode named by the old member")


@must("agent.dialect.06", "dialects.md#banjo-authenticate", "banjo")
async def any_login_is_accepted(agent: AgentUnderTest) -> None:
    """authenticate accepts any params and returns an empty object."""
    await agent.initialize()
    frame = await agent.request("authenticate", {"methodId": "whatever", "token": "x"})
    agent.require_result(frame, "authenticate", dict)


must("agent.dialect.07", "dialects.md#banjo-plans", "banjo")(
    updates_match(
        "Entries of a plan have an id, content and a status.",
        "plan",
        "plan",
        {"entries": [{"id": non_empty, "content": str, "status": STATUS}]},
    )
)


@must("agent.dialect.08", "dialects.md#banjo-methods", "banjo")
async def the_old_resume_is_there(agent: AgentUnderTest) -> None:
    """unstable_resumeSession exists."""
    await agent.open_session()
    frame = await agent.request("unstable_resumeSession", {"sessionId": agent.session, "cwd": agent.cwd})
    frame = agent.require(frame, "unstable_resumeSession was not answered")
    agent.require(frame.error.get("code") != -32601, "unstable_resumeSession is not there", frame)


@must("agent.dialect.09", "dialects.md#banjo-errors", "banjo")
async def other_versions_are_refused(agent: AgentUnderTest) -> None:
    """A version that is not supported is refused with -32001."""
    agent.require_error(await agent.request_initialize({}, protocolVersion=9), "version 9", -32001)


@must("agent.dialect.10", "dialects.md#banjo-initialize", "banjo")
async def logins_are_listed(agent: AgentUnderTest) -> None:
    """The logins offered are a list, even if empty."""
    await agent.require_initialize_shape({"authMethods": list})


async def _choose_mode(agent: AgentUnderTest, mode: str) -> None:
    """Choose a mode by its name; skip if the agent has none of that name."""
    result = await agent.initialize()
    await agent.open_session()
    known = agent.available_modes()
    if agent.dialect == "draft":
        known = ((result.get("capabilities") or {}).get("sessionCapabilities") or {}).get("modes") or []
    agent.skip_unless(mode in known, f"the agent has no mode {mode}")
    frame = await agent.request_in_dialect("session/set_mode", {"sessionId": agent.session, "modeId": mode})
    agent.assume_result(frame, f"the mode {mode} could not be chosen")


@must("agent.dialect.11", "dialects.md#banjo-modes", "banjo")
async def nothing_is_asked_where_all_is_allowed(agent: AgentUnderTest) -> None:
    """In the mode bypassPermissions no permission is requested."""
    await _choose_mode(agent, "bypassPermissions")
    await agent.run_turn("write")
    agent.require_none(agent.calls(QUESTION), "permission is requested in bypassPermissions")
    agent.assume(agent.requests(WRITE) or os.path.exists(agent.new), "the agent wrote nothing")


@must("agent.dialect.12", "dialects.md#banjo-modes, draft.md#modes", "banjo draft")
async def nothing_is_written_in_plan_mode(agent: AgentUnderTest) -> None:
    """In the mode plan nothing is written."""
    await _choose_mode(agent, "plan")
    await agent.run_turn("write")
    written = agent.requests(WRITE)
    agent.require(not written and not os.path.exists(agent.new), "a file was written in the mode plan", *written)


# --- crow -------------------------------------------------------------------------------------------------------


@must("agent.dialect.21", "dialects.md#crow-initialize", "crow")
async def crow_initialize_has_its_shape(agent: AgentUnderTest) -> None:
    """The result of initialize has the capabilities of crow."""
    prompt = {"text?": bool, "image?": bool, "resource?": bool}
    can = {"load_session?": bool, "prompt_capabilities": prompt, "mcp_capabilities?": dict}
    await agent.require_initialize_shape(
        {"protocol_version": int, "agent_capabilities": can, "agent_info": {"name": str, "title?": str}}
    )


@must("agent.dialect.22", "dialects.md#crow-sessions", "crow")
async def ids_are_uuids(agent: AgentUnderTest) -> None:
    """Session ids are UUIDs."""
    session = await agent.open_session()
    try:
        uuid.UUID(session)
    except ValueError:
        agent.require(False, f"the session id {session!r} is not a UUID", agent.session_reply)


@must("agent.dialect.23", "dialects.md#crow-prompt", "crow")
async def updates_have_a_type_member(agent: AgentUnderTest) -> None:
    """An update states its kind as @type."""
    await require_update_frames(agent, "tour", {"update": {"@type": non_empty}})


must("agent.dialect.24", "dialects.md#crow-updates", "crow")(
    updates_match("A piece of a message is text.", "plain", "agent_message_chunk", {"text": str})
)
must("agent.dialect.25", "dialects.md#crow-updates", "crow")(
    updates_match(
        "A tool call starts with id, title, kind and status.",
        "tour",
        "tool_call",
        {"tool_call_id": non_empty, "title": str, "kind": str, "status": str},
    )
)
must("agent.dialect.26", "dialects.md#crow-updates", "crow")(
    updates_match(
        "A plan has entries with content, priority and status.",
        "plan",
        "plan",
        {"entries": [{"content": str, "priority": str, "status": STATUS}]},
    )
)
must("agent.dialect.30", "dialects.md#crow-updates", "crow")(
    updates_match("A thought is text.", "think", "agent_thought_chunk", {"text": str})
)
must("agent.dialect.31", "dialects.md#crow-updates", "crow")(
    updates_match(
        "An update of a tool call has its id and a status.",
        "tour",
        "tool_call_update",
        {"tool_call_id": non_empty, "status": str},
    )
)


@must("agent.dialect.27", "dialects.md#crow-cancel", "crow")
async def cancels_are_answered(agent: AgentUnderTest) -> None:
    """cancel is a request, and is answered."""
    turn = await agent.start_slow_turn()
    frame = await agent.request("cancel", {"session_id": agent.session})
    agent.require_result(frame, "cancel")
    await agent.wait_turn(turn)


@must("agent.dialect.28", "dialects.md#crow-permission", "crow")
async def questions_of_crow_are_complete(agent: AgentUnderTest) -> None:
    """A permission request has the tool call, and options with id and title."""
    _, question = await agent.wait_question("write")
    options = [{"id": non_empty, "title": str, "is_primary?": bool}]
    shape = {"update": {"tool_call_id": non_empty, "title": str, "permission_options": options}}
    agent.require_params(question, shape)
    agent.require(question.wire_params["update"]["permission_options"], "there are no options", question)


@must("agent.dialect.29", "dialects.md#crow-errors", "crow")
async def faults_are_listed(agent: AgentUnderTest) -> None:
    """Invalid params are listed one by one in data.errors."""
    await agent.initialize()
    frame = await agent.request("session/prompt", {})
    error = agent.assume_error(frame, "a prompt without params was not refused").error
    agent.require_shape(error.get("data"), {"errors": non_empty_list}, frame, "data")


# --- 2025.1 -----------------------------------------------------------------------------------------------------


@must("agent.dialect.41", "dialects.md#y2025-initialize", "2025.1")
async def y2025_initialize_has_its_shape(agent: AgentUnderTest) -> None:
    """The result of initialize states who the agent is and what it can do."""
    can = {"streaming?": bool, "audio?": bool, "image?": bool}
    await agent.require_initialize_shape({"agent_info": {"name": str}, "capabilities": can, "instructions?": str})


@must("agent.dialect.42", "dialects.md#y2025-initialize", "2025.1")
async def modes_are_names(agent: AgentUnderTest) -> None:
    """Modes are a list of names."""
    await agent.require_initialize_shape({"capabilities": {"supported_modes?": [str]}})


@must("agent.dialect.43", "extensions.md#choices-for-20251", "2025.1")
async def new_sessions_are_ok(agent: AgentUnderTest) -> None:
    """A new session is answered with the status ok."""
    await agent.initialize()
    frame = await agent.request("session/new", {"session_id": "mine", "mode": "agent"})
    agent.require_result(frame, "session/new", {"status": one_of("ok"), "session_id?": str})


@must("agent.dialect.44", "dialects.md#y2025-sessions", "2025.1")
async def the_clients_id_is_used(agent: AgentUnderTest) -> None:
    """Updates name the session by the client's own id."""
    await agent.run_turn("plain")
    for frame in agent.calls("session/update"):
        found = frame.wire_params.get("session_id")
        agent.require(found == agent.session, f"an update names the session {found!r}, not the client's", frame)


@must("agent.dialect.45", "dialects.md#y2025-updates", "2025.1")
async def updates_are_framed(agent: AgentUnderTest) -> None:
    """An update has a session, a type and data."""
    await require_update_frames(agent, "tour", {"session_id": str, "type": non_empty, "data": dict})


must("agent.dialect.46", "dialects.md#y2025-updates", "2025.1")(
    updates_match("A piece of a message is text.", "plain", "agent_message_chunk", {"text": str})
)
must("agent.dialect.47", "dialects.md#y2025-updates", "2025.1")(
    updates_match(
        "A tool call has an id, a name and arguments.",
        "tour",
        "tool_call",
        {"id": non_empty, "name": non_empty, "arguments": dict},
    )
)
must("agent.dialect.48", "dialects.md#y2025-updates", "2025.1")(
    updates_match(
        "A plan has steps with a numbered id, a description and a status.",
        "plan",
        "plan",
        {"steps": [{"id": int, "description": str, "status": STATUS}]},
    )
)
must("agent.dialect.57", "dialects.md#y2025-updates", "2025.1")(
    updates_match("A thought is text.", "think", "agent_thought_chunk", {"text": str})
)
must("agent.dialect.55", "dialects.md#y2025-updates", "2025.1")(
    updates_match(
        "An update of a tool call has its id.",
        "tour",
        "tool_call_update",
        {"id": non_empty, "status?": str, "result?": dict},
    )
)


@must("agent.dialect.49", "dialects.md#y2025-states", "2025.1")
async def one_turn_at_a_time(agent: AgentUnderTest) -> None:
    """A second prompt during a turn is refused as a wrong state."""
    async with agent.slow_turn():
        second = await agent.wait_turn(agent.send_prompt("hello"), agent.timeouts.answer)
        agent.require_error(second.answer, "a second prompt while one is worked on", -32003)


@must("agent.dialect.50", "dialects.md#y2025-messages", "2025.1")
async def turns_are_ok(agent: AgentUnderTest) -> None:
    """A turn is answered with the status ok."""
    turn = await agent.run_turn("plain")
    agent.require_result(turn.answer, "a prompt", {"status": one_of("ok")})


@must("agent.dialect.51", "dialects.md#y2025-files", "2025.1")
async def files_have_no_session(agent: AgentUnderTest) -> None:
    """Files are requested by absolute path, without a session."""
    await require_request_shape(agent, "read", "fs/read_text_file", {"path": absolute})


@must("agent.dialect.52", "dialects.md#y2025-terminals", "2025.1")
async def terminals_have_a_line(agent: AgentUnderTest) -> None:
    """A terminal is requested with one command line and a folder."""
    for frame in await run_and_collect(agent, "run", "terminal/create"):
        agent.require_params(frame, {"command": non_empty, "cwd?": absolute})
        agent.require("args" not in frame.wire_params, "the command line is cut into args", frame)


@must("agent.dialect.53", "dialect-matrix.md#client-ids", "2025.1")
async def used_ids_are_refused(agent: AgentUnderTest) -> None:
    """A session id that is in use cannot be used for a new session."""
    await agent.open_session()
    params = {"session_id": agent.session, "mode": "agent"}
    await agent.require_refused("session/new", params, "a session id that is in use")


@must("agent.dialect.54", "dialects.md#y2025-authenticate", "2025.1")
async def tokens_are_accepted(agent: AgentUnderTest) -> None:
    """A token is accepted where none is needed."""
    await agent.initialize()
    frame = await agent.request("authenticate", {"type": "token", "token": "secret"})
    agent.require_result(frame, "authenticate with a token")


@must("agent.dialect.56", "dialects.md#y2025-mcp", "2025.1")
async def servers_come_with_initialize(agent: AgentUnderTest) -> None:
    """MCP servers are accepted with initialize, as url and credentials."""
    script = pathlib.Path(agent.cwd, "check-server")
    script.write_text(f"#!{sys.executable}\n{MCP_SERVER}", encoding="utf-8")
    script.chmod(0o755)
    server = {"name": "check", "url": f"stdio://{script}", "credentials": {"key": MCP_SECRET}}
    agent.require_result(await agent.request_initialize(mcp_servers=[server]), "initialize with an MCP server")


@must("agent.dialect.58", "dialects.md#y2025-sessions", "2025.1")
async def sessions_are_loaded_by_id(agent: AgentUnderTest) -> None:
    """A session can be loaded by its id; the answer has the status ok."""
    await agent.run_turn("plain")
    frame = await agent.request("session/load", {"session_id": agent.session}, agent.timeouts.turn)
    agent.require_result(frame, "session/load", {"status": one_of("ok")})


@must("agent.dialect.59", "dialects.md#y2025-content", "2025.1")
async def flat_resources_are_accepted(agent: AgentUnderTest) -> None:
    """Resources and links are accepted, with their members on the top level."""
    resource = {"type": "resource", "uri": "file:///a.txt", "mime_type": "text/plain", "content": "one"}
    link = {"type": "resource_link", "uri": f"file://{agent.file}", "mime_type": "text/plain"}
    await require_accepted_blocks(agent, "a prompt with a resource and a link", resource, link)


@must("agent.dialect.60", "dialects.md#y2025-content, dialects.md#y2025-capabilities", "2025.1")
async def pictures_and_audio_are_accepted(agent: AgentUnderTest) -> None:
    """Images and audio are accepted where that is offered."""
    can = (await agent.initialize()).get("capabilities") or {}
    samples = [("image", "png", PICTURE), ("audio", "wav", SOUND)]
    blocks = [{"type": kind, "format": form, "data": data} for kind, form, data in samples if can.get(kind) is True]
    agent.skip_unless(blocks, "the agent takes neither images nor audio")
    what = "a prompt with " + " and ".join(block["type"] for block in blocks)
    await require_accepted_blocks(agent, what, *blocks)


@must("agent.dialect.61", "dialects.md#y2025-sessions", "2025.1")
async def sessions_begin_in_a_listed_mode(agent: AgentUnderTest) -> None:
    """A new session may begin in a mode that the agent listed."""
    modes = ((await agent.initialize()).get("capabilities") or {}).get("supported_modes")
    mode = agent.skip_unless(modes if isinstance(modes, list) else [], "the agent has no modes")[-1]
    frame = await agent.request("session/new", {"session_id": "in-a-mode", "mode": mode}, agent.timeouts.start)
    agent.require_result(frame, f"a session in the mode {mode!r}")
