"""An agent that cleans up when its turn is cancelled: a cancelled turn raises an exception in the handler."""

import asyncio

from dragoman import Agent, Turn

agent = Agent("cancellation", version="1.0")


@agent.prompt
async def work(turn: Turn) -> None:
    async with turn.tool("Build the project", kind="execute") as call:
        try:
            await call.add_text("building")
            await asyncio.sleep(3600)
        finally:
            if turn.cancelled:
                await turn.say("I removed the temporary files.")


if __name__ == "__main__":
    agent.run()
