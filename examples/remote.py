"""An agent that is reached over HTTP and WebSocket: by your own programs on this machine, or as part of a web app.

python remote.py            # prints http://127.0.0.1:8000/acp
"""

import asyncio
from contextlib import suppress

from dragoman import Agent, Turn

agent = Agent("remote-parrot")


@agent.prompt
async def answer(turn: Turn) -> None:
    """Say everything again."""
    await turn.say(turn.text)


# Mounts into a Starlette or FastAPI app at any path: Mount("/parrot", app=app), then /parrot/acp is its address.
app = agent.asgi()

if __name__ == "__main__":
    with suppress(KeyboardInterrupt):
        asyncio.run(agent.serve("127.0.0.1:8000"))
