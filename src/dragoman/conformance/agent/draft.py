"""What only the draft asks of an agent."""

from __future__ import annotations

from itertools import pairwise

from dragoman.conformance import json_shape
from dragoman.conformance.agent.cancel import start_slow_turn
from dragoman.conformance.agent.files import run_and_collect
from dragoman.conformance.agent.permission import collect_questions as questioned
from dragoman.conformance.agent.session import run_two_turns
from dragoman.conformance.agent.toolcall import run_tool_calls
from dragoman.conformance.agent.update import updates_match, wire_update
from dragoman.conformance.harness import hello
from dragoman.conformance.harness.agent import REJECT, AgentUnderTest
from dragoman.conformance.harness.peer import Json, ReceivedFrame
from dragoman.conformance.json_shape import Shape, mismatch
from dragoman.conformance.requirement import may, must, should

OPERATIONS = json_shape.one_of(
    "file_read", "file_write", "file_delete", "terminal_execute", "network_access", "mcp_tool"
)  # fmt: skip

# Status -> those that may follow (docs/protocol/draft.md#status-machine); the last three have none.
MOVES: dict[str, tuple[str, ...]] = {
    "pending": ("awaiting_permission", "in_progress", "cancelled"),
    "awaiting_permission": ("in_progress", "denied", "cancelled"),
    "in_progress": ("completed", "failed", "cancelled"),
    "completed": (),
    "failed": (),
    "denied": (),
    "cancelled": (),
}


@must("agent.draft.01", "draft.md#initialize")
async def draft_initialize_has_its_shape(agent: AgentUnderTest) -> None:
    """The introduction has version, agentInfo and capabilities."""
    info = {"name": json_shape.non_empty, "version": str}
    problem = mismatch(await agent.initialize(), {"protocolVersion": int, "agentInfo": info, "capabilities": dict})
    agent.require(not problem, problem, agent.initialize_reply)


@must("agent.draft.02", "draft.md#new-session")
async def sessions_have_their_creation_time(agent: AgentUnderTest) -> None:
    """A new session tells when it was made."""
    await agent.open_session()
    problem = mismatch(agent.setup, {"sessionId": json_shape.non_empty, "createdAt": json_shape.time})
    agent.require(not problem, problem, agent.session_reply)


async def _updates(agent: AgentUnderTest, shape: json_shape.Shape) -> None:
    await agent.run_turn("tour")
    for frame in agent.received:
        if frame.message.get("method") == "session/update":
            problem = mismatch(frame.message.get("params"), shape)
            agent.require(not problem, problem, frame)


@must("agent.draft.03", "draft.md#update-frame")
async def updates_are_framed(agent: AgentUnderTest) -> None:
    """An update has a session, a type and data."""
    await _updates(agent, {"sessionId": json_shape.non_empty, "type": json_shape.non_empty, "data": dict})


@must("agent.draft.04", "draft.md#update-frame")
async def times_are_times(agent: AgentUnderTest) -> None:
    """The time of an update is ISO 8601, where it is told."""
    await _updates(agent, {"timestamp?": json_shape.time})


TEXT = {"content": str, "index?": json_shape.natural, "final?": bool}
STEPS = [{"id": json_shape.non_empty, "description": str, "status": str}]
must("agent.draft.05", "draft.md#message-chunk")(
    updates_match(
        "A piece of a message has text as content; its index is a number.", "plain", "agent_message_chunk", TEXT
    )
)
must("agent.draft.06", "draft.md#tool-call")(
    updates_match(
        "A tool call has an id, a tool and a known status.",
        "tour",
        "tool_call",
        {
            "id": json_shape.non_empty,
            "tool": json_shape.non_empty,
            "status?": json_shape.one_of(*MOVES),
            "requiresPermission?": bool,
        },
    )
)
must("agent.draft.20", "draft.md#plan")(
    updates_match("A plan has steps with id, description and status.", "plan", "plan", {"steps": STEPS})
)
must("agent.draft.21", "draft.md#thought-chunk")(
    updates_match("A thought has text as content.", "think", "agent_thought_chunk", {"content": str, "visible?": bool})
)
must("agent.draft.23", "draft.md#commands")(
    updates_match(
        "Commands are told with name and description.",
        "plain",
        "available_commands_update",
        {"commands": [{"name": json_shape.non_empty, "description": str}]},
    )
)


def status_history(found: list[ReceivedFrame]) -> dict[str, list[tuple[str, ReceivedFrame]]]:
    """Return the statuses of each tool call on the wire, in order."""
    made: dict[str, list[tuple[str, ReceivedFrame]]] = {}
    for frame in found:
        data = wire_update(frame)
        status = data.get("status") if isinstance(data, dict) else None
        if isinstance(status, str):
            made.setdefault(str(data.get("id")), []).append((status, frame))
    return made


@must("agent.draft.07", "draft.md#status-machine")
async def statuses_move_as_allowed(agent: AgentUnderTest) -> None:
    """The status of a tool call moves as the status machine allows."""
    for call, told_ in status_history(await run_tool_calls(agent, "read", "write")).items():
        for (before, first), (after, frame) in pairwise(told_):
            legal = after == before or after in MOVES.get(before, (after,))
            agent.require(legal, f"the tool call {call!r} went from {before} to {after}", first, frame)


@must("agent.draft.08", "draft.md#status-machine")
async def refused_calls_are_denied(agent: AgentUnderTest) -> None:
    """A tool call that was refused is told as denied."""
    await agent.open_session()
    agent.permission_kinds = REJECT
    found = await run_tool_calls(agent, "write")
    if not any(frame.method == "session/request_permission" for frame in agent.received):
        agent.inconclusive("the agent did not ask for permission")
    last = [statuses[-1] for statuses in status_history(found).values()]
    agent.require(
        any(status == "denied" for status, _ in last), "a refused tool call is not reported as denied", last[-1][1]
    )


@must("agent.draft.09", "draft.md#cancel")
async def open_calls_are_cancelled(agent: AgentUnderTest) -> None:
    """Open tool calls of a cancelled turn are told as cancelled."""
    turn = await start_slow_turn(agent)
    agent.cancel()
    await agent.wait_turn(turn)
    found = [frame for frame in agent.updates(start=turn.start) if frame.kind in ("tool_call", "tool_call_update")]
    if not found:
        agent.inconclusive("no tool call was under way")
    for call, told_ in status_history(found).items():
        last, frame = told_[-1]
        final = last in ("cancelled", "completed", "failed", "denied")
        agent.require(final and last == "cancelled", f"the tool call {call!r} is {last} after a cancel", frame)


@must("agent.draft.10", "draft.md#request-permission")
async def questions_are_whole(agent: AgentUnderTest) -> None:
    """A question has a session, a known operation and a resource."""
    _, question = await questioned(agent)
    shape = {
        "sessionId": json_shape.non_empty,
        "operation": OPERATIONS,
        "resource": json_shape.non_empty,
        "toolCallId?": str,
    }
    problem = mismatch(question.message.get("params"), shape)
    agent.require(not problem, problem, question)


async def _change_mode(agent: AgentUnderTest) -> tuple[str, ReceivedFrame | None]:
    result = await agent.initialize()
    can = (result.get("capabilities") or {}).get("sessionCapabilities") or {}
    modes = can.get("modes") or []
    if not modes:
        agent.skip("the agent has no modes")
    await agent.open_session()
    return modes[-1], await agent.request("session/set_mode", {"sessionId": agent.session, "mode": modes[-1]})


@must("agent.draft.11", "draft.md#set-mode")
async def modes_before_and_after(agent: AgentUnderTest) -> None:
    """set_mode tells the mode before and after."""
    mode, frame = await _change_mode(agent)
    result = agent.require_result(frame, "session/set_mode")
    problem = mismatch(result, {"previousMode": json_shape.non_empty, "currentMode": json_shape.non_empty})
    agent.require(not problem, problem, frame)
    agent.require(result["currentMode"] == mode, f"the mode is {result['currentMode']!r}, not {mode!r}", frame)


@must("agent.draft.12", "draft.md#mode-changes")
async def changes_of_mode_are_reported(agent: AgentUnderTest) -> None:
    """Every change of mode is told."""
    _, answered = await _change_mode(agent)
    await agent.collect()
    agent.require(agent.updates("current_mode_update"), "the mode was changed and no update was sent", answered)


@must("agent.draft.13", "draft.md#set-config-option")
async def values_are_reported(agent: AgentUnderTest) -> None:
    """set_config_option tells the key and the value it has now."""
    result = await agent.initialize()
    can = (result.get("capabilities") or {}).get("sessionCapabilities") or {}
    if not can.get("configOptions"):
        agent.skip("the agent has no options")
    await agent.open_session()
    value = "loud" if agent.agent_name() == "everything" else "x"
    params = {"sessionId": agent.session, "key": can["configOptions"][0], "value": value}
    frame = await agent.request("session/set_config_option", params)
    if frame is None or "error" in frame.message:
        agent.inconclusive("the option could not be set", frame)
    problem = mismatch(frame.message["result"], {"key": json_shape.non_empty, "currentValue": object})
    agent.require(not problem, problem, frame)


@must("agent.draft.14", "draft.md#authenticate")
async def logins_state_how_it_went(agent: AgentUnderTest) -> None:
    """authenticate says whether it succeeded."""
    await agent.initialize()
    frame = await agent.request("authenticate", {"method": "api_key", "credentials": {"apiKey": "x"}})
    problem = mismatch(
        agent.require_result(frame, "authenticate"), {"success": bool, "error?": str, "expiresAt?": json_shape.time}
    )
    agent.require(not problem, problem, frame)


@must("agent.draft.15", "draft.md#prompt")
async def tokens_are_numbers(agent: AgentUnderTest) -> None:
    """Tokens are told as numbers of input and output."""
    turn = await agent.run_turn("usage")
    assert turn.answer is not None
    usage = (turn.answer.message.get("result") or {}).get("usage")
    if usage is None:
        agent.skip("the agent does not report the usage of a turn")
    problem = mismatch(usage, {"inputTokens": json_shape.natural, "outputTokens": json_shape.natural}, "usage")
    agent.require(not problem, problem, turn.answer)


@must("agent.draft.16", "draft.md#load-session", needs="agent.loadSession")
async def loading_returns_the_state(agent: AgentUnderTest) -> None:
    """Loading a session tells folder, mode, options and number of messages."""
    await agent.run_turn("plain")
    frame = await agent.request("session/load", {"sessionId": agent.session}, agent.timeouts.turn)
    if frame is None or "error" in frame.message:
        agent.inconclusive("the session could not be loaded", frame)
    shape = {
        "sessionId": json_shape.non_empty,
        "workingDirectory": json_shape.absolute,
        "mode": str,
        "configOptions": dict,
    }
    problem = mismatch(frame.message["result"], {**shape, "messageCount": json_shape.natural})
    agent.require(not problem, problem, frame)


@must("agent.draft.17", "draft.md#terminal-output")
async def pushed_output_is_received(agent: AgentUnderTest) -> None:
    """Output of a terminal that is pushed is acknowledged."""
    await agent.open_session()
    frame = await agent.request("terminal/output", {"terminalId": "terminal-1", "data": "hello", "stream": "stdout"})
    problem = mismatch(agent.require_result(frame, "pushed output"), {"received": bool})
    agent.require(not problem, problem, frame)


@should("agent.draft.18", "draft.md#error-data")
async def errors_suggest(agent: AgentUnderTest) -> None:
    """The error of an unknown session suggests what to do."""
    await agent.initialize()
    frame = await agent.request("session/load", {"sessionId": "no-such-session"})
    if frame is None or not isinstance(frame.message.get("error"), dict):
        agent.inconclusive("loading an unknown session was not refused", frame)
    problem = mismatch(frame.message["error"].get("data"), {"suggestion": json_shape.non_empty}, "data")
    agent.require(not problem, problem, frame)


@must("agent.draft.19", "draft.md#read-file")
async def files_are_asked_for_by_path(agent: AgentUnderTest) -> None:
    """Files are asked for by path, without a session."""
    shape = {
        "path": json_shape.non_empty,
        "startLine?": json_shape.line_number,
        "endLine?": json_shape.line_number,
        "encoding?": str,
    }
    for frame in await run_and_collect(agent, "read", "fs/read_text_file"):
        problem = mismatch(frame.message.get("params"), shape)
        agent.require(not problem, problem, frame)


@should("agent.draft.22", "draft.md#permission-practice")
async def questions_state_why(agent: AgentUnderTest) -> None:
    """A question says why."""
    _, question = await questioned(agent)
    problem = mismatch(question.message.get("params"), {"reason": json_shape.non_empty})
    agent.require(not problem, problem, question)


@must("agent.draft.24", "draft.md#terminal-create")
async def terminals_are_described(agent: AgentUnderTest) -> None:
    """The environment of a terminal is a table of texts, its timeout a number."""
    shape = {
        "command": json_shape.non_empty,
        "args?": [str],
        "cwd?": str,
        "env?": dict,
        "timeout?": json_shape.natural,
    }
    for frame in await run_and_collect(agent, "run", "terminal/create"):
        problem = mismatch(frame.message.get("params"), shape)
        agent.require(not problem, problem, frame)


@must("agent.draft.25", "draft.md#awaiting-permission")
async def permission_is_awaited(agent: AgentUnderTest) -> None:
    """Leave is awaited in the status awaiting_permission."""
    _, question = await questioned(agent)
    await agent.collect()
    found = [frame for frame in agent.updates() if frame.kind in ("tool_call", "tool_call_update")]
    waits = any(status == "awaiting_permission" for each in status_history(found).values() for status, _ in each)
    agent.require(waits, "no tool call is reported as awaiting_permission while permission is requested", question)


@may("agent.draft.26", "draft.md#concurrent-sessions")
async def sessions_may_be_several(agent: AgentUnderTest) -> None:
    """One process may serve several sessions, and they are at work at once."""
    first = await agent.open_session()
    second = await agent.request(
        "session/new", hello.new_session(agent.dialect, agent.cwd, "two"), agent.timeouts.start
    )
    result = second.message.get("result") if second else None
    if not isinstance(result, dict):
        agent.skip("the agent serves one session at a time")
    await run_two_turns(agent, first, str(result.get("sessionId")))


TREE: Shape = {
    "loadSession?": bool,
    "promptCapabilities?": {"streaming?": bool, "cancellation?": bool, "attachments?": bool},
    "mcpCapabilities?": {"servers?": bool, "transport?": [str]},
    "sessionCapabilities?": {"modes?": [str], "configOptions?": [str], "persistence?": bool},
}
HUNK = {"oldStart": int, "oldLines": int, "newStart": int, "newLines": int, "content": str}
RAN = {"terminalId?": str, "command?": str, "exitCode?": int, "stdout?": str, "stderr?": str}
OUTPUTS: dict[Json, Shape] = {
    "text": {"text": str},
    "diff": {"path": json_shape.non_empty, "hunks": [HUNK]},
    "terminal": RAN,
}
PLACE = {"path": json_shape.non_empty, "line?": int, "column?": int, "endLine?": int, "endColumn?": int}


@must("agent.draft.29", "draft.md#load-session, draft.md#error-codes", needs="agent.loadSession")
async def missing_sessions_have_a_number(agent: AgentUnderTest) -> None:
    """Loading a session that is not there has the number for that."""
    await agent.initialize()
    frame = await agent.request("session/load", {"sessionId": "no-such-session"})
    if frame is None or "error" not in frame.message:
        agent.inconclusive("loading an unknown session was not refused", frame)
    agent.require_error(frame, "loading an unknown session", agent.error_code("session_not_found"))


@must("agent.draft.31", "draft.md#cancel")
async def cancels_have_reasons(agent: AgentUnderTest) -> None:
    """A cancel may say why."""
    turn = await start_slow_turn(agent)
    agent.notify("session/cancel", {"sessionId": agent.session, "reason": "the user changed their mind"})
    await agent.wait_turn(turn, agent.timeouts.turn)
    agent.require(turn.answer, "a turn that was cancelled with a reason was not answered")


must("agent.draft.32", "draft.md#option-update")(
    updates_match(
        "A change of an option has its key and what it holds now.",
        "option",
        "config_option_update",
        {"key": json_shape.non_empty, "currentValue": object, "source?": str},
    )
)
must("agent.draft.33", "draft.md#mode-update")(
    updates_match(
        "A change of mode has the mode now, and the one before as text.",
        "mode",
        "current_mode_update",
        {"currentMode": json_shape.non_empty, "previousMode?": str, "reason?": str},
    )
)


@must("agent.draft.34", "draft.md#tool-output")
async def outputs_are_of_three_kinds(agent: AgentUnderTest) -> None:
    """The output of a tool is text, a diff in hunks or a terminal's."""
    found = [(frame, wire_update(frame)) for frame in await run_tool_calls(agent, "read", "write", "run")]
    outputs = [(frame, data["output"]) for frame, data in found if isinstance(data, dict) and data.get("output")]
    if not outputs:
        agent.inconclusive("no tool call had an output")
    for frame, output in outputs:
        kind = output.get("type") if isinstance(output, dict) else None
        agent.require(kind in OUTPUTS, f"the output of a tool is of the type {kind!r}", frame)
        problem = mismatch(output, OUTPUTS[kind], "output")
        agent.require(not problem, problem, frame)


@must("agent.draft.35", "draft.md#location")
async def places_are_places(agent: AgentUnderTest) -> None:
    """The place of a tool call has a path, and numbers as lines."""
    found = [(frame, wire_update(frame)) for frame in await run_tool_calls(agent, "read", "write")]
    outputs = [(frame, data["location"]) for frame, data in found if isinstance(data, dict) and data.get("location")]
    if not outputs:
        agent.skip("no tool call had a location")
    for frame, place in outputs:
        problem = mismatch(place, PLACE, "location")
        agent.require(not problem, problem, frame)


@must("agent.draft.37", "draft.md#agent-capabilities")
async def abilities_are_a_tree(agent: AgentUnderTest) -> None:
    """What the agent can do is told in the draft's tree."""
    result = await agent.initialize()
    if not isinstance(result.get("capabilities"), dict):
        agent.inconclusive("the agent reports no capabilities", agent.initialize_reply)
    problem = mismatch(result["capabilities"], TREE, "capabilities")
    agent.require(not problem, problem, agent.initialize_reply)


@must("agent.draft.38", "draft.md#tool-execution")
async def failures_state_why(agent: AgentUnderTest) -> None:
    """A tool call that failed says why."""
    await agent.open_session()
    agent.handlers["fs/read_text_file"] = lambda _: {"refused": -32004, "why": "the file is gone"}
    found = [(frame, wire_update(frame)) for frame in await run_tool_calls(agent, "read")]
    failed = [(frame, data) for frame, data in found if isinstance(data, dict) and data.get("status") == "failed"]
    if not failed:
        agent.inconclusive("no tool call was reported as failed")
    for frame, data in failed:
        agent.require(data.get("error") or data.get("output"), "a tool call failed and does not say why", frame)


@may("agent.draft.39", "draft.md#required-capabilities")
async def demands_are_a_tree(agent: AgentUnderTest) -> None:
    """What a client must be able to do may be told, as a tree."""
    demanded = (await agent.initialize()).get("requiredClientCapabilities")
    if demanded is None:
        agent.skip("the agent demands nothing")
    agent.require(isinstance(demanded, dict), "what the client must be able to do is no object", agent.initialize_reply)
