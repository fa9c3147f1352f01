"""Run an agent in a sandbox: one folder, no network, few variables. `sandbox.py READABLE-FOLDER COMMAND...`."""

import asyncio
import sys

from dragoman import Limits, Sandbox, SandboxUnavailable, WorkspaceAccess, connect


async def main(command: list[str], read: str) -> None:
    sandbox = Sandbox(net="none", read=(read,), limits=Limits(open_files=1024))
    try:
        async with connect(command, permission="allow", workspace=WorkspaceAccess(), sandbox=sandbox) as agent:
            session = await agent.open_session(".")
            print(await session.ask("/write note.txt hello"))
            print(await session.ask("/run touch ../outside.txt"))
    except SandboxUnavailable as error:
        print(f"not started: {error}")


asyncio.run(main(sys.argv[2:], sys.argv[1]))
