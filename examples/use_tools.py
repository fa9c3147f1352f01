"""An agent that uses the tools of the MCP servers that its client names."""

from dragoman import Agent, Turn

agent = Agent("tools")


@agent.prompt
async def answer(turn: Turn) -> None:
    for tool in await turn.tools.list_tools():
        await turn.say(f"{tool.name}: {tool.description}\n")
        result = await turn.tools.call(tool.server, tool.tool, {"text": turn.text})
        await turn.say(result.text)


if __name__ == "__main__":
    agent.run()
