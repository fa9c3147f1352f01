"""Faults: each has its effect, the same for the same seed, over any transport, without a clock."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Sequence
from typing import Any

import pytest

from dragoman import Agent, ConnectionFailed, Turn, WriteStalled, connect
from dragoman.testing import (
    Delay,
    Disconnect,
    Drop,
    Duplicate,
    Fault,
    Garble,
    Junk,
    Merge,
    Reorder,
    Split,
    Stall,
    Truncate,
    check_transport,
    faulty,
    memory_pair,
)
from dragoman.transport.base import Transport
from dragoman.transport.process.transport import spawn

FRAMES = [b'{"n":%d}' % number for number in range(1, 7)]


async def passed(sending: Sequence[Fault] = (), receiving: Sequence[Fault] = (), seed: int = 0) -> list[bytes]:
    """Return what a faulty transport delivers of FRAMES, sent one in each pass of the loop."""
    left, right = memory_pair()
    near, far = faulty(left, sending=sending, seed=seed), faulty(right, receiving=receiving, seed=seed)
    received: list[bytes] = []

    async def listen() -> None:
        try:
            while True:
                received.extend(frame for frame in await far.receive() if isinstance(frame, bytes))
        except ConnectionFailed:
            pass

    async with asyncio.timeout(60), asyncio.TaskGroup() as group:
        group.create_task(listen())
        try:
            for frame in FRAMES:
                near.send(frame)
                await asyncio.sleep(0)
        except ConnectionFailed:
            pass
        await near.close("done")
    await far.close()
    return received


A, B, C, D, E, F = FRAMES
PRINTED = Junk().line


@pytest.mark.parametrize("way", ["sending", "receiving"])
@pytest.mark.parametrize(
    ("faults", "expected"),
    [
        ([Drop(at=2)], [A, C, D, E, F]),
        ([Drop(at=(1, 6))], [B, C, D, E]),
        ([Drop()], []),
        ([Duplicate(at=3, times=3)], [A, B, C, C, C, D, E, F]),
        ([Truncate(at=1, keep=3)], [A[:3], B, C, D, E, F]),
        ([Junk(at=4)], [A, B, C, PRINTED, D, E, F]),
        ([Reorder(at=2)], [A, C, B, D, E, F]),
        ([Reorder(at=6)], FRAMES),
        ([Split(pieces=4)], FRAMES),
        ([Merge()], FRAMES),
        ([Delay(passes=7)], FRAMES),
        ([Disconnect(at=4)], [A, B, C]),
        ([Drop(at=1), Duplicate(at=1)], [B, B, C, D, E, F]),
        ([Duplicate(at=1), Drop(at=1)], FRAMES),
        ([Split(), Delay(at=3), Merge(at=(1, 2)), Reorder(at=5)], [A, B, C, D, F, E]),
    ],
    ids=repr,
)
def test_each_fault_works_in_both_directions(way: str, faults: list[Fault], expected: list[bytes]) -> None:
    run = passed(sending=faults) if way == "sending" else passed(receiving=faults)
    assert asyncio.run(run) == expected


def test_a_garbled_frame_differs_in_the_given_number_of_bytes_and_stays_one_line() -> None:
    received = asyncio.run(passed([Garble(at=2, bytes=3)]))
    assert received[:1] + received[2:] == [A, C, D, E, F]
    assert sum(one != other for one, other in zip(received[1], B, strict=True)) == 3


def test_the_same_seed_gives_the_same_faults_and_another_gives_others() -> None:
    faults = [Drop(chance=0.3), Garble(chance=0.5), Duplicate(chance=0.2)]
    runs = [asyncio.run(passed(faults, seed=seed)) for seed in (7, 7, 8, 9, 10)]
    assert runs[0] == runs[1]
    assert any(run != runs[0] for run in runs[2:])


@pytest.mark.parametrize(
    "faults", [[Split(pieces=3)], [Merge()], [Delay(passes=2)], [Split(chance=0.5), Merge()]], ids=repr
)
async def test_faults_that_lose_nothing_keep_the_contract_of_transports(faults: list[Fault]) -> None:
    async def make() -> tuple[Transport, Transport]:
        left, right = memory_pair()
        return faulty(left, sending=faults, receiving=faults), right

    await check_transport(make)


async def test_a_stalled_transport_is_congested_and_drain_fails_without_a_clock() -> None:
    left, right = memory_pair()
    line = faulty(left, sending=[Stall(at=2)])
    for frame in FRAMES:
        line.send(frame)
    assert await right.receive() == [A]
    assert line.congested()
    with pytest.raises(WriteStalled, match="read no bytes"):
        await line.drain()
    with pytest.raises(WriteStalled):
        line.send(A)
    await line.close()


def test_receiving_cannot_stall() -> None:
    with pytest.raises(ValueError, match="Stall is a fault of sending"):
        faulty(memory_pair()[0], receiving=[Stall()])


def test_split_and_merged_frames_reach_a_real_process() -> None:
    """`dd` reads one block at a time, so one read returns what one write sent."""
    reader = "import os\nwhile b := os.read(0, 65536): os.write(1, repr(b).encode() + b'\\n')"

    async def scene() -> list[str]:
        transport = await spawn([sys.executable, "-c", reader])
        line = faulty(transport, sending=[Split(at=1, pieces=3), Merge(at=2)])
        received: list[str] = []
        async with asyncio.timeout(20):
            line.send(b"abcdef")
            while sum(len(eval(read)) for read in received) < 7:  # the process repeats its own words
                received += [bytes(frame).decode() for frame in await line.receive()]  # type: ignore[arg-type]
            line.send(b"two")
            line.send(b"three")
            while "three" not in received[-1]:
                received += [bytes(frame).decode() for frame in await line.receive()]  # type: ignore[arg-type]
        await line.close()
        return received

    received = asyncio.run(scene())
    assert received[-1] == repr(b"two\nthree\n")
    assert b"".join(eval(read) for read in received[:-1]) == b"abcdef\n"


def test_junk_and_split_frames_do_not_disturb_a_client() -> None:
    agent = Agent("echo")

    @agent.prompt
    async def repeat(turn: Turn) -> None:
        await turn.say(turn.text)

    async def scene() -> str:
        ours, theirs = memory_pair()
        connection = agent.start_connection(theirs)
        bad = faulty(ours, receiving=[Junk(chance=0.5), Split(pieces=5), Delay()], sending=[Split()], seed=3)
        async with connect(bad) as remote:
            session = await remote.open_session(cwd="/")
            answer = await session.ask("still here")
        await connection.close()
        return answer

    assert asyncio.run(scene()) == "still here"


async def test_a_client_reports_a_broken_connection() -> None:
    agent = Agent("mute")

    @agent.prompt
    async def silent(turn: Turn) -> None:
        await asyncio.Event().wait()

    ours, theirs = memory_pair()
    connection = agent.start_connection(theirs)
    async with connect(faulty(ours, sending=[Disconnect(at=3)])) as remote:
        session = await remote.open_session(cwd="/")
        with pytest.raises(ConnectionFailed, match="broke"):
            await session.ask("hello")
    await connection.close()


@pytest.mark.parametrize(
    ("kind", "amounts", "shown"),
    [
        (Split, {"pieces": 0}, "pieces=0: Split needs at least 1"),
        (Drop, {"at": 0}, "at=0: frames are counted from 1"),
        (Drop, {"at": (2, -1)}, r"at=\(2, -1\): frames are counted from 1"),
        (Drop, {"chance": 2}, "chance=2: give a number from 0 to 1"),
        (Junk, {"chance": -0.1}, r"chance=-0\.1: give a number"),
        (Delay, {"passes": -1}, "passes=-1: Delay needs at least 0"),
        (Duplicate, {"times": 0}, "times=0: Duplicate needs at least 1"),
        (Truncate, {"keep": -1}, "keep=-1: Truncate needs at least 0"),
    ],
)
def test_a_fault_that_can_never_apply_is_refused(kind: type[Fault], amounts: dict[str, Any], shown: str) -> None:
    with pytest.raises(ValueError, match=shown):
        kind(**amounts)
