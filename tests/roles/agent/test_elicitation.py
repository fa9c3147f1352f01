"""Elicitation: forms and links, each for clients that announced it, with typed answers."""

from __future__ import annotations

from typing import Any

import pytest

from dragoman import Agent, ProtocolError, Turn
from dragoman.schema.elicitation import EnumOption, MultiSelectItems, MultiSelectProperty, StringProperty
from tests.roles.raw_client import CWD, new_session, prompt_and_wait, raw_connection

BOTH: Any = {"elicitation": {"form": {}, "url": {}}}


def eliciting_agent(question: Any, **declared: Any) -> tuple[Agent, list[Any]]:
    """Return an agent that asks one question, and the list of its answers."""
    agent = Agent("asking", **declared)
    received: list[Any] = []

    @agent.prompt
    async def answer(turn: Turn) -> None:
        try:
            received.append(await question(turn))
        except ProtocolError as error:
            received.append(error)

    return agent, received


@pytest.mark.parametrize("dialect", ["v1", "banjo"])
async def test_a_form_is_filled_in(dialect: str) -> None:
    form = {
        "branch": str,
        "force": bool,
        "copies": int,
        "ratio": float,
        "how": ["merge", "rebase"],
        "note": StringProperty(title="A note", max_length=40, default=""),
        "labels": MultiSelectProperty(items=MultiSelectItems(any_of=[EnumOption(const="a", title="A")]), default=[]),
    }
    agent, received = eliciting_agent(lambda turn: turn.elicit("How shall I release?", form=form), dialect=dialect)
    async with raw_connection(agent, dialect, BOTH) as client:
        filled = {"branch": "main", "force": False, "copies": 2, "ratio": 1, "how": "rebase", "labels": ["a"]}
        client.answers["elicitation/create"] = lambda _: {"action": "accept", "content": filled}
        session = await new_session(client)
        assert (await prompt_and_wait(client, session))["result"]["stopReason"] == "end_turn"
        [asked] = client.params_of("elicitation/create")
        schema = asked.pop("requestedSchema")
        assert asked == {"message": "How shall I release?", "mode": "form", "sessionId": session}
        assert schema["required"] == ["branch", "force", "copies", "ratio", "how"]
        assert schema["properties"]["how"] == {"type": "string", "title": "How", "enum": ["merge", "rebase"]}
        kinds = {name: field["type"] for name, field in schema["properties"].items()}
        assert kinds == {
            "branch": "string",
            "force": "boolean",
            "copies": "integer",
            "ratio": "number",
            "how": "string",
            "note": "string",
            "labels": "array",
        }
    [answer] = received
    assert answer
    assert (answer.action, answer["how"], answer.content) == ("accept", "rebase", filled)


@pytest.mark.parametrize("action", ["decline", "cancel"])
async def test_a_form_that_is_not_filled_in_is_no_error(action: str) -> None:
    agent, received = eliciting_agent(lambda turn: turn.elicit("Which?", form={"branch": str}))
    async with raw_connection(agent, capabilities=BOTH) as client:
        client.answers["elicitation/create"] = lambda _: {"action": action}
        await prompt_and_wait(client, await new_session(client))
    [answer] = received
    assert not answer
    assert (answer.action, answer.content) == (action, {})


@pytest.mark.parametrize("content", [{}, {"how": "magic"}, {"how": 1}, None])
async def test_an_answer_that_does_not_match_the_form_names_the_field(content: Any) -> None:
    agent, received = eliciting_agent(lambda turn: turn.elicit("How?", form={"how": ["merge", "rebase"]}))
    async with raw_connection(agent, capabilities=BOTH) as client:
        client.answers["elicitation/create"] = lambda _: {"action": "accept", "content": content}
        await prompt_and_wait(client, await new_session(client))
    [error] = received
    assert error.data == {"fields": ["how"]}


async def test_a_link_is_opened_and_the_client_is_told_when_it_is_complete() -> None:

    async def question(turn: Turn) -> Any:
        async with turn.tool("Log in") as call:
            answer = await turn.elicit("Log in, please", url="https://example.org/login", tool=call)
        answer.complete()
        return answer

    agent, received = eliciting_agent(question)
    async with raw_connection(agent, capabilities=BOTH) as client:
        client.answers["elicitation/create"] = lambda _: {"action": "accept"}
        session = await new_session(client)
        await prompt_and_wait(client, session)
        [asked] = client.params_of("elicitation/create")
        link = asked.pop("elicitationId")
        assert asked == {
            "message": "Log in, please",
            "mode": "url",
            "sessionId": session,
            "toolCallId": "call_1_1",
            "url": "https://example.org/login",
        }
        assert client.params_of("elicitation/complete") == [{"elicitationId": link}]
    assert received[0]
    assert received[0].id == link


@pytest.mark.parametrize(
    ("capabilities", "mode"),
    [
        ({}, "form"),
        ({"elicitation": {}}, "form"),
        ({"elicitation": {"url": {}}}, "form"),
        ({"elicitation": {"form": {}}}, "url"),
    ],
)
async def test_a_client_is_asked_only_in_modes_it_announced(capabilities: Any, mode: str) -> None:
    given: dict[str, Any] = {"form": {"branch": str}} if mode == "form" else {"url": "https://example.org"}
    agent, received = eliciting_agent(lambda turn: turn.elicit("Which?", **given))
    async with raw_connection(agent, capabilities=capabilities) as client:
        await prompt_and_wait(client, await new_session(client))
        assert client.params_of("elicitation/create") == []
    assert (received[0].kind, received[0].data["capability"]) == ("capability_unsupported", f"elicitation.{mode}")


async def test_a_dialect_without_such_questions_is_never_asked() -> None:
    agent, received = eliciting_agent(lambda turn: turn.elicit("Which?", form={"branch": str}))
    async with raw_connection(agent, "draft", {"fs": {"read": True}}) as client:
        session = (await client.result("session/new", {"workingDirectory": CWD}))["sessionId"]
        content = [{"type": "text", "text": "go"}]
        await client.result("session/prompt", {"sessionId": session, "content": content})
        assert client.params_of("elicitation/create") == []
    assert received[0].kind == "capability_unsupported"


async def test_a_question_is_a_form_or_a_link() -> None:
    faults: list[str] = []

    async def question(turn: Turn) -> None:
        for given in ({}, {"form": {"a": str}, "url": "https://example.org"}, {"form": {"a": 5}}):
            with pytest.raises(ValueError) as fault:
                await turn.elicit("?", **given)
            faults.append(str(fault.value))

    agent, _ = eliciting_agent(question)
    async with raw_connection(agent, capabilities=BOTH) as client:
        await prompt_and_wait(client, await new_session(client))
    assert len(faults) == 3


async def test_a_cancelled_turn_withdraws_its_question() -> None:
    agent, _ = eliciting_agent(lambda turn: turn.elicit("Which?", form={"branch": str}))
    async with raw_connection(agent, capabilities=BOTH) as client:
        session = await new_session(client)
        prompt = client.ask("session/prompt", {"sessionId": session, "prompt": [{"type": "text", "text": "go"}]})
        asked = await client.wait_for_call("elicitation/create")
        client.notify("session/cancel", {"sessionId": session})
        assert (await client.answer(prompt))["result"] == {"stopReason": "cancelled"}
        assert {"requestId": asked["id"]} in client.params_of("$/cancel_request")
