"""`dragoman team`, `compare` and `race`: real processes in a real repository."""

from __future__ import annotations

import json
import os
import shlex
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.bridge.team.repository import git, make_repository
from tests.cli.process import DRAGOMAN, EVERYTHING, TIMEOUT, dragoman, in_process

AGENT = f"{sys.executable} {Path(__file__).parents[1] / 'small_agent.py'}"
TWO = f"a={AGENT},b={AGENT}"


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    return make_repository(tmp_path / "repo")


def configure(tmp_path: Path, more: str = "") -> None:
    folder = tmp_path / "config" / "dragoman"
    folder.mkdir(parents=True)
    python, script = AGENT.split()
    (folder / "config.toml").write_text(
        f'[agents.small]\ncommand = "{python}"\nargs = ["{script}"]\n\n'
        f'[teams.web]\nagents = {{ plan = "small", code = "small" }}\nprimary = "code"\n{more}'
    )


@pytest.mark.item("BR-28")
def test_compare_prints_one_table_and_leaves_the_branches(repository: Path) -> None:
    result = dragoman(
        "compare", "write x.txt hello", "--agents", TWO, "--until", "grep -q hello x.txt", "--yes", cwd=repository
    )
    assert result.returncode == 0, result.stderr
    heading, first, second, *advice = result.stdout.splitlines()
    assert heading.split() == ["agent", "end", "changes", "tests", "tokens", "cost", "time", "branch"]
    assert first.split()[:7] == ["a", "end_turn", "1", "file", "+1", "-0", "pass"]
    assert second.split()[-1] == "dragoman/compare/b"
    assert advice[0] == "take one with: dragoman team merge dragoman/compare/a"
    assert not (repository / "x.txt").exists()
    assert git(repository, "worktree", "list").count("\n") == 1
    merged = in_process("team", "merge", "b", cwd=repository)
    assert (merged.returncode, merged.stdout.splitlines()[-1]) == (0, "merged dragoman/compare/b: 1 file")
    assert (repository / "x.txt").read_text() == "hello"


@pytest.mark.item("BR-28")
def test_compare_as_json_with_a_page_applies_one_agent_or_shows_the_conflicts(repository: Path, tmp_path: Path) -> None:
    page = tmp_path / "page.html"
    arguments = [
        "compare",
        "write a.txt changed",
        "--agents",
        TWO,
        "--until",
        "false",
        "--apply",
        "a",
        "--yes",
        "--json",
    ]
    result = dragoman(*arguments, "--page", str(page), cwd=repository)
    report = json.loads(result.stdout)
    assert result.returncode == 1  # the tests fail
    assert report["applied"] == {"agent": "a", "files": ["a.txt"], "conflicts": []}
    assert [(run["agent"], run["tests"], run["added"], run["removed"]) for run in report["runs"]] == [
        ("a", False, 1, 3),
        ("b", False, 1, 3),
    ]
    assert "+changed" in page.read_text()
    (repository / "a.txt").write_text("something else\n")
    conflict = in_process("team", "merge", "dragoman/compare/b", cwd=repository)
    assert conflict.returncode == 1
    assert "conflicts with this tree; nothing was changed:\n  a.txt" in conflict.stdout
    assert (repository / "a.txt").read_text() == "something else\n"


@pytest.mark.item("BR-28")
def test_compare_says_which_agent_was_refused_something(repository: Path) -> None:
    result = in_process("compare", "write a.txt hi", "--agents", TWO, cwd=repository)
    for name in ("a", "b"):
        assert f"{name}: refused (there is nobody to ask): Write a.txt" in result.stderr


def test_race_stops_the_others_and_applies_the_winner(repository: Path) -> None:
    result = dragoman(
        "race",
        "write x.txt hello",
        "--agents",
        f"quick={AGENT}",
        "--until",
        "test -f x.txt",
        "--apply",
        "--yes",
        cwd=repository,
    )
    assert result.returncode == 0, result.stderr
    assert result.stdout.splitlines()[1].startswith("quick *")
    assert (repository / "x.txt").read_text() == "hello"
    lost = dragoman("race", "hello", "--agents", TWO, "--until", "false", "--rounds", "1", cwd=repository)
    assert lost.returncode == 1
    assert "dragoman/race/" not in lost.stdout


def test_ctrl_c_stops_all_agents_and_removes_the_worktrees(repository: Path) -> None:
    command = [*DRAGOMAN, "compare", "await never", "--agents", TWO]
    with subprocess.Popen(
        command, cwd=repository, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        deadline = time.monotonic() + TIMEOUT
        while git(repository, "worktree", "list").count("\n") < 3 and time.monotonic() < deadline:
            time.sleep(0.05)
        process.send_signal(signal.SIGINT)
        _, said = process.communicate(timeout=TIMEOUT)
    assert process.returncode == 130
    assert "interrupted; all agents are stopped" in said
    assert git(repository, "worktree", "list").count("\n") == 1
    branches = git(repository, "branch", "--format=%(refname:short)").split()
    assert branches == ["main"], [git(repository, "show", "--stat", branch) for branch in branches]


def test_a_team_of_the_config_is_an_agent_like_any_other(repository: Path, tmp_path: Path) -> None:
    configure(tmp_path, 'rules = [{ when = "review", to = "plan" }]\n')
    result = dragoman("run", "--agent", "web", "write t.txt hi", "--yes", cwd=repository)
    assert (result.returncode, result.stdout) == (0, "It is written.\n"), result.stderr
    assert (repository / "t.txt").read_text() == "hi"
    assert in_process("team", "files", cwd=repository).stdout == "t.txt: code\n"
    events = json.loads(in_process("team", "log", "--json", cwd=repository).stdout)
    assert [event["kind"] for event in events["events"]] == ["started", "opened", "asked", "wrote", "answered"]
    assert events["running"] is False
    assert "code was asked" in in_process("team", "log", cwd=repository).stdout
    assert in_process("team", "leases", cwd=repository).stdout == "no leases\n"
    assert json.loads(in_process("team", "list", "--json").stdout)["teams"][0]["agents"] == {
        "plan": "small",
        "code": "small",
    }
    assert "web" in in_process("agents", "list").stdout


def test_team_run_is_run_with_a_team(repository: Path) -> None:
    result = dragoman(
        "team", "run", "hello", "--agents", TWO, "--route", "all", "--quiet", "--no-store", cwd=repository
    )
    assert result.returncode == 0, result.stderr
    assert result.stdout == "## a\n\nhello\n\n## b\n\nhello\n"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["compare", "x"], "which agents? give --agents A,B, or the name of a team"),
        (["compare", "x", "--agents", "a=b=,"], "there is no agent or program"),
        (["compare", "x", "--agents", "claude,claude"], "there are two agents claude"),
        (["compare", "x", "--agents", "../x y=z"], "use letters, digits"),
        (["compare", " ", "--agents", "a"], "the prompt is empty"),
        (["compare", "x", "--agents", "a", "--apply", "b"], "--apply: there is no agent 'b'; choose one of: a"),
        (["compare", "x", "--team", "nobody"], "there is no team 'nobody' in config.toml; there are none"),
        (["race", "x", "--agents", "a", "--rounds", "0"], "--rounds must be at least 1"),
        (["team", "run", "x", "--agents", "a", "--", "y"], "named with --agents, not given after --"),
        (["team", "serve", "--agents", "a", "--route", "rules"], "--route rules needs rules"),
        (["team", "serve", "--agents", "a", "--primary", "b"], "--primary: there is no agent 'b'"),
        (["team", "run", "x", "--agents", "a=no-such"], "dragoman team: there is no agent or program 'no-such' for a"),
        (["compare", "x", "--agents", "gemini"], "for gemini; install it with: dragoman agents install gemini"),
        (["team", "log"], "no team has worked yet"),
        (["team", "merge", "x"], "there is no branch 'x'; there are none; they come from"),
    ],
)
def test_wrong_usage_says_what_to_do(repository: Path, arguments: list[str], message: str) -> None:
    result = in_process(*arguments, cwd=repository)
    assert result.returncode in (1, 2)
    assert message in result.stderr
    assert "Traceback" not in result.stderr


@pytest.mark.parametrize("command", ["compare", "race"])
def test_a_contest_outside_a_repository_says_what_to_do_with_its_own_options(tmp_path: Path, command: str) -> None:
    until = ["--until", "true"] if command == "race" else []
    result = in_process(command, "x", "--agents", TWO, *until, cwd=tmp_path)
    assert result.returncode == 1
    assert result.stderr.endswith("is not in a git repository: run `git init` and commit\n")
    assert os.listdir(tmp_path) == []


@pytest.mark.parametrize("command", ["compare", "race"])
def test_a_closed_terminal_leaves_no_worktree(repository: Path, command: str) -> None:
    words = [*DRAGOMAN, command, "/slow 100", "--agents", f"a={shlex.join(EVERYTHING)}"]
    with subprocess.Popen(
        words, cwd=repository, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    ) as process:
        started = time.monotonic()
        while git(repository, "worktree", "list").count("\n") < 2 and time.monotonic() - started < TIMEOUT:
            time.sleep(0.05)
        process.send_signal(signal.SIGHUP)
    assert process.returncode == 129
    assert len(git(repository, "worktree", "list").splitlines()) == 1
