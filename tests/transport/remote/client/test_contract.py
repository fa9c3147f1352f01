"""Both ends of a remote connection keep the contract of transports."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import pytest

from dragoman.errors import TransportClosed
from dragoman.testing import check_transport
from dragoman.transport.base import Transport
from dragoman.wire.frames import Oversize
from tests.transport.remote.client_and_server import ending, meeting, take

WITHIN = 90.0


@pytest.mark.parametrize("which", ["the client's end", "the server's end"])
async def test_websocket_passes_the_transport_contract_checks(which: str) -> None:
    async with meeting() as there:

        async def joined() -> tuple[Transport, Transport]:
            ours, theirs = await there.meet("ws")
            return (ours, theirs) if which == "the client's end" else (theirs, ours)

        await check_transport(joined)


def run(over: str, work: Callable[[Transport, Transport], object]) -> None:
    async def main() -> None:
        async with meeting() as there:
            ours, theirs = await there.meet(over)
            try:
                await work(ours, theirs)  # type: ignore[misc]
            finally:
                await ours.close()

    asyncio.run(asyncio.wait_for(main(), WITHIN))


ways = pytest.mark.parametrize("over", ["ws", "http"])


def call(number: int, filling: bytes = b"") -> bytes:
    """A message that any server accepts: over HTTP each is parsed."""
    return b'{"jsonrpc":"2.0","method":"_n","params":{"n":%d,"x":"%b"}}' % (number, filling)


@ways
def test_frames_arrive_whole_and_in_order_both_ways(over: str) -> None:
    async def work(ours: Transport, theirs: Transport) -> None:
        up, down = [call(n) for n in range(50)], [call(n) for n in range(3000)]
        for frame in up:
            ours.send(frame)
        for frame in down:
            theirs.send(frame)
        assert await take(theirs, len(up)) == up
        assert await take(ours, len(down)) == down
        large = call(1, b"x" * 5_000_000)
        ours.send(large)
        theirs.send(large)
        assert await take(theirs, 1) == await take(ours, 1) == [large]

    run(over, work)


@ways
def test_closing_wakes_the_receiver_with_the_reason(over: str) -> None:
    async def work(ours: Transport, theirs: Transport) -> None:
        receiver = asyncio.create_task(ours.receive())
        await asyncio.sleep(0)
        await ours.close("the user left")
        with pytest.raises(TransportClosed, match="the user left"):
            await receiver
        with pytest.raises(TransportClosed, match="the user left"):
            ours.send(b"{}")
        with pytest.raises(TransportClosed):
            await ours.drain()
        await ours.close("again")
        assert await ending(theirs)

    run(over, work)


@ways
def test_frames_sent_before_a_close_arrive(over: str) -> None:
    async def work(ours: Transport, theirs: Transport) -> None:
        ours.send(call(1))
        await ours.close()
        assert await take(theirs, 1) == [call(1)]

    run(over, work)


@ways
def test_a_close_by_the_server_is_reported_after_its_last_frame(over: str) -> None:
    async def work(ours: Transport, theirs: Transport) -> None:
        theirs.send(call(0))
        assert await take(ours, 1) == [call(0)]  # the stream is open
        theirs.send(call(1))
        await theirs.close("that was all")
        assert await take(ours, 1) == [call(1)]
        with pytest.raises(TransportClosed, match="closed the connection"):
            await ours.receive()

    run(over, work)


@ways
def test_a_cancelled_receive_loses_no_frame_and_two_receivers_raise(over: str) -> None:
    async def work(ours: Transport, theirs: Transport) -> None:
        receiver = asyncio.create_task(ours.receive())
        await asyncio.sleep(0)
        with pytest.raises(RuntimeError, match="one receiver"):
            await ours.receive()
        theirs.send(call(1))
        receiver.cancel()
        await asyncio.gather(receiver, return_exceptions=True)
        assert await take(ours, 1) == [call(1)]

    run(over, work)


@ways
def test_unreceived_frames_stop_the_reading_so_that_the_server_slows_down(over: str) -> None:
    async def work(ours: Transport, theirs: Transport) -> None:
        sent = 0
        async with asyncio.timeout(60.0):
            while not theirs.congested():
                for _ in range(20):
                    theirs.send(call(sent, b"x" * 20_000))
                    sent += 1
                await asyncio.sleep(0)
        frames = await take(ours, sent)
        assert frames == [call(n, b"x" * 20_000) for n in range(sent)]
        await theirs.drain()

    run(over, work)


@ways
def test_frames_are_passed_to_a_listener_as_they_arrive(over: str) -> None:
    async def work(ours: Transport, theirs: Transport) -> None:
        taken: list[object] = []
        done = asyncio.Event()

        def take_(frames: list[bytes | Oversize]) -> bool:
            taken.extend(frames)
            if len(taken) >= 100:
                done.set()
            return True

        ours.listen(take_)
        receiver = asyncio.create_task(ours.receive())
        await asyncio.sleep(0)
        for n in range(100):
            theirs.send(call(n))
        await done.wait()
        assert taken == [call(n) for n in range(100)]
        receiver.cancel()

    run(over, work)
