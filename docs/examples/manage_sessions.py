"""Load, resume, fork, delete and list sessions: `manage_sessions.py COMMAND`."""

import asyncio
import sys

from dragoman import connect


async def main(command: list[str]) -> None:
    async with connect(command) as agent:
        session = await agent.open_session(cwd=".")
        await session.ask("one")
        await session.close()
        loaded = await agent.load_session(session.id)  # returns after the complete history has arrived
        print("loaded:", *(message.text for message in loaded.transcript.messages))
        await agent.close_session(session.id)
        resumed = await agent.resume_session(session.id)
        print("resumed:", len(resumed.transcript), "messages;", await resumed.ask("two"))
        fork = await agent.fork_session(session.id)
        print("forked:", await fork.ask("three"))
        await agent.delete_session(session.id)
        print("left:", [info.session_id == fork.id async for info in agent.iter_sessions()])


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1:]))
