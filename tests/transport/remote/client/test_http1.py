"""Our HTTP/1.1 client: responses in pieces of any size, sockets that are used again, and servers that misbehave."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dragoman.transport.remote.address import RemoteOptions, parse_address
from dragoman.transport.remote.client import http1_client, http_client
from dragoman.transport.remote.client.http1_client import Http1Client
from dragoman.transport.remote.client.http1_parser import MalformedResponse, ResponseParser
from dragoman.transport.remote.client.http_client import NotConnected, ResponseTooLarge, build_http_client
from dragoman.transport.remote.client.httpx_client import HttpxClient

WITHIN = 60.0

CHUNKED = (
    b"HTTP/1.1 103 Early Hints\r\nlink: </x>\r\n\r\n"
    b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nX-A: 1\r\nx-a: 2\r\n\r\n"
    b"5\r\nhello\r\n6;name=value\r\n\r\nfish\r\n1 \r\n!\r\n0\r\ntrailer: 1\r\n\r\n"
)
COUNTED = b"HTTP/1.1 202 Accepted\r\ncontent-length: 12\r\nx-a:1, 2\r\n\r\nhello\r\nfish!"
TO_THE_END = b"HTTP/1.1 200 OK\r\nx-a: 1, 2 \r\n\r\nhello\r\nfish!"
TEXT = b"hello\r\nfish!"

Answer = Callable[[bytes, int], bytes]


@given(
    st.sampled_from([(CHUNKED, True), (COUNTED, True), (TO_THE_END, False)]), st.lists(st.integers(1, 200), max_size=30)
)
def test_a_response_is_the_same_in_pieces_of_any_size(response: tuple[bytes, bool], places: list[int]) -> None:
    data, keeps_alive = response
    cuts = [0, *sorted(place for place in places if place < len(data)), len(data)]
    parser = ResponseParser()
    for start, end in pairwise(cuts):
        parser.feed(data[start:end])
    assert parser.end()
    assert b"".join(parser.parts) == TEXT
    assert parser.headers["X-a"] == "1, 2"
    assert parser.keeps_alive is keeps_alive


@given(st.binary(max_size=300))
def test_bytes_at_random_are_refused_or_wait_for_more(data: bytes) -> None:
    for prefix in (b"", b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n"):
        parser = ResponseParser()
        try:
            parser.feed(prefix + data)
        except MalformedResponse:
            continue
        assert not parser.is_complete or prefix


@pytest.mark.parametrize(
    "data",
    [
        b"SSH-2.0-OpenSSH_9.9\r\n",
        b"HTTP/2 200\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nno colon\r\n\r\n",
        b"HTTP/1.1 200 OK\r\ncontent-length: -1\r\n\r\n",
        b"HTTP/1.1 200 OK\r\ncontent-length: 1, 1\r\n\r\n",
        b"HTTP/1.1 200 OK\r\ntransfer-encoding: gzip\r\n\r\n",
        b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\nxyz\r\n",
        b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n1\r\nab\r\n",
        b"HTTP/1.1 200 OK\r\ncontent-length: 1\r\n\r\nab",
        b"HTTP/1.1 204 No Content\r\n\r\nab",
        b"HTTP/1.1 200 OK\r\n" + b"x" * 70_000,
        b"HTTP/1.1 200 OK\r\nx: a\nset-cookie: b\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nx: a\rb\r\n\r\n",
        b"HTTP/1.1 200\n\r\ncontent-length: 0\r\n\r\n",
        b"HTTP/1.1 200 OK\nx: a\r\ncontent-length: 0\r\n\r\n",
        b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n5\n\r\nhello\r\n",
        b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n5;a\nb\r\n",
        b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n5;a\rb\r\n",
        b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n0\r\nx: a\nb\r\n\r\n",
        b"HTTP/1.1 200 OK\r\ncontent-length: 5\r\ntransfer-encoding: chunked\r\n\r\n",
        b"HTTP/1.1 200 OK\r\ncontent-length: " + b"1" * 5000 + b"\r\n\r\n",
        b"HTTP/1.1 100 Continue\r\n\r\n" * 17,
        b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n0\r\n" + b"x: y\r\n" * 20_000,
    ],
)
def test_a_malformed_response_is_refused(data: bytes) -> None:
    with pytest.raises(MalformedResponse):
        ResponseParser().feed(data)


@asynccontextmanager
async def serve(answer: Answer) -> AsyncIterator[tuple[Http1Client, list[asyncio.StreamWriter]]]:
    """A server that answers each request by its head and its number on the socket; b"" closes the socket."""
    sockets: list[asyncio.StreamWriter] = []

    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        sockets.append(writer)
        number = 0
        try:
            while True:
                head = await reader.readuntil(b"\r\n\r\n")
                length = head.lower().partition(b"content-length: ")[2].partition(b"\r\n")[0]
                await reader.readexactly(int(length or b"0"))
                number += 1
                if not (reply := answer(head, number)):
                    return
                writer.write(reply)
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        finally:
            writer.close()

    server = await asyncio.start_server(talk, "127.0.0.1", 0)
    address = parse_address(f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/acp")
    client = Http1Client(address)
    try:
        yield client, sockets
    finally:
        await client.aclose()
        server.close()


async def until(condition: Callable[[], object]) -> None:
    async with asyncio.timeout(WITHIN):
        while not condition():  # noqa: ASYNC110 (what it waits for has no event)
            await asyncio.sleep(0.01)


def accept(_: bytes, __: int) -> bytes:
    return b"HTTP/1.1 202 Accepted\r\ncontent-length: 0\r\n\r\n"


async def test_messages_share_a_socket() -> None:
    async with serve(accept) as (client, sockets):
        for _ in range(5):
            assert (await client.post(b"{}", {"Acp-Connection-Id": "1"})).status_code == 202
        await client.delete({})
        assert len(sockets) == 1


async def test_a_socket_that_the_server_closes_is_not_used_again() -> None:
    closing = b"HTTP/1.1 202 Accepted\r\ncontent-length: 2\r\nConnection: close\r\n\r\nok"
    async with serve(lambda head, number: closing) as (client, sockets):
        for _ in range(3):
            assert (await client.post(b"{}", {})).content == b"ok"
        assert len(sockets) == 3


async def test_a_socket_that_was_closed_while_idle_is_replaced() -> None:
    async with serve(accept) as (client, sockets):
        await client.post(b"{}", {})
        sockets[0].close()
        await sockets[0].wait_closed()
        await until(lambda: not client._idle_sockets)
        assert (await client.post(b"{}", {})).status_code == 202
        assert len(sockets) == 2


async def test_an_old_idle_socket_is_not_used_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http1_client, "IDLE_TIMEOUT", 0.0)
    async with serve(accept) as (client, sockets):
        await client.post(b"{}", {})
        await client.post(b"{}", {})
        assert len(sockets) == 2


async def test_a_stream_does_not_hold_up_messages() -> None:
    def answer(head: bytes, number: int) -> bytes:
        stream = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n2\r\nab\r\n"
        return stream if head.startswith(b"GET") else accept(head, number)

    async with serve(answer) as (client, sockets):
        stream = await client.open_stream({})
        parts = stream.aiter_raw()
        assert await anext(parts) == b"ab"
        assert (await client.post(b"{}", {})).status_code == 202
        sockets[0].write(b"3\r\ncde\r\n")
        assert await anext(parts) == b"cde"
        await stream.aclose()
        assert len(sockets) == 2


async def test_more_than_is_read_waits_in_the_server() -> None:
    part = b"10000\r\n" + b"x" * 0x10000 + b"\r\n"

    def answer(head: bytes, number: int) -> bytes:
        return b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n" + part * 400 + b"0\r\n\r\n"

    async with serve(answer) as (client, sockets):
        stream = await client.open_stream({})
        socket = stream._socket
        assert socket is not None
        await until(lambda: socket._paused)
        assert sockets[0].transport.get_write_buffer_size() > 0
        assert sum([len(each) async for each in stream.aiter_raw()]) == 400 * 0x10000


async def test_a_response_longer_than_a_message_is_refused_and_its_socket_closed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(http_client, "MAX_FRAME", 100_000)
    part = b"10000\r\n" + b"x" * 0x10000 + b"\r\n"

    def answer(head: bytes, number: int) -> bytes:
        status = b"200 OK" if head.startswith(b"POST") else b"500 Error"
        return b"HTTP/1.1 " + status + b"\r\ntransfer-encoding: chunked\r\n\r\n" + part * 400 + b"0\r\n\r\n"

    async with serve(answer) as (client, sockets):
        with pytest.raises(ResponseTooLarge, match="more than 100,000 bytes"):
            await client.post(b"{}", {})
        await until(lambda: not client._sockets)
        await client.delete({})  # an error, of which only the beginning is read
        await until(lambda: not client._sockets)
        assert len(sockets) == 2


FAILURES: list[tuple[Answer, type[BaseException]]] = [
    (lambda head, number: b"", ConnectionResetError),
    (lambda head, number: b"HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\nab" if number == 1 else b"", TimeoutError),
    (lambda head, number: b"nonsense\r\n\r\n", MalformedResponse),
    (lambda head, number: b"HTTP/1.1 100 Continue\r\n\r\n", TimeoutError),
]


@pytest.mark.parametrize(("answer", "error"), FAILURES)
async def test_a_response_that_does_not_come_is_an_error(
    answer: Answer, error: type[BaseException], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(http1_client, "POST_TIMEOUT", 0.2)
    async with serve(answer) as (client, _):
        with pytest.raises(error):
            await client.post(b"{}", {})
        assert not client._idle_sockets


@pytest.mark.parametrize("value", ["a\r\nx-evil: 1", "a\nb", "a\rb", "a\0b"])
async def test_a_header_cannot_end_its_line(value: str) -> None:
    async with serve(accept) as (client, sockets):
        with pytest.raises(ValueError, match="line end"):
            await client.post(b"{}", {"Acp-Session-Id": value})
        assert not sockets


async def test_nothing_arrived_where_nobody_listens() -> None:
    async with serve(accept) as (client, _):
        pass
    for host in ("127.0.0.1", "localhost"):
        client = Http1Client(parse_address(f"http://{host}:{client._address.port}/acp"))
        with pytest.raises(NotConnected) as raised:
            await client.post(b"{}", {})
        assert isinstance(raised.value.__cause__, ConnectionRefusedError)


async def test_a_cancelled_request_leaves_no_socket() -> None:
    async with serve(lambda head, number: b"HTTP/1.1 100 Continue\r\n\r\n") as (client, sockets):
        task = asyncio.ensure_future(client.post(b"{}", {}))
        await until(lambda: sockets)
        async with asyncio.timeout(WITHIN):
            task.cancel()
            await asyncio.wait([task])
            with suppress(ConnectionResetError):  # the client had not read what came last
                await sockets[0].wait_closed()
        assert not client._sockets


async def test_a_socket_that_is_opened_while_the_client_is_closed_does_not_stay() -> None:
    async with serve(accept) as (client, sockets):
        posting = asyncio.ensure_future(client.post(b"{}", {}))
        await asyncio.sleep(0)  # it is connecting
        await client.aclose()
        with pytest.raises(NotConnected):
            await posting
        async with asyncio.timeout(WITHIN):
            for socket in sockets:
                with suppress(ConnectionResetError):
                    await socket.wait_closed()
        assert not client._sockets


async def test_a_socket_that_is_read_while_the_client_is_closed_is_not_kept() -> None:
    async with serve(accept) as (client, _):
        response = await client._request("POST", {"Content-Length": "0"}, b"", None)
        client._is_closed = True
        assert [part async for part in response.aiter_raw() if part] == []
        await until(lambda: not client._sockets)
        assert not client._idle_sockets


def test_tls_and_proxies_are_left_to_httpx(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "NO_PROXY"):
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.lower(), raising=False)
    remote = RemoteOptions(tls=False)
    assert isinstance(build_http_client(parse_address("https://host.example/acp"), remote), HttpxClient)
    assert isinstance(build_http_client(parse_address("http://host.example/acp", remote), remote), Http1Client)
    monkeypatch.setenv("HTTP_PROXY", "http://proxy.example:3128")
    assert isinstance(build_http_client(parse_address("http://host.example/acp", remote), remote), HttpxClient)
    assert isinstance(build_http_client(parse_address("http://localhost:1/acp"), remote), Http1Client)
