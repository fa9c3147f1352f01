"""Members that a call cannot do without, where the types leave them optional."""

from __future__ import annotations

from typing import Any

import pytest

from dragoman import Agent
from dragoman.errors import Kind, ProtocolError
from dragoman.store.session_log import turn_ended_body
from tests.roles.raw_client import CWD, new_session, prompt_and_wait, raw_connection


@pytest.mark.parametrize(
    ("server", "member"),
    [
        ({"name": "x"}, "command"),
        ({"type": "http", "name": "x"}, "url"),
        ({"type": "sse", "name": "x", "headers": []}, "url"),
        ({"type": "carrier-pigeon", "name": "x"}, "type"),
    ],
)
async def test_an_mcp_server_that_cannot_be_reached_is_refused(server: Any, member: str) -> None:
    async with raw_connection(Agent("plain")) as client:
        error = await client.error("session/new", {"cwd": CWD, "mcpServers": [server]})
        assert error["code"] == -32602
        assert error["data"]["errors"][0]["path"] == f"mcpServers[0].{member}"
        whole = {"name": "x", "command": "/bin/true", "args": [], "env": []}
        assert await new_session(client, mcpServers=[whole])


async def test_a_resource_without_contents_is_refused() -> None:
    async with raw_connection(Agent("plain", embedded_context=True)) as client:
        session = await new_session(client)
        answer = await prompt_and_wait(client, session, {"type": "resource", "resource": {"uri": "file:///x"}})
        assert answer["error"]["code"] == -32602
        assert "prompt[0].resource" in answer["error"]["message"]


def test_the_end_of_a_turn_is_logged_with_the_reason_of_its_error() -> None:
    error = ProtocolError(Kind.INTERNAL_ERROR, "Internal error", {"details": "the model is not there"})
    assert turn_ended_body(None, error)["error"]["message"] == "Internal error: the model is not there"
