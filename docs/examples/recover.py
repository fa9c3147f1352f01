"""Recover from errors, a bounded number of times: `recover.py TEXT COMMAND...`."""

import asyncio
import sys

from dragoman import ProtocolError, Recovery, Trouble, connect


def retry(trouble: Trouble) -> bool:
    """Whether to try again what only a person may allow; a program with a face would ask."""
    return trouble.tries < 2


async def main(text: str, command: list[str]) -> None:
    recovery = Recovery(tries=3, first_pause=0.01, tell=lambda trouble: print(trouble.explanation), retry=retry)
    async with connect(command) as agent:
        session = await agent.open(cwd=".")
        try:
            print((await session.ask(text, recover=recovery)).strip())
        except ProtocolError as error:
            print(f"gave up: {error.kind}")


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], sys.argv[2:]))
