"""Files and terminals between real peers, docs/protocol/peers.md#files-and-terminals, and what becomes of it here."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from dragoman import Agent, Kind, ProtocolError, WorkspaceAccess
from dragoman.testing import ScriptedPeer
from tests.quirks.scripted import (
    FILES_AND_TERMINALS,
    SESSION,
    agent_served,
    client,
    error,
    open_session,
    prompting,
    serve,
    whole,
)


async def ask(peer: ScriptedPeer, method: str, **params: Any) -> dict[str, Any]:
    """What our client answers to this call of an agent."""
    return await peer.request(method, method, {"sessionId": SESSION, **params})


async def workspace(folder: Path, part: Any, **introduction: Any) -> None:
    """Our client, lending this folder to an agent that plays a part."""

    async def serve_session(peer: ScriptedPeer) -> None:
        await serve(peer, "session/new", {"sessionId": SESSION})
        await whole(part)(peer)

    async with client(serve_session, introduction, workspace=WorkspaceAccess()) as agent:
        await agent.open_session(str(folder))
        await agent.request("_end", {})


@pytest.mark.parametrize(
    "command",
    [
        {"command": "echo one && echo two"},
        {"command": "/bin/sh", "args": ["-c", "echo one; echo $WORD"], "env": [{"name": "WORD", "value": "two"}]},
        {"command": "printf", "args": ["one\\ntwo\\n"]},
        {"command": "echo one; echo two", "args": None, "cwd": None, "env": None, "outputByteLimit": None},
    ],
    ids=["a line", "a shell", "words", "nulls"],
)
async def test_commands_are_run_in_every_form(command: dict[str, Any], tmp_path: Path) -> None:
    """docs/protocol/peers.md#terminal-commands: droid gives a whole line, kimi a shell, fast-agent words; droid kills
    and then releases.
    """

    async def part(peer: ScriptedPeer) -> None:
        terminal = (await ask(peer, "terminal/create", **command))["result"]
        ended = (await ask(peer, "terminal/wait_for_exit", **terminal))["result"]
        assert ended == {"exitCode": 0, "signal": None}
        output = (await ask(peer, "terminal/output", **terminal))["result"]
        assert output == {"output": "one\ntwo\n", "truncated": False, "exitStatus": ended}
        assert (await ask(peer, "terminal/kill", **terminal))["result"] == {}
        assert (await ask(peer, "terminal/release", **terminal))["result"] == {}
        assert "error" in await ask(peer, "terminal/output", **terminal)

    await workspace(tmp_path, part)


async def with_agent(author: Any, part: Any) -> None:
    """Our agent with this function, served to a scripted client that offers everything."""
    agent = Agent("worker", version="1")
    agent.prompt(author)
    async with agent_served(agent, FILES_AND_TERMINALS) as peer:
        peer.send(prompting(await open_session(peer)))
        await part(peer)
        await peer.expect(id="prompt", result={"stopReason": "end_turn"})


@pytest.mark.parametrize(
    ("status", "code", "signal"),
    [
        ({"exitCode": 143, "signal": None}, 143, None),
        ({"exitCode": None, "signal": "SIGTERM"}, None, "SIGTERM"),
        ({"exitCode": 3}, 3, None),
        ({}, None, None),
    ],
)
async def test_the_exit_of_a_command_is_read_in_several_forms(status: dict[str, Any], code: Any, signal: Any) -> None:
    """docs/protocol/peers.md#terminal-commands, docs/protocol/peers.md#line-slices: acpx has two ways for one kill,
    toad leaves the signal out.
    """

    async def author(turn: Any) -> None:
        finished = await turn.terminals.run("sleep", ["30"])
        assert (finished.exit_code, finished.signal, finished.output) == (code, signal, "line\r\n")

    async def part(peer: ScriptedPeer) -> None:
        await serve(peer, "terminal/create", {"terminalId": "t"})
        await serve(peer, "terminal/wait_for_exit", status)
        await serve(peer, "terminal/output", {"output": "line\r\n", "truncated": False, "exitStatus": status})
        await serve(peer, "terminal/release", None)

    await with_agent(author, part)


async def test_a_missing_file_is_an_error_with_its_uri(tmp_path: Path) -> None:
    """docs/protocol/peers.md#missing-files: kimi probes for files that are mostly not there."""

    async def part(peer: ScriptedPeer) -> None:
        refused = (await ask(peer, "fs/read_text_file", path=str(tmp_path / "AGENTS.md")))["error"]
        assert (refused["code"], refused["data"]["uri"]) == (-32002, f"file://{tmp_path}/AGENTS.md")

    await workspace(tmp_path, part, agentInfo={"name": "kimi", "version": "1"})


async def test_an_agent_that_fails_on_missing_files_gets_an_empty_file(tmp_path: Path) -> None:
    """docs/protocol/peers.md#missing-files: gemini-cli can make no file otherwise."""

    async def part(peer: ScriptedPeer) -> None:
        path = str(tmp_path / "out.txt")
        assert (await ask(peer, "fs/read_text_file", path=path))["result"] == {"content": ""}
        assert (await ask(peer, "fs/write_text_file", path=path, content="new"))["result"] == {}
        assert (await ask(peer, "fs/read_text_file", path=path))["result"] == {"content": "new"}

    await workspace(tmp_path, part, agentInfo={"name": "gemini-cli", "version": "0.61.0"})


async def test_a_limit_without_a_line_and_meta_on_writes_are_accepted(tmp_path: Path) -> None:
    """docs/protocol/peers.md#missing-files: qwen reads `limit` lines from the first one and writes with `_meta.bom`."""
    path = tmp_path / "a.txt"
    path.write_text("one\ntwo\nthree\n")

    async def part(peer: ScriptedPeer) -> None:
        assert (await ask(peer, "fs/read_text_file", path=str(path), limit=2))["result"]["content"] == "one\ntwo"
        assert "one" in (await ask(peer, "fs/read_text_file", path=str(path), limit=1000))["result"]["content"]
        assert (await ask(peer, "fs/write_text_file", path=str(path), content="x", _meta={"bom": False}))[
            "result"
        ] == {}

    await workspace(tmp_path, part)
    assert path.read_text() == "x"


@pytest.mark.parametrize(
    "refusal",
    [
        {"code": -32002, "message": "Resource not found: file:///a", "data": {"uri": "file:///a"}},
        {"code": -32603, "message": "Internal error", "data": {"details": "ENOENT"}},
    ],
)
async def test_a_clients_error_for_a_missing_file_reaches_the_agent_author(refusal: dict[str, Any]) -> None:
    """docs/protocol/peers.md#missing-files"""

    async def author(turn: Any) -> None:
        with pytest.raises(ProtocolError) as caught:
            await turn.files.read("/a")
        assert caught.value.code == refusal["code"]
        assert (caught.value.kind == Kind.RESOURCE_NOT_FOUND) == (refusal["code"] == -32002)
        assert await turn.files.read("/a") == ""  # as toad and CodeCompanion say it

    async def part(peer: ScriptedPeer) -> None:
        peer.send(error(await peer.expect(method="fs/read_text_file"), refusal))
        await serve(peer, "fs/read_text_file", {"content": ""})

    await with_agent(author, part)


async def test_a_null_result_is_valid_only_if_the_result_has_no_required_members() -> None:
    """docs/protocol/peers.md#null-results: toad and CodeCompanion answer writes with null, openclaw everything."""

    async def author(turn: Any) -> None:
        await turn.files.write("/a", "text")
        with pytest.raises(ProtocolError, match="fs/read_text_file cannot be read: content is missing") as caught:
            await turn.files.read("/a")
        assert caught.value.kind == Kind.INTERNAL_ERROR
        with pytest.raises(ProtocolError, match="terminal/create cannot be read: terminalId is missing"):
            await turn.terminals.run("ls")

    async def part(peer: ScriptedPeer) -> None:
        for method in ("fs/write_text_file", "fs/read_text_file", "terminal/create"):
            await serve(peer, method, None)

    await with_agent(author, part)


async def test_a_slice_of_lines_has_no_newline_at_its_end(tmp_path: Path) -> None:
    """docs/protocol/peers.md#line-slices: all clients agree."""
    path = tmp_path / "hello.txt"
    path.write_text("line one\nline two\nline three\n")

    async def part(peer: ScriptedPeer) -> None:
        answer = await ask(peer, "fs/read_text_file", path=str(path), line=2, limit=1)
        assert answer["result"] == {"content": "line two"}
        answer = await ask(peer, "fs/read_text_file", path=str(path), line=0, limit=1)
        assert answer["result"] == {"content": "line one"}

    await workspace(tmp_path, part)


async def test_a_wait_that_is_not_answered_after_a_kill_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    """docs/protocol/peers.md#line-slices: toad; how the command ended stands beside its output."""
    monkeypatch.setattr("dragoman.roles.agent.client_terminals.WAIT_AFTER_KILL", 0.01)

    async def author(turn: Any) -> None:
        async with await turn.terminals.create("sleep", ["30"]) as terminal:
            await terminal.kill()
            assert await terminal.wait() == 143

    async def part(peer: ScriptedPeer) -> None:
        await serve(peer, "terminal/create", {"terminalId": "t"})
        await serve(peer, "terminal/kill", {})
        await peer.expect(method="terminal/wait_for_exit")
        await peer.expect(method="$/cancel_request")
        await serve(peer, "terminal/output", {"output": "", "truncated": False, "exitStatus": {"exitCode": 143}})
        await serve(peer, "terminal/release", {})

    await with_agent(author, part)


@pytest.mark.parametrize("path", ["/etc/hostname", "relative.txt", "../outside"])
async def test_files_outside_the_session_are_refused_by_our_client(path: str, tmp_path: Path) -> None:
    """docs/protocol/peers.md#path-limits: as acpx does; toad and nvim read anything."""

    async def part(peer: ScriptedPeer) -> None:
        assert "error" in await ask(peer, "fs/read_text_file", path=path)
        assert "error" in await ask(peer, "fs/write_text_file", path=path, content="x")

    await workspace(tmp_path, part)


@pytest.mark.parametrize("details", ["Path is outside allowed cwd subtree", "Path must be absolute"])
async def test_a_client_that_refuses_a_path_does_not_end_the_turn(details: str) -> None:
    """docs/protocol/peers.md#path-limits"""

    async def author(turn: Any) -> None:
        with pytest.raises(ProtocolError) as caught:
            await turn.files.read("/etc/hostname")
        assert caught.value.data == {"details": details}

    async def part(peer: ScriptedPeer) -> None:
        refusal = {"code": -32603, "message": "Internal error", "data": {"details": details}}
        peer.send(error(await peer.expect(method="fs/read_text_file"), refusal))

    await with_agent(author, part)


async def test_permission_requests_outside_a_turn_are_answered(tmp_path: Path) -> None:
    """docs/protocol/peers.md#updates-outside-turns: an agent that works unasked uses files unasked."""
    (tmp_path / "a").write_text("x")

    async def part(peer: ScriptedPeer) -> None:
        peer.send({"jsonrpc": "2.0", "id": 0, "method": "fs/read_text_file", "params": {"path": str(tmp_path / "a")}})
        await peer.expect(id=0, error={"code": -32602})
        assert (await ask(peer, "fs/read_text_file", path=str(tmp_path / "a")))["result"] == {"content": "x"}

    await workspace(tmp_path, part)
