"""Ten thousand updates through five proxies: in order, before the answer of their turn, also with random restarts."""

from __future__ import annotations

import asyncio
import contextlib
import os
import random
import signal
from typing import Any

import pytest

from dragoman import Component
from tests.roles.proxy.chain.pieces import Json, Running, call, chunk, raw_proxy, reply, running_chain
from tests.roles.proxy.chain.processes import proxies_that_run

UPDATES = 10_000


@pytest.mark.item("BR-19")
async def test_no_update_and_no_answer_loses_its_place_in_a_chain_of_five() -> None:
    turns, size = 20, UPDATES // 20
    async with running_chain([raw_proxy() for _ in range(5)]) as chain:
        await chain.initialize()

        async def play_agent() -> None:
            for turn in range(turns):
                asked = await chain.agent.expect(method="session/prompt")
                for number in range(size):
                    chain.agent.send(chunk(f"{turn}/{number}"))
                chain.agent.send(reply(asked, {"stopReason": "end_turn"}))
                chain.agent.send(chunk(f"{turn}/after"))

        playing = asyncio.create_task(play_agent())
        for turn in range(turns):
            chain.client.send(call(turn, "session/prompt", {"sessionId": "s", "prompt": []}))
            seen = [_text(await chain.client.receive()) for _ in range(size + 2)]
            assert seen == [*(f"{turn}/{number}" for number in range(size)), "answer", f"{turn}/after"]
        await playing


def _text(message: Json) -> str:
    if "method" not in message:
        return "answer" if "result" in message else "error"
    text: str = message["params"]["update"]["content"]["text"]
    return text


@pytest.mark.item("BR-19")
@pytest.mark.item("BR-20")
async def test_order_holds_while_proxies_are_killed_at_random(monkeypatch: pytest.MonkeyPatch) -> None:
    """A turn without an error is complete; in any other no update is repeated or out of its place."""
    monkeypatch.setattr("dragoman.roles.proxy.process_proxy.RESTART_LIMIT", 1000)
    chance = random.Random(15)
    turns, size = 25, UPDATES // 25
    proxies = [Component(proxy=raw_proxy(), on_exit="restart", name=f"p{number}") for number in range(5)]
    async with running_chain(proxies) as chain:
        await chain.initialize()
        playing = asyncio.create_task(_play_agent(chain, size))
        failed = 0
        try:
            for turn in range(turns):
                kills_at = chance.randrange(size) if turn % 3 else -1
                failed += await _run_turn(chain, turn, size, kills_at, chance)
        finally:
            playing.cancel()
            await asyncio.gather(playing, return_exceptions=True)
    restarts = sum("it is started again" in line for line in chain.reports)
    assert restarts >= turns // 2
    assert 0 < failed < turns
    assert not proxies_that_run()


async def _play_agent(chain: Running, size: int) -> None:
    while True:
        message = await chain.agent.receive()
        if message.get("method") == "session/prompt":
            turn = message["params"]["prompt"][0]["text"]
            for number in range(size):
                chain.agent.send(chunk(f"{turn}/{number}"))
                if number % 50 == 0:
                    await asyncio.sleep(0)  # so that a kill meets messages in flight
            chain.agent.send(reply(message, {"stopReason": "end_turn"}))


async def _run_turn(chain: Running, turn: int, size: int, kills_at: int, chance: random.Random) -> bool:
    """Run a turn in which a proxy may be killed; return whether it failed."""
    prompt: list[Any] = [{"type": "text", "text": str(turn)}]
    chain.client.send(call(turn, "session/prompt", {"sessionId": "s", "prompt": prompt}))
    seen: list[int] = []
    while True:
        message = await chain.client.receive()
        if "method" not in message:
            assert message["id"] == turn
            if "error" in message:
                assert message["error"]["data"]["component"].startswith("proxy ")
                return True
            assert seen == list(range(size)), "a turn without an error is complete"
            return False
        told, _, number = _text(message).partition("/")
        assert int(told) <= turn
        if int(told) == turn:
            assert not seen or int(number) > seen[-1]
            seen.append(int(number))
            if len(seen) == kills_at and (running := sorted(proxies_that_run())):
                with contextlib.suppress(ProcessLookupError):
                    os.kill(chance.choice(running), signal.SIGKILL)
