"""Worktrees of a team: each agent has its own, a merge changes all files or none."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from dragoman import Agent, ProtocolError, Turn
from dragoman.bridge.team.child import Child
from dragoman.bridge.team.comparison import AgentRun, Comparison
from dragoman.bridge.team.page import page, split_diff
from dragoman.bridge.team.team import Team
from dragoman.bridge.team.worktrees import Worktrees, find_branches
from dragoman.workspace.git import GitFailed
from tests.bridge.team.repository import git, make_repository, state_of
from tests.bridge.team.scripted import agent_that

LIMIT = 60.0


def writer(text: str, file: str = "a.txt") -> Agent:
    async def write(turn: Turn) -> str:
        await turn.files.write(f"{turn.session.cwd}/{file}", text)
        await turn.report_usage(input_tokens=5, output_tokens=5)
        return "written"

    return agent_that(write)


@pytest.mark.item("BR-28")
async def test_an_isolated_agent_starts_from_the_tree_as_it_is_and_changes_nothing_there(tmp_path: Path) -> None:
    repository = make_repository(tmp_path / "repo")
    before = state_of(repository)
    async with Team(repository, {"code": writer("mine\n")}, isolate=True, permission="allow") as team:
        await team.ask("code", "go")
        worktree = team.worktree("code")
        folder = Path(worktree.cwd)
        assert not folder.is_relative_to(repository)
        assert (folder / "src" / "app.py").read_text() == "x = 2\n"  # not committed
        assert (folder / "new.txt").read_text() == "new\n"  # not known to git
        assert not (folder / "secret.log").exists()  # ignored
        assert (repository / "a.txt").read_text() == "one\ntwo\nthree\n"
        assert git(folder, "branch", "--show-current").strip() == worktree.branch == "dragoman/team/code"
        result = await team.merge("code")
        assert (result.files, result.is_clean) == (("a.txt",), True)
    assert (repository / "a.txt").read_text() == "mine\n"
    assert (repository / "src" / "app.py").read_text() == "x = 2\n"
    assert (repository / "secret.log").exists()
    assert state_of(repository) == before
    assert not folder.exists()
    assert git(repository, "worktree", "list").count("\n") == 1
    assert await find_branches(str(repository)) == ["dragoman/team/code"]  # left for review


@pytest.mark.item("BR-28")
async def test_a_merge_with_conflicts_shows_them_and_changes_nothing(tmp_path: Path) -> None:
    repository = make_repository(tmp_path / "repo")
    agents = {"a": writer("from a\ntwo\nthree\n"), "b": writer("from b\ntwo\nthree\n")}
    async with Team(repository, agents, isolate=True, permission="allow") as team:
        await team.all(("a", "go"))  # its session is closed, its branch stays
        await team.ask("a", "go")
        await team.ask("b", "go")
        assert (await team.merge("a")).is_clean
        files = {
            path: path.read_bytes() for path in repository.rglob("*") if path.is_file() and ".git/" not in str(path)
        }
        result = await team.merge("b")
        assert result.conflicts == ("a.txt",)
        assert "CONFLICT (content): Merge conflict in a.txt" in result.messages
        assert {path: path.read_bytes() for path in files} == files


async def test_what_the_user_did_meanwhile_is_merged(tmp_path: Path) -> None:
    repository = make_repository(tmp_path / "repo")
    async with Team(repository, {"a": writer("ONE\ntwo\nthree\n")}, isolate=True, permission="allow") as team:
        await team.ask("a", "go")
        (repository / "a.txt").write_text("one\ntwo\nthree\nfour\n")
        (repository / "new.txt").unlink()
        assert (await team.merge("a")).is_clean
    assert (repository / "a.txt").read_text() == "ONE\ntwo\nthree\nfour\n"
    assert not (repository / "new.txt").exists()


async def test_an_agent_in_a_subfolder_works_there(tmp_path: Path) -> None:
    repository = make_repository(tmp_path / "repo")
    team = Team(repository / "src", {"a": writer("x = 3\n", "app.py")}, isolate=True, permission="allow")
    async with team:
        await team.ask("a", "go")
        assert team.worktree("a").cwd.endswith("/src")
        assert (await team.merge("a")).files == ("src/app.py",)


@pytest.mark.item("BR-28")
async def test_a_worktree_that_cannot_be_made_is_a_clear_error(tmp_path: Path) -> None:
    plain = tmp_path / "plain"
    plain.mkdir()
    with pytest.raises(GitFailed, match=r"is not in a git repository: run `git init` and commit, or do not isolate"):
        await Worktrees.open(str(plain), "team")
    git(plain, "init", "--quiet", ".")
    with pytest.raises(GitFailed, match="has no commit yet"):
        await Worktrees.open(str(plain), "team")
    repository = make_repository(tmp_path / "repo")
    git(repository, "update-ref", "refs/heads/dragoman", "HEAD")  # a branch where our folder of branches would be
    async with Team(repository, {"a": writer("x")}, isolate=True) as team:
        with pytest.raises(ProtocolError, match="the worktree of a cannot be made: git worktree failed"):
            await team.ask("a", "go")
        assert team.children == {}
    assert git(repository, "worktree", "list").count("\n") == 1


async def test_many_worktrees_can_be_made_at_once(tmp_path: Path) -> None:
    """git fails if two of its processes add worktrees at the same moment."""
    repository = make_repository(tmp_path / "repo")
    worktrees = await Worktrees.open(str(repository), "team")
    made = await asyncio.gather(*(worktrees.add(f"agent{number}") for number in range(6)))
    assert len({worktree.branch for worktree in made}) == 6
    await worktrees.close()
    assert await find_branches(str(repository)) == []


async def test_a_second_team_gets_branches_of_its_own(tmp_path: Path) -> None:
    repository = make_repository(tmp_path / "repo")
    for _ in range(2):
        async with Team(repository, {"a": writer("x")}, isolate=True, permission="allow") as team:
            await team.ask("a", "go")
    assert await find_branches(str(repository)) == ["dragoman/team/a", "dragoman/team/a-2"]


# --- compare and race -----------------------------------------------------------------------------------------


@pytest.mark.item("BR-28")
async def test_a_comparison_has_the_changes_tests_and_tokens_of_each_agent(tmp_path: Path) -> None:
    repository = make_repository(tmp_path / "repo")

    async def fail(turn: Turn) -> None:
        raise ProtocolError("internal_error", "out of ideas")

    agents = {"good": writer("one\ngood\nthree\n"), "bad": writer("bad\n"), "lost": agent_that(fail)}
    async with Team(repository, agents, name="compare", isolate=True, permission="allow") as team:
        comparison = Comparison(team, "improve a.txt", until="grep -q good a.txt")
        await comparison.compare()
    good, bad, lost = comparison.runs.values()
    assert (good.state, good.stop_reason, good.tests, good.tokens) == ("done", "end_turn", True, 10)
    assert (good.added, good.removed, [file.path for file in good.files]) == (1, 1, ["a.txt"])
    assert (bad.state, bad.tests, bad.branch) == ("done", False, "dragoman/compare/bad")
    assert (lost.state, lost.error, lost.files) == ("failed", "out of ideas", [])
    assert "+good" in good.diff
    assert await find_branches(str(repository)) == ["dragoman/compare/bad", "dragoman/compare/good"]


@pytest.mark.item("BR-28")
async def test_the_first_agent_whose_tests_pass_wins_and_the_others_are_stopped(tmp_path: Path) -> None:
    repository = make_repository(tmp_path / "repo")
    stopped = asyncio.Event()

    async def never(turn: Turn) -> None:
        try:
            await asyncio.Event().wait()
        finally:
            stopped.set()

    async def learn(turn: Turn) -> None:
        """Fail the tests once, then read what is wrong."""
        said = "done" if "failed with exit code 1" in turn.text else "wrong"
        await turn.files.write(f"{turn.session.cwd}/a.txt", f"{said}\n")

    agents = {"slow": agent_that(never), "quick": agent_that(learn)}
    team = Team(repository, agents, permission="allow")
    async with team, asyncio.timeout(LIMIT):
        run = await team.race("fix it", until="grep -q done a.txt", rounds=2)
        assert (run.agent, run.rounds, run.tests) == ("quick", 2, True)
        await stopped.wait()
        with pytest.raises(ProtocolError, match="no agent won the race: quick: the tests fail"):
            await team.race("fix it", ["quick"], until="false", rounds=1)
    assert await find_branches(str(repository)) == ["dragoman/team/quick"]
    assert git(repository, "worktree", "list").count("\n") == 1


async def test_a_race_waits_until_the_work_of_an_agent_that_was_second_is_noted(tmp_path: Path) -> None:
    repository = make_repository(tmp_path / "repo")
    second_is_done, first_has_ended = asyncio.Event(), asyncio.Event()
    ended: list[str] = []

    class Watched(Comparison):
        async def _end(self, run: AgentRun, child: Child) -> None:
            if run.agent == "second":
                second_is_done.set()
                await first_has_ended.wait()
            await super()._end(run, child)  # of the second: it is stopped meanwhile
            ended.append(run.agent)
            first_has_ended.set()

    async def wait(turn: Turn) -> None:
        await second_is_done.wait()

    agents = {"second": writer("2\n"), "first": agent_that(wait)}
    async with Team(repository, agents, isolate=True, permission="allow") as team, asyncio.timeout(LIMIT):
        comparison = Watched(team, "go")
        await comparison.race()
        assert ended == ["first", "second"]
    assert comparison.winner == "first"
    assert [run.error for run in comparison.runs.values()] == ["", ""]
    assert comparison.runs["second"].added == 1


async def test_a_page_has_the_diffs_next_to_each_other_and_escapes_what_agents_wrote(tmp_path: Path) -> None:
    repository = make_repository(tmp_path / "repo")
    agents = {"a": writer("<script>alert(1)</script>\u202e\n"), "b": writer("b\n", "src/app.py")}
    async with Team(repository, agents, isolate=True, permission="allow") as team:
        comparison = Comparison(team, "go")
        await comparison.compare()
    text = page("compare", "<b>go</b>", list(comparison.runs.values()), "a")
    assert "<script" not in text
    assert "&lt;script&gt;alert(1)&lt;/script&gt;\\u202e" in text
    assert text.count("not changed") == 2
    assert text.index("<h2>a.txt</h2>") < text.index("<h2>src/app.py</h2>")
    assert "a (winner)" in text
    assert split_diff("diff --git a/x b/x\n--- a/x\n+++ b/x\n@@ -1 +1 @@\n-a\n+b") == {"x": ["@@ -1 +1 @@", "-a", "+b"]}


@pytest.mark.parametrize("way", ["own repository", "inner repository"])
async def test_git_runs_nothing_that_an_agent_configured_in_its_worktree(tmp_path: Path, way: str) -> None:
    repository = make_repository(tmp_path / "repo")
    proof = tmp_path / "proof"
    worktrees = await Worktrees.open(str(repository), "team")
    worktree = await worktrees.add("code")
    place = Path(worktree.path)
    if way == "own repository":
        (place / ".git").unlink()
    else:
        place = place / "inner"
        place.mkdir()
        (place / "file.txt").write_text("one\n")
    git(place, "init", "--quiet", ".")
    git(place, "add", "--all")
    git(place, "commit", "--quiet", "-m", "mine")
    if way == "inner repository":
        git(place.parent, "add", "inner")
    git(place, "config", "core.fsmonitor", f"touch {proof}")
    (Path(worktree.path) / "a.txt").write_text("mine\n")
    assert await worktree.commit("work")
    assert "+mine" in await worktree.diff()
    assert "a.txt" in [each.path for each in await worktree.stats()]
    await worktrees.close()
    assert not proof.exists()
    assert not Path(worktree.path).exists()
    assert git(repository, "worktree", "list").count("\n") == 1
