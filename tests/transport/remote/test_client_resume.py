"""Connections that are cut at any byte go on: every frame arrives, once and in order, both ways."""

from __future__ import annotations

import asyncio
import random

import msgspec
import pytest

from dragoman.errors import ConnectionFailed, TransportClosed
from dragoman.transport.contract import Transport
from dragoman.transport.remote.patience import Patience
from tests.transport.remote.meeting import EAGER, ending, meeting, take
from tests.transport.remote.relay import relaying

WITHIN = 40.0


def frames(seed: int, who: str, count: int) -> list[bytes]:
    chance = random.Random(f"{seed}{who}")
    return [
        b'{"jsonrpc":"2.0","method":"_%b","params":{"n":%d,"x":"%b"}}' % (who.encode(), n, b"x" * chance.randrange(400))
        for n in range(count)
    ]


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("over", ["ws", "http"])
def test_frames_arrive_once_and_in_order_however_often_the_connection_is_cut(over: str, seed: int) -> None:
    said: list[str] = []
    count = 400 if over == "ws" else 60

    async def main() -> int:
        async with meeting() as there, relaying(there.port, seed=seed, cuts=12, most=12000) as relay:
            cuts, relay.left = relay.left, 0  # not before both know each other
            ours, theirs = await there.meet(over, relay.port, said.append)
            relay.left = cuts
            relay.drop()
            up, down = frames(seed, "up", count), frames(seed, "down", count)

            async def speak(transport: Transport, sent: list[bytes]) -> None:
                for number, frame in enumerate(sent):
                    transport.send(frame)
                    if transport.congested():
                        await transport.drain()
                    if number % 20 == 0:
                        await asyncio.sleep(0.002)

            async with asyncio.TaskGroup() as group:
                group.create_task(speak(ours, up))
                group.create_task(speak(theirs, down))
                got_up = group.create_task(take(theirs, count))
                got_down = group.create_task(take(ours, count))
            assert got_up.result() == up
            assert got_down.result() == down
            await ours.close()
            await theirs.close()
            return relay.cut

    assert asyncio.run(asyncio.wait_for(main(), WITHIN)) > 3


@pytest.mark.parametrize("over", ["ws", "http"])
def test_a_cut_that_takes_a_while_is_told_when_it_begins_and_when_it_is_over(over: str) -> None:
    said: list[str] = []

    async def main() -> None:
        async with meeting() as there, relaying(there.port) as relay:
            told = asyncio.Event()

            def report(line: str) -> None:
                said.append(line)
                told.set()

            ours, theirs = await there.meet(over, relay.port, report)
            relay.is_down = True
            relay.drop()
            receiver = asyncio.create_task(take(ours, 1))
            ours.send(b'{"jsonrpc":"2.0","method":"_up"}')
            await told.wait()
            relay.is_down = False
            theirs.send(b'{"jsonrpc":"2.0","method":"_down"}')
            assert await receiver == [b'{"jsonrpc":"2.0","method":"_down"}']
            assert await take(theirs, 1) == [b'{"jsonrpc":"2.0","method":"_up"}']
            await ours.close()

    asyncio.run(asyncio.wait_for(main(), WITHIN))
    assert "trying again" in said[0]
    assert "connected again" in said[1]


@pytest.mark.parametrize("over", ["ws", "http"])
def test_a_server_that_stays_away_is_given_up_after_the_patience(over: str) -> None:
    async def main() -> str:
        async with meeting() as there, relaying(there.port) as relay:
            remote = msgspec.structs.replace(EAGER, patience=Patience(first=0.01, longest=0.05, whole=0.3))
            ours, _ = await there.meet(over, relay.port, remote=remote)
            relay.is_down = True
            relay.drop()
            why = await ending(ours)
            with pytest.raises(ConnectionFailed):
                ours.send(b"{}")
            await ours.close()
            return why

    assert "127.0.0.1" in asyncio.run(asyncio.wait_for(main(), WITHIN))


@pytest.mark.parametrize("over", ["ws", "http"])
def test_a_connection_that_the_server_has_forgotten_is_over(over: str) -> None:
    async def main() -> None:
        async with meeting() as there, relaying(there.port) as relay:
            ours, theirs = await there.meet(over, relay.port)
            relay.is_down = True
            relay.drop()
            await theirs.close("the host was restarted")
            relay.is_down = False
            with pytest.raises(TransportClosed):
                await take(ours, 1)
            await ours.close()

    asyncio.run(asyncio.wait_for(main(), WITHIN))


def test_a_client_that_says_goodbye_frees_its_connection_at_once() -> None:
    async def main() -> None:
        async with meeting() as there:
            for over in ("ws", "http"):
                ours, theirs = await there.meet(over)
                await ours.close("done")
                assert await ending(theirs)

    asyncio.run(asyncio.wait_for(main(), 10.0))
