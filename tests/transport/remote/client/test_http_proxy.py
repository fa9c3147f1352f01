"""WebSocket through the proxy of the environment; this machine is never behind one."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from dragoman.errors import Unreachable
from dragoman.transport.remote.address import RemoteOptions, parse_address
from dragoman.transport.remote.client.dial import dial_remote
from dragoman.transport.remote.client.http_proxy import proxy_url
from dragoman.transport.remote.server.endpoint import Endpoint
from dragoman.transport.remote.server.listener import open_listener
from tests.transport.remote.certificate import certificate
from tests.transport.remote.client_and_server import INITIALIZE, INTRODUCED, Meeting, anybody

WITHIN = 90.0


@pytest.fixture(autouse=True)
def no_proxies(monkeypatch: pytest.MonkeyPatch) -> None:
    """An environment without proxies except those of the test."""
    for name in ("http_proxy", "https_proxy", "all_proxy", "no_proxy"):
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.upper(), raising=False)


@pytest.mark.parametrize(
    ("url", "proxy"),
    [
        ("wss://host.example/acp", "http://p.example:3128"),
        ("wss://127.0.0.1:7000/acp", None),
        ("wss://localhost/acp", None),
        ("wss://near.example/acp", None),
    ],
)
def test_which_addresses_use_a_proxy(monkeypatch: pytest.MonkeyPatch, url: str, proxy: str | None) -> None:
    monkeypatch.setenv("https_proxy", "http://p.example:3128")
    monkeypatch.setenv("no_proxy", "near.example")
    assert proxy_url(parse_address(url)) == proxy


async def test_a_websocket_uses_a_proxy_tunnel_and_refusals_are_reported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cert, key = certificate(tmp_path)
    asked: list[bytes] = []
    status = [b"200 OK"]

    there = Meeting()
    endpoint = Endpoint(there.accept, authenticate=anybody, hosts=["host.example"])
    async with open_listener(endpoint, tls=(str(cert), str(key))) as served:

        async def tunnel(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            asked.append(await reader.readuntil(b"\r\n\r\n"))
            writer.write(b"HTTP/1.1 %b\r\n\r\n" % status[0])
            if status[0] != b"200 OK":
                writer.close()
                return
            onward, back = await asyncio.open_connection("127.0.0.1", served.port)

            async def pump(source: asyncio.StreamReader, sink: asyncio.StreamWriter) -> None:
                while data := await source.read(65536):
                    sink.write(data)
                sink.close()

            await asyncio.gather(pump(reader, back), pump(onward, writer), return_exceptions=True)

        proxy = await asyncio.start_server(tunnel, "127.0.0.1", 0)
        port = proxy.sockets[0].getsockname()[1]
        monkeypatch.setenv("https_proxy", f"http://ann:s3cret@127.0.0.1:{port}")
        ours = await dial_remote("wss://host.example/acp", RemoteOptions(tls=False))
        ours.send(INITIALIZE)
        theirs = await there.accepted.get()
        theirs.send(INTRODUCED)
        assert await ours.receive() == [INTRODUCED]
        await ours.close()
        status[0] = b"407 Proxy Authentication Required"
        with pytest.raises(Unreachable, match="put user and password into HTTPS_PROXY") as raised:
            await dial_remote("wss://host.example/acp", RemoteOptions(tls=False))
        assert "s3cret" not in str(raised.value)
        proxy.close()
    assert asked[0].startswith(b"CONNECT host.example:443 HTTP/1.1\r\n")
    assert b"Proxy-Authorization: Basic" in asked[0]
