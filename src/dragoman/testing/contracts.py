"""Contract checks: what every transport and every store must do, as functions to call from a test.

Each takes a way to make the thing, uses it as the engine would, and fails with an AssertionError that says what was
broken. Our own transports and stores pass them; so should yours.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from dragoman.errors import ConnectionFailed, Kind, ProtocolError
from dragoman.store.contract import Draft, Store
from dragoman.transport.contract import Transport

# No step of a check takes longer than this unless it hangs. Seconds.
BOUND = 10.0

MakePair = Callable[[], Awaitable[tuple[Transport, Transport]]]
MakeStore = Callable[[], Awaitable[Store]]


async def check_transport(make: MakePair) -> None:
    """A pair of joined transports keeps frames whole and in order, both ways, and ends cleanly."""
    async with asyncio.timeout(BOUND):
        left, right = await make()
        for one, other in ((left, right), (right, left)):
            sent = [b'{"n":%d}' % number for number in range(2000)]
            for frame in sent:
                one.send(frame)
            assert await _receive(other, len(sent)) == sent, "frames were lost, changed or out of order"
        large = b'"' + b"x" * 3_000_000 + b'"'
        left.send(large)
        assert await _receive(right, 1) == [large], "a large frame did not arrive whole"
        left.send(b'"last"')
        await left.close("done")
        await left.close("again")
        assert await _receive(right, 1) == [b'"last"'], "what was sent before close did not arrive"
        assert str(await _failure(right.receive())), "the end has no reason"
        try:
            left.send(b"1")
        except ConnectionFailed:
            pass
        else:
            raise AssertionError("a closed transport took a frame")
        await right.close()


async def _receive(transport: Transport, count: int) -> list[object]:
    frames: list[object] = []
    while len(frames) < count:
        frames.extend(await transport.receive())
    return frames


async def _failure(work: Awaitable[object]) -> Exception:
    try:
        await work
    except (ConnectionFailed, ProtocolError) as error:
        return error
    raise AssertionError("it should have failed, and did not")


async def check_store(make: MakeStore) -> None:
    """A store numbers entries from 1 without gaps, keeps them as they were, all or none; what is missing is said."""
    async with asyncio.timeout(BOUND):
        store = await make()
        first = await store.append("one", [_draft(1), _draft(2)])
        second = await store.append("one", [_draft(3)])
        await store.append("two", [_draft(4)])
        assert [entry.seq for entry in [*first, *second]] == [1, 2, 3], "numbers have gaps or do not start at 1"
        assert await store.read("one") == [*first, *second], "what is read is not what was appended"
        assert [entry.seq for entry in await store.read("one", after=1, limit=1)] == [2], "after or limit is wrong"
        assert await store.read("one", after=3) == [], "there is something after the end"
        body = first[0].body
        body["n"] = "changed"
        assert (await store.read("one"))[0].body == {"n": 1}, "somebody could change what was logged"
        try:
            await store.append("one", [_draft(5), Draft(kind="update", actor="a", time="t", body=object())])
        except (TypeError, NotImplementedError, ValueError):
            pass
        assert len(await store.read("one")) == 3, "half of an append was kept"
        assert [summary.session_id for summary in await store.sessions()] == ["two", "one"], "the newest is not first"
        assert await store.delete("two"), "a log that was there was not deleted"
        assert not await store.delete("two"), "a log was deleted twice"
        await _refuses(store.read("two"), Kind.SESSION_NOT_FOUND)
        await store.close()
        await store.close()
        await _refuses(store.read("one"), Kind.INVALID_STATE)


def _draft(number: int) -> Draft:
    return Draft(kind="update", actor="agent", time=f"2026-01-01T00:00:0{number}Z", body={"n": number}, turn="t1")


async def _refuses(work: Awaitable[object], kind: str) -> None:
    error = await _failure(work)
    assert isinstance(error, ProtocolError), f"expected {kind}, got {error!r}"
    assert error.kind == kind, f"expected {kind}, got {error.kind}"
