"""The options of docs/protocol/dialects.md#banjo-options: who answers a prompt, and whether a new session continues the
last one.
"""

from __future__ import annotations

from typing import Any

import pytest

from dragoman import Agent, Option, Session, Turn
from dragoman.schema.config import SessionMode
from dragoman.testing import connect_in_memory
from tests.roles.raw_client import new_session, raw_connection
from tests.roles.translated_pair import CWD

ELSEWHERE = "/home/user/other"


def two_responder_agent(**declared: Any) -> Agent:
    """Return an agent with two responders."""
    agent = Agent("duet", **declared)
    for name in ("claude", "codex"):

        async def answer(turn: Turn, name: str = name) -> str | None:
            await turn.say(f"{name} ")
            return "refusal" if turn.text == "no" else None

        agent.responder(name)(answer)
    return agent


@pytest.mark.parametrize(
    ("settings", "received"),
    [
        ({}, "claude "),
        ({"route": "codex"}, "codex "),
        ({"route": "codex", "primary_agent": "claude"}, "codex "),
        ({"route": "duet"}, "claude codex "),
        ({"route": "duet", "primary_agent": "codex"}, "codex claude "),
    ],
)
@pytest.mark.parametrize("dialect", ["banjo", "v1", "draft"])
@pytest.mark.item("003-11")
async def test_the_route_says_who_answers_and_the_primary_agent_who_begins(
    settings: dict[str, str], received: str, dialect: str
) -> None:
    async with connect_in_memory(two_responder_agent(), dialect=dialect) as remote:
        session = await remote.open_session(CWD)
        for option, value in settings.items():
            await session.set_option(option, value)
        assert await session.ask("hi") == received


async def test_a_responder_that_ends_the_turn_early_is_the_last() -> None:
    async with connect_in_memory(two_responder_agent()) as remote:
        session = await remote.open_session(CWD)
        await session.set_option("route", "duet")
        async with session.prompt("no") as turn:
            updates = [update async for update in turn]
        assert turn.stop_reason == "refusal"
        assert len(updates) == 1


async def test_with_one_responder_there_are_no_route_options() -> None:
    agent = Agent("solo", options=[Option.switch("loud")])

    @agent.responder("only")
    async def answer(turn: Turn) -> None:
        await turn.say("me")

    async with connect_in_memory(agent) as remote:
        session = await remote.open_session(CWD)
        assert [option.id for option in session.options] == ["loud"]
        assert await session.ask("hi") == "me"


async def test_with_auto_resume_a_new_session_continues_the_last_one_of_its_folder() -> None:
    modes = [SessionMode(id="a", name="A"), SessionMode(id="b", name="B")]
    agent = two_responder_agent(options=[Option.auto_resume()], modes=modes)
    went_on: list[tuple[str, str]] = []

    @agent.on_session_forked
    def forked(session: Session, origin: Session) -> None:
        went_on.append((session.id, origin.id))

    async with connect_in_memory(agent) as remote:
        first = await remote.open_session(CWD)
        await first.ask("hi")
        await first.set_mode("b")
        await first.set_option("route", "codex")
        second = await remote.open_session(CWD)
        assert went_on == [(second.id, first.id)]
        assert second.mode == "b"
        assert await second.ask("hi") == "codex "
        replayed = await remote.load_session(second.id, CWD)
        assert [message.text for message in replayed.transcript.messages] == ["hi", "claude ", "hi", "codex "]
        assert await (await remote.open_session(ELSEWHERE)).ask("hi") == "claude "  # another folder begins anew
        await second.set_option("auto_resume", "off")
        third = await remote.open_session(CWD)
        assert third.mode == "a"
        assert len(went_on) == 1


async def test_without_auto_resume_each_session_starts_empty() -> None:
    agent = two_responder_agent()
    async with raw_connection(agent) as client:
        await new_session(client)
        second = await new_session(client)
        assert len(agent.sessions[second].history) == 0
