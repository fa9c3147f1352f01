"""What only the draft asks of an agent."""

from __future__ import annotations

from itertools import pairwise

from dragoman.conformance.agent.files import require_request_shape
from dragoman.conformance.agent.prompt import PICTURE, SOUND, require_accepted_blocks
from dragoman.conformance.agent.session import run_two_turns
from dragoman.conformance.agent.toolcall import run_tool_calls
from dragoman.conformance.agent.update import require_update_frames, updates_match, wire_update
from dragoman.conformance.harness.agent import QUESTION, REJECT, AgentUnderTest
from dragoman.conformance.harness.peer import Json, ReceivedFrame
from dragoman.conformance.json_shape import Shape, absolute, iso_time, line_number, natural, non_empty, one_of
from dragoman.conformance.requirement import may, must, should

OPERATIONS = one_of(
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
    """The result of initialize has version, agentInfo and capabilities."""
    info = {"name": non_empty, "version": str}
    await agent.require_initialize_shape({"protocolVersion": int, "agentInfo": info, "capabilities": dict})


@must("agent.draft.02", "draft.md#new-session")
async def sessions_have_their_creation_time(agent: AgentUnderTest) -> None:
    """A new session has its creation time."""
    await agent.open_session()
    agent.require_shape(agent.setup, {"sessionId": non_empty, "createdAt": iso_time}, agent.session_reply)


@must("agent.draft.03", "draft.md#update-frame")
async def updates_are_framed(agent: AgentUnderTest) -> None:
    """An update has a session, a type and data."""
    await require_update_frames(agent, "tour", {"sessionId": non_empty, "type": non_empty, "data": dict})


@must("agent.draft.04", "draft.md#update-frame")
async def times_are_iso_8601(agent: AgentUnderTest) -> None:
    """The time of an update is ISO 8601, if present."""
    await require_update_frames(agent, "tour", {"timestamp?": iso_time})


TEXT = {"content": str, "index?": natural, "final?": bool}
STEPS = [{"id": non_empty, "description": str, "status": str}]
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
        {"id": non_empty, "tool": non_empty, "status?": one_of(*MOVES), "requiresPermission?": bool},
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
        "Commands have a name and a description.",
        "plain",
        "available_commands_update",
        {"commands": [{"name": non_empty, "description": str}]},
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
    for call, moves in status_history(await run_tool_calls(agent, "read", "write")).items():
        for (before, first), (after, frame) in pairwise(moves):
            legal = after == before or after in MOVES.get(before, (after,))
            agent.require(legal, f"the tool call {call!r} went from {before} to {after}", first, frame)


@must("agent.draft.08", "draft.md#status-machine")
async def refused_calls_are_denied(agent: AgentUnderTest) -> None:
    """A tool call that was denied is reported as denied."""
    await agent.open_session()
    agent.permission_kinds = REJECT
    found = await run_tool_calls(agent, "write")
    agent.assume(agent.calls(QUESTION), "the agent did not ask for permission")
    last = [statuses[-1] for statuses in status_history(found).values()]
    is_denied = any(status == "denied" for status, _ in last)
    agent.require(is_denied, "a refused tool call is not reported as denied", last[-1][1])


@must("agent.draft.09", "draft.md#cancel")
async def open_calls_are_cancelled(agent: AgentUnderTest) -> None:
    """Open tool calls of a cancelled turn are reported as cancelled."""
    turn = await agent.start_slow_turn()
    agent.cancel()
    await agent.wait_turn(turn)
    found = agent.updates("tool_call", "tool_call_update", start=turn.start)
    for call, moves in status_history(agent.assume(found, "no tool call was under way")).items():
        last, frame = moves[-1]
        agent.require(last == "cancelled", f"the tool call {call!r} is {last} after a cancel", frame)


@must("agent.draft.10", "draft.md#request-permission")
async def questions_are_complete(agent: AgentUnderTest) -> None:
    """A permission request has a session, a known operation and a resource."""
    _, question = await agent.wait_question("write")
    shape = {"sessionId": non_empty, "operation": OPERATIONS, "resource": non_empty, "toolCallId?": str}
    agent.require_params(question, shape)


async def _session_capability(agent: AgentUnderTest, name: str, why: str) -> list[str]:
    """Return a list in the session capabilities of the draft; skip if it is empty."""
    can = ((await agent.initialize()).get("capabilities") or {}).get("sessionCapabilities")
    found = can.get(name) if isinstance(can, dict) else None
    return agent.skip_unless(found if isinstance(found, list) else [], why)


async def _change_mode(agent: AgentUnderTest) -> tuple[str, ReceivedFrame | None]:
    mode = (await _session_capability(agent, "modes", "the agent has no modes"))[-1]
    await agent.open_session()
    return mode, await agent.request("session/set_mode", {"sessionId": agent.session, "mode": mode})


async def _set_option(agent: AgentUnderTest, key: str, value: str) -> ReceivedFrame:
    params = {"sessionId": agent.session, "key": key, "value": value}
    frame = await agent.request("session/set_config_option", params)
    return agent.assume_result(frame, "the option could not be set")


@must("agent.draft.11", "draft.md#set-mode")
async def modes_before_and_after(agent: AgentUnderTest) -> None:
    """The result of set_mode has the mode before and after."""
    mode, frame = await _change_mode(agent)
    shape = {"previousMode": non_empty, "currentMode": non_empty}
    result = agent.require_result(frame, "session/set_mode", shape)
    agent.require(result["currentMode"] == mode, f"the mode is {result['currentMode']!r}, not {mode!r}", frame)


@must("agent.draft.12", "draft.md#mode-changes")
async def changes_of_mode_are_reported(agent: AgentUnderTest) -> None:
    """Every change of mode is reported."""
    _, answered = await _change_mode(agent)
    await agent.collect()
    agent.require(agent.updates("current_mode_update"), "the mode was changed and no update was sent", answered)


@must("agent.draft.13", "draft.md#set-config-option")
async def values_are_reported(agent: AgentUnderTest) -> None:
    """The result of set_config_option has the key and its current value."""
    [key, *_] = await _session_capability(agent, "configOptions", "the agent has no options")
    await agent.open_session()
    frame = await _set_option(agent, key, _option_value(agent))
    agent.require_shape(frame.message["result"], {"key": non_empty, "currentValue": object}, frame)


def _option_value(agent: AgentUnderTest) -> str:
    return "loud" if agent.agent_name() == "everything" else "x"


@must("agent.draft.14", "draft.md#authenticate")
async def logins_state_how_it_went(agent: AgentUnderTest) -> None:
    """The result of authenticate states whether it succeeded."""
    await agent.initialize()
    frame = await agent.request("authenticate", {"method": "api_key", "credentials": {"apiKey": "x"}})
    agent.require_result(frame, "authenticate", {"success": bool, "error?": str, "expiresAt?": iso_time})


@must("agent.draft.15", "draft.md#prompt")
async def tokens_are_numbers(agent: AgentUnderTest) -> None:
    """Usage has the numbers of input and output tokens."""
    turn = await agent.run_turn("usage")
    agent.require_usage(turn, {"inputTokens": natural, "outputTokens": natural})


@must("agent.draft.16", "draft.md#load-session", needs="agent.loadSession")
async def loading_returns_the_state(agent: AgentUnderTest) -> None:
    """The result of loading a session has folder, mode, options and number of messages."""
    await agent.run_turn("plain")
    frame = await agent.request("session/load", {"sessionId": agent.session}, agent.timeouts.turn)
    frame = agent.assume_result(frame, "the session could not be loaded")
    shape = {"sessionId": non_empty, "workingDirectory": absolute, "mode": str, "configOptions": dict}
    agent.require_shape(frame.message["result"], {**shape, "messageCount": natural}, frame)


@must("agent.draft.17", "draft.md#terminal-output")
async def pushed_output_is_received(agent: AgentUnderTest) -> None:
    """Pushed output of a terminal is acknowledged."""
    await agent.open_session()
    frame = await agent.request("terminal/output", {"terminalId": "terminal-1", "data": "hello", "stream": "stdout"})
    agent.require_result(frame, "pushed output", {"received": bool})


@should("agent.draft.18", "draft.md#error-data")
async def errors_suggest(agent: AgentUnderTest) -> None:
    """The error of an unknown session suggests what to do."""
    frame = await _load_unknown_session(agent)
    agent.require_shape(frame.error.get("data"), {"suggestion": non_empty}, frame, "data")


async def _load_unknown_session(agent: AgentUnderTest) -> ReceivedFrame:
    await agent.initialize()
    frame = await agent.request("session/load", {"sessionId": "no-such-session"})
    return agent.assume_error(frame, "loading an unknown session was not refused")


@must("agent.draft.19", "draft.md#read-file")
async def files_are_asked_for_by_path(agent: AgentUnderTest) -> None:
    """Files are requested by path, without a session."""
    shape = {"path": non_empty, "startLine?": line_number, "endLine?": line_number, "encoding?": str}
    await require_request_shape(agent, "read", "fs/read_text_file", shape)


@should("agent.draft.22", "draft.md#permission-practice")
async def questions_state_why(agent: AgentUnderTest) -> None:
    """A permission request states its reason."""
    _, question = await agent.wait_question("write")
    agent.require_params(question, {"reason": non_empty})


@must("agent.draft.24", "draft.md#terminal-create")
async def terminals_are_described(agent: AgentUnderTest) -> None:
    """The environment of a terminal is an object, its timeout a number."""
    shape = {"command": non_empty, "args?": [str], "cwd?": str, "env?": dict, "timeout?": natural}
    await require_request_shape(agent, "run", "terminal/create", shape)


@must("agent.draft.25", "draft.md#awaiting-permission")
async def permission_is_awaited(agent: AgentUnderTest) -> None:
    """A tool call that waits for permission has the status awaiting_permission."""
    _, question = await agent.wait_question("write")
    await agent.collect()
    found = agent.updates("tool_call", "tool_call_update")
    waits = any(status == "awaiting_permission" for each in status_history(found).values() for status, _ in each)
    agent.require(waits, "no tool call is reported as awaiting_permission while permission is requested", question)


@may("agent.draft.26", "draft.md#concurrent-sessions")
async def sessions_may_be_several(agent: AgentUnderTest) -> None:
    """One process may serve several sessions, which run at once."""
    first = await agent.open_session()
    second = await agent.request_session("two", agent.timeouts.start)
    result = agent.skip_unless(second and second.result, "the agent serves one session at a time")
    await run_two_turns(agent, first, str(result.get("sessionId")))


TREE: Shape = {
    "loadSession?": bool,
    "promptCapabilities?": {"streaming?": bool, "cancellation?": bool, "attachments?": bool},
    "mcpCapabilities?": {"servers?": bool, "transport?": [str]},
    "sessionCapabilities?": {"modes?": [str], "configOptions?": [str], "persistence?": bool},
}
HUNK = {"oldStart": int, "oldLines": int, "newStart": int, "newLines": int, "content": str}
RAN = {"terminalId?": str, "command?": str, "exitCode?": int, "stdout?": str, "stderr?": str}
OUTPUTS: Shape = {"text": {"text": str}, "diff": {"path": non_empty, "hunks": [HUNK]}, "terminal": RAN}
LOCATION = {"path": non_empty, "line?": int, "column?": int, "endLine?": int, "endColumn?": int}


@must("agent.draft.29", "draft.md#load-session, draft.md#error-codes", needs="agent.loadSession")
async def missing_sessions_have_their_error_code(agent: AgentUnderTest) -> None:
    """Loading a session that does not exist has the error code for that."""
    frame = await _load_unknown_session(agent)
    agent.require_error(frame, "loading an unknown session", agent.error_code("session_not_found"))


@must("agent.draft.31", "draft.md#cancel")
async def cancels_have_reasons(agent: AgentUnderTest) -> None:
    """A cancel may state a reason."""
    turn = await agent.start_slow_turn()
    agent.notify("session/cancel", {"sessionId": agent.session, "reason": "the user changed their mind"})
    await agent.wait_turn(turn, agent.timeouts.turn)
    agent.require(turn.answer, "a turn that was cancelled with a reason was not answered")


must("agent.draft.32", "draft.md#option-update")(
    updates_match(
        "An update of an option has its key and its current value.",
        "option",
        "config_option_update",
        {"key": non_empty, "currentValue": object, "source?": str},
    )
)
must("agent.draft.33", "draft.md#mode-update")(
    updates_match(
        "An update of the mode has the current mode, and the previous one as a string.",
        "mode",
        "current_mode_update",
        {"currentMode": non_empty, "previousMode?": str, "reason?": str},
    )
)


@must("agent.draft.34", "draft.md#tool-output")
async def outputs_are_of_three_kinds(agent: AgentUnderTest) -> None:
    """The output of a tool is text, a diff in hunks or the output of a terminal."""
    outputs = _with_member("output", await run_tool_calls(agent, "read", "write", "run"))
    for frame, output in agent.assume(outputs, "no tool call had an output"):
        kind = output.get("type") if isinstance(output, dict) else None
        agent.require(kind in OUTPUTS, f"the output of a tool is of the type {kind!r}", frame)
        agent.require_shape(output, OUTPUTS[kind], frame, "output")


def _with_member(name: str, updates: list[ReceivedFrame]) -> list[tuple[ReceivedFrame, Json]]:
    """Return the updates that have this member, with its value."""
    found = [(frame, wire_update(frame)) for frame in updates]
    return [(frame, data[name]) for frame, data in found if isinstance(data, dict) and data.get(name)]


@must("agent.draft.35", "draft.md#location")
async def locations_have_their_shape(agent: AgentUnderTest) -> None:
    """The location of a tool call has a path, and numbers as lines."""
    locations = _with_member("location", await run_tool_calls(agent, "read", "write"))
    for frame, location in agent.skip_unless(locations, "no tool call had a location"):
        agent.require_shape(location, LOCATION, frame, "location")


@must("agent.draft.37", "draft.md#agent-capabilities")
async def capabilities_have_their_shape(agent: AgentUnderTest) -> None:
    """The capabilities of the agent have the shape that the draft defines."""
    capabilities = (await agent.initialize()).get("capabilities")
    agent.assume(isinstance(capabilities, dict), "the agent reports no capabilities", agent.initialize_reply)
    agent.require_shape(capabilities, TREE, agent.initialize_reply, "capabilities")


@must("agent.draft.38", "draft.md#tool-execution")
async def failures_state_why(agent: AgentUnderTest) -> None:
    """A tool call that failed states why."""
    await agent.open_session()
    agent.handlers["fs/read_text_file"] = lambda _: {"refused": -32004, "why": "the file is gone"}
    statuses = _with_member("status", await run_tool_calls(agent, "read"))
    failed = [frame for frame, status in statuses if status == "failed"]
    for frame in agent.assume(failed, "no tool call was reported as failed"):
        data = wire_update(frame)
        agent.require(data.get("error") or data.get("output"), "a tool call failed and does not say why", frame)


@may("agent.draft.39", "draft.md#required-capabilities")
async def required_capabilities_are_an_object(agent: AgentUnderTest) -> None:
    """The agent may state the capabilities that it requires of a client, as an object."""
    demanded = (await agent.initialize()).get("requiredClientCapabilities")
    agent.skip_unless(demanded is not None, "the agent demands nothing")
    agent.require_shape(demanded, dict, agent.initialize_reply, "requiredClientCapabilities")


# --- how a session begins, and what stands in a prompt ------------------------------------------------------------


@must("agent.draft.27", "draft.md#new-session")
async def sessions_begin_in_a_mode(agent: AgentUnderTest) -> None:
    """A new session begins in the mode that the client asked for."""
    # Ask for the mode listed last, which is hardly the default.
    modes = await _session_capability(agent, "modes", "the agent has no modes")
    agent.skip_unless(len(modes) >= 2, "the agent has no modes to choose from")
    await agent.open_session(initialMode=modes[-1], systemPrompt="Answer in one sentence.")
    frame = await agent.request("session/set_mode", {"sessionId": agent.session, "mode": modes[0]})
    before = frame.result.get("previousMode") if frame else None
    agent.assume(before is not None, "the mode could not be changed", frame)
    agent.require(before == modes[-1], f"a session asked for in {modes[-1]!r} began in {before!r}", frame)


@must("agent.draft.28", "draft.md#new-session")
async def sessions_begin_with_options(agent: AgentUnderTest) -> None:
    """A new session begins with the options that the client gave."""
    [key, *_] = await _session_capability(agent, "configOptions", "the agent has no options")
    value = _option_value(agent)
    await agent.open_session(configOptions={key: value})
    frame = await _set_option(agent, key, value)
    agent.assume("previousValue" in frame.result, "the previous value of the option is missing", frame)
    before = frame.result["previousValue"]
    agent.require(before == value, f"a session was given {value!r} for {key!r} and began with {before!r}", frame)


@must("agent.draft.30", "draft.md#prompt")
async def attachments_are_accepted(agent: AgentUnderTest) -> None:
    """Files attached to a prompt are accepted where that is offered."""
    can = ((await agent.initialize()).get("capabilities") or {}).get("promptCapabilities")
    takes_them = isinstance(can, dict) and can.get("attachments") is True
    agent.skip_unless(takes_them, "the agent takes no attachments")
    attached = [{"name": "notes", "path": agent.file, "mimeType": "text/plain"}]
    await require_accepted_blocks(agent, "a prompt with a file attached", attachments=attached)


@should("agent.draft.36", "draft.md#content-blocks")
async def blocks_are_accepted(agent: AgentUnderTest) -> None:
    """All content blocks are accepted, with bytes or with a url."""
    await require_accepted_blocks(
        agent,
        "a prompt of all kinds of blocks",
        {"type": "image", "source": {"type": "base64", "mediaType": "image/png", "data": PICTURE}},
        {"type": "image", "source": {"type": "url", "mediaType": "image/png", "url": "https://example.org/a.png"}},
        {"type": "audio", "source": {"type": "base64", "mediaType": "audio/wav", "data": SOUND}},
        {"type": "resource", "uri": "file:///a.txt", "mimeType": "text/plain", "content": "one"},
        {"type": "resource_link", "uri": f"file://{agent.file}", "title": "Notes"},
    )
