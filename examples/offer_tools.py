"""A client that offers a Python function to the agent named on its command line."""

import asyncio
import sys

from dragoman import connect


def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


async def main(command: list[str]) -> None:
    async with connect(command, tools=[add], permission="allow") as agent:
        session = await agent.open_session(cwd=".")
        print(await session.ask('/call client add {"a": 2, "b": 3}'))


asyncio.run(main(sys.argv[1:]))
