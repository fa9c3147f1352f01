"""The transcript of a session, merged, at any time."""

from __future__ import annotations

from typing import Any

import pytest

from dragoman import Agent, Turn
from dragoman.schema.config import SessionMode
from dragoman.schema.plan import PlanEntry
from dragoman.schema.update import UsageUpdate
from dragoman.session.message import Message
from dragoman.testing import connect_in_memory
from tests.roles.translated_pair import CWD, TRANSLATED, translated


def working_agent(*, usage: bool = False) -> Agent:
    agent = Agent("worker", version="1", modes=[SessionMode(id=id, name=id) for id in ("ask", "code")])

    @agent.prompt
    async def work(turn: Turn) -> None:
        await turn.think("let me ")
        await turn.think("see")
        await turn.plan(PlanEntry(content="look", priority="high", status="in_progress"))
        await turn.say("I ")
        await turn.say("look.")
        async with turn.tool("Read a", kind="read", name="read", input={"path": f"{CWD}/a"}) as call:
            await call.add_text("found")
        await turn.say("Done.")
        if usage:
            await turn.send_update(UsageUpdate(used=5, size=10))
            turn.session.set_title("Looking")

    return agent


def entry_summary(transcript: Any) -> list[tuple[str, str]]:
    return [
        (entry.role, entry.text) if isinstance(entry, Message) else ("call", f"{entry.title} {entry.status}")
        for entry in transcript
    ]


SAID = [
    ("user", "go"),
    ("thought", "let me see"),
    ("agent", "I look."),
    ("call", "Read a completed"),
    ("agent", "Done."),
]


async def test_a_turn_is_read_back_in_order_and_merged() -> None:
    async with connect_in_memory(working_agent(usage=True)) as remote:
        session = await remote.open_session()
        await session.ask("go")
        transcript = session.transcript
        assert entry_summary(transcript) == SAID
        assert [entry.content for entry in transcript.plan] == ["look"]
        assert transcript.usage == UsageUpdate(used=5, size=10)
        assert (transcript.title, transcript.mode) == ("Looking", "ask")
        assert session.plan == transcript.plan
        await session.ask("again")
        assert len(session.transcript) == 2 * len(SAID)


async def test_the_transcript_can_be_read_during_a_turn() -> None:
    async with connect_in_memory(working_agent()) as remote:
        session = await remote.open_session()
        seen: list[int] = []
        async with session.prompt("go") as turn:
            async for _ in turn:
                seen.append(len(session.transcript))
        assert seen == sorted(seen)
        assert entry_summary(session.transcript) == SAID


async def test_a_loaded_session_has_the_transcript_it_had() -> None:
    async with connect_in_memory(working_agent(usage=True)) as remote:
        session = await remote.open_session(CWD)
        await session.ask("go")
        loaded = await remote.load_session(session.id, CWD)
        assert entry_summary(loaded.transcript) == SAID
        assert loaded.title == "Looking"


@pytest.mark.parametrize(("client", "agent"), TRANSLATED)
async def test_the_transcript_is_the_same_through_a_translator(client: str, agent: str) -> None:
    async with translated(working_agent(), client, agent) as remote:
        session = await remote.open_session(CWD)
        await session.ask("go")
        received = [(who, text.replace("Read a", "read")) for who, text in entry_summary(session.transcript)]
        assert received == [(who, text.replace("Read a", "read")) for who, text in SAID]
        assert [entry.content for entry in session.plan] == ["look"]
