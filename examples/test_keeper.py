"""The keeper, tested in memory: no process, no socket, no sleep."""

import asyncio
from pathlib import Path

from dragoman import WorkspaceAccess
from dragoman.testing import connect_in_memory
from examples.keeper import agent


def test_a_note_is_kept_when_the_user_allows_it(tmp_path: Path) -> None:
    async def scene() -> str:
        async with connect_in_memory(agent, permission="allow", workspace=WorkspaceAccess()) as keeper:
            session = await keeper.open_session(cwd=str(tmp_path))
            return await session.ask("buy milk")

    assert asyncio.run(scene()) == "Kept."
    assert (tmp_path / "notes.md").read_text() == "- buy milk\n"


def test_nothing_is_written_when_the_user_refuses(tmp_path: Path) -> None:
    async def scene() -> list[str]:
        async with connect_in_memory(agent, permission="deny", workspace=WorkspaceAccess()) as keeper:
            session = await keeper.open_session(cwd=str(tmp_path))
            await session.ask("buy milk")
            return [call.status for call in session.tool_calls.values()]

    assert asyncio.run(scene()) == ["failed"]
    assert not (tmp_path / "notes.md").exists()
