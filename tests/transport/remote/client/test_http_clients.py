"""What both HTTP clients do alike: our own HTTP/1.1 for `http`, and httpx with HTTP/2 for `https`."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from dragoman.transport.remote.address import RemoteOptions, parse_address
from dragoman.transport.remote.client import http_client
from dragoman.transport.remote.client.http_client import (
    MAX_ERROR_BODY,
    HttpClient,
    NotConnected,
    ResponseTooLarge,
    build_http_client,
)
from dragoman.transport.remote.errors import network_error
from dragoman.transport.remote.server.listener import open_listener
from tests.transport.remote.certificate import certificate

pytestmark = pytest.mark.parametrize("over", ["http", "https"])


class Server:
    """An ASGI app that answers every request alike, and records them."""

    def __init__(self) -> None:
        self.status = 200
        self.headers: dict[str, str] = {}
        self.body = b""
        self.requests: list[dict[str, str]] = []  # their headers
        self.protocols: set[str] = set()

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        self.requests.append({name.decode().lower(): value.decode() for name, value in scope["headers"]})
        self.protocols.add(scope["http_version"])
        headers = [(name.encode(), value.encode()) for name, value in self.headers.items()]
        await send({"type": "http.response.start", "status": self.status, "headers": headers})
        await send({"type": "http.response.body", "body": self.body})


@pytest.fixture(scope="module")
def keys(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """A self-signed certificate for this machine, and its key."""
    return certificate(tmp_path_factory.mktemp("tls"))


@asynccontextmanager
async def serve(
    over: str, keys: tuple[Path, Path], headers: Mapping[str, str] | None = None
) -> AsyncIterator[tuple[Server, HttpClient]]:
    """A server, and the client for its address with these headers of the user."""
    server = Server()
    tls = (str(keys[0]), str(keys[1])) if over == "https" else None
    async with open_listener(server, tls=tls) as listener:
        remote = RemoteOptions(tls=keys[0], headers=headers or {})
        client = build_http_client(parse_address(f"{over}://127.0.0.1:{listener.port}/acp", remote), remote)
        try:
            yield server, client
        finally:
            await client.aclose()
    assert server.protocols <= {"2" if over == "https" else "1.1"}


async def test_cookies_of_the_user_and_of_the_server_are_sent_together(over: str, keys: tuple[Path, Path]) -> None:
    async with serve(over, keys, {"Cookie": "own=1; more=2"}) as (server, client):
        server.headers = {"set-cookie": "node=a7; Path=/; HttpOnly"}
        for _ in range(3):
            await client.post(b"{}", {})
        await (await client.open_stream({})).aclose()
        await client.delete({})
    first, *others = [request["cookie"] for request in server.requests]
    assert first == "own=1; more=2"
    assert others == ["own=1; more=2; node=a7"] * 4


async def test_a_response_longer_than_a_message_is_refused(
    over: str, keys: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(http_client, "MAX_FRAME", 100_000)
    async with serve(over, keys) as (server, client):
        server.body = b"x" * 100_001
        for request in (client.post(b"{}", {}), client.delete({})):
            with pytest.raises(ResponseTooLarge, match="more than 100,000 bytes"):
                await request
        server.body = b"x" * 100_000
        assert (await client.post(b"{}", {})).content == server.body
        await client.delete({})


async def test_of_an_error_only_the_beginning_is_read(over: str, keys: tuple[Path, Path]) -> None:
    async with serve(over, keys) as (server, client):
        server.status, server.body = 500, b"x" * (MAX_ERROR_BODY + 1)
        assert len((await client.post(b"{}", {})).content) == MAX_ERROR_BODY


async def test_every_request_says_that_nobody_listens(over: str, keys: tuple[Path, Path]) -> None:
    async with open_listener(Server()) as listener:
        pass
    client = build_http_client(parse_address(f"{over}://127.0.0.1:{listener.port}/acp"), RemoteOptions(tls=keys[0]))
    for request in (client.post(b"{}", {}), client.open_stream({}), client.delete({})):
        with pytest.raises(NotConnected) as raised:
            await request
        assert "connection refused" in str(network_error("there", raised.value))
    await client.aclose()
