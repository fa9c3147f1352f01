"""The examples of docs/mcp.md work together with real servers."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

from dragoman import connect
from tests.mcp.servers import bare

EXAMPLES = Path(__file__).parents[2] / "examples"
EVERYTHING = (sys.executable, "-m", "dragoman", "agent", "everything")


async def test_a_function_is_offered_to_an_agent() -> None:
    command = (sys.executable, str(EXAMPLES / "offer_tools.py"), *EVERYTHING)
    process = await asyncio.create_subprocess_exec(*command, stdout=asyncio.subprocess.PIPE)
    output, _ = await asyncio.wait_for(process.communicate(), 60)
    assert output.decode().split() == ["The", "tool", "answered.", "5"]


async def test_an_agent_uses_the_tools_that_it_is_given() -> None:
    async with connect([sys.executable, str(EXAMPLES / "use_tools.py")], permission="deny") as agent:
        session = await agent.open_session("/", mcp_servers=[bare()])
        said = await session.ask("hello")
    assert "mcp__bare__echo: Say TEXT again" in said
    assert "the user did not allow this call" in said
