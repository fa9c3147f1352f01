"""Log in to an agent in this terminal: `terminal_login.py COMMAND...`."""

import asyncio
import sys

from dragoman import Kind, ProtocolError, connect, run_in_terminal


async def main(command: list[str]) -> None:
    async with connect(command, terminal_login=run_in_terminal) as agent:
        try:
            session = await agent.open_session(cwd=".")
        except ProtocolError as error:
            if error.kind != Kind.AUTH_REQUIRED:
                raise
            method = (agent.initialize_result.auth_methods or [])[0]
            print(f"Logging in: {method.name}", flush=True)
            await agent.authenticate(method.id)  # runs the login command, then restarts the agent
            session = await agent.open_session(cwd=".")
        print(await session.ask("hello"))


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1:]))
