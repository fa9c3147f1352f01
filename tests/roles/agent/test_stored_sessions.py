"""An agent with a store: its sessions outlive its process, and its client gets what is stored, in order."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
import textwrap
from pathlib import Path
from typing import Any

import pytest

from dragoman import Agent, Turn, connect
from dragoman.errors import AgentExited, Kind, ProtocolError, StoreFault
from dragoman.roles.client.workspace import WorkspaceAccess
from dragoman.schema.config import ConfigChoice, SessionConfigOption, SessionMode
from dragoman.schema.mcp import McpServer, NameValue
from dragoman.schema.session import (
    ArchiveSessionParams,
    ListSessionsParams,
    SessionStatusParams,
    SetTitleParams,
    UnarchiveSessionParams,
)
from dragoman.schema.update import AgentMessageChunk, ToolCallProgress, ToolCallStart, UserMessageChunk
from dragoman.store.contract import Retention, Store
from dragoman.store.memory import MemoryStore
from dragoman.store.sqlite import SqliteStore
from dragoman.testing import connect_in_memory

TIMEOUT = 90.0


def stored_agent(store: Store, **more: Any) -> Agent:
    """Return the agent of one process; another with the same store is the agent after a restart."""
    agent = Agent(
        "keeper",
        store=store,
        modes=[SessionMode(id="ask", name="Ask"), SessionMode(id="code", name="Code")],
        options=[
            SessionConfigOption(
                id="model",
                name="Model",
                type="select",
                current_value="small",
                options=[ConfigChoice(value="small", name="Small"), ConfigChoice(value="large", name="Large")],
            )
        ],
        **more,
    )

    @agent.prompt
    async def answer(turn: Turn) -> None:
        if turn.text == "many":
            for number in range(3000):
                await turn.say(f"{number} ")
        elif turn.text == "tool":
            async with turn.tool("Read note", kind="read"):
                text = await turn.files.read(str(Path(turn.session.cwd) / "note.txt"))
            await turn.say("it says ")
            await turn.say(text)
        elif turn.text == "ask":
            await turn.say("yes" if await turn.ask_permission("May I?") else "no")
        else:
            await turn.set_title(f"About {turn.text}")
            await turn.say("you said ")
            await turn.say(turn.text)

    return agent


def run(test: Any) -> None:
    async def bounded() -> None:
        async with asyncio.timeout(TIMEOUT):
            await test()

    asyncio.run(bounded())


def test_a_session_is_there_after_a_restart(tmp_path: Path) -> None:
    path = str(tmp_path / "s.db")
    server = McpServer(name="db", command="db", args=[], env=[NameValue(name="TOKEN", value="s3cret")])

    async def before() -> str:
        store = await SqliteStore.open(path)
        async with connect_in_memory(stored_agent(store)) as client:
            session = await client.open_session("/", mcp_servers=[server], directories=["/tmp"])
            assert await session.ask("hello") == "you said hello"
            await session.set_mode("code")
            await session.set_option("model", "large")
            other = await client.open_session("/usr")
            await other.ask("bye")
        await store.close()
        return session.id

    async def after(id: str) -> None:
        store = await SqliteStore.open(path)
        agent = stored_agent(store)
        async with connect_in_memory(agent) as client:
            listed = await client.list_sessions()
            assert [info.title for info in listed.sessions] == ["About bye", "About hello"]
            session = await client.load_session(id, "/", mcp_servers=[server], directories=["/tmp"])
            received = [
                update
                for update in session.updates_outside_turns
                if isinstance(update, UserMessageChunk | AgentMessageChunk)
            ]
            assert [update.content.text for update in received] == ["hello", "you said hello"]  # type: ignore[union-attr]
            assert session.mode == "code"
            assert session.options[0].current_value == "large"
            assert await session.ask("again") == "you said again"
            assert agent.sessions[id].turn_count == 2
            fork = await client.fork_session(id, "/")
            await fork.ask("apart")
            await client.delete_session(id)
            with pytest.raises(ProtocolError) as caught:
                await client.load_session(id, "/")
            assert caught.value.kind == Kind.SESSION_NOT_FOUND
        summary = await store.find(fork.id)
        assert (summary.forked_from, summary.turns) == (id, 3)
        await store.close()

    id = asyncio.run(before())
    assert b"s3cret" not in Path(path).read_bytes()
    asyncio.run(after(id))


async def test_expired_damaged_and_unknown_sessions_give_different_errors() -> None:
    store = MemoryStore()
    async with connect_in_memory(stored_agent(store)) as client:
        session = await client.open_session("/")
        await session.ask("hello")
    await store.expire(Retention(count=0), "2030-01-01T00:00:00Z")
    async with connect_in_memory(stored_agent(store)) as client:
        for id, kind in ((session.id, Kind.SESSION_EXPIRED), ("nobody", Kind.SESSION_NOT_FOUND)):
            with pytest.raises(ProtocolError) as caught:
                await client.load_session(id, "/")
            assert caught.value.kind == kind


async def test_the_client_gets_updates_requests_and_the_end_in_order(tmp_path: Path) -> None:
    (tmp_path / "note.txt").write_text("all is well")

    store = await SqliteStore.open(str(tmp_path / "s.db"))
    async with connect_in_memory(stored_agent(store), workspace=WorkspaceAccess(), permission="allow") as client:
        session = await client.open_session(str(tmp_path))
        kinds = []
        async with session.prompt("tool") as turn:
            async for update in turn:
                kinds.append(type(update))
        assert kinds[0] is ToolCallStart
        assert kinds[-3:] == [ToolCallProgress, AgentMessageChunk, AgentMessageChunk]
        assert await session.ask("many") == "".join(f"{number} " for number in range(3000))
        assert await session.ask("ask") == "yes"
    logged = [entry.kind for entry in await store.read(session.id)]
    assert [kind for kind in logged if kind != "update"] == [
        "opened", *["turn_started", "prompt", "turn_ended"] * 2,
        "turn_started", "prompt", "asked", "decided", "turn_ended",
    ]  # fmt: skip
    await store.close()


def test_archived_state_and_title_survive_a_restart(tmp_path: Path) -> None:
    path = str(tmp_path / "s.db")

    async def before() -> list[str]:
        store = await SqliteStore.open(path)
        async with connect_in_memory(stored_agent(store, unstable=True)) as client:
            ids = [(await client.open_session("/")).id for _ in range(3)]
            for id in ids[:2]:
                await client.request("session/archive", ArchiveSessionParams(session_id=id))
            await client.request("session/unarchive", UnarchiveSessionParams(session_id=ids[1]))
        await store.close()
        return ids

    async def after(ids: list[str], titles: list[str | None]) -> None:
        store = await SqliteStore.open(path)
        async with connect_in_memory(stored_agent(store, unstable=True)) as client:
            listed = await client.request("session/list", ListSessionsParams(archived="exclude"))
            assert {info.session_id: info.title or None for info in listed.sessions} == dict(
                zip(ids[1:], titles, strict=True)
            )
            away = await client.request("session/list", ListSessionsParams(archived="only"))
            assert [info.session_id for info in away.sessions] == ids[:1]
            # One that nobody has open in this process.
            await client.request("session/set_title", SetTitleParams(session_id=ids[2], title="Roof"))
            assert (await store.find(ids[2])).title == "Roof"
            assert (await client.request("session/status", SessionStatusParams(session_id=ids[1]))).status == "saved"
        await store.close()

    ids = asyncio.run(before())
    asyncio.run(after(ids, [None, None]))
    asyncio.run(after(ids, [None, "Roof"]))


async def test_a_client_is_answered_after_its_setting_is_stored(monkeypatch: pytest.MonkeyPatch) -> None:
    store = MemoryStore()
    keep = store.append

    async def full(*_: Any) -> Any:
        raise StoreFault("full", "there is no room")

    async with connect_in_memory(stored_agent(store, unstable=True)) as client:
        session = await client.open_session("/")
        for call in (
            lambda: session.set_mode("code"),
            lambda: session.set_option("model", "large"),
            lambda: client.request("session/set_title", SetTitleParams(session_id=session.id, title="Roof")),
            lambda: client.request("session/archive", ArchiveSessionParams(session_id=session.id)),
        ):
            entries = len(await store.read(session.id))
            monkeypatch.setattr(store, "append", full)
            with pytest.raises(ProtocolError, match="no room"):
                await call()
            monkeypatch.setattr(store, "append", keep)
            await call()
            assert len(await store.read(session.id)) == entries + 1


async def test_a_loss_in_translation_is_logged_in_its_session() -> None:
    store = MemoryStore()
    async with connect_in_memory(stored_agent(store), dialect="2025.1", cwd="/") as client:
        sessions = [await client.open_session("/") for _ in range(3)]
        await sessions[0].ask("hello")
        assert await sessions[1].ask("ask") in ("yes", "no")
    values: dict[str | None, list[Any]] = {  # a session is called by its title, or else its first prompt
        summary.title: [entry for entry in await store.read(summary.session_id) if entry.kind == "translated"]
        for summary in await store.sessions()
    }
    assert {title: len(entries) for title, entries in values.items()} == {"About hello": 1, "ask": 1, None: 0}
    assert "cannot express the update session_info_update" in values["About hello"][0].body["message"]
    assert values["ask"][0].body["message"].startswith("permission for May I?")
    assert values["ask"][0].turn == "turn_1"


async def test_messages_that_are_sent_whole_are_logged_whole() -> None:
    store = MemoryStore()
    async with connect_in_memory(stored_agent(store, streaming=False)) as client:
        session = await client.open_session("/")
        assert await session.ask("hello") == "you said hello"
    texts = [
        entry.body["content"]["text"]
        for entry in await store.read(session.id)
        if entry.kind == "update" and entry.body["sessionUpdate"] == "agent_message_chunk"
    ]
    assert texts == ["you said hello"]


async def test_a_store_that_fails_fails_the_prompt_and_may_recover(monkeypatch: pytest.MonkeyPatch) -> None:
    store = MemoryStore()
    keep = store.append

    async def full(*_: Any) -> Any:
        raise StoreFault("full", "there is no room")

    async with connect_in_memory(stored_agent(store)) as client:
        session = await client.open_session("/")
        monkeypatch.setattr(store, "append", full)
        with pytest.raises(ProtocolError, match="no room"):
            await session.ask("hello")
        monkeypatch.setattr(store, "append", keep)
        assert await session.ask("hello") == "you said hello"


PROGRAM = """
import sys
from dragoman import Agent
from dragoman.store.sqlite import SqliteStore

agent = Agent("keeper", store=SqliteStore(sys.argv[1]))

@agent.prompt
async def answer(turn):
    number = 0
    while True:
        await turn.say(f"{number} ")
        number += 1

agent.run()
"""


async def test_everything_a_client_got_from_a_killed_agent_is_loaded_again(tmp_path: Path) -> None:
    program = tmp_path / "agent.py"
    program.write_text(textwrap.dedent(PROGRAM))
    words = [sys.executable, str(program), str(tmp_path / "s.db")]

    received: list[str] = []
    async with connect(words, initialize_timeout=TIMEOUT) as client:
        session = await client.open_session("/")

        async def listen() -> None:
            async for update in await session.prompt("go").__aenter__():
                received.append(update.content.text)  # type: ignore[union-attr]
                if len(received) == 500:
                    os.kill(client.connection.transport.pid, signal.SIGKILL)  # type: ignore[attr-defined]

        with pytest.raises(AgentExited):
            await listen()
    async with connect(words, initialize_timeout=TIMEOUT) as client:
        loaded = await client.load_session(session.id, "/")
        text = "".join(
            update.content.text  # type: ignore[union-attr]
            for update in loaded.updates_outside_turns
            if isinstance(update, AgentMessageChunk)
        )
    assert len(received) >= 500
    assert text.startswith("".join(received))
