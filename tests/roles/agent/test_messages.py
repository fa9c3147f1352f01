"""Messages with ids: their chunks stay together, live and after a replay."""

from __future__ import annotations

import pytest

from dragoman import Agent, Turn
from dragoman.testing import connect_in_memory
from tests.roles.raw_client import new_session, prompt_and_wait, raw_connection, updates
from tests.roles.translated_pair import CWD, TRANSLATED, translated


def reporting_agent(streaming: bool = True) -> Agent:
    """Return an agent that writes two messages at a time, and a thought."""
    agent = Agent("reporter", streaming=streaming)

    @agent.prompt
    async def answer(turn: Turn) -> None:
        left, right = turn.message(), turn.message()
        async with turn.message(is_thought=True) as thought:
            await left.say("one ")
            await thought.say("hm")
            await right.say("uno ")
            await left.say("two")
            await right.say("dos")
        await turn.message().say("done")

    return agent


@pytest.mark.parametrize("streaming", [True, False])
async def test_the_pieces_of_a_message_carry_its_id_on_the_wire(streaming: bool) -> None:
    async with raw_connection(reporting_agent(streaming)) as client:
        session = await new_session(client)
        await prompt_and_wait(client, session)
        said: dict[str | None, list[str]] = {}
        for update in updates(client, "agent_message_chunk"):
            said.setdefault(update.get("messageId"), []).append(update["content"]["text"])
        left, right, last = said
        assert None not in said
        assert "".join(said[left]) == "one two"
        assert "".join(said[right]) == "uno dos"
        assert said[last] == ["done"]
        assert [len(said[left]), len(said[right])] == ([2, 2] if streaming else [1, 1])
        [thought] = updates(client, "agent_thought_chunk")
        assert thought["messageId"] not in (left, right, last)
        await prompt_and_wait(client, session)
        again = {update.get("messageId") for update in updates(client, "agent_message_chunk")}
        assert len(again) == 6  # those of another turn are other messages


async def test_a_client_joins_the_chunks_also_after_loading() -> None:
    async with connect_in_memory(reporting_agent()) as remote:
        session = await remote.open_session(CWD)
        await session.ask("go")
        messages = [(message.role, message.text) for message in session.transcript.messages]
        assert messages == [
            ("user", "go"), ("agent", "one two"), ("thought", "hm"), ("agent", "uno dos"), ("agent", "done")
        ]  # fmt: skip
        loaded = await remote.load_session(session.id, CWD)
        assert [(message.role, message.text) for message in loaded.transcript.messages] == messages


@pytest.mark.parametrize("streaming", [True, False])
async def test_text_outside_messages_with_ids_is_a_separate_message(streaming: bool) -> None:
    agent = Agent("reporter", streaming=streaming)

    @agent.prompt
    async def answer(turn: Turn) -> None:
        await turn.say("be")
        await turn.say("fore")
        async with turn.message() as named:
            await named.say("named")
        await turn.say("af")
        await turn.say("ter")
        async with turn.tool("Look"):
            pass
        await turn.say("the tool")
        await turn.think("hm")
        await turn.say("and more")

    received = [
        ("agent", "before"), ("agent", "named"), ("agent", "after"), ("agent", "the tool"), ("thought", "hm"),
        ("agent", "and more"),
    ]  # fmt: skip

    async with connect_in_memory(agent) as remote:
        session = await remote.open_session(CWD)
        await session.ask("go")
        assert [(message.role, message.text) for message in session.transcript.messages[1:]] == received
        loaded = await remote.load_session(session.id, CWD)
        assert [(message.role, message.text) for message in loaded.transcript.messages[1:]] == received


@pytest.mark.parametrize(("client", "dialect"), [*TRANSLATED, ("crow", "v1"), ("v1", "2025.1")])
async def test_dialects_without_ids_get_the_chunks_in_order(client: str, dialect: str) -> None:
    async with translated(reporting_agent(), client, dialect) as remote:
        session = await remote.open_session(CWD)
        assert await session.ask("go") == "one uno twodosdone"
