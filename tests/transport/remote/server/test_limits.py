"""Limits below requests: handshakes, sockets, frames, windows; each ends in time, and others are served."""

from __future__ import annotations

import asyncio
import random
import ssl
from collections.abc import Iterator
from itertools import pairwise
from unittest.mock import Mock

import httpx
import pytest
from hpack import Decoder, Encoder

from dragoman.transport.remote.server.hypercorn_http2 import Http2
from dragoman.transport.remote.server.limits import (
    PREFACE,
    SMALL_FRAME,
    FloodMeter,
    ServerLimits,
    Stranger,
    TokenBucket,
)
from dragoman.transport.remote.server.listener import Listener
from tests.host.hostile import http2_frames as h2
from tests.transport.remote.certificate import certificate
from tests.transport.remote.module_server import INITIALIZE, WITHIN, Standing, rest, standing

# Short, so that the tests need not wait long.
LIMITS = ServerLimits(header_timeout=0.4)


@pytest.fixture(scope="module")
def keys(tmp_path_factory: pytest.TempPathFactory) -> tuple[str, str]:
    cert, key = certificate(tmp_path_factory.mktemp("tls"))
    return str(cert), str(key)


@pytest.fixture(scope="module")
def secure(keys: tuple[str, str]) -> Iterator[Standing]:
    with standing(limits=LIMITS, tls=keys) as there:
        yield there


@pytest.fixture(scope="module")
def plain() -> Iterator[Standing]:
    with standing() as there:
        yield there


def is_served(there: Standing, keys: tuple[str, str]) -> bool:
    """Whether a well-behaved client is served, over HTTP/2."""
    with httpx.Client(http2=True, verify=ssl.create_default_context(cafile=keys[0]), timeout=WITHIN) as client:
        answer = client.post(there.url, json=INITIALIZE)
    return (answer.status_code, answer.http_version) == (200, "HTTP/2")


@pytest.mark.parametrize("hello", [b"", b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc", b"GET /acp HTTP/1.1\r\n\r\n"])
def test_a_missing_tls_handshake_times_out(secure: Standing, keys: tuple[str, str], hello: bytes) -> None:
    with secure.dial() as end:
        end.sendall(hello)
        rest(end)
    assert is_served(secure, keys)


def test_sockets_count_before_the_tls_handshake(keys: tuple[str, str]) -> None:
    with standing(limits=ServerLimits(sockets=3), tls=keys) as there:
        silent = [there.dial() for _ in range(3)]
        with there.dial() as one_more:
            assert rest(one_more) == b"", "it is hung up on long before the patience for a handshake ends"
        for end in silent:
            end.close()
        there.ask(_empty(there))
        assert is_served(there, keys)


class Peer:
    """A socket with only an address."""

    def __init__(self, address: str) -> None:
        self._address = address

    def get_extra_info(self, name: str) -> object:
        return {"peername": (self._address, 1)}[name]


async def test_one_remote_machine_cannot_use_all_sockets() -> None:
    served = Listener(None, ServerLimits(sockets=6, sockets_each=3), is_secure=False)  # type: ignore[arg-type]
    for address in ("10.0.0.1", "10.0.0.2", "10.0.0.1"):
        assert not served.is_full(address)
        served.sockets[Peer(address)] = 0.0  # type: ignore[index]
    assert not served.is_full("10.0.0.1")
    served.sockets[Peer("10.0.0.1")] = 0.0  # type: ignore[index]
    assert served.is_full("10.0.0.1")
    assert not served.is_full("10.0.0.2")
    for _ in range(2):
        assert not served.is_full("127.0.0.1"), "this one may have what is left"
        served.sockets[Peer("127.0.0.1")] = 0.0  # type: ignore[index]
    assert served.is_full("127.0.0.1")
    assert served.is_full("10.0.0.2")


async def test_an_unused_socket_is_not_stalled() -> None:
    """The sweep finds such sockets, and must go on to the others."""

    limits = ServerLimits()
    served = Listener(None, limits, is_secure=False)  # type: ignore[arg-type]
    stranger = Stranger(served.server_state.strangers, "127.0.0.1", {})
    writer = Mock()
    Http2(None, served.http2_config, served.worker_context, limits, (None, writer), stranger).abort_if_stalled()
    assert not writer.transport.abort.called


async def _empty(there: Standing) -> None:
    async with asyncio.timeout(WITHIN):
        while there.served.sockets or there.served.tasks:  # noqa: ASYNC110 (the kernel does not call us)
            await asyncio.sleep(0.01)


def test_a_window_that_never_opens_closes_its_socket() -> None:
    async def main() -> str:
        async with h2.http2_socket(there.port, WITHIN) as line:
            await line.send(h2.settings(_4=0), h2.request(1), h2.request(3))
            assert len(await line.answers(2)) == 2
            return await line.outcome()

    with standing(limits=ServerLimits(stall=0.4)) as there:
        assert asyncio.run(main()) == ""
        there.ask(_empty(there))


def test_a_too_large_body_is_answered_and_the_socket_continues(keys: tuple[str, str]) -> None:
    trusted = ssl.create_default_context(cafile=keys[0])
    with (
        standing(limits=ServerLimits(body=100_000), tls=keys) as there,
        httpx.Client(http2=True, verify=trusted, timeout=WITHIN) as client,
    ):
        for _ in range(3):
            answer = client.post(there.url, content=b" " * 150_000, headers={"content-type": "application/json"})
            assert (answer.status_code, answer.http_version) == (413, "HTTP/2")
        assert client.post(there.url, json=INITIALIZE).status_code == 200
        assert len(there.served.http2_sockets) == 1


async def test_a_socket_may_send_many_requests_over_time_and_at_once(plain: Standing) -> None:
    """hypercorn would end it after a thousand requests, and allow a hundred at once."""

    async with h2.http2_socket(plain.port, WITHIN) as line:
        block = h2.heads()  # it is authenticated, and refused because it has no type
        await line.send(b"".join(h2.request(stream, block=block) for stream in range(1, 300, 2)))
        assert len(await line.answers(150)) == 150
        payload = next(payload for kind, _, payload in line.frames if kind == h2.SETTINGS and payload)
        settings = {
            payload[at + 1]: int.from_bytes(payload[at + 2 : at + 6], "big") for at in range(0, len(payload), 6)
        }
        assert settings[3] > ServerLimits().streams
    assert plain.served.http2_config.keep_alive_max_requests > 10**9
    await asyncio.to_thread(plain.ask, _empty(plain))


async def test_a_client_that_leaves_before_its_answers_leaves_no_lines_in_the_log(
    plain: Standing, caplog: pytest.LogCaptureFixture
) -> None:
    async with h2.http2_socket(plain.port, WITHIN) as line:
        block = h2.heads()
        await line.send(b"".join(h2.request(stream, block=block) for stream in range(1, 200, 2)))
        assert await line.answers(1)
    await asyncio.to_thread(plain.ask, _empty(plain))
    assert caplog.text == ""


def test_http2_does_not_offer_websocket_and_refuses_it(plain: Standing) -> None:
    """hypercorn would keep unfinished messages without our limits."""

    async def main() -> list[tuple[str, str]]:
        extra = [(":protocol", "websocket"), ("sec-websocket-version", "13")]
        pairs = [(":method", "CONNECT"), (":scheme", "http"), (":path", "/acp"), (":authority", "127.0.0.1"), *extra]
        async with h2.http2_socket(plain.port, WITHIN) as line:
            await line.send(h2.request(1, flags=h2.END_HEADERS, block=bytes(Encoder().encode(pairs))))
            assert await line.answers(1) == [1]
            settings = next(payload for kind, _, payload in line.frames if kind == h2.SETTINGS and payload)
            offered = {settings[at + 1]: settings[at + 5] for at in range(0, len(settings), 6)}
            assert not offered.get(8), "ENABLE_CONNECT_PROTOCOL"
            payload = next(payload for kind, stream, payload in line.frames if kind == h2.HEADERS)
            return [(str(name), str(value)) for name, value in Decoder().decode(payload)]

    assert dict(asyncio.run(main()))[":status"] == "501"


@pytest.mark.parametrize("window", [65_535, 0])
def test_too_large_http2_headers_get_an_error_and_other_streams_continue(plain: Standing, window: int) -> None:
    async def main() -> list[str]:
        large = h2.heads(extra=[(f"x-{number}", "x" * 8000) for number in range(6)])
        pieces = [large[start : start + 16_000] for start in range(0, len(large), 16_000)]
        async with h2.http2_socket(plain.port, WITHIN) as line:
            await line.send(h2.settings(_4=window), h2.frame(h2.HEADERS, pieces[0], stream=1))  # its body would follow
            await line.send(*(h2.frame(h2.CONTINUATION, piece, stream=1) for piece in pieces[1:-1]))
            await line.send(h2.frame(h2.CONTINUATION, pieces[-1], flags=h2.END_HEADERS, stream=1))
            await line.send(h2.frame(h2.DATA, b"{}", flags=h2.END_STREAM, stream=1), h2.request(3))
            assert sorted(await line.answers(2)) == [1, 3]
            decoder = Decoder()
            payloads = [payload for kind, _, payload in line.frames if kind == h2.HEADERS]
            received = [{str(name): str(value) for name, value in decoder.decode(payload)} for payload in payloads]
            return [said[":status"] for said in received]

    assert asyncio.run(main()) == ["431", "415"]


SMALL = h2.frame(h2.PING, b"12345678")
LARGE = h2.frame(h2.DATA, b"x" * SMALL_FRAME, stream=1)
RESET = h2.frame(h2.RST, b"\0\0\0\x08", stream=1)


def accepts(limits: ServerLimits, data: bytes, cuts: list[int]) -> bool:
    """Whether everything is accepted when it comes in these pieces, at one moment."""
    meter = FloodMeter(limits)
    places = [0, *sorted(cuts), len(data)]
    return all(meter.accept(data[start:end], 1.0) for start, end in pairwise(places))


@pytest.mark.parametrize("seed", range(20))
def test_frames_are_counted_however_they_are_split(seed: int) -> None:
    dice = random.Random(seed)
    limits = ServerLimits(frames=10.0, resets=2.0)
    frames = [SMALL] * 12 + [RESET] * 8 + [LARGE] * 5
    dice.shuffle(frames)

    def cut(data: bytes) -> list[int]:
        return [dice.randrange(len(data)) for _ in range(dice.randrange(200))]

    enough = PREFACE + b"".join(frames)
    assert accepts(limits, enough, cut(enough))
    for one in (SMALL, RESET):
        assert not accepts(limits, enough + one, cut(enough))


def test_a_token_bucket_refills() -> None:
    bucket = TokenBucket(10.0, 20.0)
    assert bucket.take(20, 100.0)
    assert not bucket.take(1, 100.0)
    assert bucket.take(9, 101.0)
    assert not bucket.take(21, 200.0)
