"""A client with a store: everything is stored before it is delivered, and sessions continue from the log."""

from __future__ import annotations

import asyncio
import io
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from dragoman import Agent, Turn
from dragoman.errors import ConnectionFailed, StoreFault
from dragoman.roles.client.workspace import WorkspaceAccess
from dragoman.schema.config import SessionMode
from dragoman.schema.content import EmbeddedResource, TextContent
from dragoman.schema.mcp import McpServer, NameValue
from dragoman.schema.update import AgentMessageChunk
from dragoman.store.contract import Claim, Draft, Entry
from dragoman.store.export import export_session, import_session
from dragoman.store.memory import MemoryStore
from dragoman.store.replay import build_transcript, render_markdown
from dragoman.store.sqlite import SqliteStore
from dragoman.testing import connect_in_memory

TIMEOUT = 90.0


def talking_agent() -> Agent:
    agent = Agent("talker")

    @agent.prompt
    async def answer(turn: Turn) -> None:
        if turn.text == "many":
            for number in range(5000):
                await turn.say(f"{number} ")
        elif turn.text == "ask":
            async with turn.tool("Paint", kind="edit"):
                await turn.say("yes" if await turn.ask_permission("May I?") else "no")
        elif turn.text == "read":
            await turn.say(await turn.files.read(str(Path(turn.session.cwd) / "note.txt")))
        else:
            kinds = ",".join(type(block).__name__ for block in turn.prompt)
            await turn.say(f"{kinds}: {turn.text}")

    return agent


class Slow(MemoryStore):
    """A store that writes when the test says so."""

    def __init__(self) -> None:
        super().__init__()
        self.gate = asyncio.Event()
        self.gate.set()
        self.news = asyncio.Event()
        self.fault: StoreFault | None = None
        self.appends = 0

    async def asked_for(self, appends: int) -> None:
        while self.appends < appends:
            self.news.clear()
            await self.news.wait()

    async def append(self, session_id: str, drafts: Sequence[Draft], *, claim: Claim | None = None) -> list[Entry]:
        self.appends += 1
        self.news.set()
        await self.gate.wait()
        if self.fault is not None:
            raise self.fault
        return await super().append(session_id, drafts, claim=claim)


def run(test: Any) -> None:
    async def bounded() -> None:
        async with asyncio.timeout(TIMEOUT):
            await test()

    asyncio.run(bounded())


async def test_everything_is_in_the_log_in_the_order_it_happened(tmp_path: Path) -> None:
    store = await SqliteStore.open(str(tmp_path / "s.db"))
    received: list[str] = []
    async with connect_in_memory(
        talking_agent(), store=store, permission="allow", on_entry=lambda _, entry: received.append(entry.kind)
    ) as agent:
        session = await agent.open_session(str(tmp_path))
        assert await session.ask("ask") == "yes"
        assert session.log_id == session.id
    entries = await store.read(session.id)
    kinds = [entry.kind for entry in entries]
    assert kinds == received
    assert kinds[:3] == ["opened", "turn_started", "prompt"]
    assert kinds.index("asked") < kinds.index("decided") < kinds.index("turn_ended") == len(kinds) - 1
    assert len({entry.turn for entry in entries[1:]}) == 1
    assert entries[-1].body == {"stopReason": "end_turn"}
    summary = await store.find(session.id)
    assert (summary.agent, summary.cwd, summary.title) == ("talker", str(tmp_path), "ask")
    assert summary.agent_session == session.id
    taken = build_transcript(await store.lines(session.id))
    assert [message.text for message in taken.messages] == ["ask", "yes"]
    assert next(iter(taken.tool_calls.values())).status == "completed"
    assert "## Agent\n\nyes" in render_markdown(taken)
    await store.close()


async def test_nothing_is_delivered_before_it_is_stored() -> None:
    store = Slow()
    async with connect_in_memory(talking_agent(), store=store) as agent:
        session = await agent.open_session("/")
        received: list[Any] = []
        session.on_update = received.append
        async with session.prompt("hello") as turn:
            store.gate.clear()
            await store.asked_for(3)  # opened, the prompt, then what the agent says
            for _ in range(50):
                await asyncio.sleep(0)
            assert received == []
            assert not turn.is_over
            store.gate.set()
            texts = [update.content.text async for update in turn]  # type: ignore[union-attr]
        assert texts == ["TextContent: hello"]
        assert len(received) == 1
        assert turn.stop_reason == "end_turn"


async def test_the_agent_gets_a_prompt_only_after_it_is_stored() -> None:
    store = Slow()
    prompts: list[str] = []
    agent = Agent("listener")

    @agent.prompt
    async def answer(turn: Turn) -> None:
        prompts.append(turn.text)

    async with connect_in_memory(agent, store=store) as remote:
        session = await remote.open_session("/")
        store.gate.clear()
        asking = asyncio.ensure_future(session.ask("hello"))
        for _ in range(50):
            await asyncio.sleep(0)
        assert prompts == []
        store.gate.set()
        await asking
        assert prompts == ["hello"]


async def test_a_stream_is_stored_in_few_commits_without_loss() -> None:
    store = Slow()
    async with connect_in_memory(talking_agent(), store=store) as agent:
        session = await agent.open_session("/")
        text = await session.ask("many")
    assert text == "".join(f"{number} " for number in range(5000))
    entries = await store.read(session.id)
    texts = [entry.body.content.text if not isinstance(entry.body, dict) else entry.body["content"]["text"]
            for entry in entries if entry.kind == "update"]  # fmt: skip
    assert "".join(texts) == text
    assert store.appends < 1000


async def test_a_store_that_fails_ends_the_turn_with_its_error_and_may_recover() -> None:
    store = Slow()
    async with connect_in_memory(talking_agent(), store=store) as agent:
        session = await agent.open_session("/")
        received: list[Any] = []
        session.on_update = received.append
        turn = await session.prompt("many").__aenter__()
        store.fault = StoreFault("full", "there is no room")
        with pytest.raises(StoreFault, match="no room"):
            await turn.wait()
        logged = [entry for entry in await store.read(session.id) if entry.kind == "update"]
        assert len(logged) == len(received)
        with pytest.raises(StoreFault):
            await session.ask("again")
        store.fault = None
        assert await session.ask("again") == "TextContent: again"


async def test_late_updates_of_a_turn_that_could_not_be_stored_do_not_go_to_the_next() -> None:
    agent, begun = Agent("late"), asyncio.Event()

    @agent.prompt
    async def answer(turn: Turn) -> None:
        if turn.text == "first":
            try:
                begun.set()
                for number in range(1 << 30):
                    await turn.say(f"{number} ")
                    await asyncio.sleep(0)
            except asyncio.CancelledError:
                for _ in range(100):
                    await turn.say("late")
                    await asyncio.sleep(0)
                raise
        await turn.say(f"this is {turn.text}")

    store = Slow()
    async with connect_in_memory(agent, store=store) as client:
        session = await client.open_session("/")
        turn = await session.prompt("first").__aenter__()
        await begun.wait()
        store.fault = StoreFault("full", "there is no room")
        with pytest.raises(StoreFault, match="no room"):
            await turn.wait()
        store.fault = None
        assert await session.ask("second") == "this is second"
    assert "late" not in render_markdown(build_transcript(await store.lines(session.id)))


async def test_forms_and_their_values_are_logged_on_both_sides_and_links_without_keys() -> None:
    kept = MemoryStore()
    agent = Agent("asker", store=kept)

    @agent.prompt
    async def answer(turn: Turn) -> None:
        await turn.elicit("Which branch?", form={"branch": str})
        await turn.elicit("Sign in", url="https://example.org/login?key=s3cret")

    async def reply(params: Any) -> Any:
        logged = await store.read(session.id)
        assert logged[-1].kind == "asked", "the user sees what is kept"
        return {"branch": "main"} if params.mode == "form" else True

    store = MemoryStore()
    async with connect_in_memory(agent, store=store, elicit=reply) as client:
        session = await client.open_session("/")
        await session.ask("go")
    for each in (store, kept):
        entries = [entry for entry in await each.read(session.id) if entry.kind in ("asked", "decided")]
        assert [entry.kind for entry in entries] == ["asked", "decided"] * 2
        assert [entries[0].body["message"], entries[1].body] == [
            "Which branch?",
            {"action": "accept", "content": {"branch": "main"}},
        ]
        assert entries[2].body["url"] == "https://example.org/login"
        assert entries[3].body == {"elicitationId": entries[2].body["elicitationId"], "action": "accept"}
        assert b"s3cret" not in b"".join(await each.lines(session.id))


async def test_a_loss_in_translation_is_logged_in_its_session() -> None:
    store = MemoryStore()
    server = McpServer(name="db", command="db", args=[], env=[])
    async with connect_in_memory(talking_agent(), store=store, dialect="2025.1", cwd="/") as client:
        await client.open_session("/")
        session = await client.open_session("/", mcp_servers=[server])
        await session.ask("hello")
    sessions = {summary.session_id: await store.read(summary.session_id) for summary in await store.sessions()}
    logged = [(id, entry) for id, entries in sessions.items() for entry in entries if entry.kind == "translated"]
    assert [id for id, _ in logged] == [session.id]
    assert logged[0][1].actor == "dragoman"
    assert "MCP servers lost (db)" in logged[0][1].body["message"]


async def test_set_mode_returns_after_the_mode_is_logged() -> None:
    store = Slow()
    agent = talking_agent()
    agent.modes = [SessionMode(id="ask", name="Ask"), SessionMode(id="code", name="Code")]
    async with connect_in_memory(agent, store=store) as client:
        session = await client.open_session("/")
        await session.set_mode("code")
        assert (await store.read(session.id))[-1].body["currentModeId"] == "code"
        store.fault = StoreFault("full", "there is no room")
        with pytest.raises(StoreFault):
            await session.set_mode("ask")
        store.fault = None
        await session.set_mode("code")


async def test_file_uses_are_logged_without_their_content(tmp_path: Path) -> None:
    (tmp_path / "note.txt").write_text("a secret")

    store = MemoryStore()
    async with connect_in_memory(talking_agent(), store=store, workspace=WorkspaceAccess()) as agent:
        session = await agent.open_session(str(tmp_path))
        assert await session.ask("read") == "a secret"
    (use,) = [entry for entry in await store.read(session.id) if entry.kind == "file"]
    assert use.body == {"method": "fs/read_text_file", "path": str(tmp_path / "note.txt")}


async def test_secrets_of_mcp_servers_are_stored_separately_and_reused() -> None:
    store = MemoryStore()
    server = McpServer(name="db", command="db", args=[], env=[NameValue(name="TOKEN", value="s3cret")])
    agent = talking_agent()
    async with connect_in_memory(agent, store=store) as remote:
        session = await remote.open_session("/", mcp_servers=[server])
        await session.ask("hello")
        lines = await store.lines(session.id)
        assert b"TOKEN" in lines[0]
        assert not any(b"s3cret" in line for line in lines)
    async with connect_in_memory(agent, store=store) as remote:
        gone_on = await remote.continue_session(session.id)
        assert gone_on.session.mcp_servers == [server]


@pytest.mark.parametrize("is_fork", [False, True])
async def test_an_imported_session_has_no_servers_and_folders_until_it_is_opened_here(is_fork: bool) -> None:
    elsewhere, here = MemoryStore(), MemoryStore()
    server = McpServer(name="db", command="/bin/sh", args=["-c", "evil"], env=[])
    async with connect_in_memory(talking_agent(), store=elsewhere) as remote:
        session = await remote.open_session("/root", mcp_servers=[server], directories=["/etc"])
        await session.ask("hello")
    file = io.BytesIO()
    await export_session(elsewhere, session.id, file, "2026-01-02T00:00:00Z")
    file.seek(0)
    log = (await import_session(here, file)).session_id
    if is_fork:
        log = (await here.fork(log, "fork")).session_id
    async with connect_in_memory(talking_agent(), store=here) as remote:
        went = (await remote.continue_session(log)).session
        assert (went.cwd, went.mcp_servers, went.directories) == (os.getcwd(), [], [])
        ours = McpServer(name="ours", command="/bin/true", args=[], env=[])
        await remote.continue_session(log, mcp_servers=[ours])
    async with connect_in_memory(talking_agent(), store=here) as remote:
        assert (await remote.continue_session(log)).session.mcp_servers == [ours]


async def test_a_session_is_resumed_or_loaded_if_the_agent_has_it() -> None:
    store = MemoryStore()
    agent = talking_agent()
    async with connect_in_memory(agent, store=store) as remote:
        session = await remote.open_session("/")
        await session.ask("hello")
        await store.rename(session.id, "work")
    count = len(await store.read(session.id))
    async with connect_in_memory(agent, store=store) as remote:
        loaded = await remote.load_session(session.id, "/")
        assert [update for update in loaded.updates_outside_turns if isinstance(update, AgentMessageChunk)]
    async with connect_in_memory(agent, store=store) as remote:
        went = await remote.continue_session("work")
        assert went.method == "session/resume"
        assert await went.session.ask("more") == "TextContent: more"
    kinds = [entry.kind for entry in (await store.read(session.id))[count:]]
    # What load replays is not logged again.
    assert kinds == ["opened", "opened", "turn_started", "prompt", "update", "turn_ended"]
    assert len(await store.sessions()) == 1


async def test_a_session_that_its_agent_lost_continues_with_the_transcript() -> None:
    store = MemoryStore()
    async with connect_in_memory(talking_agent(), store=store) as remote:
        session = await remote.open_session("/")
        await session.ask("hello")
    async with connect_in_memory(talking_agent(), store=store) as remote:  # another one, which knows nothing
        went = await remote.continue_session(session.id)
        assert went.method == "session/new"
        assert "no session" in went.reason
        answer = await went.session.ask("more")
        assert answer.startswith(f"{EmbeddedResource.__name__},{TextContent.__name__}: ")
        assert "## User\n\nhello" in answer
        assert await went.session.ask("more") == "TextContent: more"
    assert len(await store.sessions()) == 1
    assert (await store.find(session.id)).agent_session == went.session.id


async def test_agents_that_count_their_sessions_do_not_share_a_log(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("dragoman.roles.agent.session_calls.new_id", lambda: "session-1")

    store = MemoryStore()
    for _ in range(2):
        async with connect_in_memory(talking_agent(), store=store) as remote:
            session = await remote.open_session("/")
            await session.ask("hello")
    logs = await store.sessions()
    assert [summary.agent_session for summary in logs] == ["session-1", "session-1"]
    assert [summary.turns for summary in logs] == [1, 1]


async def test_a_fork_begins_with_the_log_of_its_origin() -> None:
    store = MemoryStore()
    async with connect_in_memory(talking_agent(), store=store) as remote:
        session = await remote.open_session("/")
        await session.ask("hello")
        fork = await remote.fork_session(session.id, "/")
        await fork.ask("more")
    summary = await store.find(fork.id)
    assert summary.forked_from == session.id
    assert [m.text for m in build_transcript(await store.lines(fork.id)).messages][0::2] == ["hello", "more"]
    assert (await store.find(session.id)).turns == 1


async def test_the_exit_of_an_agent_is_the_last_log_entry() -> None:
    store = MemoryStore()
    agent = Agent("mortal")
    leaving: list[Any] = []

    @agent.prompt
    async def answer(turn: Turn) -> None:
        await turn.say("I die")
        leaving.append(asyncio.ensure_future(turn.session.connection.close("died")))
        await asyncio.Event().wait()

    async with connect_in_memory(agent, store=store) as remote:
        session = await remote.open_session("/")
        received: list[Any] = []
        session.on_update = received.append
        with pytest.raises(ConnectionFailed):
            await session.ask("go")
        assert len(received) == 1
    kinds = [entry.kind for entry in await store.read(session.id)]
    assert kinds[:4] == ["opened", "turn_started", "prompt", "update"]
    assert set(kinds[4:]) == {"agent_exited", "turn_ended"}
