"""An agent that tells the client which lines it works on: lines 2 and 3 of poem.txt."""

from dragoman import Agent, Turn
from dragoman.schema.toolcall import ToolCallLocation

agent = Agent("locations", version="0.1")


@agent.prompt
async def look(turn: Turn) -> None:
    # Only the draft has the end of a range. Clients of other dialects get line 2.
    where = ToolCallLocation(path=f"{turn.session.cwd}/poem.txt", line=2, meta={"dragoman": {"endLine": 3}})
    async with turn.tool("Read the poem", kind="read", paths=[where]):
        await turn.say("Nice.")


if __name__ == "__main__":
    agent.run()
