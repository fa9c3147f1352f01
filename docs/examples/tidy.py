"""An agent that can be stopped at any moment, and puts things away first: a cancel is an exception like any other."""

import asyncio

from dragoman import Agent, Turn

agent = Agent("tidy", version="1.0")


@agent.prompt
async def work(turn: Turn) -> None:
    async with turn.tool("Dig a hole", kind="execute") as call:
        try:
            await call.add_text("digging")
            await asyncio.sleep(3600)
        finally:
            if turn.cancelled:
                await turn.say("I put the shovel away.")


if __name__ == "__main__":
    agent.run()
