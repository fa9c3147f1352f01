"""What raw clients of a room hear, in which order: tool calls, requests for files and terminals, and their output."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from dragoman import Agent, Turn, WorkspaceAccess
from dragoman.host.auth.roles import MemorySessionRoles
from dragoman.host.room.shown_terminals import OUTPUT_GONE
from dragoman.store.memory import MemoryStore
from tests.acceptance.draft import Raw
from tests.host.memory_host import Hosted, running_host
from tests.host.room.test_workspace import free_guard


class SlowStore(MemoryStore):
    """A store that needs several rounds of the event loop, as a disk does."""

    async def append(self, *args: Any, **more: Any) -> Any:
        for _ in range(20):
            await asyncio.sleep(0)
        return await super().append(*args, **more)


def showing() -> Agent:
    agent = Agent("showing")

    @agent.prompt
    async def answer(turn: Turn) -> None:
        if turn.text == "read":
            async with turn.tool("Read it", kind="read"):
                await turn.files.read(f"{turn.session.cwd}/note.txt")
        elif turn.text == "extension":
            await turn.say("first")
            await turn.session.connection.request_raw("_vendor/ask", {"sessionId": turn.session.id})
        else:
            terminal = await turn.terminals.create("echo", ["out"])
            async with turn.tool("Run it", kind="execute") as call:
                await call.add_terminal(terminal.id)
                if turn.text == "run":
                    await terminal.wait()
                await terminal.release()

    return agent


async def join(hosted: Hosted, folder: Path, session: str = "", **capabilities: Any) -> tuple[Raw, str]:
    """Return a raw v1 client in a session, a new one or this one."""
    raw = Raw(hosted.connect_as("ann"))
    await raw.result("initialize", {"protocolVersion": 1, "clientCapabilities": capabilities})
    params: dict[str, Any] = {"cwd": str(folder), "mcpServers": []}
    if session:
        await raw.result("session/load", {**params, "sessionId": session})
    return raw, session or (await raw.result("session/new", params))["sessionId"]


def call_order(raw: Raw) -> list[str]:
    """Return the methods of the calls, and the kinds of the updates, in order."""
    calls = [message for message in raw.received if "method" in message]
    return [
        call["params"]["update"]["sessionUpdate"] if call["method"] == "session/update" else call["method"]
        for call in calls
    ]


async def prompt(raw: Raw, session: str, text: str) -> None:
    raw.received.clear()
    await raw.result("session/prompt", {"sessionId": session, "prompt": [{"type": "text", "text": text}]})


async def test_requests_of_the_agent_do_not_overtake_the_updates_before_them(tmp_path: Path) -> None:
    async with running_host(showing, make_guard=free_guard, store=SlowStore()) as hosted:
        capabilities: Any = {"fs": {"readTextFile": True}, "terminal": True}
        raw, session = await join(hosted, tmp_path, **capabilities)
        raw.answers = {
            "fs/read_text_file": lambda _: {"content": "text"},
            "terminal/create": lambda _: {"terminalId": "t1"},
            "terminal/release": lambda _: {},
            "_vendor/ask": lambda _: {},
        }
        await prompt(raw, session, "read")
        assert call_order(raw)[:2] == ["tool_call", "fs/read_text_file"]
        await prompt(raw, session, "show")
        order = call_order(raw)
        assert order.index("terminal/create") < order.index("tool_call") < order.index("terminal/release")
        await prompt(raw, session, "extension")
        assert call_order(raw) == ["agent_message_chunk", "_vendor/ask"]


def last_content(raw: Raw) -> Any:
    """Return the content that a client shows at the end for the only tool call."""
    updates = [params["update"] for params in raw.params_of("session/update")]
    return [update["content"] for update in updates if update.get("content") and "toolCallId" in update][-1]


OUTPUT = [{"type": "content", "content": {"type": "text", "text": "out\n"}}]


@pytest.mark.parametrize("is_members", [False, True], ids=["the host's", "a member's"])
async def test_a_client_without_the_terminal_is_shown_its_output_as_text(tmp_path: Path, is_members: bool) -> None:
    async with running_host(showing, make_guard=free_guard) as hosted:
        raw, session = await join(hosted, tmp_path)
        if not is_members:
            await prompt(raw, session, "run")
        else:
            async with hosted.client("ann", workspace=WorkspaceAccess()) as owner:
                await (await owner.resume_session(session, str(tmp_path))).ask("run")
                await raw.until(lambda message: "out" in str(message))
        assert last_content(raw) == OUTPUT
        assert "terminalId" not in str(raw.received)
        late, _ = await join(hosted, tmp_path, session)
        assert last_content(late) == OUTPUT


async def test_after_a_restart_of_the_host_history_has_the_output_and_no_ids_of_terminals_that_are_gone(
    tmp_path: Path,
) -> None:
    kept: Any = {"store": MemoryStore(), "session_roles": MemorySessionRoles(), "make_guard": free_guard}
    async with running_host(showing, **kept) as hosted:
        raw, session = await join(hosted, tmp_path)
        await prompt(raw, session, "run")
    async with running_host(showing, **kept) as hosted:
        late, _ = await join(hosted, tmp_path, session)
        assert last_content(late) == [{"type": "content", "content": {"type": "text", "text": OUTPUT_GONE}}]
        assert "terminalId" not in str(late.received)
        # A client that shows outputs of terminals itself gets it from the log.
        showing_client, _ = await join(hosted, tmp_path, session, _meta={"dragoman": {"host": {"terminals": True}}})
        assert [params["output"] for params in showing_client.params_of("_dragoman/terminal")] == ["out\n"]


async def test_the_owner_of_a_terminal_sees_it_under_its_own_id(tmp_path: Path) -> None:
    async with running_host(showing, make_guard=free_guard) as hosted:
        raw, session = await join(hosted, tmp_path, terminal=True)
        other, _ = await join(hosted, tmp_path, session, terminal=True)
        for each in (raw, other):
            each.answers = {
                "terminal/create": lambda _: {"terminalId": "t1"},
                "terminal/output": lambda _: {"output": "out\n", "truncated": False},
                "terminal/wait_for_exit": lambda _: {"exitCode": 0},
                "terminal/release": lambda _: {},
            }
        asked = other.ask("session/prompt", {"sessionId": session, "prompt": [{"type": "text", "text": "run"}]})
        await other.answer(asked)
        await raw.until(lambda message: "out" in str(message))
        assert last_content(other) == [{"type": "terminal", "terminalId": "t1"}]
        assert last_content(raw) == OUTPUT


async def test_a_terminal_that_the_agent_made_up_is_shown_as_it_is(tmp_path: Path) -> None:
    def inventing() -> Agent:
        agent = Agent("inventing")

        @agent.prompt
        async def answer(turn: Turn) -> None:
            async with turn.tool("Run it", kind="execute") as call:
                await call.add_terminal("own-1")

        return agent

    async with running_host(inventing) as hosted:
        raw, session = await join(hosted, tmp_path)
        await prompt(raw, session, "go")
        assert last_content(raw) == [{"type": "terminal", "terminalId": "own-1"}]
