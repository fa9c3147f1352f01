"""Where a session can run: on one node, on a shared volume, on a repository, or with an agent that runs elsewhere."""

from __future__ import annotations

import asyncio
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

from dragoman import ProtocolError
from dragoman.config.config_file import NamedAgent
from dragoman.host.fleet import agent_repository, places
from dragoman.host.fleet.agent_repository import check_repository
from dragoman.host.fleet.git_workspaces import GitWorkspaces
from dragoman.host.fleet.operate import move_session
from dragoman.host.fleet.places import GitSource, Place
from dragoman.store.fleet import NodeInfo
from dragoman.workspace.git import GitFailed
from tests.host.fleet.memory_fleet import FAST, Node, running_fleet
from tests.host.fleet.test_ownership import kill, wait_dead
from tests.host.memory_host import messages_of, open_session


def run_git(cwd: Path | str, *arguments: str) -> str:
    identity = ("-c", "user.name=ann", "-c", "user.email=ann@example.org")
    return subprocess.run(
        ["git", *identity, *arguments], cwd=cwd, check=True, capture_output=True, text=True
    ).stdout.strip()


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    """A bare repository with one commit on main."""
    work, bare = tmp_path / "work", tmp_path / "roof.git"
    run_git(tmp_path, "init", "--quiet", "-b", "main", str(work))
    (work / "plan.txt").write_text("tiles\n")
    (work / ".gitignore").write_text("node_modules/\n.env\n")
    run_git(work, "add", ".")
    run_git(work, "commit", "--quiet", "-m", "plan")
    run_git(tmp_path, "clone", "--quiet", "--bare", str(work), str(bare))
    return bare


def labels_for(repository: Path) -> dict[str, tuple[str, ...]]:
    return dict.fromkeys(("n1", "n2"), (f"git:file://{repository.parent}",))


def folder_of(node: Node, session: str) -> Path:
    return Path(node.host.rooms[session].state.cwd)


@pytest.mark.item("FL-17")
@pytest.mark.item("FL-19")
async def test_a_session_on_a_repository_wakes_elsewhere_with_what_was_not_committed(
    tmp_path: Path, repository: Path
) -> None:
    place = f"git:file://{repository}#main"
    async with running_fleet(("n1", "n2"), labels=labels_for(repository), workspaces=tmp_path, times=FAST) as (
        first,
        second,
    ):
        async with first.client() as near, second.client() as far:
            session = await open_session(near, "/", place=place)
            folder = folder_of(first, session.id)
            assert (folder / "plan.txt").read_text() == "tiles\n"
            assert run_git(folder, "branch", "--show-current") == f"dragoman/{session.id}"
            distant = await far.load_session(session.id, "/")
            (folder / "plan.txt").write_text("slate\n")
            run_git(folder, "commit", "--quiet", "-am", "local commit")
            run_git(folder, "branch", "idea")
            (folder / "plan.txt").write_text("stashed\n")
            run_git(folder, "stash", "--quiet")
            (folder / "plan.txt").write_text("slate and copper\n")
            (folder / "new.txt").write_text("new\n")
            (folder / ".env").write_text("KEY=1\n")
            (folder / "node_modules").mkdir()
            (folder / "node_modules" / "x.js").write_text("x\n")
            await session.ask("one")
            await kill(first)
            await wait_dead(first, second)
            notices: list[Any] = []
            distant.on_update = notices.append
            assert (await distant.ask("two")).endswith("heard two")
            assert second.owns(session.id)
            moved = folder_of(second, session.id)
            assert moved != folder
            assert (moved / "plan.txt").read_text() == "slate and copper\n"
            assert (moved / "new.txt").read_text() == "new\n"
            assert run_git(moved, "log", "--format=%s").splitlines() == ["local commit", "plan"]
            assert set(run_git(moved, "status", "--porcelain").split("\n")) == {"M plan.txt", "?? new.txt"}
            assert run_git(moved, "branch", "--show-current") == f"dragoman/{session.id}"
            assert not (moved / ".env").exists()
            log = await second.host.store.read(session.id)
            restored = next(entry.body["restored"] for entry in log if "restored" in str(entry.body))
            assert restored["source"] == "checkpoint"
            assert sorted(restored["leftOut"]) == [".env", "branch idea", "node_modules/", "stashes"]
            assert "not in it: .env, node_modules/" in restored["message"]
            assert any("not in it" in str(each) for each in notices), "the members are told"


async def test_a_session_that_comes_back_to_a_node_has_the_work_of_the_other(tmp_path: Path, repository: Path) -> None:
    source = GitSource(f"file://{repository}")
    first, second = (GitWorkspaces(str(tmp_path / name)) for name in ("a", "b"))
    here = await first.prepare("s1", source, is_current=False)
    assert here.source == "start"
    Path(here.path, "plan.txt").write_text("of the first\n")
    assert (await first.checkpoint("s1", source, 1)) is not None
    assert (await first.checkpoint("s1", source, 1)) is None, "nothing changed"
    Path(here.path, "late.txt").write_text("never saved\n")
    there = await second.prepare("s1", source, is_current=False)
    assert Path(there.path, "plan.txt").read_text() == "of the first\n"
    Path(there.path, "plan.txt").write_text("of the second\n")
    saved = await second.checkpoint("s1", source, 2)
    assert saved is not None
    # A push of the former owner that comes late counts for nothing.
    assert (await first.checkpoint("s1", source, 1)) is not None
    again = await first.prepare("s1", source, is_current=False)
    assert Path(again.path, "plan.txt").read_text() == "of the second\n"
    assert not Path(again.path, "late.txt").exists()
    kept = [each for each in Path(here.path).parent.iterdir() if "before" in each.name]
    assert (kept[0] / "late.txt").exists(), "nothing is deleted"
    await first.remove("s1", source)
    assert run_git(repository, "for-each-ref", "refs/dragoman") == ""


async def test_the_configuration_of_a_working_tree_runs_nothing_of_its_agent(tmp_path: Path, repository: Path) -> None:
    source = GitSource(f"file://{repository}")
    workspaces = GitWorkspaces(str(tmp_path / "a"))
    tree = await workspaces.prepare("s1", source, is_current=False)
    proof = tmp_path / "proof"
    for name in (
        "filter.x.clean",
        "filter.x.smudge",
        "core.fsmonitor",
        "core.sshCommand",
        "uploadpack.packObjectsHook",
    ):
        run_git(tree.path, "config", name, f"touch {proof}")
    for name in ("pre-push", "post-index-change", "reference-transaction"):
        hook = Path(tree.path, ".git", "hooks", name)
        hook.parent.mkdir(exist_ok=True)
        hook.write_text(f"#!/bin/sh\ntouch {proof}\n")
        hook.chmod(0o755)
    Path(tree.path, ".gitattributes").write_text("* filter=x\n")
    Path(tree.path, "plan.txt").write_text("changed\n")
    proof.unlink(missing_ok=True)
    assert await workspaces.checkpoint("s1", source, 1) is not None
    assert not proof.exists()


async def test_a_repository_inside_a_working_tree_runs_nothing_of_its_agent(tmp_path: Path, repository: Path) -> None:
    source = GitSource(f"file://{repository}")
    workspaces = GitWorkspaces(str(tmp_path / "a"))
    tree = await workspaces.prepare("s1", source, is_current=False)
    proof, inner = tmp_path / "proof", Path(tree.path, "inner")
    run_git(tree.path, "init", "--quiet", "inner")
    (inner / "file.txt").write_text("one\n")
    (inner / ".gitattributes").write_text("* filter=x\n")
    run_git(inner, "add", ".")
    run_git(inner, "commit", "--quiet", "-m", "one")
    for name in ("core.fsmonitor", "filter.x.clean"):
        run_git(inner, "config", name, f"touch {proof}; cat")
    for number in range(3):  # git asks about it only when it is in the index
        (inner / "file.txt").write_text(f"{number}\n")
        Path(tree.path, "plan.txt").write_text(f"{number}\n")
        saved = await workspaces.checkpoint("s1", source, 1)
        assert saved is not None
        assert saved.left_out == ("inner/",)
        assert not proof.exists()


@pytest.mark.parametrize("way", ["file", "link", "alternates", "commondir", "linked head", "linked objects"])
async def test_a_checkpoint_has_nothing_of_another_repository(tmp_path: Path, repository: Path, way: str) -> None:
    source = GitSource(f"file://{repository}")
    workspaces = GitWorkspaces(str(tmp_path / "a"))
    run_git(tmp_path, "clone", "--quiet", str(repository), "other")
    theirs = tmp_path / "other" / ".git"
    own = Path((await workspaces.prepare("s1", source, is_current=False)).path, ".git")
    if way in ("file", "link"):
        shutil.rmtree(own)
        own.symlink_to(theirs) if way == "link" else own.write_text(f"gitdir: {theirs}\n")
    elif way == "alternates":
        (own / "objects" / "info" / "alternates").write_text(f"{theirs}/objects\n")
    elif way == "commondir":
        (own / "commondir").write_text(f"{theirs}\n")
    else:
        name = way.removeprefix("linked ").replace("head", "HEAD")
        (own / name).rename(tmp_path / "moved")
        (own / name).symlink_to(theirs / name)
    with pytest.raises(GitFailed, match="is not used"):
        await workspaces.checkpoint("s1", source, 1)
    assert run_git(repository, "for-each-ref", "refs/dragoman") == ""


def test_a_repository_with_too_many_levels_or_files_is_not_used(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    deep, large = tmp_path / "deep", tmp_path / "large"
    folders = [deep / ".git" / "/".join("d" * 1200), large / ".git" / "refs" / "heads" / "/".join("d" * 90)]
    subprocess.run(["mkdir", "-p", *map(str, folders)], check=True, timeout=60)
    try:
        check_repository(str(large))
        with pytest.raises(GitFailed, match="more than 100 levels"):
            check_repository(str(deep))
    finally:
        subprocess.run(["rm", "-r", str(deep)], check=True, timeout=60)  # pytest removes no folder of so many levels
    monkeypatch.setattr(agent_repository, "_MAX_ENTRIES", 50)
    with pytest.raises(GitFailed) as caught:
        check_repository(str(large))
    assert "more than 50 files; run git gc" in str(caught.value)


async def test_a_branch_with_an_odd_name_does_not_keep_a_session_from_waking(tmp_path: Path, repository: Path) -> None:
    source = GitSource(f"file://{repository}")
    first, second = (GitWorkspaces(str(tmp_path / name)) for name in ("a", "b"))
    tree = Path((await first.prepare("s1", source, is_current=False)).path)
    head = run_git(tree, "rev-parse", "HEAD")
    (tree / ".git" / "refs" / "heads" / "-q").write_text(f"{head}\n")
    (tree / ".git" / "HEAD").write_text("ref: refs/heads/-q\n")
    (tree / "plan.txt").write_text("changed\n")
    assert await first.checkpoint("s1", source, 1) is not None
    there = await second.prepare("s1", source, is_current=False)
    assert run_git(there.path, "branch", "--show-current") == "dragoman/s1"


async def test_a_checkpoint_that_fails_is_told_and_fails_no_turn(tmp_path: Path, repository: Path) -> None:
    place = f"git:file://{repository}"
    async with running_fleet(("n1",), labels=labels_for(repository), workspaces=tmp_path) as (node,):
        async with node.client() as client:
            session = await open_session(client, "/", place=place)
            repository.rename(tmp_path / "gone.git")
            folder_of(node, session.id).joinpath("plan.txt").write_text("changed\n")
            assert await session.ask("one") == "heard one"
            log = node.host.rooms[session.id].log
            async with asyncio.timeout(60):  # it is saved after the answer
                while "could not be saved" not in str(await node.host.store.read(session.id)):
                    await log.flush()


async def test_places_that_cannot_be_used_are_refused_by_name(tmp_path: Path, repository: Path) -> None:
    async with running_fleet(("n1",), labels=labels_for(repository), workspaces=tmp_path) as (node,):
        async with node.client() as client:
            for place, reason in {
                "git:https://elsewhere.example/x": "n1 may not clone https://elsewhere.example/x",
                "git:ext::sh -c id": "is no repository",
                "git:https://ann:secret@host.example/x": "must not have credentials",
                f"git:file://{repository}#--upload-pack=x": "is no repository",
                f"git:file://{repository}#nowhere": "has no nowhere",
                f"git:file://{repository.parent}/../etc": "may not clone",
                "shared:all": "other places follow from the folder",
                "moon": "is no place",
            }.items():
                with pytest.raises(ProtocolError, match=reason):
                    await open_session(client, "/", place=place)
            assert not node.host.rooms


def test_labels_say_which_repositories_a_node_may_clone() -> None:
    info = NodeInfo(node="n1", labels=("git:https://git.example/team", "git:git@host.example:one.git"))
    for url, is_allowed in {
        "https://git.example/team/roof": True,
        "https://git.example/team.git": True,
        "https://git.example/teams": False,
        "https://git.example/team/../other": False,
        "git@host.example:one.git": True,
        "git@host.example:two.git": False,
    }.items():
        assert places.can_run(Place(places.GIT, f"{url}#main"), info) is is_allowed, url
    assert places.label_fault("git:x")
    assert not places.label_fault("git:https://git.example/team")


@pytest.mark.item("FL-17")
async def test_a_session_on_a_volume_wakes_elsewhere_and_one_on_a_folder_is_moved_by_an_admin(tmp_path: Path) -> None:
    shared = tmp_path / "shared"
    shared.mkdir()
    label = (f"shared:src={shared}",)
    async with running_fleet(("n1", "n2"), labels={"n1": label, "n2": label}, times=FAST) as (first, second):
        async with first.client() as near, second.client() as far:
            common, own = await open_session(near, shared), await open_session(near, tmp_path)
            distant = [await far.load_session(each.id, str(tmp_path)) for each in (common, own)]
            await kill(first)
            await wait_dead(first, second)
            assert await distant[0].ask("two") == "heard two"
            with pytest.raises(ProtocolError, match=r"workspace_away: its folder .* is on n1"):
                await distant[1].ask("two")
            await move_session(second.fleet.engine, own.id, "n2", str(tmp_path), "ann")
            assert await distant[1].ask("three") == "heard three"


async def test_an_agent_at_an_address_is_dialed_again_by_another_node() -> None:
    remote = NamedAgent(name="pod", command="ws://pod.example/acp")
    assert remote.is_remote
    async with running_fleet(("n1", "n2"), labels={"n1": (), "n2": ()}, agents=[remote], times=FAST) as (first, second):
        async with first.client() as near, second.client() as far:
            session = await open_session(near, "/srv/in-the-pod")
            assert await session.ask("one") == "heard one"
            distant = await far.load_session(session.id, "/srv/in-the-pod")
            await kill(first)
            await wait_dead(first, second)
            assert await distant.ask("two") == "heard two"
            assert second.host.rooms[session.id].state.place == "remote"
            assert messages_of(distant)[0] == ("user", "one")
            agent = second.hosted.started[-1]
            assert not agent.offers("client.fs.readTextFile"), "no files of the node for an agent elsewhere"
            assert not agent.offers("client.terminal")
