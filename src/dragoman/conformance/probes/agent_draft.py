"""Probes of what only the draft asks of an agent."""

from __future__ import annotations

from itertools import pairwise

from dragoman.conformance import json_shape
from dragoman.conformance.harness import hello
from dragoman.conformance.harness.agent import REJECT, AgentStage
from dragoman.conformance.harness.peer import Heard
from dragoman.conformance.json_shape import fault
from dragoman.conformance.probe import probe
from dragoman.conformance.probes.agent_cancel import running
from dragoman.conformance.probes.agent_files import asked
from dragoman.conformance.probes.agent_permission import asked as questioned
from dragoman.conformance.probes.agent_session import side_by_side
from dragoman.conformance.probes.agent_toolcall import calls
from dragoman.conformance.probes.agent_update import drawn, told

OPERATIONS = json_shape.text(
    "file_read", "file_write", "file_delete", "terminal_execute", "network_access", "mcp_tool"
)  # fmt: skip

# Status -> those that may follow (seed 004 8.2); the last three have none.
MOVES: dict[str, tuple[str, ...]] = {
    "pending": ("awaiting_permission", "in_progress", "cancelled"),
    "awaiting_permission": ("in_progress", "denied", "cancelled"),
    "in_progress": ("completed", "failed", "cancelled"),
    "completed": (),
    "failed": (),
    "denied": (),
    "cancelled": (),
}


@probe("agent.draft.01")
async def the_draft_is_introduced(stage: AgentStage) -> None:
    """Capabilities are a tree."""
    info = {"name": json_shape.some, "version": str}
    words = fault(await stage.initialized(), {"protocolVersion": int, "agentInfo": info, "capabilities": dict})
    stage.require(not words, words, stage.introduction)


@probe("agent.draft.02")
async def sessions_tell_their_age(stage: AgentStage) -> None:
    """As ISO 8601 writes it."""
    await stage.opened()
    words = fault(stage.setup, {"sessionId": json_shape.some, "createdAt": json_shape.time})
    stage.require(not words, words, stage.opened_by)


async def _updates(stage: AgentStage, drawing: json_shape.Drawing) -> None:
    await stage.did("tour")
    for heard in stage.heard:
        if heard.message.get("method") == "session/update":
            words = fault(heard.message.get("params"), drawing)
            stage.require(not words, words, heard)


@probe("agent.draft.03")
async def updates_are_framed(stage: AgentStage) -> None:
    """Type beside data."""
    await _updates(stage, {"sessionId": json_shape.some, "type": json_shape.some, "data": dict})


@probe("agent.draft.04")
async def times_are_times(stage: AgentStage) -> None:
    """Where they are told."""
    await _updates(stage, {"timestamp?": json_shape.time})


TEXT = {"content": str, "index?": json_shape.count, "final?": bool}
STEPS = [{"id": json_shape.some, "description": str, "status": str}]
drawn("agent.draft.05", "plain", "agent_message_chunk", TEXT)
drawn(
    "agent.draft.06",
    "tour",
    "tool_call",
    {"id": json_shape.some, "tool": json_shape.some, "status?": json_shape.text(*MOVES), "requiresPermission?": bool},
)
drawn("agent.draft.20", "plan", "plan", {"steps": STEPS})
drawn("agent.draft.21", "think", "agent_thought_chunk", {"content": str, "visible?": bool})
drawn(
    "agent.draft.23",
    "plain",
    "available_commands_update",
    {"commands": [{"name": json_shape.some, "description": str}]},
)


def moves(found: list[Heard]) -> dict[str, list[tuple[str, Heard]]]:
    """The statuses of each tool call on the wire, in the order told."""
    made: dict[str, list[tuple[str, Heard]]] = {}
    for heard in found:
        data = told(heard)
        status = data.get("status") if isinstance(data, dict) else None
        if isinstance(status, str):
            made.setdefault(str(data.get("id")), []).append((status, heard))
    return made


@probe("agent.draft.07")
async def statuses_move_as_allowed(stage: AgentStage) -> None:
    """The same again is no move."""
    for call, told_ in moves(await calls(stage, "read", "write")).items():
        for (before, first), (after, heard) in pairwise(told_):
            legal = after == before or after in MOVES.get(before, (after,))
            stage.require(legal, f"the tool call {call!r} went from {before} to {after}", first, heard)


@probe("agent.draft.08")
async def refused_calls_are_denied(stage: AgentStage) -> None:
    """The user said no."""
    await stage.opened()
    stage.leave = REJECT
    found = await calls(stage, "write")
    if not any(heard.method == "session/request_permission" for heard in stage.heard):
        stage.unsure("the agent asked for no permission")
    last = [statuses[-1] for statuses in moves(found).values()]
    stage.require(
        any(status == "denied" for status, _ in last), "a refused tool call is not told as denied", last[-1][1]
    )


@probe("agent.draft.09")
async def open_calls_are_cancelled(stage: AgentStage) -> None:
    """Before the answer to the prompt."""
    turn = await running(stage)
    stage.cancel()
    await stage.ended(turn)
    found = [heard for heard in stage.updates(start=turn.start) if heard.kind in ("tool_call", "tool_call_update")]
    if not found:
        stage.unsure("no tool call was under way")
    for call, told_ in moves(found).items():
        last, heard = told_[-1]
        final = last in ("cancelled", "completed", "failed", "denied")
        stage.require(final and last == "cancelled", f"the tool call {call!r} is {last} after a cancel", heard)


@probe("agent.draft.10")
async def questions_are_whole(stage: AgentStage) -> None:
    """What is to be done, and to what."""
    _, question = await questioned(stage)
    drawing = {"sessionId": json_shape.some, "operation": OPERATIONS, "resource": json_shape.some, "toolCallId?": str}
    words = fault(question.message.get("params"), drawing)
    stage.require(not words, words, question)


async def _mode(stage: AgentStage) -> tuple[str, Heard | None]:
    result = await stage.initialized()
    can = (result.get("capabilities") or {}).get("sessionCapabilities") or {}
    modes = can.get("modes") or []
    if not modes:
        stage.skip("the agent has no modes")
    await stage.opened()
    return modes[-1], await stage.asked("session/set_mode", {"sessionId": stage.session, "mode": modes[-1]})


@probe("agent.draft.11")
async def modes_before_and_after(stage: AgentStage) -> None:
    """Both are told."""
    mode, heard = await _mode(stage)
    result = stage.granted(heard, "session/set_mode")
    words = fault(result, {"previousMode": json_shape.some, "currentMode": json_shape.some})
    stage.require(not words, words, heard)
    stage.require(result["currentMode"] == mode, f"the mode is {result['currentMode']!r}, not {mode!r}", heard)


@probe("agent.draft.12")
async def changes_of_mode_are_told(stage: AgentStage) -> None:
    """Also those the client asked for."""
    _, answered = await _mode(stage)
    await stage.silence()
    stage.require(stage.updates("current_mode_update"), "the mode was changed and no update told it", answered)


@probe("agent.draft.13")
async def values_are_told(stage: AgentStage) -> None:
    """The key, and what it holds now."""
    result = await stage.initialized()
    can = (result.get("capabilities") or {}).get("sessionCapabilities") or {}
    if not can.get("configOptions"):
        stage.skip("the agent has no options")
    await stage.opened()
    value = "loud" if stage.name_of_agent() == "everything" else "x"
    params = {"sessionId": stage.session, "key": can["configOptions"][0], "value": value}
    heard = await stage.asked("session/set_config_option", params)
    if heard is None or "error" in heard.message:
        stage.unsure("the option could not be set", heard)
    words = fault(heard.message["result"], {"key": json_shape.some, "currentValue": object})
    stage.require(not words, words, heard)


@probe("agent.draft.14")
async def logins_say_how_it_went(stage: AgentStage) -> None:
    """Failure is a result here, too."""
    await stage.initialized()
    heard = await stage.asked("authenticate", {"method": "api_key", "credentials": {"apiKey": "x"}})
    words = fault(stage.granted(heard, "authenticate"), {"success": bool, "error?": str, "expiresAt?": json_shape.time})
    stage.require(not words, words, heard)


@probe("agent.draft.15")
async def tokens_are_numbers(stage: AgentStage) -> None:
    """Where they are told."""
    turn = await stage.did("usage")
    assert turn.answer is not None
    usage = (turn.answer.message.get("result") or {}).get("usage")
    if usage is None:
        stage.skip("the agent does not tell what a turn cost")
    words = fault(usage, {"inputTokens": json_shape.count, "outputTokens": json_shape.count}, "usage")
    stage.require(not words, words, turn.answer)


@probe("agent.draft.16")
async def loading_tells_what_was(stage: AgentStage) -> None:
    """All five members."""
    await stage.did("plain")
    heard = await stage.asked("session/load", {"sessionId": stage.session}, stage.pace.turn)
    if heard is None or "error" in heard.message:
        stage.unsure("the session could not be loaded", heard)
    drawing = {
        "sessionId": json_shape.some,
        "workingDirectory": json_shape.absolute,
        "mode": str,
        "configOptions": dict,
    }
    words = fault(heard.message["result"], {**drawing, "messageCount": json_shape.count})
    stage.require(not words, words, heard)


@probe("agent.draft.17")
async def pushed_output_is_received(stage: AgentStage) -> None:
    """Of a terminal that the agent has or has not."""
    await stage.opened()
    heard = await stage.asked("terminal/output", {"terminalId": "terminal-1", "data": "hello", "stream": "stdout"})
    words = fault(stage.granted(heard, "pushed output"), {"received": bool})
    stage.require(not words, words, heard)


@probe("agent.draft.18")
async def errors_suggest(stage: AgentStage) -> None:
    """A client can show it."""
    await stage.initialized()
    heard = await stage.asked("session/load", {"sessionId": "no-such-session"})
    if heard is None or not isinstance(heard.message.get("error"), dict):
        stage.unsure("loading an unknown session was not refused", heard)
    words = fault(heard.message["error"].get("data"), {"suggestion": json_shape.some}, "data")
    stage.require(not words, words, heard)


@probe("agent.draft.19")
async def files_are_asked_for_by_path(stage: AgentStage) -> None:
    """With lines counted from one, where any are said."""
    drawing = {"path": json_shape.some, "startLine?": json_shape.line, "endLine?": json_shape.line, "encoding?": str}
    for heard in await asked(stage, "read", "fs/read_text_file"):
        words = fault(heard.message.get("params"), drawing)
        stage.require(not words, words, heard)


@probe("agent.draft.22")
async def questions_say_why(stage: AgentStage) -> None:
    """People decide by it."""
    _, question = await questioned(stage)
    words = fault(question.message.get("params"), {"reason": json_shape.some})
    stage.require(not words, words, question)


@probe("agent.draft.24")
async def terminals_are_described(stage: AgentStage) -> None:
    """Unlike v1, where the environment is a list."""
    drawing = {"command": json_shape.some, "args?": [str], "cwd?": str, "env?": dict, "timeout?": json_shape.count}
    for heard in await asked(stage, "run", "terminal/create"):
        words = fault(heard.message.get("params"), drawing)
        stage.require(not words, words, heard)


@probe("agent.draft.25")
async def leave_is_awaited(stage: AgentStage) -> None:
    """Told before the question or with it."""
    _, question = await questioned(stage)
    await stage.silence()
    found = [heard for heard in stage.updates() if heard.kind in ("tool_call", "tool_call_update")]
    waits = any(status == "awaiting_permission" for each in moves(found).values() for status, _ in each)
    stage.require(waits, "no tool call is told as awaiting_permission while leave is asked for", question)


@probe("agent.draft.26")
async def sessions_may_be_several(stage: AgentStage) -> None:
    """An agent of one session says so when a second is asked for."""
    first = await stage.opened()
    second = await stage.asked("session/new", hello.new_session(stage.dialect, stage.cwd, "two"), stage.pace.start)
    result = second.message.get("result") if second else None
    if not isinstance(result, dict):
        stage.skip("the agent serves one session at a time")
    await side_by_side(stage, first, str(result.get("sessionId")))
