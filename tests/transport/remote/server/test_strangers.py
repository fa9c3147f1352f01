"""Sockets without an authenticated request share the limits of their address. Others and newcomers are served."""

from __future__ import annotations

import asyncio

import pytest

from dragoman.transport.remote.server.auth import AuthRequest, Principal, bearer_token, unauthorized_error
from dragoman.transport.remote.server.hypercorn_http2 import FEW_STREAMS
from dragoman.transport.remote.server.limits import (
    ADMITTED,
    ALL_ADDRESSES,
    BURST_SECONDS,
    FREE_FRAMES,
    FREE_REQUESTS,
    ServerLimits,
    Stranger,
    Strangers,
)
from dragoman.transport.remote.server.listener import Listener
from tests.host.hostile import http2_frames as h2
from tests.transport.remote.module_server import INITIALIZE, WITHIN, Standing, rest, standing

PINGS = h2.frame(h2.PING, b"12345678") * 100

# Its own limit is not reached by one socket here; that of the address is.
LIMITS = ServerLimits(frames=200.0, anonymous_requests=5.0)


async def by_token(request: AuthRequest) -> Principal:
    """Authenticate one token."""
    if bearer_token(request) != "k1":
        raise unauthorized_error("show your token")
    return Principal(user="ann")


def heads(token: str) -> bytes:
    return h2.heads(extra=[("authorization", f"Bearer {token}")])


async def ping(there: Standing, times: int) -> str:
    async with h2.http2_socket(there.port, WITHIN) as line:
        await line.send(*[PINGS] * times)
        await line.send(h2.frame(h2.GOAWAY, bytes(8)))
        return await line.outcome()


async def test_floods_of_many_sockets_are_one_flood_and_others_are_served() -> None:
    with standing(limits=LIMITS, authenticate=by_token) as there:
        async with h2.http2_socket(there.port, WITHIN) as known:
            await known.send(h2.request(1, block=heads("k1")))
            assert await known.answers(1) == [1]
            outcomes = await asyncio.gather(*(ping(there, 3) for _ in range(6)))
            assert outcomes.count("calm") >= 4, outcomes
            await known.send(*[PINGS] * 3, h2.request(3, block=heads("k1")))
            assert await known.answers(2) == [1, 3], "an authenticated socket has its own limit"
            async with h2.http2_socket(there.port, WITHIN) as newcomer:
                await newcomer.send(h2.request(1, block=heads("k1")))
                assert await newcomer.answers(1) == [1], "a few frames are always allowed"


async def test_requests_without_a_token_are_limited_over_all_sockets_of_http2() -> None:
    async def visit(count: int) -> str:
        async with h2.http2_socket(there.port, WITHIN) as line:
            await line.send(*(h2.request(stream) for stream in range(1, 2 * count, 2)))
            await line.send(h2.frame(h2.GOAWAY, bytes(8)))
            return await line.outcome()

    with standing(limits=LIMITS, authenticate=by_token) as there:
        outcomes = await asyncio.gather(*(visit(8) for _ in range(5)))
        assert outcomes.count("calm") >= 3, outcomes
        async with h2.http2_socket(there.port, WITHIN) as newcomer:
            await newcomer.send(h2.request(1, block=heads("k1")))
            assert await newcomer.answers(1) == [1]
            await newcomer.send(*(h2.request(stream, block=heads("k1")) for stream in range(3, 100, 2)))
            assert len(await newcomer.answers(50)) == 50, "authenticated requests have the limits of their user"
            await newcomer.send(*(h2.request(stream, block=heads("no")) for stream in range(101, 200, 2)))
            assert await newcomer.outcome() == "calm", "after a wrong token it is a stranger again"


async def test_requests_wait_until_the_first_is_authenticated() -> None:
    begun, gate = [], asyncio.Event()

    async def slowly(request: AuthRequest) -> Principal:
        begun.append(request)
        await gate.wait()
        return await by_token(request)

    with standing(limits=LIMITS, authenticate=slowly) as there:
        async with h2.http2_socket(there.port, WITHIN) as line:
            await line.send(*(h2.request(stream, block=heads("k1")) for stream in range(1, 100, 2)))
            async with asyncio.timeout(WITHIN):
                while len(begun) < FEW_STREAMS:  # noqa: ASYNC110 (it happens in another thread)
                    await asyncio.sleep(0.005)
            there.loop.call_soon_threadsafe(gate.set)
            assert len(begun) == FEW_STREAMS
            assert len(await line.answers(50)) == 50, "and they cost its address little"


def test_requests_without_a_token_get_429_over_http1_and_the_next_socket_is_served() -> None:
    with standing(limits=LIMITS, authenticate=by_token) as there:
        with there.dial() as end:
            end.sendall(b"GET /acp HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n" * 50)
            answer = rest(end)
        assert 1 <= answer.count(b"HTTP/1.1 401") < 30
        assert answer.count(b"HTTP/1.1 429") == 1, "the socket is closed after that"
        assert b"retry-after: 1\r\n" in answer
        with there.connect() as client:
            token = {"authorization": "Bearer k1"}
            assert [client.post("", json=INITIALIZE, headers=token).status_code for _ in range(20)] == [200] * 20


@pytest.mark.parametrize("name", ["frames", "anonymous_requests"])
def test_all_addresses_together_have_a_limit(name: str) -> None:
    limits = ServerLimits(frames=50.0, anonymous_requests=50.0)
    strangers = Strangers(limits)
    each = int(50 * BURST_SECONDS)
    for address in range(ALL_ADDRESSES):
        assert strangers.take(name, str(address), each, 1.0)
        assert not strangers.take(name, str(address), 1, 1.0)
    assert not strangers.take(name, "another", 1, 1.0)
    assert strangers.take(name, "another", 1, 2.0)
    strangers.drop_full_buckets(1000.0)
    assert strangers.take(name, "0", each, 1000.0)


def test_a_socket_has_a_few_frames_and_a_request_of_its_own() -> None:
    cache: dict[str, bool] = {}
    stranger = Stranger(Strangers(ServerLimits(frames=0.01, anonymous_requests=0.01)), "a", cache)
    assert stranger.may_send_frames(FREE_FRAMES, 1.0)
    assert not stranger.may_send_frames(1, 1.0)
    assert [stranger.may_request(1.0) for _ in range(FREE_REQUESTS + 1)] == [True] * FREE_REQUESTS + [False]
    cache[ADMITTED] = True
    assert stranger.may_send_frames(1000, 1.0)
    assert stranger.may_request(1.0)


async def test_another_machine_cannot_open_sockets_at_any_rate() -> None:
    served = Listener(None, ServerLimits(anonymous_requests=5.0), is_secure=False)  # type: ignore[arg-type]
    assert [served.is_full("10.0.0.1") for _ in range(10)] == [False] * 10
    assert served.is_full("10.0.0.1")
    assert not served.is_full("10.0.0.2")
    assert not any(served.is_full("127.0.0.1") for _ in range(100)), "proxies and tests are on this machine"
