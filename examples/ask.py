"""A client that starts the agent named on its command line and sends it one prompt."""

import asyncio
import sys

from dragoman import DragomanError, connect


async def main(command: list[str]) -> None:
    async with connect(command) as agent:
        session = await agent.open_session(cwd=".")
        async with session.prompt("hello") as turn:
            async for update in turn:
                print(update)
        print(turn.stop_reason)


try:
    asyncio.run(main(sys.argv[1:]))
except DragomanError as error:
    sys.exit(f"ask.py: {error}")
