"""What only banjo, crow and 2025.1 ask of a client."""

from __future__ import annotations

import os

from dragoman.conformance.client.files import outside_file
from dragoman.conformance.harness.client import ClientUnderTest
from dragoman.conformance.harness.peer import Json, ReceivedFrame
from dragoman.conformance.requirement import must, should

TERMINALS = "client.terminal"
WRITING = "client.fs.writeTextFile"
FILES = "client.fs.readTextFile"


CHOICES = [{"id": "approve", "title": "Approve", "is_primary": True}, {"id": "deny", "title": "Deny"}]


async def initialize_params(client: ClientUnderTest) -> tuple[ReceivedFrame, Json]:
    """Return the params of initialize on the wire."""
    frame = await client.wait_initialize()
    params = frame.message.get("params")
    client.require(isinstance(params, dict), "initialize has no params", frame)
    return frame, params


def update_params(client: ClientUnderTest, update: Json) -> Json:
    """Send an update of v1 and banjo, or of crow."""
    return {"sessionId": client.session, "update": update}


@must("client.dialect.01", "dialects.md#banjo-initialize", "banjo")
async def banjo_initialize_has_its_shape(client: ClientUnderTest) -> None:
    """initialize tells who the client is and what it offers."""
    frame, params = await initialize_params(client)
    for name in ("clientInfo", "clientCapabilities"):
        client.require(isinstance(params.get(name), dict), f"initialize has no {name}", frame)


@must("client.dialect.02", "dialects.md#banjo-models", "banjo")
async def models_change(client: ClientUnderTest) -> None:
    """A change of model is borne."""
    update = {"sessionUpdate": "current_model_update", "currentModelId": "opus"}
    prompt = await client.begin_turn()
    client.notify("session/update", update_params(client, update))
    await client.require_alive(prompt, "a change of model")


@must("client.dialect.03", "dialects.md#banjo-stop-reasons", "banjo")
async def turns_end_for_want_of_a_login(client: ClientUnderTest) -> None:
    """A turn may end with auth_required."""
    prompt = await client.begin_turn()
    client.reply(prompt, {"stopReason": "auth_required"})
    await client.require_end("the stop reason auth_required")


@must("client.dialect.04", "dialects.md#banjo-plans", "banjo")
async def plans_have_ids(client: ClientUnderTest) -> None:
    """Entries of a plan may have an id and no priority."""
    prompt = await client.begin_turn()
    entries = [{"id": "1", "content": "Look", "status": "completed"}]
    client.notify("session/update", update_params(client, {"sessionUpdate": "plan", "entries": entries}))
    await client.require_alive(prompt, "a plan with ids")


@must("client.dialect.05", "dialects.md#banjo-errors", "banjo")
async def versions_can_be_refused(client: ClientUnderTest) -> None:
    """An agent that refuses the version is left, and no session opened."""
    client.held.add("initialize")
    client.refuse(await client.wait_initialize(), -32001, "Unsupported protocol version")
    frame = await client.wait_method("session/new", client.timeouts.answer)
    client.require(frame is None, "the client opens a session though its version was refused", frame)


@must("client.dialect.21", "dialects.md#crow-initialize", "crow")
async def crow_uses_underscores(client: ClientUnderTest) -> None:
    """initialize is spelled with underscores."""
    frame, params = await initialize_params(client)
    for name in ("protocol_version", "client_capabilities", "client_info"):
        client.require(name in params, f"initialize has no {name}", frame)


@must("client.dialect.22", "dialects.md#crow-sessions", "crow")
async def crow_opens_a_session(client: ClientUnderTest) -> None:
    """A session is asked for with cwd and mcpServers."""
    frame = await client.wait_call("session/new", client.timeouts.start)
    params = frame.wire_params
    is_good = os.path.isabs(str(params.get("cwd"))) and isinstance(params.get("mcpServers"), list)
    client.require(is_good, "session/new lacks an absolute cwd, or a list mcpServers", frame)


async def _permission_response(client: ClientUnderTest) -> tuple[ReceivedFrame, ReceivedFrame | None]:
    prompt = await client.begin_turn()
    question = {"@type": "permission_request", "tool_call_id": "c1", "title": "run", "arguments": "ls"}
    client.notify("session/update", update_params(client, {**question, "permission_options": CHOICES}))

    def is_response(frame: ReceivedFrame) -> bool:
        return isinstance(frame.message, dict) and frame.message.get("method") == "permission_response"

    return prompt, await client.wait_for(is_response)


@must("client.dialect.23", "dialects.md#crow-permission", "crow")
async def crow_responds(client: ClientUnderTest) -> None:
    """A question for leave is answered with permission_response."""
    prompt, frame = await _permission_response(client)
    frame = client.require(frame, "a permission_request was never answered")
    call = frame.wire_params.get("tool_call_id")
    client.require(call == "c1", f"the response is about the tool call {call!r}", frame)
    client.end_turn(prompt)


@must("client.dialect.24", "dialects.md#crow-permission", "crow")
async def crow_chooses(client: ClientUnderTest) -> None:
    """The answer to a question is one of its options."""
    prompt, frame = await _permission_response(client)
    if frame is None:
        client.inconclusive("a permission_request was never answered")
    params = frame.wire_params
    option = params.get("option_id", params.get("id"))
    client.require(option in ("approve", "deny"), f"{option!r} was chosen, which was not offered", frame)
    client.end_turn(prompt)


@must("client.dialect.25", "dialects.md#crow-cancel", "crow")
async def crow_asks_to_cancel(client: ClientUnderTest) -> None:
    """cancel is a request."""
    prompt = await client.begin_turn()
    await client.sync()
    client.environment.interrupt()
    frame = client.assume(await client.wait_method("session/cancel"), "the client sent no cancel on Ctrl-C")
    client.require(frame.message.get("method") == "cancel", "the method is not cancel", frame)
    client.require("id" in frame.message, "cancel came as a notification", frame)
    client.end_turn(prompt, "cancelled")


@must("client.dialect.26", "dialects.md#crow-updates", "crow")
async def crow_updates_are_tolerated(client: ClientUnderTest) -> None:
    """Thoughts, tool calls and plans in crow's words are borne."""
    prompt = await client.begin_turn()
    for update in (
        {"@type": "agent_thought_text", "text": "hm"},
        {"@type": "tool_call_start", "tool_call_id": "t", "title": "run", "kind": "execute", "status": "in_progress"},
        {"@type": "tool_call_update", "tool_call_id": "t", "status": "completed"},
        {"@type": "plan_update", "entries": [{"content": "a", "priority": "high", "status": "pending"}]},
    ):
        client.notify("session/update", update_params(client, update))
    await client.require_alive(prompt, "crow's updates")


@must("client.dialect.41", "dialects.md#y2025-initialize", "2025.1")
async def the_version_is_a_string(client: ClientUnderTest) -> None:
    """The version is the string 2025.1."""
    frame, params = await initialize_params(client)
    version = params.get("protocol_version")
    client.require(version == "2025.1", f"protocol_version is {version!r}", frame)


@must("client.dialect.42", "dialects.md#y2025-initialize", "2025.1")
async def the_folder_is_reported_at_once(client: ClientUnderTest) -> None:
    """initialize tells the working directory, absolute."""
    frame, params = await initialize_params(client)
    folder = params.get("working_directory")
    is_absolute = isinstance(folder, str) and os.path.isabs(folder)
    client.require(is_absolute, f"working_directory is {folder!r}", frame)


@must("client.dialect.43", "dialects.md#y2025-initialize", "2025.1")
async def servers_are_reported_at_once(client: ClientUnderTest) -> None:
    """initialize lists the MCP servers, if none."""
    frame, params = await initialize_params(client)
    servers = params.get("mcp_servers")
    client.require(isinstance(servers, list), "initialize has no list mcp_servers", frame)
    wrong = [each for each in servers if not (isinstance(each, dict) and isinstance(each.get("url"), str))]
    client.require(not wrong, f"an MCP server has no url: {wrong[:1]}", frame)


@must("client.dialect.44", "dialects.md#y2025-sessions", "2025.1")
async def the_client_names_its_session(client: ClientUnderTest) -> None:
    """The client chooses the id of its session."""
    frame = await client.wait_call("session/new", client.timeouts.start)
    id = frame.wire_params.get("session_id")
    client.require(isinstance(id, str) and id, f"session_id is {id!r}", frame)


@must("client.dialect.45", "dialects.md#y2025-sessions", "2025.1")
async def a_prompt_has_content(client: ClientUnderTest) -> None:
    """A prompt has content."""
    prompt = await client.wait_call("session/prompt", client.timeouts.start)
    content = prompt.wire_params.get("content")
    client.require(isinstance(content, list) and content, "the prompt has no content", prompt)
    wrong = [block for block in content if not (isinstance(block, dict) and isinstance(block.get("type"), str))]
    client.require(not wrong, f"a block of the prompt has no type: {wrong[:1]}", prompt)


@must("client.dialect.46", "dialects.md#y2025-messages", "2025.1")
async def ok_is_enough(client: ClientUnderTest) -> None:
    """An answer of nothing but the status ok ends the turn."""
    prompt = await client.begin_turn()
    client.reply(prompt, {"status": "ok"})
    await client.require_end("an answer of nothing but the status ok")


async def _create_terminal(client: ClientUnderTest, line: str = "printf hi | tr h H") -> Json:
    """Return the id of a terminal, whatever it is."""
    frame = client.require(
        await client.wait_reply(client.call("terminal/create", {"cwd": client.cwd, "command": line})),
        "terminal/create was never answered",
    )
    client.assume(
        "error" not in frame.message, "the client refuses to run commands; let it allow that (as with --yes)", frame
    )
    result = frame.message["result"]
    client.mark(frame)
    return result.get("terminal_id") if isinstance(result, dict) else None


@must("client.dialect.47", "dialects.md#y2025-terminals", "2025.1", needs=TERMINALS)
async def a_line_is_for_the_shell(client: ClientUnderTest) -> None:
    """A terminal takes one line for the shell."""
    async with client.turn():
        id = await _create_terminal(client)
        client.assume(isinstance(id, str), "terminal/create was answered without a terminal_id")
        await client.wait_reply(client.call("terminal/wait_for_exit", {"terminal_id": id}))
        frame = await client.wait_reply(client.call("terminal/output", {"terminal_id": id}))
        client.require(frame is not None and "Hi" in str(frame.message.get("result")), "the line was not run", frame)
        client.call("terminal/release", {"terminal_id": id})


@must("client.dialect.48", "dialects.md#y2025-terminals", "2025.1", needs=TERMINALS)
async def terminals_have_ids(client: ClientUnderTest) -> None:
    """A terminal is known by its terminal_id."""
    async with client.turn():
        id = await _create_terminal(client)
        client.require(isinstance(id, str), "terminal/create was answered without a terminal_id")
        frame = await client.wait_reply(client.call("terminal/release", {"terminal_id": id}))
        client.require(frame is not None and "result" in frame.message, "a terminal could not be released", frame)


@must("client.dialect.49", "dialects.md#y2025-updates", "2025.1")
async def y2025_updates_are_tolerated(client: ClientUnderTest) -> None:
    """Tool calls and plans in the words of 2025.1 are borne."""
    prompt = await client.begin_turn()
    steps = [{"id": 1, "description": "Look", "status": "completed"}]
    for kind, data in (
        ("agent_thought_chunk", {"text": "hm"}),
        ("tool_call", {"id": "t", "name": "read_file", "arguments": {"path": "/a"}}),
        ("tool_call_update", {"id": "t", "status": "completed", "result": {"content": "x"}}),
        ("plan", {"steps": steps}),
    ):
        client.notify("session/update", {"session_id": client.session, "type": kind, "data": data})
    await client.require_alive(prompt, "the updates of 2025.1")


@must("client.dialect.50", "dialect-matrix.md#version-result", "2025.1")
async def no_version_is_reported(client: ClientUnderTest) -> None:
    """The introduction may have no version in it."""
    client.held.add("initialize")
    first = await client.wait_initialize()
    client.reply(first, {"agent_info": {"name": "a", "version": "1"}, "capabilities": {"streaming": True}})
    prompt = client.require(
        await client.wait_method("session/prompt", client.timeouts.start),
        "the client gave up an agent whose initialize result has no version",
    )
    client.end_turn(prompt)


async def _request(client: ClientUnderTest, method: str, params: Json) -> ReceivedFrame:
    return client.require(
        await client.wait_reply(client.call(method, params), client.timeouts.turn), f"{method} was never answered"
    )


async def _require_code(client: ClientUnderTest, path: str, code: int, what: str) -> None:
    """Require that a read is refused with this code; inconclusive if it is not refused."""
    frame = await _request(client, "fs/read_text_file", {"path": path})
    error = frame.message.get("error")
    client.assume(isinstance(error, dict), f"{what} was given", frame)
    client.require(error.get("code") == code, f"{what} was refused with {error.get('code')}, not {code}", frame)


@must("client.dialect.51", "dialects.md#y2025-messages", "2025.1", needs=WRITING)
async def a_write_is_ok(client: ClientUnderTest) -> None:
    """A write is answered with the status ok."""
    async with client.turn():
        frame = await _request(client, "fs/write_text_file", {"path": client.absent_path(), "content": "x"})
        client.assume(
            "error" not in frame.message, "the client refuses to write; let it allow that (as with --yes)", frame
        )
        result = frame.message.get("result")
        client.require(
            isinstance(result, dict) and result.get("status") == "ok", "a write is not answered with ok", frame
        )


@must("client.dialect.52", "dialects.md#y2025-errors", "2025.1", needs=FILES)
async def missing_files_have_a_number(client: ClientUnderTest) -> None:
    """A file that is not there is refused with -32001."""
    async with client.turn():
        await _require_code(client, client.absent_path(), -32001, "a file that is not there")


@should("client.dialect.53", "dialects.md#y2025-errors", "2025.1", needs=FILES)
async def denied_files_have_a_number(client: ClientUnderTest) -> None:
    """A file out of the folder is refused with -32002."""
    async with client.turn():
        with outside_file() as path:
            await _require_code(client, path, -32002, "a file outside of the folder")


@must("client.dialect.54", "dialects.md#y2025-errors, dialects.md#y2025-capabilities", "2025.1", needs=f"!{FILES}")
async def files_not_offered_have_an_error_code(client: ClientUnderTest) -> None:
    """What is not lent is refused with -32004."""
    async with client.turn():
        frame = await _request(client, "fs/read_text_file", {"path": client.create_file("a secret")})
        error = frame.message.get("error")
        client.require(isinstance(error, dict), "a file was given by a client that offers none", frame)
        client.require(error.get("code") == -32004, f"what is not offered was refused with {error.get('code')}", frame)


@must("client.dialect.55", "dialects.md#y2025-terminals", "2025.1", needs=TERMINALS)
async def commands_are_killed(client: ClientUnderTest) -> None:
    """A command is killed by its terminal_id."""
    async with client.turn():
        id = await _create_terminal(client, "sleep 300")
        client.assume(isinstance(id, str), "terminal/create was answered without a terminal_id")
        frame = await _request(client, "terminal/kill", {"terminal_id": id})
        client.require("result" in frame.message, "a command could not be killed by its terminal_id", frame)
        await _request(client, "terminal/wait_for_exit", {"terminal_id": id})
        client.call("terminal/release", {"terminal_id": id})
