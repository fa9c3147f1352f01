"""Probes of what only banjo, crow and 2025.1 ask of an agent."""

from __future__ import annotations

import uuid
from typing import Any

from dragoman.conformance import json_shape
from dragoman.conformance.harness import hello
from dragoman.conformance.harness.agent import AgentStage
from dragoman.conformance.json_shape import Drawing, fault
from dragoman.conformance.probe import probe
from dragoman.conformance.probes.agent_cancel import running
from dragoman.conformance.probes.agent_files import asked
from dragoman.conformance.probes.agent_permission import asked as questioned
from dragoman.conformance.probes.agent_update import drawn

STATUS = json_shape.text("pending", "in_progress", "completed")


async def _introduced(stage: AgentStage, drawing: Drawing) -> None:
    words = fault(await stage.initialized(), drawing)
    stage.require(not words, words, stage.introduction)


async def _set_up(stage: AgentStage, drawing: Drawing) -> None:
    await stage.opened()
    words = fault(stage.setup, drawing)
    stage.require(not words, words, stage.opened_by)


# --- banjo ------------------------------------------------------------------------------------------------------

MODELS = {"availableModels": [{"id": json_shape.some, "name": str}], "currentModelId": json_shape.some}


@probe("agent.dialect.01")
async def sessions_tell_all_three(stage: AgentStage) -> None:
    """Options, models and modes."""
    await _set_up(stage, {"configOptions": list, "models": dict, "modes": dict})


@probe("agent.dialect.02")
async def models_are_whole(stage: AgentStage) -> None:
    """And the current one can be shown by name."""
    await stage.opened()
    models: Any = stage.setup.get("models")
    if not isinstance(models, dict):
        stage.unsure("the session tells no models")
    words = fault(models, MODELS, "models")
    stage.require(not words, words, stage.opened_by)
    known = [model["id"] for model in models["availableModels"]]
    current = models["currentModelId"]
    stage.require(current in known, f"the current model {current!r} is none of {known}", stage.opened_by)


async def _model(stage: AgentStage) -> tuple[str, Any]:
    await stage.opened()
    models: Any = stage.setup.get("models") or {}
    current = models.get("currentModelId")
    offered = [model.get("id") for model in models.get("availableModels") or []]
    if current not in offered:
        stage.unsure("the current model is none of those that can be chosen", stage.opened_by)
    others = [model for model in offered if model != current]
    if not others:
        stage.unsure("the session tells no other model")
    params = {"sessionId": stage.session, "modelId": others[0]}
    return others[0], await stage.asked("session/set_model", params)


@probe("agent.dialect.03")
async def models_can_be_chosen(stage: AgentStage) -> None:
    """The answer is an object."""
    _, heard = await _model(stage)
    result = stage.granted(heard, "session/set_model")
    stage.require(isinstance(result, dict), "session/set_model was not answered with an object", heard)


@probe("agent.dialect.04")
async def changes_of_model_are_told(stage: AgentStage) -> None:
    """Before the answer or soon after."""
    model, _ = await _model(stage)
    await stage.silence()
    told = [heard for heard in stage.heard if "current_model_update" in str(heard.message)]
    stage.require(told, "the model was changed and no current_model_update told it")
    update = told[-1].message["params"]["update"]
    stage.require(update.get("currentModelId") == model, "current_model_update names another model", told[-1])


@probe("agent.dialect.05")
async def the_old_member_is_read(stage: AgentStage) -> None:
    """`mode` for `modeId`."""
    await stage.opened()
    modes = (stage.setup.get("modes") or {}).get("availableModes") or []
    if not modes:
        stage.unsure("the session tells no modes")
    params = {"sessionId": stage.session, "mode": modes[-1].get("id")}
    stage.granted(await stage.asked("session/set_mode", params), "a mode named by the old member")


@probe("agent.dialect.06")
async def any_login_is_taken(stage: AgentStage) -> None:
    """What is chosen makes no difference."""
    await stage.initialized()
    heard = await stage.asked("authenticate", {"methodId": "whatever", "token": "x"})
    result = stage.granted(heard, "authenticate")
    stage.require(isinstance(result, dict), "authenticate was not answered with an object", heard)


drawn("agent.dialect.07", "plan", "plan", {"entries": [{"id": json_shape.some, "content": str, "status": STATUS}]})


@probe("agent.dialect.08")
async def the_old_resume_is_there(stage: AgentStage) -> None:
    """Any answer but "method not found"."""
    await stage.opened()
    heard = await stage.asked("unstable_resumeSession", {"sessionId": stage.session, "cwd": stage.cwd})
    stage.require(heard, "unstable_resumeSession was not answered")
    assert heard is not None
    error = heard.message.get("error")
    missing = isinstance(error, dict) and error.get("code") == -32601
    stage.require(not missing, "unstable_resumeSession is not there", heard)


@probe("agent.dialect.09")
async def other_versions_are_refused(stage: AgentStage) -> None:
    """With the number for that."""
    params = hello.initialize(stage.dialect, stage.cwd, {}) | {"protocolVersion": 9}
    stage.refused(await stage.asked("initialize", params, stage.pace.start), "version 9", -32001)


@probe("agent.dialect.10")
async def logins_are_listed(stage: AgentStage) -> None:
    """Required in banjo."""
    await _introduced(stage, {"authMethods": list})


# --- crow -------------------------------------------------------------------------------------------------------


@probe("agent.dialect.21")
async def crow_is_introduced(stage: AgentStage) -> None:
    """In snake_case."""
    prompt = {"text?": bool, "image?": bool, "resource?": bool}
    can = {"load_session?": bool, "prompt_capabilities": prompt, "mcp_capabilities?": dict}
    await _introduced(
        stage, {"protocol_version": int, "agent_capabilities": can, "agent_info": {"name": str, "title?": str}}
    )


@probe("agent.dialect.22")
async def ids_are_uuids(stage: AgentStage) -> None:
    """As the seed has them."""
    session = await stage.opened()
    try:
        uuid.UUID(session)
    except ValueError:
        stage.require(False, f"the session id {session!r} is no UUID", stage.opened_by)


@probe("agent.dialect.23")
async def kinds_are_said_as_type(stage: AgentStage) -> None:
    """With the at sign."""
    await stage.did("tour")
    for heard in stage.heard:
        if heard.message.get("method") == "session/update":
            words = fault(heard.message.get("params"), {"update": {"@type": json_shape.some}})
            stage.require(not words, words, heard)


drawn("agent.dialect.24", "plain", "agent_message_chunk", {"text": str})
drawn(
    "agent.dialect.25",
    "tour",
    "tool_call",
    {"tool_call_id": json_shape.some, "title": str, "kind": str, "status": str},
)
drawn("agent.dialect.26", "plan", "plan", {"entries": [{"content": str, "priority": str, "status": STATUS}]})
drawn("agent.dialect.30", "think", "agent_thought_chunk", {"text": str})
drawn("agent.dialect.31", "tour", "tool_call_update", {"tool_call_id": json_shape.some, "status": str})


@probe("agent.dialect.27")
async def cancels_are_answered(stage: AgentStage) -> None:
    """The request, beside the turn."""
    turn = await running(stage)
    heard = await stage.asked("cancel", {"session_id": stage.session})
    stage.granted(heard, "cancel")
    await stage.ended(turn)


@probe("agent.dialect.28")
async def questions_of_crow_are_whole(stage: AgentStage) -> None:
    """As an update."""
    _, question = await questioned(stage)
    options = [{"id": json_shape.some, "title": str, "is_primary?": bool}]
    drawing = {"update": {"tool_call_id": json_shape.some, "title": str, "permission_options": options}}
    words = fault(question.message.get("params"), drawing)
    stage.require(not words, words, question)
    stage.require(question.message["params"]["update"]["permission_options"], "there are no options", question)


@probe("agent.dialect.29")
async def faults_are_listed(stage: AgentStage) -> None:
    """One for each."""
    await stage.initialized()
    heard = await stage.asked("session/prompt", {})
    if heard is None or not isinstance(heard.message.get("error"), dict):
        stage.unsure("a prompt without params was not refused", heard)
    words = fault(heard.message["error"].get("data"), {"errors": json_shape.many}, "data")
    stage.require(not words, words, heard)


# --- 2025.1 -----------------------------------------------------------------------------------------------------


@probe("agent.dialect.41")
async def y2025_is_introduced(stage: AgentStage) -> None:
    """Capabilities are switches."""
    can = {"streaming?": bool, "audio?": bool, "image?": bool}
    await _introduced(stage, {"agent_info": {"name": str}, "capabilities": can, "instructions?": str})


@probe("agent.dialect.42")
async def modes_are_names(stage: AgentStage) -> None:
    """Where there are any."""
    await _introduced(stage, {"capabilities": {"supported_modes?": [str]}})


@probe("agent.dialect.43")
async def new_sessions_are_ok(stage: AgentStage) -> None:
    """And named again, perhaps."""
    await stage.initialized()
    heard = await stage.asked("session/new", {"session_id": "mine", "mode": "agent"})
    words = fault(stage.granted(heard, "session/new"), {"status": json_shape.text("ok"), "session_id?": str})
    stage.require(not words, words, heard)


@probe("agent.dialect.44")
async def the_clients_id_is_used(stage: AgentStage) -> None:
    """The client knows no other."""
    await stage.did("plain")
    for heard in stage.heard:
        if heard.method == "session/update":
            found = heard.message["params"].get("session_id")
            stage.require(found == stage.session, f"an update names the session {found!r}, not the client's", heard)


@probe("agent.dialect.45")
async def updates_are_framed(stage: AgentStage) -> None:
    """Type beside data."""
    await stage.did("tour")
    for heard in stage.heard:
        if heard.message.get("method") == "session/update":
            words = fault(heard.message.get("params"), {"session_id": str, "type": json_shape.some, "data": dict})
            stage.require(not words, words, heard)


drawn("agent.dialect.46", "plain", "agent_message_chunk", {"text": str})
drawn("agent.dialect.47", "tour", "tool_call", {"id": json_shape.some, "name": json_shape.some, "arguments": dict})
drawn("agent.dialect.48", "plan", "plan", {"steps": [{"id": int, "description": str, "status": STATUS}]})
drawn("agent.dialect.57", "think", "agent_thought_chunk", {"text": str})
drawn("agent.dialect.55", "tour", "tool_call_update", {"id": json_shape.some, "status?": str, "result?": dict})


@probe("agent.dialect.49")
async def one_turn_at_a_time(stage: AgentStage) -> None:
    """Processing is a state."""
    turn = await running(stage)
    second = await stage.ended(stage.begin("hello"), stage.pace.answer)
    stage.refused(second.answer, "a second prompt while one is worked on", -32003)
    stage.cancel()
    await stage.ended(turn)


@probe("agent.dialect.50")
async def turns_are_ok(stage: AgentStage) -> None:
    """The one result there is."""
    turn = await stage.did("plain")
    result = stage.granted(turn.answer, "a prompt")
    words = fault(result, {"status": json_shape.text("ok")})
    stage.require(not words, words, turn.answer)


@probe("agent.dialect.51")
async def files_have_no_session(stage: AgentStage) -> None:
    """Just a path."""
    for heard in await asked(stage, "read", "fs/read_text_file"):
        words = fault(heard.message.get("params"), {"path": json_shape.absolute})
        stage.require(not words, words, heard)


@probe("agent.dialect.52")
async def terminals_have_a_line(stage: AgentStage) -> None:
    """A shell reads it."""
    for heard in await asked(stage, "run", "terminal/create"):
        words = fault(heard.message.get("params"), {"command": json_shape.some, "cwd?": json_shape.absolute})
        stage.require(not words, words, heard)
        stage.require("args" not in heard.message["params"], "the command line is cut into args", heard)


@probe("agent.dialect.53")
async def used_ids_are_taken(stage: AgentStage) -> None:
    """Two sessions of one id would be one."""
    await stage.opened()
    heard = await stage.asked("session/new", {"session_id": stage.session, "mode": "agent"})
    stage.refused(heard, "a session id that is in use")


@probe("agent.dialect.54")
async def tokens_are_accepted(stage: AgentStage) -> None:
    """Optional, and no harm."""
    await stage.initialized()
    stage.granted(await stage.asked("authenticate", {"type": "token", "token": "secret"}), "authenticate with a token")
