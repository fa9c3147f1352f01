"""The examples of the documents run as a reader would run them: as processes, one in front of the other."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
EXAMPLES = ROOT / "examples"

# A handful of interpreters on a busy machine; longer than this is a hang. Seconds.
PATIENCE = 120

DRAGOMAN = (sys.executable, "-m", "dragoman")


def example(name: str) -> tuple[str, str]:
    """The command that runs an example."""
    return sys.executable, str(EXAMPLES / f"{name}.py")


def run(*command: str, cwd: Path, code: int = 0) -> subprocess.CompletedProcess[str]:
    """Run a command to its end, which must be as expected."""
    done = subprocess.run(
        command, cwd=cwd, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=PATIENCE, check=False
    )
    assert done.returncode == code, f"exit code {done.returncode}\n{done.stdout}\n{done.stderr}"
    return done


def prompt(text: str, *agent: str, cwd: Path, yes: bool = True, code: int = 0) -> subprocess.CompletedProcess[str]:
    """Give an agent one prompt with `dragoman run`."""
    options = ("--yes",) if yes else ()
    return run(*DRAGOMAN, "run", *options, "--prompt", text, "--", *agent, cwd=cwd, code=code)


def notes(folder: Path) -> str | None:
    """What the keeper has kept."""
    file = folder / "notes.md"
    return file.read_text(encoding="utf-8") if file.exists() else None


def test_every_example_is_run_here() -> None:
    run_here = {"parrot", "ask", "loud", "keeper", "note", "discreet", "remote"}  # the last in test_remote_example.py
    assert {path.stem for path in EXAMPLES.glob("*.py") if not path.stem.startswith("test_")} == run_here


# "    $ command" in the README, and the indented lines below it that it prints.
SHOWN = re.compile(r"^    \$ (?P<command>.+)\n(?P<output>(?:    (?!\$).*\n)*)", re.M)
COMMANDS = list(SHOWN.finditer((ROOT / "README.md").read_text(encoding="utf-8")))


@pytest.mark.parametrize("shown", COMMANDS, ids=lambda shown: str(shown["command"]))
def test_what_the_readme_shows_is_what_its_reader_sees(shown: re.Match[str]) -> None:
    words = {"dragoman": DRAGOMAN, "python": (sys.executable,)}
    command = [part for word in shown["command"].split() for part in words.get(word, (word,))]
    heard = run(*command, cwd=ROOT).stdout
    assert heard
    if shown["output"]:
        assert heard == re.sub(r"^    ", "", shown["output"], flags=re.M)


def test_the_readme_shows_its_three_snippets_at_work() -> None:
    assert len(COMMANDS) == 3


def test_the_client_hears_the_parrot(tmp_path: Path) -> None:
    heard = run(*example("ask"), *example("parrot"), cwd=tmp_path).stdout.splitlines()
    assert len(heard) == 2
    assert "You said: hello" in heard[0]
    assert heard[1] == "end_turn"


def test_the_proxy_makes_the_client_loud(tmp_path: Path) -> None:
    heard = run(*example("ask"), *example("loud"), *example("parrot"), cwd=tmp_path).stdout.splitlines()
    assert "You said: HELLO" in heard[0]
    assert heard[1] == "end_turn"


@pytest.mark.parametrize("dialect", ["v1", "banjo", "2025.1", "crow", "draft"])
def test_the_parrot_speaks_the_dialect_of_its_client(dialect: str, tmp_path: Path) -> None:
    agent = example("parrot")
    heard = run(*DRAGOMAN, "run", "--dialect", dialect, "--prompt", "hello", "--", *agent, cwd=tmp_path)
    assert heard.stdout == "You said: hello\n"


def test_the_interpreter_stands_in_front_of_an_agent_of_another_dialect(tmp_path: Path) -> None:
    behind = (*DRAGOMAN, "agent", "everything", "--dialect", "draft")
    heard = prompt("/echo hello", *DRAGOMAN, "translate", "--", *behind, cwd=tmp_path)
    assert heard.stdout == "hello\n"


def test_the_settings_for_an_editor_start_the_interpreter(tmp_path: Path) -> None:
    block = re.search(r"^```json\n(.*?)^```$", (ROOT / "README.md").read_text(encoding="utf-8"), re.M | re.S)
    assert block is not None
    [server] = json.loads(block[1])["agent_servers"].values()
    assert (server["type"], server["command"]) == ("custom", "dragoman")
    options = server["args"][: server["args"].index("--") + 1]
    heard = prompt("hello", *DRAGOMAN, *options, *example("parrot"), cwd=tmp_path)
    assert heard.stdout == "You said: hello\n"


def test_the_keeper_writes_what_the_user_allows(tmp_path: Path) -> None:
    heard = prompt("buy milk", *example("keeper"), cwd=tmp_path)
    assert heard.stdout == "Kept.\n"
    assert notes(tmp_path) == "- buy milk\n"


def test_the_keeper_writes_nothing_that_nobody_allowed(tmp_path: Path) -> None:
    heard = prompt("buy milk", *example("keeper"), cwd=tmp_path, yes=False, code=6)
    assert heard.stdout == "Then I keep nothing.\n"
    assert notes(tmp_path) is None


def test_the_client_gives_the_keeper_a_note(tmp_path: Path) -> None:
    heard = run(*example("note"), "call home", *example("keeper"), cwd=tmp_path)
    assert heard.stdout.splitlines() == ["The agent wants to: Add a note", "Kept.", "Add a note: completed"]
    assert notes(tmp_path) == "- call home\n"


def test_the_discreet_proxy_lets_a_note_pass(tmp_path: Path) -> None:
    prompt("buy milk", *example("discreet"), *example("keeper"), cwd=tmp_path)
    assert notes(tmp_path) == "- buy milk\n"


def test_the_discreet_proxy_keeps_a_password_out(tmp_path: Path) -> None:
    heard = prompt("the password is 1234", *example("discreet"), *example("keeper"), cwd=tmp_path, code=1)
    assert "would hold a password" in heard.stderr
    assert notes(tmp_path) is None


def test_the_tests_among_the_examples_pass(tmp_path: Path) -> None:
    tests = sorted(map(str, EXAMPLES.glob("test_*.py")))
    heard = run(sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "-p", "no:xdist", *tests, cwd=ROOT)
    assert "9 passed" in heard.stdout


def test_the_commands_of_the_five_minutes_run_as_they_stand_on_the_page(tmp_path: Path) -> None:
    page = (ROOT / "docs" / "testing.md").read_text(encoding="utf-8")
    (command,) = [shown["command"] for shown in SHOWN.finditer(page) if "--acp-agent" in shown["command"]]
    (tmp_path / "bin").mkdir()
    for name in ("python", "pytest"):
        line = f"exec {sys.executable}" + (" -m pytest" if name == "pytest" else "")
        (tmp_path / "bin" / name).write_text(f'#!/bin/sh\n{line} "$@"\n')
        (tmp_path / "bin" / name).chmod(0o755)
    extra = f"-p no:cacheprovider -p no:xdist --acp-record {tmp_path / 'taken'}"
    surroundings = f"PATH={tmp_path / 'bin'}:$PATH PYTEST_ADDOPTS='{extra}'"
    assert "3 passed" in run("/bin/sh", "-c", f"{surroundings} {command}", cwd=ROOT).stdout
    assert len(list((tmp_path / "taken").iterdir())) == 3
