"""Probes of what only banjo, crow and 2025.1 ask of a client."""

from __future__ import annotations

import os

from dragoman.conformance.harness.client import ClientStage
from dragoman.conformance.harness.peer import Heard, Json
from dragoman.conformance.probe import probe
from dragoman.conformance.probes.client_files import outside

CHOICES = [{"id": "approve", "title": "Approve", "is_primary": True}, {"id": "deny", "title": "Deny"}]


async def told(stage: ClientStage) -> tuple[Heard, Json]:
    """The params of initialize as they stand on the wire."""
    heard = await stage.introduced()
    params = heard.message.get("params")
    stage.require(isinstance(params, dict), "initialize has no params", heard)
    return heard, params


def typed(stage: ClientStage, update: Json) -> Json:
    """An update in the words of v1 and banjo, or of crow."""
    return {"sessionId": stage.session, "update": update}


@probe("client.dialect.01")
async def banjo_introduces_itself(stage: ClientStage) -> None:
    """Both members are required there."""
    heard, params = await told(stage)
    for name in ("clientInfo", "clientCapabilities"):
        stage.require(isinstance(params.get(name), dict), f"initialize has no {name}", heard)


@probe("client.dialect.02")
async def models_change(stage: ClientStage) -> None:
    """An update that only banjo has."""
    update = {"sessionUpdate": "current_model_update", "currentModelId": "opus"}
    prompt = await stage.begun()
    stage.tell("session/update", typed(stage, update))
    await stage.survived(prompt, "a change of model")


@probe("client.dialect.03")
async def turns_end_for_want_of_a_login(stage: ClientStage) -> None:
    """A stop reason that only banjo has."""
    prompt = await stage.begun()
    stage.reply(prompt, {"stopReason": "auth_required"})
    await stage.concluded("the stop reason auth_required")


@probe("client.dialect.04")
async def plans_have_ids(stage: ClientStage) -> None:
    """And no priority."""
    prompt = await stage.begun()
    entries = [{"id": "1", "content": "Look", "status": "completed"}]
    stage.tell("session/update", typed(stage, {"sessionUpdate": "plan", "entries": entries}))
    await stage.survived(prompt, "a plan with ids")


@probe("client.dialect.05")
async def versions_can_be_refused(stage: ClientStage) -> None:
    """By the number that banjo has for it."""
    stage.held.add("initialize")
    stage.refuse(await stage.introduced(), -32001, "Unsupported protocol version")
    heard = await stage.until(lambda heard: heard.method == "session/new", stage.pace.answer)
    stage.require(heard is None, "the client opens a session though its version was refused", heard)


@probe("client.dialect.21")
async def crow_uses_underscores(stage: ClientStage) -> None:
    """In all three members."""
    heard, params = await told(stage)
    for name in ("protocol_version", "client_capabilities", "client_info"):
        stage.require(name in params, f"initialize has no {name}", heard)


@probe("client.dialect.22")
async def crow_opens_a_session(stage: ClientStage) -> None:
    """Two members, one of them with a hump."""
    heard = await stage.wanted("session/new", stage.pace.start)
    params = heard.message.get("params", {})
    is_good = os.path.isabs(str(params.get("cwd"))) and isinstance(params.get("mcpServers"), list)
    stage.require(is_good, "session/new lacks an absolute cwd, or a list mcpServers", heard)


async def _response(stage: ClientStage) -> tuple[Heard, Heard | None]:
    prompt = await stage.begun()
    question = {"@type": "permission_request", "tool_call_id": "c1", "title": "run", "arguments": "ls"}
    stage.tell("session/update", typed(stage, {**question, "permission_options": CHOICES}))

    def is_response(heard: Heard) -> bool:
        return isinstance(heard.message, dict) and heard.message.get("method") == "permission_response"

    return prompt, await stage.until(is_response)


@probe("client.dialect.23")
async def crow_responds(stage: ClientStage) -> None:
    """By the tool call, for there is no request."""
    prompt, heard = await _response(stage)
    stage.require(heard is not None, "a permission_request was never answered")
    assert heard is not None
    call = heard.message.get("params", {}).get("tool_call_id")
    stage.require(call == "c1", f"the response is about the tool call {call!r}", heard)
    stage.end(prompt)


@probe("client.dialect.24")
async def crow_chooses(stage: ClientStage) -> None:
    """option_id, or id."""
    prompt, heard = await _response(stage)
    if heard is None:
        stage.unsure("a permission_request was never answered")
    assert heard is not None
    params = heard.message.get("params", {})
    chosen = params.get("option_id", params.get("id"))
    stage.require(chosen in ("approve", "deny"), f"{chosen!r} was chosen, which was not offered", heard)
    stage.end(prompt)


@probe("client.dialect.25")
async def crow_asks_to_cancel(stage: ClientStage) -> None:
    """With an id, to be answered."""
    prompt = await stage.begun()
    await stage.fence()
    stage.grounds.interrupt()
    heard = await stage.until(lambda heard: heard.method == "session/cancel")
    if heard is None:
        stage.unsure("the client sent no cancel on Ctrl-C")
    assert heard is not None
    stage.require(heard.message.get("method") == "cancel", "the method is not cancel", heard)
    stage.require("id" in heard.message, "cancel came as a notification", heard)
    stage.end(prompt, "cancelled")


@probe("client.dialect.26")
async def crow_updates_are_borne(stage: ClientStage) -> None:
    """One of each."""
    prompt = await stage.begun()
    for update in (
        {"@type": "agent_thought_text", "text": "hm"},
        {"@type": "tool_call_start", "tool_call_id": "t", "title": "run", "kind": "execute", "status": "in_progress"},
        {"@type": "tool_call_update", "tool_call_id": "t", "status": "completed"},
        {"@type": "plan_update", "entries": [{"content": "a", "priority": "high", "status": "pending"}]},
    ):
        stage.tell("session/update", typed(stage, update))
    await stage.survived(prompt, "crow's updates")


@probe("client.dialect.41")
async def the_version_is_a_string(stage: ClientStage) -> None:
    """This one."""
    heard, params = await told(stage)
    version = params.get("protocol_version")
    stage.require(version == "2025.1", f"protocol_version is {version!r}", heard)


@probe("client.dialect.42")
async def the_folder_is_told_at_once(stage: ClientStage) -> None:
    """For all sessions."""
    heard, params = await told(stage)
    folder = params.get("working_directory")
    is_absolute = isinstance(folder, str) and os.path.isabs(folder)
    stage.require(is_absolute, f"working_directory is {folder!r}", heard)


@probe("client.dialect.43")
async def servers_are_told_at_once(stage: ClientStage) -> None:
    """For all sessions."""
    heard, params = await told(stage)
    servers = params.get("mcp_servers")
    stage.require(isinstance(servers, list), "initialize has no list mcp_servers", heard)
    wrong = [each for each in servers if not (isinstance(each, dict) and isinstance(each.get("url"), str))]
    stage.require(not wrong, f"an MCP server has no url: {wrong[:1]}", heard)


@probe("client.dialect.44")
async def the_client_names_its_session(stage: ClientStage) -> None:
    """Agents of 2025.1 do not."""
    heard = await stage.wanted("session/new", stage.pace.start)
    id = heard.message.get("params", {}).get("session_id")
    stage.require(isinstance(id, str) and id, f"session_id is {id!r}", heard)


@probe("client.dialect.45")
async def a_prompt_has_content(stage: ClientStage) -> None:
    """A list of blocks."""
    prompt = await stage.wanted("session/prompt", stage.pace.start)
    content = prompt.message.get("params", {}).get("content")
    stage.require(isinstance(content, list) and content, "the prompt has no content", prompt)
    wrong = [block for block in content if not (isinstance(block, dict) and isinstance(block.get("type"), str))]
    stage.require(not wrong, f"a block of the prompt has no type: {wrong[:1]}", prompt)


@probe("client.dialect.46")
async def ok_is_enough(stage: ClientStage) -> None:
    """There are no stop reasons."""
    prompt = await stage.begun()
    stage.reply(prompt, {"status": "ok"})
    await stage.concluded("an answer of nothing but the status ok")


async def _terminal(stage: ClientStage, line: str = "printf hi | tr h H") -> Json:
    """The id of a terminal, whatever it is."""
    heard = await stage.answered(stage.call("terminal/create", {"cwd": stage.cwd, "command": line}))
    stage.require(heard is not None, "terminal/create was never answered")
    assert heard is not None
    if "error" in heard.message:
        stage.unsure("the client refuses to run commands; let it allow that (as with --yes)", heard)
    result = heard.message["result"]
    stage.mark(heard)
    return result.get("terminal_id") if isinstance(result, dict) else None


@probe("client.dialect.47")
async def a_line_is_for_the_shell(stage: ClientStage) -> None:
    """A pipe in it."""
    prompt = await stage.begun()
    id = await _terminal(stage)
    if not isinstance(id, str):
        stage.unsure("terminal/create was answered without a terminal_id")
    await stage.answered(stage.call("terminal/wait_for_exit", {"terminal_id": id}))
    heard = await stage.answered(stage.call("terminal/output", {"terminal_id": id}))
    stage.require(heard is not None and "Hi" in str(heard.message.get("result")), "the line was not run", heard)
    stage.call("terminal/release", {"terminal_id": id})
    stage.end(prompt)


@probe("client.dialect.48")
async def terminals_have_ids(stage: ClientStage) -> None:
    """And are released by them."""
    prompt = await stage.begun()
    id = await _terminal(stage)
    stage.require(isinstance(id, str), "terminal/create was answered without a terminal_id")
    heard = await stage.answered(stage.call("terminal/release", {"terminal_id": id}))
    stage.require(heard is not None and "result" in heard.message, "a terminal could not be released", heard)
    stage.end(prompt)


@probe("client.dialect.49")
async def y2025_updates_are_borne(stage: ClientStage) -> None:
    """One of each."""
    prompt = await stage.begun()
    steps = [{"id": 1, "description": "Look", "status": "completed"}]
    for kind, data in (
        ("agent_thought_chunk", {"text": "hm"}),
        ("tool_call", {"id": "t", "name": "read_file", "arguments": {"path": "/a"}}),
        ("tool_call_update", {"id": "t", "status": "completed", "result": {"content": "x"}}),
        ("plan", {"steps": steps}),
    ):
        stage.tell("session/update", {"session_id": stage.session, "type": kind, "data": data})
    await stage.survived(prompt, "the updates of 2025.1")


@probe("client.dialect.50")
async def no_version_is_told(stage: ClientStage) -> None:
    """As in its document."""
    stage.held.add("initialize")
    first = await stage.introduced()
    stage.reply(first, {"agent_info": {"name": "a", "version": "1"}, "capabilities": {"streaming": True}})
    prompt = await stage.until(lambda heard: heard.method == "session/prompt", stage.pace.start)
    stage.require(prompt is not None, "the client gave up an agent whose introduction has no version")
    assert prompt is not None
    stage.end(prompt)


async def _answer(stage: ClientStage, method: str, params: Json) -> Heard:
    heard = await stage.answered(stage.call(method, params), stage.pace.turn)
    stage.require(heard is not None, f"{method} was never answered")
    assert heard is not None
    return heard


async def _refused(stage: ClientStage, path: str, code: int, what: str) -> None:
    """A read that has to be refused, by this number; another probe is about whether it is."""
    heard = await _answer(stage, "fs/read_text_file", {"path": path})
    error = heard.message.get("error")
    if not isinstance(error, dict):
        stage.unsure(f"{what} was given", heard)
    stage.require(error.get("code") == code, f"{what} was refused with {error.get('code')}, not {code}", heard)


@probe("client.dialect.51")
async def a_write_is_ok(stage: ClientStage) -> None:
    """There is nothing else to tell."""
    prompt = await stage.begun()
    heard = await _answer(stage, "fs/write_text_file", {"path": stage.absent(), "content": "x"})
    if "error" in heard.message:
        stage.unsure("the client refuses to write; let it allow that (as with --yes)", heard)
    result = heard.message.get("result")
    stage.require(isinstance(result, dict) and result.get("status") == "ok", "a write is not answered with ok", heard)
    stage.end(prompt)


@probe("client.dialect.52")
async def missing_files_have_a_number(stage: ClientStage) -> None:
    """Resource not found."""
    prompt = await stage.begun()
    await _refused(stage, stage.absent(), -32001, "a file that is not there")
    stage.end(prompt)


@probe("client.dialect.53")
async def denied_files_have_a_number(stage: ClientStage) -> None:
    """Permission denied."""
    prompt = await stage.begun()
    with outside() as path:
        await _refused(stage, path, -32002, "a file outside of the folder")
    stage.end(prompt)


@probe("client.dialect.54")
async def unlent_files_have_a_number(stage: ClientStage) -> None:
    """Capability not supported."""
    prompt = await stage.begun()
    heard = await _answer(stage, "fs/read_text_file", {"path": stage.file("a secret")})
    error = heard.message.get("error")
    stage.require(isinstance(error, dict), "a file was given by a client that lends none", heard)
    stage.require(error.get("code") == -32004, f"what is not lent was refused with {error.get('code')}", heard)
    stage.end(prompt)


@probe("client.dialect.55")
async def commands_are_killed(stage: ClientStage) -> None:
    """Who waits for it gets an answer."""
    prompt = await stage.begun()
    id = await _terminal(stage, "sleep 300")
    if not isinstance(id, str):
        stage.unsure("terminal/create was answered without a terminal_id")
    heard = await _answer(stage, "terminal/kill", {"terminal_id": id})
    stage.require("result" in heard.message, "a command could not be killed by its terminal_id", heard)
    await _answer(stage, "terminal/wait_for_exit", {"terminal_id": id})
    stage.call("terminal/release", {"terminal_id": id})
    stage.end(prompt)
