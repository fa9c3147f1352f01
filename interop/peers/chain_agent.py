"""An agent for chains: repeats the prompt word by word, and uses the tool `echo` of its servers when asked to."""

from __future__ import annotations

import asyncio

from dragoman import Agent, Turn

agent = Agent("chain-agent")


@agent.prompt
async def answer(turn: Turn) -> None:
    """Do what the prompt says: `tool TEXT`, `wait`, or repeat it."""
    command, _, rest = turn.text.partition(" ")
    if command == "tool":
        tools = [tool for tool in await turn.tools.list_tools() if tool.tool == "echo"]
        result = await turn.tools.call(tools[0].server, "echo", {"message": rest})
        await turn.say(result.text or str(result.structured))
    elif command == "wait":
        await turn.say("waiting")
        await asyncio.sleep(60)  # until it is cancelled
    else:
        for word in turn.text.split():
            await turn.say(f"{word} ")


if __name__ == "__main__":
    agent.run()
