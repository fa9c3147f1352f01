"""An agent that takes prompts while it works, and a client that sends one: both speak v2."""

import asyncio

from dragoman import Agent, Turn
from dragoman.schema.content import ContentBlock
from dragoman.testing import connect_in_memory

agent = Agent("searcher")
hints: asyncio.Queue[str] = asyncio.Queue()


@agent.prompt
async def search(turn: Turn) -> None:
    await turn.say("Searching. ")
    await turn.say(f"Now only in {await hints.get()}.")


@agent.steer
async def take_hint(turn: Turn, prompt: list[ContentBlock]) -> None:
    hints.put_nowait(turn.joined[-1][0].text)  # type: ignore[union-attr]


async def main() -> None:
    async with connect_in_memory(agent, version=2) as client:
        session = await client.open_session(cwd="/tmp")
        async with session.prompt("Find the bug") as turn:
            turn.steer("src/")
        print(session.transcript.messages[-1].text)


if __name__ == "__main__":
    asyncio.run(main())
