"""The agent of fleet runs: says which node it runs at, so that the log shows who wrote an entry.

`/echo TEXT` says the text; `/until FILE` waits until there is such a file. Each answer ends with @ and the node.
"""

from __future__ import annotations

import asyncio
import os

from dragoman import Agent, Turn

NODE_VARIABLE = "FLEET_RUN_NODE"

agent = Agent("echo")


@agent.prompt
async def answer(turn: Turn) -> None:
    """Do what the prompt says."""
    word, _, rest = getattr(turn.prompt[-1], "text", "").partition(" ")
    while word == "/until" and not os.path.exists(rest):  # noqa: ASYNC110
        await asyncio.sleep(0.05)
    await turn.say(f"{rest}@{os.environ.get(NODE_VARIABLE, '')}")


if __name__ == "__main__":
    agent.run()
