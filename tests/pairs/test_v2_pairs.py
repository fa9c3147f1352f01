"""v2 with every other dialect, both ways: eleven pairs, an interpreter between them.

Both ends speak raw wire JSON. A v2 client reads states instead of results; a v2 agent of ours is watched on its wire.
"""

from __future__ import annotations

from typing import Any

import pytest

from tests.pairs.peers import HandClient, Meeting, meeting
from tests.pairs.test_pairs import actor
from tests.pairs.words import WORDS, Json

OTHERS = list(WORDS)
clients = pytest.mark.parametrize("client", OTHERS)
agents = pytest.mark.parametrize("agent", [*OTHERS, "v2"])


async def finish(client: HandClient, answer: Json) -> Any:
    """The stop reason of a turn: of the idle that follows the receipt of a v2 prompt, or of the answer itself."""
    if client.words.name != "v2":
        return client.words.reason(answer["result"])
    assert "messageId" in answer["result"]
    while not (client.events and client.events[-1][0] == "idle"):
        await client.serve_next()
    return client.events[-1][1]


def output_of(client: HandClient) -> list[Any]:
    """What the agent said, without states and the client's own message."""
    return [event for event in client.events if event[0] in ("says", "thinks", "plans")]


async def check_talk(met: Meeting) -> None:
    await met.client.open()
    answer = await met.client.prompt("talk")
    assert await finish(met.client, answer) in ("end_turn", "ok")
    assert output_of(met.client) == [
        ("thinks", "Hm."),
        ("plans", ("Look", "completed"), ("Leap", "in_progress")),
        ("says", "Hello "),
        ("says", "you"),
    ]


@pytest.mark.item("V2-09")
@agents
async def test_a_v2_client_reads_a_turn_of_any_agent(agent: str) -> None:
    async with meeting("v2", agent, actor()) as met:
        await check_talk(met)
        assert met.client.events[0] == ("user message", "talk")


@pytest.mark.item("V2-11")
@clients
async def test_a_client_of_any_dialect_reads_a_turn_of_a_v2_agent(client: str) -> None:
    async with meeting(client, "v2", actor()) as met:
        await check_talk(met)


@pytest.mark.item("V2-18")
@agents
@pytest.mark.parametrize("is_allowed", [True, False])
async def test_a_v2_client_answers_permission_requests_of_any_agent(agent: str, is_allowed: bool) -> None:
    async with meeting("v2", agent, actor(), allow=is_allowed) as met:
        await met.client.open()
        await finish(met.client, await met.client.prompt("dare"))
        expected = "Allowed." if is_allowed and agent != "2025.1" else "Refused."  # a 2025.1 agent cannot ask
        assert output_of(met.client)[-1] == ("says", expected)


@pytest.mark.item("V2-18")
@clients
@pytest.mark.parametrize("is_allowed", [True, False])
async def test_a_client_of_any_dialect_answers_permission_requests_of_a_v2_agent(client: str, is_allowed: bool) -> None:
    async with meeting(client, "v2", actor(), allow=is_allowed) as met:
        await met.client.open()
        await met.client.prompt("dare")
        expected = "Allowed." if is_allowed and client != "2025.1" else "Refused."  # a 2025.1 client cannot be asked
        assert output_of(met.client)[-1] == ("says", expected)


async def check_cancel(met: Meeting) -> None:
    hand, words = met.client, met.client.words
    await hand.open()
    prompt = hand.ask("session/prompt", words.prompt(hand.session, "wait"))
    await hand.event(("says", "Working"))
    method, params = words.cancel(hand.session)
    if words.cancel_is_request:
        assert (await hand.request(method, params))["result"] == {}
    else:
        hand.notify(method, params)
    answer = {"result": {"messageId": ""}} if words.name == "v2" else await hand.answer(prompt)
    assert await finish(hand, answer) == "cancelled"
    hand.events.clear()
    assert await finish(hand, await hand.prompt("talk")) in ("end_turn", "ok")


@pytest.mark.item("V2-15")
@agents
async def test_a_v2_client_cancels_a_turn_of_any_agent(agent: str) -> None:
    async with meeting("v2", agent, actor()) as met:
        await check_cancel(met)


@pytest.mark.item("V2-15")
@clients
async def test_a_client_of_any_dialect_cancels_a_turn_of_a_v2_agent(client: str) -> None:
    async with meeting(client, "v2", actor()) as met:
        await check_cancel(met)


REASONS = ("max_tokens", "refusal", "max_turn_requests")


@clients
async def test_stop_reasons_of_a_v2_agent_reach_every_client(client: str) -> None:
    direct: list[Any] = []
    for agent in ("v1", "v2"):  # what this dialect says to an agent of v1
        reasons = []
        async with meeting(client, agent, actor()) as met:
            await met.client.open()
            for reason in REASONS:
                reasons.append(met.client.words.reason((await met.client.prompt(f"stop {reason}"))["result"]))
        direct.append(reasons)
    assert direct[0] == direct[1]


@agents
async def test_an_agent_that_fails_ends_the_turn_of_a_v2_client_with_its_error(agent: str) -> None:
    async with meeting("v2", agent, actor()) as met:
        await met.client.open()
        answer = await met.client.prompt("fail rate_limited")
        assert "error" in answer or await finish(met.client, answer) == "error"


async def test_a_v2_agent_reads_files_by_itself() -> None:
    async with meeting("v1", "v2", actor()) as met:
        await met.client.open()
        answer = await met.client.prompt("read")
        assert "does not exist" in answer["error"]["message"]
        assert met.client.calls == []
