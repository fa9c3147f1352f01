"""The tools by which an agent of a team uses the others. They are an MCP server `team` of its session."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from dragoman.errors import Kind, ProtocolError
from dragoman.session.message import Message
from dragoman.session.toolcall import ToolCall

if TYPE_CHECKING:
    from dragoman.bridge.team.child import Child
    from dragoman.bridge.team.team import Team

# How long `ask` waits unless it is told: agents commonly give a tool call a minute or more. Seconds.
DEFAULT_WAIT = 600.0


def team_tools(team: Team, child: Child) -> list[Callable[..., Any]]:
    """Return the functions for one agent."""

    async def list_agents() -> list[dict[str, Any]]:
        """List the other agents of your team: name, and whether each is busy."""
        main = {each.name: each for each in team.children.values()}
        return [
            {"agent": name, "busy": name in main and main[name].is_busy, "primary": name == team.primary}
            for name in team.agents
            if name != child.name
        ]

    async def ask(agent: str, text: str, wait: float = DEFAULT_WAIT) -> str:
        """Ask another agent of your team and return its answer. It works in the same folder as you."""
        try:
            async with asyncio.timeout(max(0.0, wait)):
                return (await team.ask(agent, text, asker=child)).text
        except TimeoutError:
            raise ProtocolError(Kind.TIMEOUT, f"{agent} did not answer within {wait:g} s; it was stopped") from None

    async def tell(agent: str, text: str) -> str:
        """Send another agent of your team a message, and do not wait for an answer."""
        await team.tell(agent, text, sender=child)
        return f"sent to {agent}"

    async def read(agent: str, after: int = 0) -> list[dict[str, Any]]:
        """Read what another agent of your team said and did, from this position on."""
        other = await team.child(agent)
        if not other.session_id:
            return []
        found = [(number, _line(each)) for number, each in enumerate(other.session.transcript.entries, 1)]
        return [{"position": number, "text": line} for number, line in found if number > after and line]

    async def done(result: str) -> str:
        """Say that your task is finished, with its result for whoever asked you."""
        child.is_done, child.result = True, result
        return "noted"

    return [list_agents, ask, tell, read, done]


def _line(entry: Any) -> str:
    if isinstance(entry, Message):
        return f"{entry.role}: {entry.text}"
    return f"tool: {entry.title} ({entry.status})" if isinstance(entry, ToolCall) else ""
