"""Print the messages and tool calls of a session, with their updates merged: `transcript.py TEXT COMMAND...`."""

import asyncio
import sys

from dragoman import Message, ToolCall, connect


async def main(text: str, command: list[str]) -> None:
    async with connect(command, permission="allow") as agent:
        session = await agent.open_session(cwd=".")
        await session.ask(text)
        for entry in session.transcript:
            match entry:
                case Message():
                    print(f"{entry.role}: {entry.text.strip()}")
                case ToolCall():
                    print(f"[{entry.status}] {entry.title}")
        for step in session.plan:
            print(f"- {step.content}: {step.status}")


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], sys.argv[2:]))
