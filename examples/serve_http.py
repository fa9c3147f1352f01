"""An agent that is served over HTTP and WebSocket, as a program or as part of a web app.

python serve_http.py        # prints http://127.0.0.1:8000/acp
"""

import asyncio
from contextlib import suppress

from dragoman import Agent, Turn

agent = Agent("echo")


@agent.prompt
async def answer(turn: Turn) -> None:
    """Repeat the prompt."""
    await turn.say(turn.text)


# Mount it in a Starlette or FastAPI app at any path. With Mount("/echo", app=app) its address is /echo/acp.
app = agent.asgi()

if __name__ == "__main__":
    with suppress(KeyboardInterrupt):
        asyncio.run(agent.serve("127.0.0.1:8000"))
