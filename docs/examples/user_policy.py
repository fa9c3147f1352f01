"""A client that follows the user's policy and asks on the terminal if the policy says so."""

import asyncio
import os
import sys

from dragoman import connect
from dragoman.config.paths import user_paths
from dragoman.policy.decision import ALLOW, DENY
from dragoman.roles.client.permission.guard import Guard
from dragoman.roles.client.permission.questions import PermissionChoice, PermissionPrompt


async def ask(prompt: PermissionPrompt) -> PermissionChoice:
    print(*prompt.lines, sep="\n", file=sys.stderr)
    answer = await asyncio.to_thread(input, "y/n/s(ession)? ")
    return PermissionChoice(ALLOW if answer in ("y", "s") else DENY, "session" if answer == "s" else "once")


async def main(command: list[str], prompt: str) -> None:
    guard = Guard.for_user(user_paths(), ask=ask, environ=os.environ)
    async with connect(command, permission=guard.request_permission, workspace=guard.workspace_access()) as agent:
        guard.set_agent(agent)
        session = await agent.open_session(".")
        print(await session.ask(prompt))
    await guard.close()


if __name__ == "__main__":
    asyncio.run(main(sys.argv[2:], sys.argv[1]))
