"""What every transport guarantees, tested on memory, pipes and a real process."""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dragoman.errors import TransportClosed, WriteStalled
from dragoman.transport.base import HIGH_WATER, Transport
from dragoman.transport.memory import memory_pair
from dragoman.transport.process.transport import spawn
from dragoman.transport.stream import StreamTransport
from dragoman.wire.frames import Frame, Oversize

WITHIN = 90.0

ECHO = "import sys\nfor line in sys.stdin.buffer: sys.stdout.buffer.write(line); sys.stdout.buffer.flush()"


def pipes(stall: float = 60.0, max_frame: int = 64 << 20) -> tuple[StreamTransport, StreamTransport]:
    """Two stream transports joined by two pipes."""
    a, b = os.pipe()
    c, d = os.pipe()
    left = StreamTransport(a, d, peer="right", stall=stall, max_frame=max_frame)
    return left, StreamTransport(c, b, peer="left", stall=stall, max_frame=max_frame)


async def echo(transport: Transport) -> None:
    """Send back what comes, as a peer that respects back-pressure."""
    try:
        while True:
            for frame in await transport.receive():
                assert isinstance(frame, bytes)
                transport.send(frame)
            if transport.congested():
                await transport.drain()
    except TransportClosed:
        await transport.close()


@asynccontextmanager
async def echoed(kind: str) -> AsyncIterator[Transport]:
    """A transport whose peer echoes."""
    if kind == "process":
        transport: Transport = await spawn([sys.executable, "-c", ECHO])
        try:
            yield transport
        finally:
            await transport.close()
        return
    ends: dict[str, Callable[[], tuple[Transport, Transport]]] = {
        "memory": memory_pair,
        "bounded memory": lambda: memory_pair(4096),
        "pipes": pipes,
    }
    transport, peer = ends[kind]()
    task = asyncio.create_task(echo(peer))
    try:
        yield transport
    finally:
        await transport.close()
        await task


async def everything(transport: Transport) -> list[Frame]:
    """All frames until the end; the end itself must be a TransportClosed."""
    frames: list[Frame] = []
    try:
        while True:
            frames += await transport.receive()
    except TransportClosed:
        return frames


def send_often(transport: Transport) -> None:
    """A pipe reports only at the second write that its reader is gone."""
    for _ in range(3):
        transport.send(b"into the void")


async def take(transport: Transport, count: int) -> list[Frame]:
    frames: list[Frame] = []
    while len(frames) < count:
        batch = await transport.receive()
        assert batch
        frames += batch
    return frames


def run(kind: str, work: Callable[[Transport], Awaitable[None]]) -> None:
    async def main() -> None:
        async with asyncio.timeout(WITHIN), echoed(kind) as transport:
            await work(transport)

    asyncio.run(main())


every_transport = pytest.mark.parametrize("kind", ["memory", "bounded memory", "pipes", "process"])


@every_transport
def test_frames_arrive_whole_and_in_order(kind: str) -> None:
    async def work(transport: Transport) -> None:
        frames: list[Frame] = [b'{"n":%d}' % n for n in range(5000)]
        receiver = asyncio.create_task(take(transport, len(frames)))
        for frame in frames:
            assert isinstance(frame, bytes)
            transport.send(frame, "session")
            if transport.congested():
                await transport.drain()
        assert await receiver == frames

    run(kind, work)


@every_transport
def test_a_frame_of_twenty_megabytes_arrives_between_small_ones(kind: str) -> None:
    async def work(transport: Transport) -> None:
        big = os.urandom(10_000_000).hex().encode()
        for frame in (b"before", big, b"after"):
            transport.send(frame)
        assert await take(transport, 3) == [b"before", big, b"after"]

    run(kind, work)


@every_transport
def test_closing_wakes_the_receiver_with_the_reason(kind: str) -> None:
    async def work(transport: Transport) -> None:
        receiver = asyncio.create_task(transport.receive())
        await asyncio.sleep(0)
        await transport.close("the user left")
        with pytest.raises(TransportClosed, match="the user left"):
            await receiver
        with pytest.raises(TransportClosed, match="the user left"):
            transport.send(b"late")
        with pytest.raises(TransportClosed):
            await transport.drain()
        await transport.close("again")

    run(kind, work)


@every_transport
def test_a_cancelled_receive_loses_no_frame(kind: str) -> None:
    async def work(transport: Transport) -> None:
        receiver = asyncio.create_task(transport.receive())
        await asyncio.sleep(0)
        transport.send(b"kept")
        receiver.cancel()
        with pytest.raises(asyncio.CancelledError):
            await receiver
        assert await transport.receive() == [b"kept"]

    run(kind, work)


@every_transport
def test_two_receivers_at_once_raise(kind: str) -> None:
    async def work(transport: Transport) -> None:
        first = asyncio.create_task(transport.receive())
        await asyncio.sleep(0)
        with pytest.raises(RuntimeError, match="one receiver"):
            await transport.receive()
        transport.send(b"x")
        assert await first == [b"x"]

    run(kind, work)


joined = pytest.mark.parametrize("joined", [memory_pair, pipes])


@joined
async def test_frames_sent_before_a_close_arrive_before_the_end(
    joined: Callable[[], tuple[Transport, Transport]],
) -> None:
    left, right = joined()
    left.send(b"last")
    await left.close("bye")
    assert await right.receive() == [b"last"]
    with pytest.raises(TransportClosed, match="closed the connection"):
        await right.receive()
    with pytest.raises(TransportClosed):
        send_often(right)
    await right.close()


def full_pair() -> tuple[Transport, Transport]:
    return memory_pair(1024, stall=0.2)


def full_pipes() -> tuple[Transport, Transport]:
    return pipes(stall=0.2)


small = pytest.mark.parametrize("joined", [full_pair, full_pipes])


@small
async def test_drain_waits_for_a_slow_reader(joined: Callable[[], tuple[Transport, Transport]]) -> None:
    left, right = joined()
    sent = 0
    while not left.congested():
        left.send(b"x" * 1000)
        sent += 1
    assert sent * 1000 <= 2 * HIGH_WATER
    draining = asyncio.create_task(left.drain())
    await asyncio.sleep(0)
    assert not draining.done()
    assert len(await take(right, sent)) == sent
    await draining
    assert not left.congested()
    await left.close()
    await right.close()


@small
async def test_two_full_directions_end_with_an_error_that_names_the_peer(
    joined: Callable[[], tuple[Transport, Transport]],
) -> None:
    left, right = joined()
    for end in (left, right):
        while not end.congested():
            end.send(b"x" * 1000)
    for end in (left, right):
        with pytest.raises(WriteStalled, match=f"{end.peer} took no bytes"):
            await end.drain()
        with pytest.raises(WriteStalled):
            end.send(b"more")
        with pytest.raises(WriteStalled):
            await everything(end)
    await left.close()
    await right.close()


@small
async def test_a_slow_reader_is_not_a_stall(
    joined: Callable[[], tuple[Transport, Transport]],
) -> None:
    left, right = joined()
    sent = 0
    while not left.congested() or sent < 120:
        left.send(b"x" * 10_000)
        sent += 1
    got = 0
    loop = asyncio.get_running_loop()
    begun = loop.time()
    while got < sent:
        pause = asyncio.Event()
        loop.call_later(0.02, pause.set)
        await pause.wait()
        got += len(await right.receive())
    assert loop.time() - begun > 0.2, "the whole took longer than the stall limit"
    await left.drain()
    await left.close()
    await right.close()


async def test_unread_frames_stop_the_reading_so_that_the_producer_slows_down() -> None:
    left, right = pipes()
    for _ in range(3000):
        left.send(b"x" * 1000)
    for _ in range(200):
        await asyncio.sleep(0)
    assert left.congested()
    assert len(await take(right, 3000)) == 3000
    await left.close()
    await right.close()


@settings(max_examples=30, deadline=None)
@given(st.binary(max_size=300), st.lists(st.integers(1, 40), min_size=1, max_size=20))
def test_any_chunking_gives_the_same_frames(stream: bytes, cuts: list[int]) -> None:
    async def main() -> list[Frame]:
        read_fd, write_fd = os.pipe()
        transport = StreamTransport(read_fd, os.open(os.devnull, os.O_WRONLY))
        task = asyncio.create_task(everything(transport))
        at, turn = 0, 0
        while at < len(stream):
            size = cuts[turn % len(cuts)]
            os.write(write_fd, stream[at : at + size])
            at, turn = at + size, turn + 1
            await asyncio.sleep(0)
        os.close(write_fd)
        got = await task
        await transport.close()
        return got

    def strip(line: bytes) -> bytes:
        return line[:-1] if line.endswith(b"\r") else line

    expected = [line for line in map(strip, stream.split(b"\n")) if line and not line.isspace()]
    assert asyncio.run(asyncio.wait_for(main(), WITHIN)) == expected


async def test_a_frame_over_the_limit_is_reported_and_the_next_one_is_read() -> None:
    left, right = pipes(max_frame=1000)
    left.send(b"x" * 5000)
    left.send(b"fine")
    large, fine = await take(right, 2)
    assert isinstance(large, Oversize)
    assert large.size == 5000
    assert fine == b"fine"
    await left.close()
    await right.close()
