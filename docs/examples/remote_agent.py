"""Connect to an agent at a URL and reconnect after a disconnect: `remote_agent.py URL [TOKEN]`."""

import asyncio
import sys

from dragoman import StartFailed, connect


async def main(url: str, token: str = "") -> None:
    try:
        async with connect(url, token=token, permission="deny", report=lambda line: print(f"({line})")) as agent:
            session = await agent.open_session(cwd="/")
            print(await session.ask("/echo Are you there?"))
    except StartFailed as error:
        print(error)


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
