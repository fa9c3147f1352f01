"""Test a client on a faulty connection. Faults are values, and nothing sleeps."""

import asyncio

import pytest

from dragoman import Agent, ConnectionFailed, Turn, connect
from dragoman.testing import Delay, Disconnect, Fault, Junk, Split, faulty, memory_pair

agent = Agent("reader")


@agent.prompt
async def read(turn: Turn) -> None:
    for word in turn.text.split():
        await turn.say(f"{word} ")


async def ask(*faults: Fault) -> str:
    near, far = memory_pair()
    serving = agent.start_connection(far)
    async with connect(faulty(near, receiving=faults, seed=4)) as reader:
        session = await reader.open_session(cwd=".")
        answer = await session.ask("once upon a time")
    await serving.close()
    return answer


def test_junk_splits_and_delays_do_not_change_the_answer() -> None:
    assert asyncio.run(ask(Junk(chance=0.5), Split(pieces=4), Delay(passes=50))) == "once upon a time "


def test_a_broken_connection_raises_an_error() -> None:
    with pytest.raises(ConnectionFailed, match="broke"):
        asyncio.run(ask(Disconnect(at=4)))
