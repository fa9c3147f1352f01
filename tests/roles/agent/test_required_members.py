"""Members that a call cannot do without, where the types leave them optional."""

from __future__ import annotations

from typing import Any

import pytest

from dragoman import Agent
from dragoman.errors import Kind, ProtocolError
from dragoman.schema.initialize import AgentCapabilities, McpCapabilities
from dragoman.schema.mcp import McpServer
from dragoman.store.session_log import turn_ended_body
from dragoman.testing import connect_in_memory
from tests.roles.raw_client import CWD, new_session, prompt_and_wait, raw_connection

SERVER = {"name": "whole", "command": "/bin/true", "args": [], "env": []}


@pytest.mark.parametrize(
    ("server", "member"),
    [
        ({"name": "x"}, "command"),
        ({"type": "http", "name": "x"}, "url"),
        ({"type": "sse", "name": "x", "headers": []}, "url"),
        ({"type": "carrier-pigeon", "name": "x"}, "type"),
        ({"name": "x", "command": "/bin/true", "env": []}, "args"),
        ({"name": "x", "command": "/bin/true", "args": []}, "env"),
        ({"type": "http", "name": "x", "url": "https://x.example"}, "headers"),
        ({"name": "x", "command": "/bin/true", "args": [], "env": [{"name": "A"}]}, "env[0].value"),
        ({"name": "x", "command": "/bin/true", "args": ["a", 1], "env": []}, "args[1]"),
        ({"type": "http", "name": "x", "url": "https://x.example", "headers": [{"value": "v"}]}, "headers[0].name"),
    ],
)
@pytest.mark.parametrize("method", ["session/new", "session/resume"])
async def test_an_mcp_server_without_a_required_member_is_refused(server: Any, member: str, method: str) -> None:
    async with raw_connection(Agent("plain")) as client:
        session = await new_session(client, mcpServers=[SERVER])
        # The servers of session/resume are optional, but a server that is sent must be whole.
        error = await client.error(method, {"sessionId": session, "cwd": CWD, "mcpServers": [SERVER, server]})
        assert error["code"] == -32602
        assert error["data"]["errors"][0]["path"] == f"mcpServers[1].{member}"


async def test_null_counts_as_an_empty_list_of_an_mcp_server() -> None:
    async with raw_connection(Agent("plain")) as client:
        assert await new_session(client, mcpServers=[SERVER | {"args": None, "env": None}])


@pytest.mark.parametrize("form", ["http", "sse", "acp"])
async def test_an_mcp_server_of_a_form_that_the_agent_did_not_announce_is_refused(form: str) -> None:
    server = {"type": form, "name": "x", "url": "https://x.example", "headers": []}
    async with raw_connection(Agent("plain", mcp=False)) as client:
        error = await client.error("session/new", {"cwd": CWD, "mcpServers": [SERVER, server]})
        assert error["data"]["kind"] == Kind.CAPABILITY_UNSUPPORTED
        assert error["data"]["errors"][0]["path"] == "mcpServers[1].type"
    able = AgentCapabilities(
        mcp_capabilities=McpCapabilities(http=form == "http", sse=form == "sse", acp=form == "acp")
    )
    async with raw_connection(Agent("able", capabilities=able, mcp=False)) as client:
        assert await new_session(client, mcpServers=[server])


@pytest.mark.parametrize("dialect", ["v1", "banjo", "draft"])
async def test_a_client_sends_the_lists_that_an_mcp_server_needs(dialect: str) -> None:
    agent = Agent("plain", dialect=dialect)
    async with connect_in_memory(agent, dialect=dialect) as client:
        session = await client.open_session(CWD, mcp_servers=[McpServer(name="x", command="/bin/true")])
        (server,) = agent.sessions[session.id].mcp_servers
        assert (server.args, server.env) == ([], [])


async def test_a_resource_without_contents_is_refused() -> None:
    async with raw_connection(Agent("plain", embedded_context=True)) as client:
        session = await new_session(client)
        answer = await prompt_and_wait(client, session, {"type": "resource", "resource": {"uri": "file:///x"}})
        assert answer["error"]["code"] == -32602
        assert "prompt[0].resource" in answer["error"]["message"]


def test_the_end_of_a_turn_is_logged_with_the_reason_of_its_error() -> None:
    error = ProtocolError(Kind.INTERNAL_ERROR, "Internal error", {"details": "the model is not there"})
    assert turn_ended_body(None, error)["error"]["message"] == "Internal error: the model is not there"
