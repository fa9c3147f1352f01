"""The user's policy decides about the tools of MCP servers, by the name that the user gave the server."""

from __future__ import annotations

import pytest

from dragoman import Agent, Turn
from dragoman.policy.decide import Policy
from dragoman.policy.parse import parse_rule_file
from dragoman.roles.client.permission.guard import Guard
from dragoman.testing import connect_in_memory
from tests.mcp.servers import bare

RULES = """
version = 1
[[rule]]
decision = "allow"
operation = "mcp_tool"
server = "my server"
tool = "echo"
[[rule]]
decision = "deny"
operation = "mcp_tool"
server = "my server"
"""


@pytest.mark.item("BR-04", "004-56", "004-70")
async def test_a_rule_names_the_server_as_the_user_does() -> None:
    agent = Agent("caller")

    @agent.prompt
    async def answer(turn: Turn) -> None:
        result = await turn.tools.call(turn.text, arguments={"text": "hello"})
        await turn.say(result.text)

    guard = Guard(Policy(files=(parse_rule_file(RULES, "policy.toml"),)))
    async with connect_in_memory(agent, permission=guard.request_permission) as remote:
        guard.set_agent(remote)
        session = await remote.open_session("/", mcp_servers=[bare("my server")])
        said = [await session.ask(f"mcp__my_server__{tool}") for tool in ("echo", "fail")]
    assert said == ["hello", "the user did not allow this call"]
