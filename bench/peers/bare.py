"""A client that does as little as one can: one prompt to the agent it starts, the answer printed."""

import asyncio
import sys

from dragoman import connect


async def main(prompt: str, *agent: str) -> None:
    async with connect(agent) as remote:
        session = await remote.open_session(".")
        print(await session.ask(prompt))


asyncio.run(main(*sys.argv[1:]))
