"""Commands that change the index of a git repository: which they are, and that two sessions do not run them at once."""

from __future__ import annotations

import asyncio
import os
import subprocess
from pathlib import Path

import pytest

from dragoman import ProtocolError, Turn
from dragoman.workspace.coordination import FileCoordinator
from dragoman.workspace.git_index import changed_indexes
from tests.workspace.tree import TreeAgent, agents_on

BOUND = 60.0


def repository(folder: Path) -> str:
    """Make a repository; return the path of its index."""
    subprocess.run(["git", "init", "--quiet", str(folder)], check=True)
    return str(folder.resolve() / ".git" / "index")


@pytest.mark.parametrize(
    ("line", "changes"),
    [
        ("git add .", True),
        ("/usr/bin/git commit -m 'one; two'", True),
        ("sh -c 'make && git -c user.name=me commit -am x'", True),
        ("GIT_EDITOR=true git rebase --continue", True),
        ("git -C . stash", True),
        ("git status", False),
        ("git log -- add", False),
        ("echo git add", False),
        ("gitk add", False),
        ("", False),
    ],
)
def test_only_commands_that_write_the_index_are_found(tmp_path: Path, line: str, changes: bool) -> None:
    index = repository(tmp_path)
    (tmp_path / "inner").mkdir()
    assert changed_indexes(line, str(tmp_path / "inner")) == ([index] if changes else [])


def test_a_worktree_has_an_index_of_its_own_and_a_plain_folder_none(tmp_path: Path) -> None:
    repository(tmp_path / "main")
    git = ["git", "-C", str(tmp_path / "main"), "-c", "user.name=t", "-c", "user.email=t@localhost"]
    subprocess.run([*git, "commit", "--quiet", "--allow-empty", "-m", "first"], check=True)
    subprocess.run([*git, "worktree", "add", "--quiet", str(tmp_path / "other")], check=True, capture_output=True)
    (found,) = changed_indexes("git add .", str(tmp_path / "other"))
    assert found == str(tmp_path.resolve() / "main/.git/worktrees/other/index")
    assert changed_indexes("git -C ../main add .", str(tmp_path / "other")) == [str(tmp_path / "main/.git/index")]
    assert changed_indexes("git add .", str(tmp_path)) == []


async def hold_index(agent: TreeAgent, folder: Path, running: asyncio.Event, leave: asyncio.Event) -> None:
    """Run a git command that does not end before it is told to."""

    async def work(turn: Turn) -> None:
        command = f"git add . ; while [ ! -e '{folder}/go' ]; do sleep 0.02; done"
        terminal = await turn.terminals.create("sh", ["-c", command], cwd=str(folder))
        running.set()
        await leave.wait()
        Path(folder, "go").touch()
        await terminal.wait()

    await agent.run(work)


@pytest.mark.item("BR-27")
async def test_a_git_command_of_another_session_waits_or_is_refused_with_the_name_of_who_runs_one(
    tmp_path: Path,
) -> None:
    index = repository(tmp_path)
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
    coordinator = FileCoordinator(wait=0.0)
    running, leave = asyncio.Event(), asyncio.Event()
    async with (
        asyncio.timeout(BOUND),
        agents_on(tmp_path / "a", "plan", coordinator=coordinator) as (plan,),
        agents_on(tmp_path / "b", "code", coordinator=coordinator) as (code,),  # another folder, the same repository
    ):
        turn = asyncio.create_task(hold_index(plan, tmp_path / "a", running, leave))
        await running.wait()
        with pytest.raises(ProtocolError) as caught:
            await code.execute("git add .", tmp_path / "b")
        assert caught.value.data is not None
        assert (caught.value.data["path"], caught.value.data["heldBy"]) == (index, "plan")
        await code.execute("git status", tmp_path / "b")
        coordinator.wait = BOUND
        waiting = asyncio.create_task(code.execute("git add .", tmp_path / "b"))
        await asyncio.sleep(0)
        leave.set()
        await asyncio.gather(turn, waiting)
        assert coordinator.leases() == []
    assert not os.path.exists(f"{index}.lock")
