"""Hostile or careless clients: each is refused as documented, and other clients are not affected."""

from __future__ import annotations

import asyncio
import json
import os
import socket
from collections.abc import Iterator
from typing import Any

import httpx
import pytest
from websockets.exceptions import ConnectionClosed
from websockets.sync.client import ClientConnection, connect

from dragoman.transport.base import Transport
from dragoman.transport.remote.server.auth import Principal
from dragoman.transport.remote.server.endpoint import Endpoint
from dragoman.transport.remote.server.limits import ServerLimits
from tests.transport.remote.module_server import INITIALIZE, NEW, WITHIN, Standing, prompt, rest, standing

LIMITS = ServerLimits(
    body=100_000, frame=100_000, headers=16_384, header_timeout=0.4, body_timeout=0.4, rate=200.0, burst=4000
)


@pytest.fixture(scope="module")
def server() -> Iterator[Standing]:
    with standing(limits=LIMITS) as there:
        yield there


class Bystander:
    """A well-behaved client over WebSocket; what others do must not affect it."""

    def __init__(self, server: Standing) -> None:
        self._socket = dialled(server)
        self.ask(INITIALIZE)
        self.session = self.ask(NEW)["result"]["sessionId"]

    def ask(self, message: dict[str, Any]) -> Any:
        """Send a request and receive up to its answer."""
        self._socket.send(json.dumps(message))
        while True:
            said = json.loads(self._socket.recv(timeout=WITHIN))
            if said.get("id") == message["id"]:
                return said

    def is_served(self) -> bool:
        """Whether a turn of its own still works."""
        return bool(self.ask(prompt(self.session, "still here"))["result"]["stopReason"] == "end_turn")

    def close(self) -> None:
        """Leave."""
        self._socket.close()


@pytest.fixture(autouse=True)
def bystander(server: Standing) -> Iterator[None]:
    """Another client is served before and after, over the same connection."""
    other = Bystander(server)
    yield
    assert other.is_served(), "another client was disturbed"
    other.close()


def dialled(server: Standing, headers: dict[str, str] | None = None) -> ClientConnection:
    """A raw WebSocket."""
    url = server.url.replace("http", "ws")
    patient: dict[str, Any] = {"open_timeout": WITHIN, "max_size": None, "ping_interval": None}
    opened: ClientConnection = connect(url, additional_headers=headers, **patient).__enter__()
    return opened


def test_headers_that_never_end_time_out(server: Standing) -> None:
    with server.dial() as end:
        end.sendall(b"POST /acp HTTP/1.1\r\nHost: 127.0.0.1\r\n")
        assert rest(end).startswith(b"HTTP/1.1 408")
    with server.dial() as silent:
        assert rest(silent) == b""


def test_headers_that_never_end_after_a_valid_request_time_out_too(server: Standing) -> None:
    with server.dial() as end:
        end.sendall(b"GET /acp HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\nGET /acp HTTP/1.1\r\nHo")
        answer = rest(end)
        assert answer.startswith(b"HTTP/1.1 406")
        assert b"HTTP/1.1 408" in answer


def test_a_body_that_never_ends_times_out(server: Standing) -> None:
    with server.dial() as end:
        head = b"POST /acp HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\nContent-Length: 50\r\n\r\n{"
        end.sendall(head)
        assert rest(end).startswith(b"HTTP/1.1 408")


@pytest.mark.parametrize("size", [LIMITS.headers + 100, 2 * LIMITS.headers, 60_000])
@pytest.mark.parametrize("upgrade", [b"", b"Connection: Upgrade\r\nUpgrade: websocket\r\n"], ids=["GET", "upgrade"])
def test_too_large_headers_are_refused_even_if_they_arrive_at_once(server: Standing, size: int, upgrade: bytes) -> None:
    with server.dial() as end:
        end.sendall(b"GET /acp HTTP/1.1\r\nHost: 127.0.0.1\r\n%bX: %b\r\n\r\n" % (upgrade, b"x" * size))
        assert rest(end).startswith(b"HTTP/1.1 431")


def test_a_flood_of_headers_is_refused_with_a_reason_however_much_follows(server: Standing) -> None:
    with server.dial() as end:
        end.sendall(b"GET /acp HTTP/1.1\r\nHost: 127.0.0.1\r\n")
        try:
            for number in range(20_000):
                end.sendall(b"X-%d: %b\r\n" % (number, b"x" * 100))
        except OSError:
            return  # it took longer than the close timeout and was aborted
        assert rest(end).startswith(b"HTTP/1.1 431")


def test_a_body_without_a_length_is_cut_off_at_the_limit(server: Standing) -> None:
    def flood() -> Iterator[bytes]:
        for _ in range(100):
            yield b" " * 10_000

    with server.connect() as client:
        try:
            answer = client.post("", content=flood(), headers={"content-type": "application/json"})
        except httpx.WriteError:
            return  # it disconnected in the middle
        assert answer.status_code == 413


@pytest.mark.parametrize(
    "garbage",
    [b"\x16\x03\x01\x02\x00\x01\x00", b"\x00" * 64, b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + b"\xff" * 64, b"GET\r\n\r\n"],
    ids=["TLS", "zeros", "broken HTTP/2", "no request"],
)
def test_bytes_that_are_not_http_close_the_socket(server: Standing, garbage: bytes) -> None:
    with server.dial() as end:
        end.sendall(garbage)
        answer = rest(end)
        assert b"200" not in answer[:20]


def test_a_hundred_thousand_invalid_frames_are_too_many(server: Standing) -> None:
    with dialled(server) as socket_:
        with pytest.raises(ConnectionClosed):
            _insist(socket_)
        assert socket_.close_code in (1008, 1006)  # a client that is cut off while writing may not read why


def _insist(socket_: ClientConnection) -> None:
    for number in range(100_000):
        socket_.send(f"garbage {number}")
    while True:
        socket_.recv(timeout=WITHIN)


def test_a_few_invalid_frames_are_answered_and_tolerated(server: Standing) -> None:
    with dialled(server) as socket_:
        for text in ("garbage", "[1]", "5", '{"id":1}', "\x00"):
            socket_.send(text)
            assert json.loads(socket_.recv(timeout=WITHIN))["error"]["code"] in (-32700, -32600), text
        socket_.send(b"\x00\x01")  # binary messages are ignored
        socket_.send(json.dumps(INITIALIZE))
        assert json.loads(socket_.recv(timeout=WITHIN))["id"] == 0


def test_requests_over_the_rate_limit_are_refused_with_kind_and_retry_time() -> None:
    with standing(limits=ServerLimits(rate=0.1, burst=5)) as slow, dialled(slow) as socket_:
        for id in range(8):
            socket_.send(json.dumps({"jsonrpc": "2.0", "id": id, "method": "nothing"}))
        messages = [json.loads(socket_.recv(timeout=WITHIN)) for _ in range(8)]
        late = [answer for answer in messages if answer["error"]["data"]["kind"] == "rate_limited"]
        assert sorted(answer["id"] for answer in messages) == list(range(8)), "each has an answer of its own"
        assert len(late) == 4, "one of the five was the upgrade"
        assert all(answer["error"]["data"]["retryAfter"] > 1 for answer in late)


def test_a_rate_limited_message_counts_as_received() -> None:
    with standing(limits=ServerLimits(rate=0.1, burst=5)) as slow, dialled(slow, {"Dragoman-Resume": "1"}) as socket_:
        for id in range(8):
            socket_.send(json.dumps({"jsonrpc": "2.0", "id": id, "method": "nothing"}))
        messages = [json.loads(socket_.recv(timeout=WITHIN)) for _ in range(9)]
        receipts = [each["params"]["cursor"] for each in messages if each.get("method") == "_dragoman/ack"]
        assert receipts[-1:] == [8], "a client would send the refused ones again"


def test_a_message_over_the_limit_closes_its_socket(server: Standing) -> None:
    with dialled(server) as socket_:
        socket_.send("x" * 200_000)
        with pytest.raises(ConnectionClosed):
            socket_.recv(timeout=WITHIN)
        assert socket_.close_code == 1009


def test_an_invalid_frame_closes_its_socket(server: Standing) -> None:
    with dialled(server) as socket_:
        socket_.socket.sendall(b"\xff\xff\xff\xff\xff\xff")
        with pytest.raises(ConnectionClosed):
            socket_.recv(timeout=WITHIN)
        assert socket_.close_code == 1002


def test_disconnected_clients_leave_no_resources() -> None:
    with standing(limits=LIMITS) as server:
        before = len(os.listdir("/proc/self/fd")) if os.path.isdir("/proc/self/fd") else 0
        for _ in range(20):
            end = server.dial()
            end.sendall(b"GET /acp HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: Upgr")
            end.close()
            with dialled(server) as socket_:
                socket_.send(json.dumps(INITIALIZE))
                socket_.recv(timeout=WITHIN)
        server.ask(_gone(server))
        assert server.app.principals == []
        if before:
            assert len(os.listdir("/proc/self/fd")) <= before


async def _gone(server: Standing) -> None:
    """Wait until the server has no socket."""
    async with asyncio.timeout(WITHIN):
        while server.served.sockets or server.app.principals:  # noqa: ASYNC110 (the kernel does not call us)
            await asyncio.sleep(0.01)


class Talker:
    """Serves clients by sending without end, and remembers how that ended."""

    def __init__(self) -> None:
        self.sent = 0
        self.ended = ""
        self.hears = False  # whether it answers initialize first

    async def accept(self, transport: Transport, client: Principal) -> None:
        """Send until the transport refuses; never wait, as a host with many clients must not."""
        text = b'{"jsonrpc":"2.0","method":"x","params":{"text":"%b"}}' % (b"x" * 10_000)
        if self.hears:
            await transport.receive()
            transport.send(b'{"jsonrpc":"2.0","id":0,"result":{"protocolVersion":1}}')
            await transport.receive()  # the client reads now
        try:
            while True:
                for _ in range(20):
                    transport.send(text)
                    self.sent += len(text)
                await asyncio.sleep(0)
        except Exception as error:
            self.ended = str(error)


@pytest.mark.parametrize("query", ["", "?resume=1"])
def test_a_client_that_does_not_read_is_disconnected_with_a_reason(query: str) -> None:
    talker = Talker()
    there = Standing(Endpoint(talker.accept, limits=ServerLimits(buffered=1_000_000)))
    try:
        with dialled_raw(there, f"/acp{query}"):
            there.ask(_until(lambda: talker.ended != ""))
        assert "slow_consumer" in talker.ended
        assert talker.sent < 20_000_000, "far more was kept than the limit says"
        there.ask(_gone(there))
    finally:
        there.close()


def test_a_client_that_does_not_read_its_stream_is_disconnected_and_its_request_ends() -> None:
    talker = Talker()
    talker.hears = True
    there = Standing(Endpoint(talker.accept, limits=ServerLimits(buffered=1_000_000)))
    try:
        with there.connect() as client, there.dial() as end:
            mine = there.initialized(client)
            end.sendall(
                b"GET /acp HTTP/1.1\r\nHost: 127.0.0.1\r\nAccept: text/event-stream\r\n"
                b"Acp-Connection-Id: %b\r\n\r\n" % mine["acp-connection-id"].encode()
            )
            assert end.recv(12) == b"HTTP/1.1 200"
            assert client.post("", json={"jsonrpc": "2.0", "method": "begin"}, headers=mine).status_code == 202
            client.close()
            there.ask(_until(lambda: talker.ended != ""))
            assert "slow_consumer" in talker.ended
            there.ask(_gone(there))
    finally:
        there.close()


def dialled_raw(server: Standing, path: str) -> socket.socket:
    """A WebSocket that is opened and never read."""
    end = server.dial()
    end.sendall(
        f"GET {path} HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n"
        "Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: eHh4eHh4eHh4eHh4eHh4eA==\r\n\r\n".encode()
    )
    return end


async def _until(condition: Any) -> None:
    async with asyncio.timeout(WITHIN):
        while not condition():  # noqa: ASYNC110 (it happens in another task)
            await asyncio.sleep(0.01)
