"""A client that sends a note to an agent: `add_note.py TEXT COMMAND...`."""

import asyncio
import sys

from dragoman import WorkspaceAccess, WorkspaceUse, connect
from dragoman.schema.permission import RequestPermissionParams


def choose(params: RequestPermissionParams) -> str | None:
    """Return the id of the chosen option; here always "allow once"."""
    print(f"The agent wants to: {params.tool_call.title}")
    return next((option.option_id for option in params.options if option.kind == "allow_once"), None)


def approve(use: WorkspaceUse) -> bool:
    """Whether the agent may use a file: it may read every file and write one."""
    return use.operation == "read" or use.resource.endswith("/notes.md")


async def main(text: str, command: list[str]) -> None:
    access = WorkspaceAccess(terminals=False, approve=approve)
    async with connect(command, permission=choose, workspace=access) as agent:
        session = await agent.open_session(cwd=".")
        print(await session.ask(text))
        for call in session.tool_calls.values():
            print(f"{call.title}: {call.status}")


asyncio.run(main(sys.argv[1], sys.argv[2:]))
