"""The MCP servers of a session, as a client sees them: raw frames in v1, the draft and 2025.1."""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from dragoman import Agent, Turn
from dragoman.agents.everything.agent import everything
from tests.mcp.servers import BARE, KEY, wait_for
from tests.roles.raw_client import Raw, new_session, prompt_and_wait, raw_connection, updates

CWD = "/"  # servers are started in the folder of the session, so it must exist
SERVER: dict[str, Any] = {"name": "bare", "command": sys.executable, "args": ["-S", BARE], "env": []}


def answering(option: str | None) -> Callable[[Any], Any]:
    """Return an answer to permission requests; None cancels."""
    outcome = {"outcome": "cancelled"} if option is None else {"outcome": "selected", "optionId": option}
    return lambda _: {"outcome": outcome}


async def prompt_in_session(client: Raw, *texts: str, servers: list[Any] | None = None, cwd: Path | str = "/") -> str:
    """Open a session with MCP servers, send prompts, and return the text of the answers."""
    session = await new_session(client, mcpServers=servers or [SERVER], cwd=str(cwd))
    for text in texts:
        await prompt_and_wait(client, session, text)
    return "".join(update["content"].get("text", "") for update in updates(client, "agent_message_chunk"))


@pytest.mark.item("BR-04", "BR-05", "004-46", "004-70")
async def test_a_call_is_a_tool_call_that_asks_and_then_shows_the_result(tmp_path: Path) -> None:
    async with raw_connection(everything()) as client:
        client.answers["session/request_permission"] = answering("allow_once")
        text = await prompt_in_session(client, "/call bare blocks {}", cwd=tmp_path)
    (start,) = updates(client, "tool_call")
    (asked,) = client.params_of("session/request_permission")
    *_, last = updates(client, "tool_call_update")
    assert (start["name"], start["kind"], start["status"], start["rawInput"]) == (
        "mcp__bare__blocks",
        "other",
        "pending",
        {},
    )
    assert asked["toolCall"]["name"] == "mcp__bare__blocks"
    assert last["status"] == "completed"
    assert last["rawOutput"] == {"n": 1}
    kinds = [block["content"]["type"] for block in last["content"]]
    assert kinds == ["text", "image", "audio", "resource", "resource_link"]
    assert "The tool answered." in text


@pytest.mark.item("BR-04", "004-56")
@pytest.mark.parametrize("option", ["reject_once", None])
async def test_a_call_that_the_user_does_not_allow_does_not_run(option: str | None) -> None:
    async with raw_connection(everything()) as client:
        client.answers["session/request_permission"] = answering(option)
        text = await prompt_in_session(client, '/call bare echo {"text": "no"}')
    assert "the user did not allow this call" in text
    statuses = [update.get("status") for update in updates(client, "tool_call_update")]
    assert "in_progress" not in statuses
    assert statuses[-1] == "failed"  # v1 has no denied


@pytest.mark.item("BR-04")
async def test_a_tool_that_is_always_allowed_asks_once_in_its_session() -> None:
    async with raw_connection(everything()) as client:
        client.answers["session/request_permission"] = answering("allow_always")
        await prompt_in_session(client, "/call bare echo {}", "/call bare echo {}", "/call bare fail {}")
        assert len(client.params_of("session/request_permission")) == 2
        await prompt_in_session(client, "/call bare echo {}")
    assert len(client.params_of("session/request_permission")) == 3


@pytest.mark.item("BR-04")
async def test_cancelling_the_turn_cancels_the_call_at_the_server_and_shows_progress(tmp_path: Path) -> None:
    until = tmp_path / "until"
    async with raw_connection(everything()) as client:
        client.answers["session/request_permission"] = answering("allow_once")
        session = await new_session(client, mcpServers=[SERVER], cwd=CWD)
        text = "/call bare slow " + json.dumps({"until": str(until)})
        turn = asyncio.create_task(prompt_and_wait(client, session, text))
        await wait_for(lambda: "step 1 (1 of 3)" in json.dumps(updates(client, "tool_call_update")))
        client.notify("session/cancel", {"sessionId": session})
        assert (await turn)["result"]["stopReason"] == "cancelled"
        await wait_for(Path(f"{until}.cancelled").exists)
        await prompt_and_wait(client, session, '/call bare echo {"text": "again"}')
    statuses = [update.get("status") for update in updates(client, "tool_call_update")]
    assert "completed" in statuses[-1:]


@pytest.mark.item("BR-03")
async def test_servers_that_fail_are_named_and_the_others_go_on() -> None:
    missing = {**SERVER, "name": "gone", "command": "no-such-program"}
    dying = {**SERVER, "name": "dying", "command": "false", "args": []}
    async with raw_connection(everything()) as client:
        client.answers["session/request_permission"] = answering("allow_once")
        text = await prompt_in_session(
            client, "/tools", '/call bare echo {"text": "fine"}', "/call gone x {}", servers=[missing, SERVER, dying]
        )
    titles = [update["title"] for update in updates(client, "tool_call")]
    assert "MCP server gone is not available" in titles
    assert "MCP server dying is not available" in titles
    assert "no such command on PATH" in text
    assert "fine" in text
    assert "The tool failed." in text


@pytest.mark.item("BR-03")
async def test_a_client_with_notices_gets_a_notice_for_a_server_that_fails() -> None:
    missing = {**SERVER, "name": "gone", "command": "no-such-program"}
    async with raw_connection(everything(), "v1", {"session": {"notices": {}}}) as client:
        await prompt_in_session(client, "/echo hello", servers=[missing])
    (notice,) = updates(client, "notice")
    assert notice["title"] == "MCP server gone is not available"


@pytest.mark.item("BR-05")
async def test_prompts_of_a_server_are_slash_commands() -> None:
    async with raw_connection(everything()) as client:
        text = await prompt_in_session(client, "/bare:greet Ada 'with a bow'")
        (commands,) = updates(client, "available_commands_update")
    (command,) = [each for each in commands["availableCommands"] if each["name"] == "bare:greet"]
    assert command["description"] == "Greet somebody"
    assert command["input"] == {"hint": "who [how]"}
    assert "Greet Ada with a bow" in text


@pytest.mark.item("BR-05", "004-70")
async def test_a_resource_is_read_after_asking_and_becomes_a_block() -> None:
    async with raw_connection(everything()) as client:
        client.answers["session/request_permission"] = answering("allow_once")
        await prompt_in_session(client, "/resource bare note://1")
    (asked,) = client.params_of("session/request_permission")
    assert asked["toolCall"]["name"] == "mcp__bare__read_resource"
    (block,) = [each["content"] for each in updates(client, "agent_message_chunk") if each["content"]["type"] != "text"]
    assert block == {"type": "resource", "resource": {"uri": "note://1", "mimeType": "text/plain", "text": "a note "}}


@pytest.mark.item("004-56")
async def test_no_frame_to_the_client_has_a_credential_of_a_server() -> None:
    server = {**SERVER, "env": [{"name": "KEY", "value": KEY}]}
    async with raw_connection(everything()) as client:
        client.answers["session/request_permission"] = answering("allow_once")
        calls = [f"/call bare {tool} {{}}" for tool in ("environment", "error", "exit", "echo")]
        await prompt_in_session(client, "/tools", *calls, "/resource bare note://1", servers=[server])
    assert KEY not in json.dumps(client.received)
    assert "[redacted]" in json.dumps(client.received)


@pytest.mark.item("BR-02", "004-66")
async def test_servers_belong_to_their_session_and_end_with_it() -> None:
    async with raw_connection(everything()) as client:
        client.answers["session/request_permission"] = answering("allow_once")
        first = await new_session(client, mcpServers=[SERVER], cwd=CWD)
        second = await new_session(client, mcpServers=[SERVER], cwd=CWD)
        pids = [await _server_pid(client, session) for session in (first, second)]
        assert pids[0] != pids[1]
        await client.result("session/close", {"sessionId": first})
        assert [_is_alive(pid) for pid in pids] == [False, True]
        params = {"sessionId": first, "cwd": CWD, "mcpServers": [SERVER]}
        await client.result("session/load", params)
        pids.append(await _server_pid(client, first))
        fork = {"sessionId": first, "cwd": CWD, "mcpServers": [SERVER]}
        forked = (await client.result("session/fork", fork))["sessionId"]
        pids.append(await _server_pid(client, forked))
    await wait_for(lambda: not any(map(_is_alive, pids)))
    assert len(set(pids)) == 4


async def _server_pid(client: Raw, session: str) -> int:
    before = len(updates(client, "agent_message_chunk"))
    await prompt_and_wait(client, session, "/call bare environment {}")
    texts = [update["content"]["text"] for update in updates(client, "agent_message_chunk")[before:]]
    return int(json.loads(next(text for text in texts if text.startswith("{")))["pid"])


def _is_alive(pid: int) -> bool:
    try:
        status = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return False
    return status.rpartition(")")[2].split()[0] != "Z"


@pytest.mark.item("BR-08", "000-15")
async def test_servers_of_a_2025_1_initialize_reach_every_session(tmp_path: Path) -> None:
    script = tmp_path / "server"
    script.write_text(f"#!{sys.executable} -S\n{Path(BARE).read_text()}")
    script.chmod(0o755)
    from dragoman.transport.memory import memory_pair

    ours, theirs = memory_pair()
    connection = everything().start_connection(theirs)
    client = Raw(ours)
    try:
        await client.result(
            "initialize",
            {
                "protocol_version": "2025.1",
                "client_info": {"name": "editor", "version": "1"},
                "capabilities": {},
                "working_directory": str(tmp_path),
                "mcp_servers": [{"name": "bare", "url": f"stdio://{script}", "credentials": {"key": KEY}}],
            },
        )
        for id in ("one", "two"):
            await client.result("session/new", {"session_id": id, "mode": "agent"})
            await client.result("session/prompt", {"session_id": id, "content": [{"type": "text", "text": "/tools"}]})
    finally:
        await connection.close()
    text = json.dumps(client.received)
    assert text.count("tool `echo`") == 2
    assert KEY not in text


async def test_two_servers_of_one_name_are_refused() -> None:
    async with raw_connection(everything()) as client:
        answer = await client.call("session/new", {"cwd": CWD, "mcpServers": [SERVER, SERVER]})
    assert answer["error"]["code"] == -32602
    assert "two MCP servers 'bare'" in answer["error"]["message"]


@pytest.mark.item("004-44")
async def test_an_agent_announces_which_servers_it_connects_to() -> None:
    async with raw_connection(Agent("a")) as client, raw_connection(Agent("b", mcp=False)) as other:
        found = [each.received[0]["result"]["agentCapabilities"]["mcpCapabilities"] for each in (client, other)]
    assert [(each["http"], each["sse"]) for each in found] == [(True, True), (False, False)]


async def test_an_agent_that_connects_servers_itself_gets_them_unopened() -> None:
    agent = Agent("own", mcp=False)
    seen: list[Any] = []

    @agent.prompt
    async def answer(turn: Turn) -> None:
        seen.extend([turn.session.mcp_servers[0].name, bool(turn.tools), await turn.tools.list_tools()])

    async with raw_connection(agent) as client:
        await prompt_in_session(client, "go")
    assert seen == ["bare", False, []]


@pytest.mark.item("BR-04")
async def test_the_draft_is_asked_about_an_mcp_tool() -> None:
    transport = {"type": "stdio", "command": sys.executable, "args": ["-S", BARE], "env": {}}
    async with raw_connection(everything(), "draft", {"fs": {"read": True}}) as client:
        client.answers["session/request_permission"] = lambda _: {"granted": True}
        params = {"workingDirectory": CWD, "mcpServers": [{"name": "bare", "transport": {**transport, "timeout": 300}}]}
        session = (await client.result("session/new", params))["sessionId"]
        text = '/call bare slow {"until": "/nowhere"}'
        await client.result("session/prompt", {"sessionId": session, "content": [{"type": "text", "text": text}]})
    (asked,) = client.params_of("session/request_permission")
    assert asked["operation"] == "mcp_tool"
    assert "did not answer within 0.3 seconds" in json.dumps(client.received)
