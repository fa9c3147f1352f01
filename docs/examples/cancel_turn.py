"""Cancel a turn when a tool call is in progress, and wait for the end of the turn: `cancel_turn.py COMMAND...`."""

import asyncio
import sys

from dragoman import connect


async def main(command: list[str]) -> None:
    async with connect(command) as agent:
        session = await agent.open_session(cwd=".")
        async with session.prompt("build") as turn:
            async for _ in turn:
                if any(call.status == "in_progress" for call in session.tool_calls.values()):
                    turn.cancel("it takes too long")
        print(turn.stop_reason)
        print(*(message.text for message in session.transcript.messages if message.role == "agent"))


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1:]))
