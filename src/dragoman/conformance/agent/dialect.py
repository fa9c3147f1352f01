"""What only banjo, crow and 2025.1 ask of an agent."""

from __future__ import annotations

import uuid
from typing import Any

from dragoman.conformance import json_shape
from dragoman.conformance.agent.cancel import start_slow_turn
from dragoman.conformance.agent.files import run_and_collect
from dragoman.conformance.agent.permission import collect_questions as questioned
from dragoman.conformance.agent.update import updates_match
from dragoman.conformance.harness import hello
from dragoman.conformance.harness.agent import AgentUnderTest
from dragoman.conformance.json_shape import Shape, mismatch
from dragoman.conformance.requirement import must

STATUS = json_shape.one_of("pending", "in_progress", "completed")


async def _require_initialize_shape(agent: AgentUnderTest, shape: Shape) -> None:
    problem = mismatch(await agent.initialize(), shape)
    agent.require(not problem, problem, agent.initialize_reply)


async def _require_session_shape(agent: AgentUnderTest, shape: Shape) -> None:
    await agent.open_session()
    problem = mismatch(agent.setup, shape)
    agent.require(not problem, problem, agent.session_reply)


# --- banjo ------------------------------------------------------------------------------------------------------

MODELS = {"availableModels": [{"id": json_shape.non_empty, "name": str}], "currentModelId": json_shape.non_empty}


@must("agent.dialect.01", "dialects.md#banjo-new-session", "banjo")
async def sessions_have_options_models_and_modes(agent: AgentUnderTest) -> None:
    """A new session tells its options, models and modes."""
    await _require_session_shape(agent, {"configOptions": list, "models": dict, "modes": dict})


@must("agent.dialect.02", "dialects.md#banjo-models", "banjo")
async def models_are_whole(agent: AgentUnderTest) -> None:
    """Models have ids and names, and the current one is among them."""
    await agent.open_session()
    models: Any = agent.setup.get("models")
    if not isinstance(models, dict):
        agent.inconclusive("the session has no models")
    problem = mismatch(models, MODELS, "models")
    agent.require(not problem, problem, agent.session_reply)
    known = [model["id"] for model in models["availableModels"]]
    current = models["currentModelId"]
    agent.require(current in known, f"the current model {current!r} is none of {known}", agent.session_reply)


async def _change_model(agent: AgentUnderTest) -> tuple[str, Any]:
    await agent.open_session()
    models: Any = agent.setup.get("models") or {}
    current = models.get("currentModelId")
    offered = [model.get("id") for model in models.get("availableModels") or []]
    if current not in offered:
        agent.inconclusive("the current model is none of those that can be chosen", agent.session_reply)
    others = [model for model in offered if model != current]
    if not others:
        agent.inconclusive("the session has no other model")
    params = {"sessionId": agent.session, "modelId": others[0]}
    return others[0], await agent.request("session/set_model", params)


@must("agent.dialect.03", "dialects.md#banjo-models", "banjo")
async def models_can_be_chosen(agent: AgentUnderTest) -> None:
    """session/set_model is answered with an empty object."""
    _, frame = await _change_model(agent)
    result = agent.require_result(frame, "session/set_model")
    agent.require(isinstance(result, dict), "session/set_model was not answered with an object", frame)


@must("agent.dialect.04", "dialects.md#banjo-models", "banjo")
async def changes_of_model_are_reported(agent: AgentUnderTest) -> None:
    """A change of model is told."""
    model, _ = await _change_model(agent)
    await agent.collect()
    updates = [frame for frame in agent.received if "current_model_update" in str(frame.message)]
    agent.require(updates, "the model was changed and no current_model_update was sent")
    update = updates[-1].message["params"]["update"]
    agent.require(update.get("currentModelId") == model, "current_model_update names another model", updates[-1])


@must("agent.dialect.05", "dialects.md#banjo-modes", "banjo")
async def the_old_member_is_read(agent: AgentUnderTest) -> None:
    """A mode may be named by the old member mode."""
    await agent.open_session()
    modes = (agent.setup.get("modes") or {}).get("availableModes") or []
    if not modes:
        agent.inconclusive("the session has no modes")
    params = {"sessionId": agent.session, "mode": modes[-1].get("id")}
    agent.require_result(await agent.request("session/set_mode", params), "a mode named by the old member")


@must("agent.dialect.06", "dialects.md#banjo-authenticate", "banjo")
async def any_login_is_accepted(agent: AgentUnderTest) -> None:
    """authenticate takes any params and gives an empty object."""
    await agent.initialize()
    frame = await agent.request("authenticate", {"methodId": "whatever", "token": "x"})
    result = agent.require_result(frame, "authenticate")
    agent.require(isinstance(result, dict), "authenticate was not answered with an object", frame)


must("agent.dialect.07", "dialects.md#banjo-plans", "banjo")(
    updates_match(
        "Entries of a plan have an id, content and a status.",
        "plan",
        "plan",
        {"entries": [{"id": json_shape.non_empty, "content": str, "status": STATUS}]},
    )
)


@must("agent.dialect.08", "dialects.md#banjo-methods", "banjo")
async def the_old_resume_is_there(agent: AgentUnderTest) -> None:
    """unstable_resumeSession is there."""
    await agent.open_session()
    frame = await agent.request("unstable_resumeSession", {"sessionId": agent.session, "cwd": agent.cwd})
    agent.require(frame, "unstable_resumeSession was not answered")
    assert frame is not None
    error = frame.message.get("error")
    missing = isinstance(error, dict) and error.get("code") == -32601
    agent.require(not missing, "unstable_resumeSession is not there", frame)


@must("agent.dialect.09", "dialects.md#banjo-errors", "banjo")
async def other_versions_are_refused(agent: AgentUnderTest) -> None:
    """A version that is not supported is refused with -32001."""
    params = hello.initialize(agent.dialect, agent.cwd, {}) | {"protocolVersion": 9}
    agent.require_error(await agent.request("initialize", params, agent.timeouts.start), "version 9", -32001)


@must("agent.dialect.10", "dialects.md#banjo-initialize", "banjo")
async def logins_are_listed(agent: AgentUnderTest) -> None:
    """The logins offered are a list, even if empty."""
    await _require_initialize_shape(agent, {"authMethods": list})


# --- crow -------------------------------------------------------------------------------------------------------


@must("agent.dialect.21", "dialects.md#crow-initialize", "crow")
async def crow_initialize_has_its_shape(agent: AgentUnderTest) -> None:
    """The introduction tells capabilities in crow's words."""
    prompt = {"text?": bool, "image?": bool, "resource?": bool}
    can = {"load_session?": bool, "prompt_capabilities": prompt, "mcp_capabilities?": dict}
    await _require_initialize_shape(
        agent, {"protocol_version": int, "agent_capabilities": can, "agent_info": {"name": str, "title?": str}}
    )


@must("agent.dialect.22", "dialects.md#crow-sessions", "crow")
async def ids_are_uuids(agent: AgentUnderTest) -> None:
    """Session ids are UUIDs."""
    session = await agent.open_session()
    try:
        uuid.UUID(session)
    except ValueError:
        agent.require(False, f"the session id {session!r} is no UUID", agent.session_reply)


@must("agent.dialect.23", "dialects.md#crow-prompt", "crow")
async def updates_have_a_type_member(agent: AgentUnderTest) -> None:
    """An update says its kind as @type."""
    await agent.run_turn("tour")
    for frame in agent.received:
        if frame.message.get("method") == "session/update":
            problem = mismatch(frame.message.get("params"), {"update": {"@type": json_shape.non_empty}})
            agent.require(not problem, problem, frame)


must("agent.dialect.24", "dialects.md#crow-updates", "crow")(
    updates_match("A piece of a message is text.", "plain", "agent_message_chunk", {"text": str})
)
must("agent.dialect.25", "dialects.md#crow-updates", "crow")(
    updates_match(
        "A tool call starts with id, title, kind and status.",
        "tour",
        "tool_call",
        {"tool_call_id": json_shape.non_empty, "title": str, "kind": str, "status": str},
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
        "What is told of a tool call has its id and a status.",
        "tour",
        "tool_call_update",
        {"tool_call_id": json_shape.non_empty, "status": str},
    )
)


@must("agent.dialect.27", "dialects.md#crow-cancel", "crow")
async def cancels_are_answered(agent: AgentUnderTest) -> None:
    """cancel is a request, and is answered."""
    turn = await start_slow_turn(agent)
    frame = await agent.request("cancel", {"session_id": agent.session})
    agent.require_result(frame, "cancel")
    await agent.wait_turn(turn)


@must("agent.dialect.28", "dialects.md#crow-permission", "crow")
async def questions_of_crow_are_whole(agent: AgentUnderTest) -> None:
    """A question for leave has the tool call and options with id and title."""
    _, question = await questioned(agent)
    options = [{"id": json_shape.non_empty, "title": str, "is_primary?": bool}]
    shape = {"update": {"tool_call_id": json_shape.non_empty, "title": str, "permission_options": options}}
    problem = mismatch(question.message.get("params"), shape)
    agent.require(not problem, problem, question)
    agent.require(question.message["params"]["update"]["permission_options"], "there are no options", question)


@must("agent.dialect.29", "dialects.md#crow-errors", "crow")
async def faults_are_listed(agent: AgentUnderTest) -> None:
    """Wrong params are told one by one in data.errors."""
    await agent.initialize()
    frame = await agent.request("session/prompt", {})
    if frame is None or not isinstance(frame.message.get("error"), dict):
        agent.inconclusive("a prompt without params was not refused", frame)
    problem = mismatch(frame.message["error"].get("data"), {"errors": json_shape.non_empty_list}, "data")
    agent.require(not problem, problem, frame)


# --- 2025.1 -----------------------------------------------------------------------------------------------------


@must("agent.dialect.41", "dialects.md#y2025-initialize", "2025.1")
async def y2025_initialize_has_its_shape(agent: AgentUnderTest) -> None:
    """The introduction tells who the agent is and what it can do."""
    can = {"streaming?": bool, "audio?": bool, "image?": bool}
    await _require_initialize_shape(agent, {"agent_info": {"name": str}, "capabilities": can, "instructions?": str})


@must("agent.dialect.42", "dialects.md#y2025-initialize", "2025.1")
async def modes_are_names(agent: AgentUnderTest) -> None:
    """Modes are told as a list of names."""
    await _require_initialize_shape(agent, {"capabilities": {"supported_modes?": [str]}})


@must("agent.dialect.43", "extensions.md#choices-for-20251", "2025.1")
async def new_sessions_are_ok(agent: AgentUnderTest) -> None:
    """A new session is answered with the status ok."""
    await agent.initialize()
    frame = await agent.request("session/new", {"session_id": "mine", "mode": "agent"})
    problem = mismatch(
        agent.require_result(frame, "session/new"), {"status": json_shape.one_of("ok"), "session_id?": str}
    )
    agent.require(not problem, problem, frame)


@must("agent.dialect.44", "dialects.md#y2025-sessions", "2025.1")
async def the_clients_id_is_used(agent: AgentUnderTest) -> None:
    """Updates name the session by the client's own id."""
    await agent.run_turn("plain")
    for frame in agent.received:
        if frame.method == "session/update":
            found = frame.message["params"].get("session_id")
            agent.require(found == agent.session, f"an update names the session {found!r}, not the client's", frame)


@must("agent.dialect.45", "dialects.md#y2025-updates", "2025.1")
async def updates_are_framed(agent: AgentUnderTest) -> None:
    """An update has a session, a type and data."""
    await agent.run_turn("tour")
    for frame in agent.received:
        if frame.message.get("method") == "session/update":
            problem = mismatch(
                frame.message.get("params"), {"session_id": str, "type": json_shape.non_empty, "data": dict}
            )
            agent.require(not problem, problem, frame)


must("agent.dialect.46", "dialects.md#y2025-updates", "2025.1")(
    updates_match("A piece of a message is text.", "plain", "agent_message_chunk", {"text": str})
)
must("agent.dialect.47", "dialects.md#y2025-updates", "2025.1")(
    updates_match(
        "A tool call has an id, a name and arguments.",
        "tour",
        "tool_call",
        {"id": json_shape.non_empty, "name": json_shape.non_empty, "arguments": dict},
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
        "What is told of a tool call has its id.",
        "tour",
        "tool_call_update",
        {"id": json_shape.non_empty, "status?": str, "result?": dict},
    )
)


@must("agent.dialect.49", "dialects.md#y2025-states", "2025.1")
async def one_turn_at_a_time(agent: AgentUnderTest) -> None:
    """A second prompt while one is worked on is a wrong state."""
    turn = await start_slow_turn(agent)
    second = await agent.wait_turn(agent.start_turn("hello"), agent.timeouts.answer)
    agent.require_error(second.answer, "a second prompt while one is worked on", -32003)
    agent.cancel()
    await agent.wait_turn(turn)


@must("agent.dialect.50", "dialects.md#y2025-messages", "2025.1")
async def turns_are_ok(agent: AgentUnderTest) -> None:
    """A turn is answered with the status ok."""
    turn = await agent.run_turn("plain")
    result = agent.require_result(turn.answer, "a prompt")
    problem = mismatch(result, {"status": json_shape.one_of("ok")})
    agent.require(not problem, problem, turn.answer)


@must("agent.dialect.51", "dialects.md#y2025-files", "2025.1")
async def files_have_no_session(agent: AgentUnderTest) -> None:
    """Files are asked for by absolute path, without a session."""
    for frame in await run_and_collect(agent, "read", "fs/read_text_file"):
        problem = mismatch(frame.message.get("params"), {"path": json_shape.absolute})
        agent.require(not problem, problem, frame)


@must("agent.dialect.52", "dialects.md#y2025-terminals", "2025.1")
async def terminals_have_a_line(agent: AgentUnderTest) -> None:
    """A terminal is asked for with one command line and a folder."""
    for frame in await run_and_collect(agent, "run", "terminal/create"):
        problem = mismatch(frame.message.get("params"), {"command": json_shape.non_empty, "cwd?": json_shape.absolute})
        agent.require(not problem, problem, frame)
        agent.require("args" not in frame.message["params"], "the command line is cut into args", frame)


@must("agent.dialect.53", "dialect-matrix.md#client-ids", "2025.1")
async def used_ids_are_accepted(agent: AgentUnderTest) -> None:
    """A session id that is in use cannot be taken again."""
    await agent.open_session()
    frame = await agent.request("session/new", {"session_id": agent.session, "mode": "agent"})
    agent.require_error(frame, "a session id that is in use")


@must("agent.dialect.54", "dialects.md#y2025-authenticate", "2025.1")
async def tokens_are_accepted(agent: AgentUnderTest) -> None:
    """A token is accepted where none is needed."""
    await agent.initialize()
    agent.require_result(
        await agent.request("authenticate", {"type": "token", "token": "secret"}), "authenticate with a token"
    )
