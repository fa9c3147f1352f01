"""An agent that points at what it looks at: lines 2 and 3 of poem.txt."""

from dragoman import Agent, Turn
from dragoman.schema.toolcall import ToolCallLocation

agent = Agent("guide", version="0.1")


@agent.prompt
async def look(turn: Turn) -> None:
    # Only the draft has a word for the end of a range; the others hear of line 2.
    where = ToolCallLocation(path=f"{turn.session.cwd}/poem.txt", line=2, meta={"dragoman": {"endLine": 3}})
    async with turn.tool("Read the poem", kind="read", paths=[where]):
        await turn.say("Nice.")


if __name__ == "__main__":
    agent.run()
