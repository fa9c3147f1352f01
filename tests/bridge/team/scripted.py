"""Agents for tests of teams: each answers a prompt by a function of its own, in memory."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

from dragoman import Agent, Turn
from dragoman.schema.content import EmbeddedResource, TextContent

Work = Callable[[Turn], Awaitable[Any]]


def agent_that(work: Work, name: str = "agent", **options: Any) -> Agent:
    """Return an agent that answers each prompt with this work; a str that it returns is said."""
    agent = Agent(name, **options)

    @agent.prompt
    async def answer(turn: Turn) -> None:
        said = await work(turn)
        if isinstance(said, str):
            await turn.say(said)

    return agent


def echo(name: str) -> Agent:
    """Return an agent that repeats its prompt after its name."""

    async def repeat(turn: Turn) -> str:
        return f"{name} heard {turn.text}"

    return agent_that(repeat, name)


def head_and_body(turn: Turn) -> tuple[str, str, str]:
    """Return the head of a message, and the uri and text of what is attached."""
    head, attached = turn.prompt
    assert isinstance(head, TextContent)
    assert isinstance(attached, EmbeddedResource)
    return head.text, attached.resource.uri, str(attached.resource.text)


async def use_tool(turn: Turn, tool: str, **arguments: Any) -> str:
    """Call a tool of the team and return its text."""
    return (await turn.tools.call("team", tool, arguments)).text
