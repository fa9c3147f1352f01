"""A message larger than the server allows: its request fails with a reason, and the connection stays open."""

from __future__ import annotations

import asyncio
import json
from contextlib import AsyncExitStack
from typing import Any

import pytest
from websockets.asyncio.server import ServerConnection, serve

from dragoman.transport.base import Transport
from dragoman.transport.remote import headers
from dragoman.transport.remote.client.dial import dial_remote
from dragoman.transport.remote.resume import ResumeBuffer
from dragoman.transport.remote.server.limits import ServerLimits
from tests.transport.remote.client_and_server import EAGER, INITIALIZE, ending, meeting, take
from tests.transport.remote.relay import relaying

# Far less than real limits, so that the tests are quick.
LARGEST = 100_000
SMALL = ServerLimits(frame=LARGEST, body=LARGEST)

WITHIN = 90.0


def frame(id: object = None, method: str = "", size: int = 10, **more: Any) -> bytes:
    """A message with a text of that size in it."""
    said: dict[str, Any] = {"jsonrpc": "2.0"}
    said |= {"id": id} if id is not None else {}
    said |= {"method": method, "params": {"text": "x" * size}} if method else {"result": {"text": "x" * size}}
    return json.dumps(said | more).encode()


async def answered(transport: Transport) -> dict[str, Any]:
    """The next message, which is an answer."""
    (said,) = await take(transport, 1)
    return dict(json.loads(said))


@pytest.mark.parametrize("is_notified", [True, False], ids=["notified", "not notified"])
@pytest.mark.parametrize("over", ["ws", "http"])
async def test_a_too_large_request_fails_and_the_connection_continues(
    over: str, is_notified: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    if not is_notified:  # a server that does not state its limit: it disconnects, or answers 413
        monkeypatch.setattr(headers, "MAX_MESSAGE", "Nobody-Says-This")
    reports: list[str] = []

    async with asyncio.timeout(WITHIN), meeting(SMALL) as there:
        ours, theirs = await there.meet(over, report=reports.append)
        ours.send(frame(7, "_before"))
        assert b"_before" in (await theirs.receive())[0]
        ours.send(frame(8, "_large", LARGEST))
        ours.send(frame(9, "_after"))
        error = (said := await answered(ours))["error"]
        assert (said["id"], error["data"]["kind"]) == (8, "too_large")
        assert str(LARGEST) in error["message"]
        after: list[bytes] = []
        while not any(b"_after" in each for each in after):
            after += await take(theirs, 1)
        assert not any(b"_large" in each for each in after)
        theirs.send(frame(9))
        assert (await answered(ours))["id"] == 9
        await ours.close()


@pytest.mark.parametrize("over", ["ws", "http"])
async def test_a_too_large_answer_fails_its_request(over: str) -> None:
    reports: list[str] = []

    async with asyncio.timeout(WITHIN), meeting(SMALL) as there:
        ours, theirs = await there.meet(over, report=reports.append)
        theirs.send(frame(1, "_read"))
        assert b"_read" in (await ours.receive())[0]
        ours.send(frame(1, size=LARGEST))
        answer = await answered(theirs)
        assert (answer["id"], answer["error"]["data"]["kind"]) == (1, "too_large")
        ours.send(frame(None, "_notice", LARGEST))
        ours.send(frame(2, "_after"))
        assert b"_after" in (await theirs.receive())[0]
        await ours.close()
    assert len(reports) == 2, "an answer and a notice that did not go have nobody to answer to, so it is said"
    assert all(f"at most {LARGEST}" in line for line in reports)


async def test_a_message_that_repeatedly_breaks_the_connection_is_not_resent_forever() -> None:
    async with asyncio.timeout(WITHIN), meeting() as there, relaying(there.port) as relay:
        ours, theirs = await there.meet("ws", relay.port)
        relay.bite(50_000, 100)  # something on the way disconnects within this many bytes, each time
        relay.drop()
        ours.send(frame(8, "_large", LARGEST))
        answer = await answered(ours)
        assert (answer["id"], answer["error"]["data"]["kind"]) == (8, "too_large")
        assert "was cut 8 times" in answer["error"]["message"]
        ours.send(frame(9, "_after"))
        after: list[bytes] = []
        while not any(b"_after" in each for each in after):
            after += await take(theirs, 1)
        assert not any(b"_large" in each for each in after)
        await ours.close()


async def test_a_server_that_disconnects_at_a_large_message_gives_a_too_large_error() -> None:
    async def handle(socket: ServerConnection) -> None:
        async for answer in socket:
            if answer == INITIALIZE.decode():
                await socket.send('{"jsonrpc":"2.0","id":0,"result":{}}')

    async with AsyncExitStack() as stack:
        await stack.enter_async_context(asyncio.timeout(WITHIN))
        server = await stack.enter_async_context(serve(handle, "127.0.0.1", 0, max_size=LARGEST))
        port = next(iter(server.sockets)).getsockname()[1]
        ours = await dial_remote(f"ws://127.0.0.1:{port}/acp", EAGER)
        ours.send(INITIALIZE)
        assert (await answered(ours))["id"] == 0
        ours.send(frame(4, "_fits", LARGEST // 2))
        ours.send(frame(5, "_large", LARGEST))
        answer = await answered(ours)
        assert (answer["id"], answer["error"]["data"]["kind"]) == (5, "too_large")
        assert "1009" in await ending(ours)
        await ours.close()


def test_the_number_of_an_unsent_frame_is_used_for_the_next() -> None:
    spool = ResumeBuffer(None)
    for each in (b"first", b"second", b"third"):
        spool.add(each)
    spool.take()
    spool.rewind(1)
    assert spool.first_waiting() == b"second"
    spool.replace_first(b"2")
    assert (spool.unacknowledged_size, spool.take(), spool.last_taken) == (6, [b"2", b"third"], 3)
    assert spool.first_waiting() == b""
