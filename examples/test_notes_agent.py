"""Test the notes agent in memory, without a process or a socket."""

import asyncio
from pathlib import Path

from dragoman import WorkspaceAccess
from dragoman.testing import connect_in_memory
from examples.notes_agent import agent


def test_the_note_is_written_if_the_user_allows_it(tmp_path: Path) -> None:
    async def run() -> str:
        async with connect_in_memory(agent, permission="allow", workspace=WorkspaceAccess()) as remote:
            session = await remote.open_session(cwd=str(tmp_path))
            return await session.ask("buy milk")

    assert asyncio.run(run()) == "Saved."
    assert (tmp_path / "notes.md").read_text() == "- buy milk\n"


def test_nothing_is_written_if_the_user_refuses(tmp_path: Path) -> None:
    async def run() -> list[str]:
        async with connect_in_memory(agent, permission="deny", workspace=WorkspaceAccess()) as remote:
            session = await remote.open_session(cwd=str(tmp_path))
            await session.ask("buy milk")
            return [call.status for call in session.tool_calls.values()]

    assert asyncio.run(run()) == ["failed"]
    assert not (tmp_path / "notes.md").exists()
