"""End a turn that sends no update for half a second: `timeouts.py COMMAND...`."""

import asyncio
import sys

from dragoman import Kind, ProtocolError, connect


async def main(command: list[str]) -> None:
    async with connect(command) as agent:
        session = await agent.open_session(cwd=".")
        try:
            await session.ask("/slow 600", idle_timeout=0.5)
        except ProtocolError as error:
            print(f"{error.kind == Kind.TIMEOUT}: {error.message}")
        print((await session.ask("/echo still there")).strip())


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1:]))
