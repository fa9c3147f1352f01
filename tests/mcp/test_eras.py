"""Both eras of MCP with a server of the official SDK that asks its client: folders, a form, a sample."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest

from dragoman import Agent, Turn
from dragoman.schema.mcp import McpServer
from dragoman.testing import connect_in_memory

PROGRAM = str(Path(__file__).with_name("asking_server.py"))


def asking(era: str) -> McpServer:
    """Return the entry of the server, of one era."""
    arguments = [PROGRAM] if era == "2026-07-28" else [PROGRAM, "old"]
    return McpServer(name="asking", command=sys.executable, args=arguments, env=[])


@pytest.mark.item("BR-07")
@pytest.mark.parametrize("era", ["2026-07-28", "2025-11-25"])
async def test_roots_forms_and_sampling_reach_the_agent_and_its_user_in_both_eras(era: str, tmp_path: Path) -> None:
    found: dict[str, Any] = {}
    agent = Agent("with a model")

    @agent.sample
    async def sample(session: Any, params: dict[str, Any]) -> str:
        return f"answer to {params['messages'][0]['content']['text']}"

    @agent.prompt
    async def act(turn: Turn) -> None:
        found["ask"] = (await turn.tools.call("asking", "ask")).text
        found["sample"] = (await turn.tools.call("asking", "sample")).text
        found["version"] = turn.tools.servers[0].version

    async def elicit(question: Any) -> dict[str, Any]:
        return {"color": "red"}

    async with connect_in_memory(agent, permission="allow", elicit=elicit) as remote:
        session = await remote.open_session(str(tmp_path), mcp_servers=[asking(era)])
        await session.ask("go")
    assert found["version"] == era
    assert found["ask"] == f"file://{tmp_path} accept {{'color': 'red'}}"
    assert found["sample"] == "answer to a word?"


@pytest.mark.item("BR-07")
@pytest.mark.parametrize("era", ["2026-07-28", "2025-11-25"])
async def test_an_agent_without_a_model_function_declines_sampling_and_a_client_without_forms_the_form(
    era: str, tmp_path: Path
) -> None:
    found: dict[str, Any] = {}
    agent = Agent("plain")

    @agent.prompt
    async def act(turn: Turn) -> None:
        for name in ("ask", "sample"):
            result = await turn.tools.call("asking", name)
            found[name] = (result.is_error, result.text)

    async with connect_in_memory(agent, permission="allow") as remote:
        session = await remote.open_session(str(tmp_path), mcp_servers=[asking(era)])
        await session.ask("go")
    assert found["ask"] == (False, f"file://{tmp_path} decline None")
    assert found["sample"][0] is True
