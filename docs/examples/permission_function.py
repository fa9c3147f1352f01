"""Answer permission requests with a function that chooses an option: `permission_function.py COMMAND...`."""

import asyncio
import sys

from dragoman import WorkspaceAccess, connect
from dragoman.schema.permission import RequestPermissionParams


async def decide(question: RequestPermissionParams) -> str | None:
    """Return the id of an option, or None to cancel the request. A program with a user interface would ask the user."""
    wanted = "allow_once" if "harmless" in str(question.tool_call.title) else "reject_once"
    print(f"{question.tool_call.title}: {wanted}")
    return next((option.option_id for option in question.options if option.kind == wanted), None)


async def main(command: list[str]) -> None:
    async with connect(command, permission=decide, workspace=WorkspaceAccess()) as agent:
        session = await agent.open_session(cwd=".")
        for prompt in ("echo harmless", "touch dangerous"):
            print(await session.ask(prompt))


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1:]))
