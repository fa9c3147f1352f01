"""Print the typed updates of a turn as they arrive: `updates.py COMMAND...`."""

import asyncio
import sys

from dragoman import connect
from dragoman.schema.content import TextContent
from dragoman.schema.update import AgentMessageChunk, Plan, ToolCallProgress, ToolCallStart


async def main(command: list[str]) -> None:
    async with connect(command) as agent:
        session = await agent.open_session(cwd=".")
        async with session.prompt("go") as turn:
            async for update in turn:
                match update:
                    case AgentMessageChunk(content=TextContent(text=text)):
                        print(f"text: {text}")
                    case Plan(entries=entries):
                        print("plan:", *(f"{entry.content} ({entry.status})," for entry in entries))
                    case ToolCallStart() | ToolCallProgress():
                        print(f"tool: {session.tool_calls[update.tool_call_id].title}")
        print(f"stop reason: {turn.stop_reason}")


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1:]))
