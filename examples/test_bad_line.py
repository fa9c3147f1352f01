"""What becomes of a client when its agent is on a bad line: faults are values, and nothing sleeps."""

import asyncio

import pytest

from dragoman import Agent, ConnectionFailed, Turn, connect
from dragoman.testing import Delay, Disconnect, Fault, Junk, Split, faulty, memory_pair

agent = Agent("reader")


@agent.prompt
async def read(turn: Turn) -> None:
    for word in turn.text.split():
        await turn.say(f"{word} ")


async def asked(*faults: Fault) -> str:
    near, far = memory_pair()
    serving = agent.start_connection(far)
    async with connect(faulty(near, receiving=faults, seed=4)) as reader:
        session = await reader.open_session(cwd=".")
        said = await session.ask("once upon a time")
    await serving.close()
    return said


def test_noise_pieces_and_delays_change_nothing() -> None:
    assert asyncio.run(asked(Junk(chance=0.5), Split(pieces=4), Delay(passes=50))) == "once upon a time "


def test_a_line_that_breaks_in_the_middle_is_an_error_and_no_hang() -> None:
    with pytest.raises(ConnectionFailed, match="broke"):
        asyncio.run(asked(Disconnect(at=4)))
