"""The examples for client authors run as a reader would run them, also with an interpreter between client and agent."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).parents[2] / "docs" / "examples"

# A handful of interpreters on a busy machine; longer than this is a hang. Seconds.
PATIENCE = 60

DRAGOMAN = (sys.executable, "-m", "dragoman")
EVERYTHING = (*DRAGOMAN, "agent", "everything")


def behind(dialect: str) -> tuple[str, ...]:
    """The everything agent in this dialect, behind an interpreter; the client speaks v1."""
    return (*DRAGOMAN, "translate", "--", *EVERYTHING, "--dialect", dialect)


# The agent itself, and through two translated dialects.
AGENTS = [pytest.param(EVERYTHING, id="v1"), *(pytest.param(behind(name), id=name) for name in ("draft", "crow"))]


def agent(name: str) -> tuple[str, str]:
    """An agent among the examples."""
    return sys.executable, str(EXAMPLES / f"{name}.py")


def run(name: str, *arguments: str, cwd: Path) -> list[str]:
    """Run an example to its end and give what it printed."""
    done = subprocess.run(
        (sys.executable, str(EXAMPLES / f"{name}.py"), *arguments),
        cwd=cwd,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=False,
    )
    assert done.returncode == 0, f"exit code {done.returncode}\n{done.stdout}\n{done.stderr}"
    return done.stdout.splitlines()


@pytest.mark.parametrize("command", AGENTS)
def test_the_transcript_has_what_was_said_and_done_in_order(command: tuple[str, ...], tmp_path: Path) -> None:
    heard = run("transcript", "/tour", *command, cwd=tmp_path)
    assert heard[0] == "user: /tour"
    speakers = [line.partition(":")[0] for line in heard if line.startswith(("user:", "thought:", "agent:"))]
    assert speakers[:2] == ["user", "thought"]
    assert speakers[-1] == "agent"
    assert any(line.startswith("[completed] ") for line in heard)
    assert any(line.startswith("- ") for line in heard)


@pytest.mark.item("004-09")
@pytest.mark.parametrize("command", AGENTS)
def test_many_sessions_of_two_agents_work_at_once(command: tuple[str, ...], tmp_path: Path) -> None:
    heard = run("many", *command, cwd=tmp_path)
    assert heard == [*(f"from session {number}" for number in range(4)), "4 sessions"]


@pytest.mark.parametrize("command", [EVERYTHING, behind("draft"), behind("banjo")], ids=["v1", "draft", "banjo"])
def test_a_policy_lets_one_file_be_written_and_no_other(command: tuple[str, ...], tmp_path: Path) -> None:
    run("policy", *command, cwd=tmp_path)
    assert (tmp_path / "notes.md").read_text().strip() == "remember"
    assert not (tmp_path / "other.md").exists()


@pytest.mark.item("004-37")
@pytest.mark.parametrize(("dialect", "marked"), [("draft", [2, 3]), ("v1", [2])])
def test_a_client_goes_where_the_agent_goes_and_marks_the_range(
    dialect: str, marked: list[int], tmp_path: Path
) -> None:
    (tmp_path / "poem.txt").write_text("one\ntwo\nthree\nfour\n")
    script = tmp_path / "guide.py"
    text = (EXAMPLES / "guide.py").read_text().replace('version="0.1"', f'version="0.1", dialect="{dialect}"')
    script.write_text(text)
    heard = run("follow", sys.executable, str(script), cwd=tmp_path)
    assert heard[0] == "poem.txt, line 2"
    lines = ["one", "two", "three", "four"]
    assert heard[1:] == [
        f"{'>' if number in marked else ' '} {number} {line}" for number, line in enumerate(lines, start=1)
    ]


@pytest.mark.item("004-60")
@pytest.mark.parametrize("command", AGENTS)
def test_each_error_is_recovered_from_as_long_as_there_is_hope(command: tuple[str, ...], tmp_path: Path) -> None:
    for kind, explained, tries in (
        ("rate_limited", "The agent is asked too often; the next try has to wait", 3),
        ("permission_denied", "This was not allowed", 2),
    ):
        heard = run("recover", f"/error {kind}", *command, cwd=tmp_path)
        assert heard == [*[f"{explained}: you asked for the error {kind}"] * tries, f"gave up: {kind}"]
    assert run("recover", "/echo all is well", *command, cwd=tmp_path) == ["all is well"]


@pytest.mark.item("004-62")
@pytest.mark.parametrize("command", AGENTS)
def test_a_silent_turn_is_given_up_and_the_session_lives_on(command: tuple[str, ...], tmp_path: Path) -> None:
    heard = run("patience", *command, cwd=tmp_path)
    assert heard == ["True: nothing was heard of the agent for 0.5 s", "still there"]


@pytest.mark.parametrize("between", [(), (*DRAGOMAN, "translate", "--client-dialect", "banjo", "--")])
def test_forms_are_filled_and_links_shown_whole(between: tuple[str, ...], tmp_path: Path) -> None:
    assert run("elicit", *between, *agent("curious"), cwd=tmp_path) == [
        "The agent asks: Who are you?",
        "The agent wants you to visit https://guests.example.org/sign?from=curious",
        "Hello, Ada. Another time, then.",
    ]


def test_one_signs_in_in_the_terminal_and_goes_on(tmp_path: Path) -> None:
    assert run("signin", *agent("guarded"), cwd=tmp_path) == [
        "Signing in: In a terminal",
        "Welcome! You are signed in.",
        "At your service.",
    ]
