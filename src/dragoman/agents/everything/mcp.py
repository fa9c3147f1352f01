"""The slash commands of the everything agent that use the MCP servers of the session."""

from __future__ import annotations

import json

from dragoman import Turn
from dragoman.agents.everything import actions


async def tools(turn: Turn, _: str) -> None:
    """List the servers of the session and what they offer."""
    servers = turn.tools.servers
    if not servers:
        await turn.say("This session has no MCP servers. A client names them in session/new.\n")
        return
    offered = [
        *((tool.server, f"tool `{tool.tool}`: {tool.description}") for tool in await turn.tools.list_tools()),
        *((each.server, f"resource `{each.uri}`: {each.name}") for each in await turn.tools.list_resources()),
        *((each.server, f"prompt `/{each.server}:{each.name}`") for each in await turn.tools.list_prompts()),
    ]
    for server in turn.tools.servers:
        state = f"MCP {server.version}" if server.is_open else f"not available: {server.failure or 'it is starting'}"
        await turn.say(f"- **{server.name}** ({server.form}, {state})\n")
        for name, text in offered:
            if name == server.name:
                await turn.say(f"  - {text.splitlines()[0]}\n")


async def call(turn: Turn, text: str) -> None:
    """Call a tool and say what it answers."""
    server, tool, given = _three(text)
    try:
        arguments = json.loads(given or "{}")
    except ValueError:
        raise actions.Misuse from None
    if not isinstance(arguments, dict):
        raise actions.Misuse
    result = await turn.tools.call(server, tool, arguments)
    await turn.say("The tool failed.\n" if result.is_error else "The tool answered.\n")
    for block in result.content:
        await turn.say(block)


async def resource(turn: Turn, text: str) -> None:
    """Read a resource of a server; without arguments, send samples."""
    if not text.strip():
        await actions.resource(turn, "")
        return
    server, uri, _ = _three(text)
    for block in await turn.tools.read(server, uri):
        await turn.say(block)


def _three(text: str) -> tuple[str, str, str]:
    """Split two words and the rest."""
    words = text.strip().split(None, 2)
    if len(words) < 2:
        raise actions.Misuse
    return words[0], words[1], words[2] if len(words) > 2 else ""
