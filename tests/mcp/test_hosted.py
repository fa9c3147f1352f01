"""An MCP server that another agent hosts, at an address with a token: {type: acp, agentUrl, mcpServerName}."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from dragoman import Agent
from dragoman.agents.everything.agent import everything
from dragoman.config.host_tokens import save_token
from dragoman.config.paths import user_paths
from dragoman.transport.remote.server.auth import AuthRequest, Principal, bearer_token, unauthorized_error
from tests.mcp.test_over_acp import add
from tests.roles.raw_client import raw_connection

TOKEN = "token-of-the-other-host"


@asynccontextmanager
async def hosting_agent(seen: list[Any]) -> AsyncIterator[str]:
    """Serve an agent that hosts `sums`, for holders of the token; gives its address. `seen` gets what it is asked."""

    async def by_token(request: AuthRequest) -> Principal:
        if bearer_token(request) != TOKEN:
            raise unauthorized_error("show your token")
        return Principal(user="ann")

    agent = Agent("host")
    agent.offers("sums", add)

    @agent.middleware
    async def note(message: Any, call_next: Any) -> Any:
        seen.append((message.method, message.params))
        return await call_next()

    async with agent.serve_http(authenticate=by_token) as listener:
        yield listener.url.replace("http://", "acp://").replace("ws://", "acp://")


async def use(address: str, tmp_path: Path) -> str:
    """Let an agent of ours use the server through a client of the draft; return all that the client got."""
    async with raw_connection(everything(), "draft", {"fs": {"read": True}}) as client:
        client.answers["session/request_permission"] = lambda _: {"granted": True}
        transport = {"type": "acp", "agentUrl": address, "mcpServerName": "sums"}
        params = {"workingDirectory": str(tmp_path), "mcpServers": [{"name": "far", "transport": transport}]}
        session = (await client.result("session/new", params))["sessionId"]
        prompt = [{"type": "text", "text": '/call far add {"a": 4, "b": 5}'}]
        await client.result("session/prompt", {"sessionId": session, "content": prompt})
        return json.dumps(client.received)


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    (tmp_path / "config" / "dragoman").mkdir(parents=True, mode=0o700)
    return tmp_path


@pytest.mark.item("BR-12", "004-45", "004-73")
async def test_the_server_is_reached_with_the_authentication_of_its_host(home: Path) -> None:
    seen: list[Any] = []
    async with hosting_agent(seen) as address:
        url = address.replace("acp://", "ws://")
        token_file = save_token(user_paths(), "other", TOKEN)
        config = home / "config" / "dragoman" / "config.toml"
        config.write_text(f'[hosts.other]\nurl = "{url}"\ntoken_file = "{token_file}"\n')
        received = await use(address, home)
    assert '"9"' in received
    assert TOKEN not in received
    asked = [params.mcp_method for method, params in seen if method == "_mcp/request"]
    assert "tools/call" in asked
    assert {params.server_name for method, params in seen if method == "_mcp/request"} == {"sums"}


@pytest.mark.item("BR-12")
async def test_without_the_token_of_the_host_the_server_is_named_and_not_reached(home: Path) -> None:
    seen: list[Any] = []
    async with hosting_agent(seen) as address:
        received = await use(address, home)
    assert "MCP server far" in received
    assert '"9"' not in received
    assert [method for method, _ in seen if method == "_mcp/request"] == []


@pytest.mark.item("BR-12")
@pytest.mark.parametrize("address", ["acp://user:pw@127.0.0.1:1/", "ftp://x/", "acp:///nowhere"])
async def test_credentials_in_an_address_and_other_schemes_are_refused(home: Path, address: str) -> None:
    assert "is not an address" in await use(address, home)
