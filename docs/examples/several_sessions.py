"""Use two agents with two sessions each, all at the same time: `several_sessions.py COMMAND...`."""

import asyncio
import sys

from dragoman import connect


async def main(command: list[str]) -> None:
    async with connect(command) as one, connect(command) as other:
        sessions = [await agent.open_session(cwd=".") for agent in (one, one, other, other)]
        prompts = [f"/echo from session {number}" for number in range(len(sessions))]
        for answer in await asyncio.gather(*map(lambda session, text: session.ask(text), sessions, prompts)):
            print(answer.strip())
        print(f"{len({session.id for session in sessions})} sessions")


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1:]))
