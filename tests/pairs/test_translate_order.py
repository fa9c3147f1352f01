"""Order, backpressure and ends in the translator: frames keep their order, nothing hangs, and every end has a reason.

With one dialect on both sides frames pass unchanged, with two every message is translated. These tests cover both.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import msgspec
import pytest

from dragoman import Agent, Turn, WriteStalled
from dragoman.roles.client.dial import Dialer
from dragoman.roles.proxy.proxy import translate
from dragoman.roles.proxy.relay import Relay
from dragoman.schema.content import TextContent
from dragoman.schema.update import AgentMessageChunk
from dragoman.testing import ScriptedPeer
from dragoman.transport.base import Transport
from dragoman.transport.memory import memory_pair
from tests.pairs.peers import BOUND, CWD, HandAgent, HandClient, meeting
from tests.pairs.words import WORDS, Json

# The same dialect twice, then two dialects: with and without an emulator that reads updates on either side.
WAYS = [("v1", "v1"), ("draft", "draft"), ("v1", "banjo"), ("v1", "draft"), ("2025.1", "crow"), ("crow", "2025.1")]
ways = pytest.mark.parametrize(("client", "agent"), WAYS)


def says(client: HandClient) -> list[str]:
    return [str(event[1]) for event in client.events if event[0] == "says"]


# --- order ----------------------------------------------------------------------------------------------------


@ways
async def test_a_thousand_updates_arrive_in_order_and_before_the_answer(client: str, agent: str) -> None:
    many = Agent("many", version="1")

    @many.prompt
    async def count(turn: Turn) -> None:
        for number in range(1000):
            await turn.say(str(number))

    async with meeting(client, agent, many) as met:
        await met.client.open()
        await met.client.prompt("count")
        assert says(met.client) == [str(number) for number in range(1000)]


@ways
async def test_updates_after_the_answer_stay_after_it(client: str, agent: str) -> None:
    late = Agent("late", version="1")

    @late.prompt
    async def answer(turn: Turn) -> None:
        await turn.say("in time")
        update = AgentMessageChunk(content=TextContent(text="late"))
        asyncio.get_running_loop().call_soon(turn.session.send_update, update)

    async with meeting(client, agent, late) as met:
        await met.client.open()
        await met.client.prompt("go")
        assert says(met.client) == ["in time"]
        await met.client.event(("says", "late"))


@ways
async def test_an_update_before_the_answer_to_session_new_is_not_lost(client: str, agent: str) -> None:
    early = Agent("early", version="1")

    @early.on_session_opened
    def greet(session: Any) -> None:
        session.send_update(AgentMessageChunk(content=TextContent(text="early")))

    async with meeting(client, agent, early) as met:
        hand = met.client
        await hand.request("initialize", hand.words.initialize(True, True, CWD))
        answer = await hand.request("session/new", hand.words.new(CWD, "mine"))
        session = hand.words.opened(answer["result"], "mine")
        await hand.event(("says", "early"))
        (update,) = [params for params in hand.updates if hand.words.event(params) == ("says", "early")]
        assert session in (update.get("sessionId"), update.get("session_id"))


@ways
async def test_calls_of_the_agent_and_updates_keep_their_order(client: str, agent: str) -> None:
    """An update that is sent before a file read arrives before the request for the file."""

    async def act(hand: HandAgent, _: Json) -> None:
        for number in range(20):
            hand.notify("session/update", hand.words.say(hand.session, str(number)))
            await hand.call("fs/read_text_file", hand.words.read(hand.session, f"{CWD}/note.txt"))

    async with meeting(client, agent, act) as met:
        await met.client.open()
        seen: list[int] = []
        met.client.on_call = lambda _: seen.append(len(says(met.client)))
        await met.client.prompt("go")
        assert seen == list(range(1, 21))


# --- cancelling requests --------------------------------------------------------------------------------------


@pytest.mark.parametrize(("client", "agent"), [("v1", "v1"), ("v1", "banjo"), ("banjo", "v1")])
async def test_a_cancelled_request_has_the_id_of_the_other_side(client: str, agent: str) -> None:
    waiting = Agent("waiting", version="1")

    @waiting.prompt
    async def wait(turn: Turn) -> None:
        await turn.say("waiting")
        await asyncio.get_running_loop().create_future()

    async with meeting(client, agent, waiting) as met:
        hand = met.client
        await hand.open()
        prompt = hand.ask("session/prompt", hand.words.prompt(hand.session, "go"))
        await hand.event(("says", "waiting"))
        hand.notify("$/cancel_request", {"requestId": prompt})
        await hand.answer(prompt)
        (asked,) = [frame["id"] for frame in met.wire.received if frame.get("method") == "session/prompt"]
        assert met.wire.calls("$/cancel_request") == [{"requestId": asked}]
        assert asked != prompt


# --- pressure -------------------------------------------------------------------------------------------------

LIMIT = 16 * 1024
STALL = 0.3


@asynccontextmanager
async def between(agent: str, limit: int, stall: float) -> AsyncIterator[tuple[Transport, Transport, Any]]:
    """A translator between two small pipes: the client's end, the agent's end, and the task that runs it."""
    front, client = memory_pair(limit, stall)
    back, server = memory_pair(limit, stall)
    dial = Dialer(back, dialect=agent, cwd=CWD, report=lambda _: None)
    running = asyncio.create_task(Relay(front, dial, report=lambda _: None).run())
    try:
        async with asyncio.timeout(BOUND):
            yield client, server, running
    finally:
        await client.close()
        await server.close()
        await running


@ways
async def test_two_peers_that_only_write_end_with_an_error_in_time(client: str, agent: str) -> None:
    """Both pipes full, nobody reads: without a limit on waiting this would hang for ever."""

    ours, theirs = WORDS[client], WORDS[agent]
    async with between(agent, LIMIT, STALL) as (left, right, running):
        hand = HandClient(left, ours)
        agent_end = ScriptedPeer(right)
        introduced = hand.ask("initialize", ours.initialize(True, True, CWD))
        answer = await agent_end.receive()
        agent_end.send({"jsonrpc": "2.0", "id": answer["id"], "result": theirs.introduction})
        await hand.answer(introduced)
        text = "x" * 1024
        for _ in range(LIMIT * 8 // 1024):  # both now write more than all pipes hold, and read nothing
            hand.ask("session/prompt", ours.prompt("s", text))
            agent_end.send(call("session/update", theirs.say("s", text)))
        reason = await running
        assert isinstance(reason, WriteStalled)


def call(method: str, params: Json) -> Json:
    return {"jsonrpc": "2.0", "method": method, "params": params}


@ways
async def test_a_slow_client_slows_the_agent(client: str, agent: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """What the interpreter holds for a client that does not read is bounded; past that the agent waits."""
    monkeypatch.setattr("dragoman.engine.inbox.INBOX_BYTES", 64 * 1024)
    count = 0
    many = Agent("many", version="1", dialect=agent)

    @many.prompt
    async def flood(turn: Turn) -> None:
        nonlocal count
        for number in range(2000):
            await turn.say(f"{number} {'x' * 1000}")
            count += 1

    async with between(agent, LIMIT, BOUND) as (left, right, _):
        serving = asyncio.create_task(many.serve(right, report=lambda _: None))
        hand = HandClient(left, WORDS[client])
        await hand.open()
        prompt = hand.ask("session/prompt", hand.words.prompt(hand.session, "flood"))
        before = -1
        while count != before:  # until the agent stops sending
            before = count
            for _ in range(50):
                await asyncio.sleep(0)
        assert count < 200, "two megabytes were sent, and nobody reads them"
        assert "result" in await hand.answer(prompt)
        assert [text.split()[0] for text in says(hand)] == [str(number) for number in range(2000)]
        serving.cancel()
        await asyncio.gather(serving, return_exceptions=True)


# --- ends -----------------------------------------------------------------------------------------------------

DYING = """
import json, sys
words = json.loads(sys.argv[1])
for line in sys.stdin:
    message = json.loads(line)
    if message["method"] in words:
        print(json.dumps({"jsonrpc": "2.0", "id": message["id"], "result": words[message["method"]]}), flush=True)
    else:
        print("out of paper", file=sys.stderr, flush=True)
        sys.exit(7)
"""


@ways
async def test_the_exit_of_an_agent_is_reported_with_its_reason(client: str, agent: str, tmp_path: Any) -> None:
    theirs = WORDS[agent]
    answers = {"initialize": theirs.introduction, "session/new": theirs.made("s")}
    command = [sys.executable, "-c", DYING, msgspec.json.encode(answers).decode()]
    reports: list[str] = []

    ours, front = memory_pair()
    async with asyncio.timeout(BOUND):
        running = asyncio.create_task(translate(command, agent_dialect=agent, report=reports.append, transport=front))
        hand = HandClient(ours, WORDS[client])
        await hand.open(cwd=str(tmp_path))
        error = (await hand.prompt("go"))["error"]
        assert "7" in error["message"]
        assert "out of paper" in error["message"]
        assert await running == 1
    assert len([text for text in reports if "out of paper" in text]) == 1


@ways
async def test_the_agent_ends_when_the_client_disconnects(client: str, agent: str) -> None:
    waiting = Agent("waiting", version="1", dialect=agent)
    stopped: list[str] = []

    @waiting.prompt
    async def wait(turn: Turn) -> None:
        await turn.say("waiting")
        try:
            await asyncio.get_running_loop().create_future()
        finally:
            stopped.append("stopped")

    async with between(agent, LIMIT, BOUND) as (left, right, running):
        serving = asyncio.create_task(waiting.serve(right, report=lambda _: None))
        hand = HandClient(left, WORDS[client])
        await hand.open()
        hand.ask("session/prompt", hand.words.prompt(hand.session, "go"))
        await hand.event(("says", "waiting"))
        await left.close()
        await running
        await serving
        assert stopped == ["stopped"]
