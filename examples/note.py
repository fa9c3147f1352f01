"""A client that gives an agent notes to keep: `note.py TEXT COMMAND...`."""

import asyncio
import sys

from dragoman import WorkspaceAccess, WorkspaceUse, connect
from dragoman.schema.permission import RequestPermissionParams


def choose(params: RequestPermissionParams) -> str | None:
    """Which option of a question the user picks; here always the one that allows it once."""
    print(f"The agent wants to: {params.tool_call.title}")
    return next((option.option_id for option in params.options if option.kind == "allow_once"), None)


def approve(question: WorkspaceUse) -> bool:
    """Whether a file may be used: all may be read, one may be written."""
    return question.operation == "read" or question.resource.endswith("/notes.md")


async def main(text: str, command: list[str]) -> None:
    lending = WorkspaceAccess(terminals=False, approve=approve)
    async with connect(command, permission=choose, workspace=lending) as agent:
        session = await agent.open_session(cwd=".")
        print(await session.ask(text))
        for call in session.tool_calls.values():
            print(f"{call.title}: {call.status}")


asyncio.run(main(sys.argv[1], sys.argv[2:]))
