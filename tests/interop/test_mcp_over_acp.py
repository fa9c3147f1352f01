"""MCP over ACP with the official TypeScript SDK at the other end, in both directions."""

from __future__ import annotations

import asyncio
import json

from dragoman import connect
from tests.interop.commands import EVERYTHING, peer


def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


async def test_their_agent_uses_our_functions() -> None:
    async with connect(peer("ts_mcp_agent"), tools=[add]) as agent:
        session = await agent.open_session("/")
        found = json.loads(await session.ask("go"))
    assert found["list"]["result"]["tools"][0]["name"] == "add"
    assert found["call"]["result"]["structuredContent"] == {"result": 5}
    assert found["unknown"]["error"]["code"] == -32601
    assert found["outer"] == -33001


async def test_our_agent_uses_their_server() -> None:
    command = [*peer("ts_mcp_client"), '/call tools echo {"text": "hi"}', *EVERYTHING]
    process = await asyncio.create_subprocess_exec(*command, stdout=asyncio.subprocess.PIPE)
    output, _ = await asyncio.wait_for(process.communicate(), 60)
    assert "The tool answered.\necho hi" in output.decode()
