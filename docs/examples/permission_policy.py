"""Answer permission requests with a callable object: `permission_policy.py COMMAND...`."""

import asyncio
import sys

from dragoman import WorkspaceAccess, connect
from dragoman.schema.permission import RequestPermissionParams


class OnlyNotes:
    """Allows writes to notes.md, one at a time, and nothing else."""

    def __call__(self, question: RequestPermissionParams) -> str | None:
        paths = [location.path for location in question.tool_call.locations or ()]
        is_allowed = bool(paths) and all(path.endswith("/notes.md") for path in paths)
        wanted = "allow_once" if is_allowed else "reject_once"
        print(f"{question.tool_call.title}: {wanted}")
        return next((option.option_id for option in question.options if option.kind == wanted), None)


async def main(command: list[str]) -> None:
    async with connect(command, permission=OnlyNotes(), workspace=WorkspaceAccess()) as agent:
        session = await agent.open_session(cwd=".")
        await session.ask("/write notes.md remember")
        await session.ask("/write other.md forget")


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1:]))
