"""Elicitation about a request instead of a session: in hooks and in custom methods."""

from __future__ import annotations

from typing import Any

import pytest

from dragoman import Agent, ProtocolError, Session, Turn
from dragoman.schema.elicitation import CreateElicitationParams
from dragoman.testing import connect_in_memory
from tests.roles.raw_client import CWD, raw_connection
from tests.roles.translated_pair import translated

FORMS: dict[str, Any] = {"elicitation": {"form": {}, "url": {}}}


def eliciting_agent() -> Agent:
    """Return an agent that asks wherever there is no turn."""
    agent = Agent("curious", auth_required=True)

    @agent.authenticate("browser")
    async def sign_in(_: Any) -> bool:
        gone = await agent.elicit("Sign in there", url="https://login.example.org/")
        if gone:
            gone.complete()
        return bool(gone)

    @agent.on_session_opened
    async def new_session(session: Session) -> None:
        session.data["name"] = (await agent.elicit("Who are you?", form={"name": str}))["name"]

    @agent.on("_curious/color")
    async def color(_: Any) -> str:
        return str((await agent.elicit("Which color?", form={"color": ["red", "blue"]}))["color"])

    @agent.prompt
    async def answer(turn: Turn) -> None:
        await turn.say(f"Hello, {turn.session.data['name']}.")

    return agent


async def test_a_question_in_a_hook_names_the_request_and_no_session() -> None:
    async with raw_connection(eliciting_agent(), "v1", FORMS) as client:
        client.answers["elicitation/create"] = lambda asked: (
            {"action": "accept"} if asked["mode"] == "url" else {"action": "accept", "content": {"name": "Ada"}}
        )
        login = await client.call("authenticate", {"methodId": "browser"})
        made = await client.call("session/new", {"cwd": CWD, "mcpServers": []})
        assert "result" in login
        assert "result" in made
        link, form = client.params_of("elicitation/create")
        assert (link["requestId"], form["requestId"]) == (login["id"], made["id"])
        assert "sessionId" not in link
        assert "sessionId" not in form
        assert client.params_of("elicitation/complete") == [{"elicitationId": link["elicitationId"]}]


def reply(question: CreateElicitationParams) -> Any:
    """Return the user's answers."""
    assert question.scope == "request"
    return True if question.mode == "url" else {"name": "Ada", "color": "blue"}


async def check_questions(remote: Any) -> None:
    """Log in, open a session, call a method: each asks once."""
    await remote.authenticate("browser")
    session = await remote.open_session(CWD)
    assert await session.ask("hello") == "Hello, Ada."
    assert await remote.request("_curious/color", {}) == "blue"


async def test_the_user_answers_what_is_asked_about_a_request() -> None:
    async with connect_in_memory(eliciting_agent(), elicit=reply) as remote:
        await check_questions(remote)


@pytest.mark.parametrize(("client", "dialect"), [("v1", "v1"), ("banjo", "v1"), ("v1", "banjo")])
async def test_through_a_translator_the_question_has_the_clients_request_id(client: str, dialect: str) -> None:
    open_ids: list[Any] = []
    named: list[Any] = []

    def answer(question: CreateElicitationParams) -> Any:
        named.append(question.request_id)
        open_ids.append(set(remote.connection.sender.pending.by_id))
        return reply(question)

    async with translated(eliciting_agent(), client, dialect, elicit=answer) as remote:
        remote.connection.sender.pending._last_id += 100  # the interpreter counts its own requests from 0
        await check_questions(remote)
    assert len(named) == 3
    assert all(id in known for id, known in zip(named, open_ids, strict=True))


async def test_elicit_outside_a_request_raises() -> None:
    agent = Agent("early")

    @agent.prompt
    async def answer(_: Turn) -> None:
        await agent.elicit("Who?", form={"name": str})

    with pytest.raises(RuntimeError, match=r"turn\.elicit"):
        await agent.elicit("Who?", form={"name": str})
    async with connect_in_memory(agent, elicit=reply) as remote:
        session = await remote.open_session(CWD)
        with pytest.raises(ProtocolError):
            await session.ask("hello")
