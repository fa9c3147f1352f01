"""What a client, a host's log and an editor behind a proxy see after an agent wrote a file."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from dragoman import Agent, ClientSession, Turn, WorkspaceAccess, connect
from dragoman.bridge.lsp import edit_observer
from dragoman.bridge.lsp.server_table import ServerRow
from dragoman.bridge.lsp.workspace_observer import LanguageServerObserver, relay_extension
from dragoman.roles.client.dial import Dialer
from dragoman.roles.proxy.relay import Relay
from dragoman.schema.update import AgentMessageChunk
from dragoman.store.memory import MemoryStore
from dragoman.testing import ScriptedPeer
from dragoman.transport.memory import memory_pair
from tests.bridge.lsp.projects import PATIENCE, QUICK, broken, built_in, wait_for, write

GOOD, BAD = "x: int = 1\n", 'x: int = "1"\n'
FOUND = "new error ty(invalid-assignment)"

Work = Callable[[Turn], Awaitable[None]]


@asynccontextmanager
async def session_with(
    work: Work, folder: Path, rows: Sequence[ServerRow], notices: list[str] | None = None, **options: Any
) -> AsyncIterator[ClientSession]:
    """Open a session with an agent that does this in each turn, and with language servers."""
    agent = Agent("writer")

    @agent.prompt
    async def prompt(turn: Turn) -> None:
        await work(turn)

    access = WorkspaceAccess()
    report = (lambda text: None) if notices is None else notices.append
    access.observer = LanguageServerObserver(rows, report, QUICK)
    ours, theirs = memory_pair()
    serving = asyncio.create_task(agent.serve(theirs))
    async with asyncio.timeout(PATIENCE):
        async with connect(ours, workspace=access, **options) as remote:
            yield await remote.open_session(str(folder))
        await serving


def texts(session: ClientSession, call_id: str) -> list[str]:
    """Return the texts in a tool call."""
    content = session.tool_calls[call_id].content
    return [item.content.text for item in content if item.__struct_config__.tag == "content"]


@pytest.mark.item("BR-24", "004-69")
@pytest.mark.parametrize("is_logged", [False, True])
async def test_a_write_shows_its_diagnostics_in_its_tool_call_before_the_write_is_answered(
    tmp_path: Path, is_logged: bool
) -> None:
    path = write(tmp_path, "a.py", GOOD)
    seen: list[list[str]] = []

    async def work(turn: Turn) -> None:
        async with turn.tool("Edit", id="call", kind="edit", paths=[path]) as tool:
            await turn.files.write(path, BAD)
            await tool.add_diff(path, GOOD, BAD)

    store = MemoryStore() if is_logged else None
    async with session_with(work, tmp_path, [built_in("ty")], store=store) as session:
        async with session.prompt("go") as turn:
            shown: list[Any] = [update async for update in turn]
        for update in shown:
            if getattr(update, "tool_call_id", "") == "call":
                seen.append([type(item).__name__ for item in update.content or ()])
        assert [FOUND in text for text in texts(session, "call")] == [True]
        assert [type(item).__name__ for item in session.tool_calls["call"].content] == ["Diff", "ToolCallBlock"]
    assert ["ToolCallBlock"] in seen[:-1]
    assert (tmp_path / "a.py").read_text() == BAD


async def test_a_write_without_a_tool_call_gets_one_of_its_own_and_a_clean_one_gets_none(tmp_path: Path) -> None:
    async def work(turn: Turn) -> None:
        await turn.files.write(str(tmp_path / "good.py"), GOOD)
        await turn.files.write(str(tmp_path / "note.txt"), BAD)
        await turn.files.write(str(tmp_path / "new.py"), BAD)

    async with session_with(work, tmp_path, [built_in("ty")]) as session:
        await session.ask("go")
        assert list(session.tool_calls) == ["diagnostics-1"]
        call = session.tool_calls["diagnostics-1"]
        assert (call.title, call.kind, call.status) == ("Diagnostics", "read", "completed")
        assert "new.py:1:10 new error ty(invalid-assignment)" in texts(session, "diagnostics-1")[0]
        [file] = call.raw_output["diagnostics"]
        assert (file["diagnostics"][0]["line"], file["diagnostics"][0]["new"]) == (1, True)


@pytest.mark.item("BR-24")
async def test_an_agent_that_writes_by_itself_gets_diagnostics_into_the_update_with_its_diff(tmp_path: Path) -> None:
    path = write(tmp_path, "a.py", GOOD)
    updates: list[Any] = []

    async def work(turn: Turn) -> None:
        async with turn.tool("Edit", id="call", kind="edit", paths=[path]) as tool:
            write(tmp_path, "a.py", BAD)
            await tool.add_diff(path, GOOD, BAD)

    async with session_with(work, tmp_path, [built_in("ty")]) as session:
        session.on_update = updates.append
        await session.ask("go")
        assert [FOUND.removeprefix("new ") in text for text in texts(session, "call")] == [True]
    assert updates[-1].status == "completed"


@pytest.mark.item("BR-24")
@pytest.mark.parametrize("version", [1, 2])
async def test_only_the_last_update_of_the_tool_call_waits_for_diagnostics_and_the_turn_ends_after_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, version: int
) -> None:
    monkeypatch.setattr(edit_observer, "UPDATE_TIMEOUT", PATIENCE)
    path = str(tmp_path / "a.txt")
    story: list[str] = []

    async def work(turn: Turn) -> None:
        async with turn.tool("Edit", id="call", kind="edit", paths=[path]) as tool:
            write(tmp_path, "a.txt", "bad")
            await tool.add_diff(path, "", "bad")
        await turn.say("meanwhile")
        async with turn.tool("Look", id="other", kind="read"):
            pass

    def note(update: Any) -> None:
        if isinstance(update, AgentMessageChunk):
            story.append("text")
        elif getattr(update, "status", "") == "completed":
            story.append(update.tool_call_id)
            if update.tool_call_id == "other":
                (tmp_path / "log.go").touch()  # only now the server speaks

    async with session_with(work, tmp_path, [broken("gate", tmp_path / "log")], version=version) as session:
        session.on_update = note
        session.on_turn_over.append(lambda: story.append("end"))
        async with session.prompt("go") as turn:
            await turn.wait()
        assert texts(session, "call") == ["Diagnostics:\na.txt:1:1 error broken: bad in 'bad'"]
    assert story == ["text", "other", "call", "end"]


async def test_a_server_that_is_off_is_reported_once_and_the_writes_go_on(tmp_path: Path) -> None:
    notices: list[str] = []

    async def work(turn: Turn) -> None:
        for number in range(3):
            await turn.files.write(str(tmp_path / f"{number}.txt"), "bad")
        await turn.say("done")

    rows = [broken("exit", tmp_path / "log")]
    async with session_with(work, tmp_path, rows, notices) as session:
        assert await session.ask("go") == "done"
        assert session.tool_calls == {}
    assert len(notices) == 1


async def test_late_diagnostics_are_announced_and_follow_as_an_update(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(edit_observer, "DIAGNOSTICS_TIMEOUT", 0.0)

    async def work(turn: Turn) -> None:
        async with turn.tool("Edit", id="call", kind="edit", paths=[str(tmp_path / "a.txt")]):
            await turn.files.write(str(tmp_path / "a.txt"), "bad")

    async with session_with(work, tmp_path, [broken("late", tmp_path / "log")]) as session:
        shown: list[str] = []
        session.on_update = lambda update: shown.extend(
            item.content.text for item in getattr(update, "content", None) or () if hasattr(item, "content")
        )
        await session.ask("go")
        await wait_for(lambda: any("bad in" in text for text in shown), "the late diagnostics")
    assert shown[0] == "Diagnostics:\na.txt: diagnostics of broken are not ready yet"


async def test_the_servers_end_with_their_session(tmp_path: Path) -> None:
    log = tmp_path / "log"

    async def work(turn: Turn) -> None:
        await turn.files.write(str(tmp_path / "a.txt"), "bad")

    async with session_with(work, tmp_path, [broken("well", log)]) as session:
        await session.ask("go")
        await session.close()
        assert log.read_text().endswith("exit\n")


def call(id: int, method: str, params: Any) -> dict[str, Any]:
    """Return a request."""
    return {"jsonrpc": "2.0", "id": id, "method": method, "params": params}


def reply(request: Any, result: Any) -> dict[str, Any]:
    """Return the answer to a request."""
    return {"jsonrpc": "2.0", "id": request["id"], "result": result}


@asynccontextmanager
async def editor_and_agent(
    folder: Path, rows: Sequence[ServerRow], capabilities: dict[str, Any]
) -> AsyncIterator[tuple[ScriptedPeer, ScriptedPeer]]:
    """An editor and an agent with an open session `s`, and a proxy with language servers between them."""
    front, left = memory_pair()
    back, right = memory_pair()
    relay = Relay(front, Dialer(back, cwd=str(folder), report=print, stderr=None), report=lambda text: None)
    close = relay_extension(rows, None, print, QUICK)(relay)
    running = asyncio.create_task(relay.run())
    editor, agent = ScriptedPeer(left), ScriptedPeer(right)
    async with asyncio.timeout(PATIENCE):
        editor.send(call(1, "initialize", {"protocolVersion": 1, "clientCapabilities": capabilities}))
        agent.send(reply(await agent.expect(method="initialize"), {"protocolVersion": 1, "agentCapabilities": {}}))
        await editor.expect(id=1)
        editor.send(call(2, "session/new", {"cwd": str(folder), "mcpServers": []}))
        agent.send(reply(await agent.expect(method="session/new"), {"sessionId": "s"}))
        await editor.expect(id=2)
        yield editor, agent
        await left.close()
        await running
        await close()


def update(kind: str, /, **members: Any) -> dict[str, Any]:
    """Return an update of the session."""
    params = {"sessionId": "s", "update": {"sessionUpdate": kind, **members}}
    return {"jsonrpc": "2.0", "method": "session/update", "params": params}


@pytest.mark.item("BR-24")
async def test_behind_the_proxy_only_the_tool_call_and_the_answer_of_its_turn_wait_for_diagnostics(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(edit_observer, "UPDATE_TIMEOUT", PATIENCE)
    path = write(tmp_path, "a.txt", "bad")
    diff = {"type": "diff", "path": path, "oldText": "", "newText": "bad"}
    text = {"type": "text", "text": "meanwhile"}
    async with editor_and_agent(tmp_path, [broken("gate", tmp_path / "log")], {}) as (editor, agent):
        editor.send(call(3, "session/prompt", {"sessionId": "s", "prompt": []}))
        asked = await agent.expect(method="session/prompt")
        agent.send(update("tool_call", toolCallId="c", title="Edit", status="completed", content=[diff]))
        agent.send(update("tool_call_update", toolCallId="c", rawOutput={"n": 1}))
        agent.send(update("agent_message_chunk", content=text))
        agent.send(update("tool_call", toolCallId="d", title="Look"))
        agent.send(reply(asked, {"stopReason": "end_turn"}))
        agent.send(update("session_info_update", title="after"))
        shown = [(await editor.expect())["params"]["update"] for _ in range(2)]
        assert [each.get("toolCallId", each["sessionUpdate"]) for each in shown] == ["agent_message_chunk", "d"]
        (tmp_path / "log.go").touch()  # only now the server speaks
        held = (await editor.expect())["params"]["update"]
        assert (held["toolCallId"], held["content"][0]) == ("c", diff)
        assert "bad in 'bad'" in held["content"][1]["content"]["text"]
        assert (await editor.expect())["params"]["update"]["rawOutput"] == {"n": 1}
        assert (await editor.expect())["result"] == {"stopReason": "end_turn"}
        assert (await editor.expect())["params"]["update"]["title"] == "after"


@pytest.mark.item("BR-24")
async def test_an_editor_behind_the_proxy_writes_itself_and_gets_the_diagnostics_in_the_tool_call(
    tmp_path: Path,
) -> None:
    path = write(tmp_path, "a.py", GOOD)
    capabilities = {"fs": {"readTextFile": True, "writeTextFile": True}}
    async with editor_and_agent(tmp_path, [built_in("ty")], capabilities) as (editor, agent):
        started = update("tool_call", toolCallId="c", title="Edit", kind="edit", x=1, locations=[{"path": path}])
        agent.send(started)
        assert (await editor.expect(method="session/update"))["params"] == started["params"]
        agent.send(call(7, "fs/write_text_file", {"sessionId": "s", "path": path, "content": BAD}))
        asked = await editor.expect(method="fs/write_text_file")
        (tmp_path / "a.py").write_text(BAD)
        editor.send(reply(asked, {}))
        shown = (await editor.expect(method="session/update"))["params"]["update"]
        assert (shown["toolCallId"], FOUND in shown["content"][0]["content"]["text"]) == ("c", True)
        assert (await agent.expect(id=7))["result"] == {}
