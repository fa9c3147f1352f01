"""What only banjo, crow and 2025.1 ask of a client."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from dragoman.conformance.client.files import outside_file
from dragoman.conformance.harness.client import (
    READ,
    REFUSES_COMMANDS,
    REFUSES_WRITES,
    TERMINALS,
    WRITE,
    ClientUnderTest,
)
from dragoman.conformance.harness.peer import Json, ReceivedFrame
from dragoman.conformance.json_shape import Shape, absolute, non_empty, one_of
from dragoman.conformance.requirement import must, should

CHOICES = [{"id": "approve", "title": "Approve", "is_primary": True}, {"id": "deny", "title": "Deny"}]


async def _require_initialize_shape(client: ClientUnderTest, shape: Shape) -> None:
    frame = await client.wait_initialize()
    client.require_params(frame, shape)


def _send_updates(client: ClientUnderTest, *updates: Json) -> None:
    """Send updates in the frame of v1, banjo and crow."""
    for update in updates:
        client.notify("session/update", {"sessionId": client.session, "update": update})


@must("client.dialect.01", "dialects.md#banjo-initialize", "banjo")
async def banjo_initialize_has_its_shape(client: ClientUnderTest) -> None:
    """initialize states who the client is and what it offers."""
    await _require_initialize_shape(client, {"clientInfo": dict, "clientCapabilities": dict})


@must("client.dialect.02", "dialects.md#banjo-models", "banjo")
async def models_change(client: ClientUnderTest) -> None:
    """The client tolerates a change of model."""
    async with client.turn(survives="a change of model"):
        _send_updates(client, {"sessionUpdate": "current_model_update", "currentModelId": "opus"})


@must("client.dialect.03", "dialects.md#banjo-stop-reasons", "banjo")
async def turns_end_with_auth_required(client: ClientUnderTest) -> None:
    """A turn may end with auth_required."""
    prompt = await client.begin_turn()
    client.reply(prompt, {"stopReason": "auth_required"})
    await client.require_end("the stop reason auth_required")


@must("client.dialect.04", "dialects.md#banjo-plans", "banjo")
async def plans_have_ids(client: ClientUnderTest) -> None:
    """Entries of a plan may have an id and no priority."""
    async with client.turn(survives="a plan with ids"):
        entries = [{"id": "1", "content": "Look", "status": "completed"}]
        _send_updates(client, {"sessionUpdate": "plan", "entries": entries})


@must("client.dialect.05", "dialects.md#banjo-errors", "banjo")
async def versions_can_be_refused(client: ClientUnderTest) -> None:
    """The client opens no session with an agent that refuses its version."""
    client.refuse(await client.hold_initialize(), -32001, "Unsupported protocol version")
    frame = await client.wait_method("session/new", client.timeouts.answer)
    client.require(frame is None, "the client opens a session though its version was refused", frame)


@must("client.dialect.21", "dialects.md#crow-initialize", "crow")
async def crow_uses_underscores(client: ClientUnderTest) -> None:
    """initialize is spelled with underscores."""
    names = ("protocol_version", "client_capabilities", "client_info")
    await _require_initialize_shape(client, dict.fromkeys(names, object))


@must("client.dialect.22", "dialects.md#crow-sessions", "crow")
async def crow_opens_a_session(client: ClientUnderTest) -> None:
    """A session is requested with cwd and mcpServers."""
    frame = await client.wait_new_session()
    client.require_params(frame, {"cwd": absolute, "mcpServers": list})


async def _permission_response(client: ClientUnderTest) -> ReceivedFrame | None:
    question = {"@type": "permission_request", "tool_call_id": "c1", "title": "run", "arguments": "ls"}
    _send_updates(client, {**question, "permission_options": CHOICES})

    def is_response(frame: ReceivedFrame) -> bool:
        return isinstance(frame.message, dict) and frame.message.get("method") == "permission_response"

    return await client.wait_for(is_response)


@must("client.dialect.23", "dialects.md#crow-permission", "crow")
async def crow_answers_permission_requests(client: ClientUnderTest) -> None:
    """A permission request is answered with permission_response."""
    async with client.turn():
        frame = client.require(await _permission_response(client), "a permission_request was never answered")
        call = frame.wire_params.get("tool_call_id")
        client.require(call == "c1", f"the response is about the tool call {call!r}", frame)


@must("client.dialect.24", "dialects.md#crow-permission", "crow")
async def crow_chooses_an_option(client: ClientUnderTest) -> None:
    """The answer to a permission request is one of its options."""
    async with client.turn():
        frame = client.assume(await _permission_response(client), "a permission_request was never answered")
        option = frame.wire_params.get("option_id", frame.wire_params.get("id"))
        client.require(option in ("approve", "deny"), f"{option!r} was chosen, which was not offered", frame)


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
    """The client tolerates thoughts, tool calls and plans of crow."""
    async with client.turn(survives="crow's updates"):
        call = {"@type": "tool_call_start", "tool_call_id": "t", "title": "run"}
        _send_updates(
            client,
            {"@type": "agent_thought_text", "text": "hm"},
            {**call, "kind": "execute", "status": "in_progress"},
            {"@type": "tool_call_update", "tool_call_id": "t", "status": "completed"},
            {"@type": "plan_update", "entries": [{"content": "a", "priority": "high", "status": "pending"}]},
        )


@must("client.dialect.41", "dialects.md#y2025-initialize", "2025.1")
async def the_version_is_a_string(client: ClientUnderTest) -> None:
    """The version is the string 2025.1."""
    await _require_initialize_shape(client, {"protocol_version": one_of("2025.1")})


@must("client.dialect.42", "dialects.md#y2025-initialize", "2025.1")
async def the_folder_is_reported_at_once(client: ClientUnderTest) -> None:
    """initialize has the working directory, as an absolute path."""
    await _require_initialize_shape(client, {"working_directory": absolute})


@must("client.dialect.43", "dialects.md#y2025-initialize", "2025.1")
async def servers_are_reported_at_once(client: ClientUnderTest) -> None:
    """initialize has a list of the MCP servers, if only an empty one."""
    await _require_initialize_shape(client, {"mcp_servers": [{"url": str}]})


@must("client.dialect.44", "dialects.md#y2025-sessions", "2025.1")
async def the_client_names_its_session(client: ClientUnderTest) -> None:
    """The client chooses the id of its session."""
    frame = await client.wait_new_session()
    client.require_params(frame, {"session_id": non_empty})


@must("client.dialect.45", "dialects.md#y2025-sessions", "2025.1")
async def a_prompt_has_content(client: ClientUnderTest) -> None:
    """A prompt has content."""
    prompt = await client.wait_call("session/prompt", client.timeouts.start)
    content = client.require(prompt.wire_params.get("content"), "the prompt has no content", prompt)
    client.require_shape(content, [{"type": str}], prompt, "content")


@must("client.dialect.46", "dialects.md#y2025-messages", "2025.1")
async def ok_is_enough(client: ClientUnderTest) -> None:
    """An answer with only the status ok ends the turn."""
    prompt = await client.begin_turn()
    client.reply(prompt, {"status": "ok"})
    await client.require_end("an answer of nothing but the status ok")


async def _create_terminal(client: ClientUnderTest, line: str = "printf hi | tr h H") -> Json:
    """Return the id of a terminal, whatever it is."""
    frame = await client.require_answer("terminal/create", {"cwd": client.cwd, "command": line})
    client.assume("error" not in frame.message, REFUSES_COMMANDS, frame)
    client.mark(frame)
    return frame.result.get("terminal_id")


@asynccontextmanager
async def _terminal(client: ClientUnderTest, line: str = "printf hi | tr h H") -> AsyncIterator[str]:
    """Run a line in a terminal around the block, and release it."""
    id = await _create_terminal(client, line)
    client.assume(isinstance(id, str), "terminal/create was answered without a terminal_id")
    yield id
    client.call("terminal/release", {"terminal_id": id})


@must("client.dialect.47", "dialects.md#y2025-terminals", "2025.1", needs=TERMINALS)
async def a_line_is_for_the_shell(client: ClientUnderTest) -> None:
    """A terminal takes one line for the shell."""
    async with client.turn(), _terminal(client) as id:
        await client.request("terminal/wait_for_exit", {"terminal_id": id})
        frame = await client.request("terminal/output", {"terminal_id": id})
        client.require(frame is not None and "Hi" in str(frame.message.get("result")), "the line was not run", frame)


@must("client.dialect.48", "dialects.md#y2025-terminals", "2025.1", needs=TERMINALS)
async def terminals_have_ids(client: ClientUnderTest) -> None:
    """A terminal has a terminal_id."""
    async with client.turn():
        id = await _create_terminal(client)
        client.require(isinstance(id, str), "terminal/create was answered without a terminal_id")
        frame = await client.request("terminal/release", {"terminal_id": id})
        client.require(frame is not None and "result" in frame.message, "a terminal could not be released", frame)


@must("client.dialect.49", "dialects.md#y2025-updates", "2025.1")
async def y2025_updates_are_tolerated(client: ClientUnderTest) -> None:
    """The client tolerates tool calls and plans of 2025.1."""
    async with client.turn(survives="the updates of 2025.1"):
        steps = [{"id": 1, "description": "Look", "status": "completed"}]
        for kind, data in (
            ("agent_thought_chunk", {"text": "hm"}),
            ("tool_call", {"id": "t", "name": "read_file", "arguments": {"path": "/a"}}),
            ("tool_call_update", {"id": "t", "status": "completed", "result": {"content": "x"}}),
            ("plan", {"steps": steps}),
        ):
            client.notify("session/update", {"session_id": client.session, "type": kind, "data": data})


@must("client.dialect.50", "dialect-matrix.md#version-result", "2025.1")
async def no_version_is_reported(client: ClientUnderTest) -> None:
    """The result of initialize may have no version."""
    first = await client.hold_initialize()
    client.reply(first, {"agent_info": {"name": "a", "version": "1"}, "capabilities": {"streaming": True}})
    why = "the client gave up an agent whose initialize result has no version"
    client.end_turn(await client.require_prompt(why))


async def _require_code(client: ClientUnderTest, path: str, code: int, what: str) -> None:
    """Require that a read is refused with this code; inconclusive if it is not refused."""
    frame = await client.require_answer("fs/read_text_file", {"path": path}, seconds=client.timeouts.turn)
    found = client.assume(frame.error, f"{what} was given", frame).get("code")
    client.require(found == code, f"{what} was refused with {found}, not {code}", frame)


@must("client.dialect.51", "dialects.md#y2025-messages", "2025.1", needs=WRITE)
async def a_write_is_ok(client: ClientUnderTest) -> None:
    """A write is answered with the status ok."""
    async with client.turn():
        params = {"path": client.absent_path(), "content": "x"}
        frame = await client.require_answer("fs/write_text_file", params, seconds=client.timeouts.turn)
        client.assume("error" not in frame.message, REFUSES_WRITES, frame)
        client.require(frame.result.get("status") == "ok", "a write is not answered with ok", frame)


@must("client.dialect.52", "dialects.md#y2025-errors", "2025.1", needs=READ)
async def missing_files_have_their_error_code(client: ClientUnderTest) -> None:
    """A file that does not exist is refused with -32001."""
    async with client.turn():
        await _require_code(client, client.absent_path(), -32001, "a file that is not there")


@should("client.dialect.53", "dialects.md#y2025-errors", "2025.1", needs=READ)
async def denied_files_have_their_error_code(client: ClientUnderTest) -> None:
    """A file outside the folder is refused with -32002."""
    async with client.turn():
        with outside_file() as path:
            await _require_code(client, path, -32002, "a file outside of the folder")


@must("client.dialect.54", "dialects.md#y2025-errors, dialects.md#y2025-capabilities", "2025.1", needs=f"!{READ}")
async def files_not_offered_have_their_error_code(client: ClientUnderTest) -> None:
    """What is not offered is refused with -32004."""
    async with client.turn():
        frame = await client.require_answer("fs/read_text_file", {"path": client.create_file("a secret")})
        error = client.require(frame.error, "a file was given by a client that offers none", frame)
        client.require(error.get("code") == -32004, f"what is not offered was refused with {error.get('code')}", frame)


@must("client.dialect.55", "dialects.md#y2025-terminals", "2025.1", needs=TERMINALS)
async def commands_are_killed(client: ClientUnderTest) -> None:
    """A command is killed by its terminal_id."""
    async with client.turn(), _terminal(client, "sleep 300") as id:
        frame = await client.require_answer("terminal/kill", {"terminal_id": id}, seconds=client.timeouts.turn)
        client.require("result" in frame.message, "a command could not be killed by its terminal_id", frame)
        await client.require_answer("terminal/wait_for_exit", {"terminal_id": id}, seconds=client.timeouts.turn)
