"""The shipped configurations of nginx and HAProxy, run in front of a real host."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from dragoman import connect
from dragoman.host.auth.database import HostDatabase
from dragoman.host.auth.tokens import Tokens
from tests.cli.serve_process import Served
from tests.host.operations import proxies
from tests.transport.remote.certificate import certificate

TOLD = ["/echo over the proxy", "over the proxy", "/echo and back", "and back"]


class Fronted:
    """A host that accepts only tokens, its certificate for the proxy, and a token."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        store = folder / "sessions.db"
        with HostDatabase(f"{store}.host", "owner") as database:
            self.token, _ = Tokens(database).create("ann", "admin")
        self.served = Served(
            folder, "--bind", "127.0.0.1:0", "--no-local", "--name", "localhost", "--root", str(folder),
            "--store", str(store),
        )  # fmt: skip
        self.port = int(self.served.url.rsplit(":", 1)[1])
        self.certificate, self.key = certificate(folder)

    async def talk(self, port: int) -> list[str]:
        """Prompt by WebSocket, then load and prompt by HTTP, through the proxy. Return the messages of the session."""
        tls = str(self.certificate)
        async with connect(f"wss://localhost:{port}/acp", token=self.token, tls=tls) as agent:
            session = await agent.open_session(str(self.folder))
            async with session.prompt("/echo over the proxy") as turn:
                await turn.wait()
        async with connect(f"https://localhost:{port}/acp", token=self.token, tls=tls) as agent:
            again = await agent.load_session(session.id, str(self.folder))
            async with again.prompt("/echo and back") as turn:
                await turn.wait()
            return [message.text for message in again.transcript.messages]


@pytest.fixture
def fronted(tmp_path: Path) -> Iterator[Fronted]:
    found = Fronted(tmp_path)
    yield found
    assert found.served.end() == 0


async def test_nginx_passes_websockets_and_http_streams(fronted: Fronted) -> None:
    proxy = proxies.start_nginx(fronted.folder, fronted.certificate, fronted.key, fronted.port)
    try:
        assert await fronted.talk(proxy.port) == TOLD
    finally:
        proxy.stop()


async def test_haproxy_passes_websockets_and_http_streams(fronted: Fronted) -> None:
    proxy = proxies.start_haproxy(fronted.folder, fronted.certificate, fronted.key, [fronted.port])
    try:
        assert await fronted.talk(proxy.port) == TOLD
    finally:
        proxy.stop()
