"""A client that decides by the user's policy, and asks on the terminal where policy says so."""

import asyncio
import os
import sys

from dragoman import connect
from dragoman.config.paths import places
from dragoman.policy.decision import ALLOW, DENY
from dragoman.roles.client.permission.guard import Guard
from dragoman.roles.client.permission.prompt import Asked, Choice


async def ask(asked: Asked) -> Choice:
    print(*asked.lines, sep="\n", file=sys.stderr)
    answer = await asyncio.to_thread(input, "y/n/s(ession)? ")
    return Choice(ALLOW if answer in ("y", "s") else DENY, "session" if answer == "s" else "once")


async def main(command: list[str], prompt: str) -> None:
    guard = Guard.of_user(places(), ask=ask, environ=os.environ)
    async with connect(command, permission=guard.ask, lend=guard.lend()) as agent:
        guard.attend(agent)
        session = await agent.open(".")
        print(await session.ask(prompt))
    await guard.close()


if __name__ == "__main__":
    asyncio.run(main(sys.argv[2:], sys.argv[1]))
