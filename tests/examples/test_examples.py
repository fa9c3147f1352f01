"""The examples of the documents run as processes, as a reader would run them."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
EXAMPLES = ROOT / "examples"

# Several processes on a busy machine; longer than this is a hang. Seconds.
TIMEOUT = 120

DRAGOMAN = (sys.executable, "-m", "dragoman")


def example(name: str) -> tuple[str, str]:
    """The command that runs an example."""
    return sys.executable, str(EXAMPLES / f"{name}.py")


def run(*command: str, cwd: Path, code: int = 0) -> subprocess.CompletedProcess[str]:
    """Run a command to its end, which must be as expected."""
    done = subprocess.run(
        command, cwd=cwd, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=TIMEOUT, check=False
    )
    assert done.returncode == code, f"exit code {done.returncode}\n{done.stdout}\n{done.stderr}"
    return done


def prompt(text: str, *agent: str, cwd: Path, yes: bool = True, code: int = 0) -> subprocess.CompletedProcess[str]:
    """Send an agent one prompt with `dragoman run`."""
    options = ("--yes",) if yes else ()
    return run(*DRAGOMAN, "run", *options, "--prompt", text, "--", *agent, cwd=cwd, code=code)


def notes(folder: Path) -> str | None:
    """The content of notes.md."""
    file = folder / "notes.md"
    return file.read_text(encoding="utf-8") if file.exists() else None


def test_every_example_is_tested() -> None:
    tested = {
        "echo",
        "ask",
        "uppercase",
        "notes_agent",
        "add_note",
        "no_passwords",
        "serve_http",  # in test_remote_example.py
        "offer_tools",  # in test_mcp_examples.py
        "use_tools",
        "team",
    }
    assert {path.stem for path in EXAMPLES.glob("*.py") if not path.stem.startswith("test_")} == tested


# "    $ command" in the README, and the indented lines below it that it prints.
SHOWN = re.compile(r"^    \$ (?P<command>.+)\n(?P<output>(?:    (?!\$).*\n)*)", re.M)
COMMANDS = list(SHOWN.finditer((ROOT / "README.md").read_text(encoding="utf-8")))


@pytest.mark.parametrize("shown", COMMANDS, ids=lambda shown: str(shown["command"]))
def test_commands_of_the_readme_print_what_it_shows(shown: re.Match[str]) -> None:
    words = {"dragoman": DRAGOMAN, "python": (sys.executable,)}
    command = [part for word in shown["command"].split() for part in words.get(word, (word,))]
    output = run(*command, cwd=ROOT).stdout
    assert output
    if shown["output"]:
        assert output == re.sub(r"^    ", "", shown["output"], flags=re.M)


def test_the_readme_has_a_command_for_each_snippet() -> None:
    assert len(COMMANDS) == 3


def test_the_client_prints_the_answer_of_the_agent(tmp_path: Path) -> None:
    output = run(*example("ask"), *example("echo"), cwd=tmp_path).stdout.splitlines()
    assert len(output) == 2
    assert "You said: hello" in output[0]
    assert output[1] == "end_turn"


def test_the_proxy_changes_the_prompt_to_uppercase(tmp_path: Path) -> None:
    output = run(*example("ask"), *example("uppercase"), *example("echo"), cwd=tmp_path).stdout.splitlines()
    assert "You said: HELLO" in output[0]
    assert output[1] == "end_turn"


def test_the_team_paints_what_it_planned(tmp_path: Path) -> None:
    output = run(*example("team"), cwd=tmp_path).stdout
    assert output == "painted the roof\npainted the door\ndoor.txt, roof.txt\n"
    assert (tmp_path / "roof.txt").read_text() == "red"


@pytest.mark.parametrize("dialect", ["v1", "banjo", "2025.1", "crow", "draft"])
def test_the_agent_uses_the_dialect_of_its_client(dialect: str, tmp_path: Path) -> None:
    agent = example("echo")
    output = run(*DRAGOMAN, "run", "--dialect", dialect, "--prompt", "hello", "--", *agent, cwd=tmp_path)
    assert output.stdout == "You said: hello\n"


def test_translate_connects_to_an_agent_of_another_dialect(tmp_path: Path) -> None:
    behind = (*DRAGOMAN, "agent", "everything", "--dialect", "draft")
    output = prompt("/echo hello", *DRAGOMAN, "translate", "--", *behind, cwd=tmp_path)
    assert output.stdout == "hello\n"


def test_the_editor_settings_start_translate(tmp_path: Path) -> None:
    block = re.search(r"^```json\n(.*?)^```$", (ROOT / "README.md").read_text(encoding="utf-8"), re.M | re.S)
    assert block is not None
    [server] = json.loads(block[1])["agent_servers"].values()
    assert (server["type"], server["command"]) == ("custom", "dragoman")
    options = server["args"][: server["args"].index("--") + 1]
    output = prompt("hello", *DRAGOMAN, *options, *example("echo"), cwd=tmp_path)
    assert output.stdout == "You said: hello\n"


def test_the_notes_agent_writes_if_the_user_allows_it(tmp_path: Path) -> None:
    output = prompt("buy milk", *example("notes_agent"), cwd=tmp_path)
    assert output.stdout == "Saved.\n"
    assert notes(tmp_path) == "- buy milk\n"


def test_the_notes_agent_writes_nothing_without_permission(tmp_path: Path) -> None:
    output = prompt("buy milk", *example("notes_agent"), cwd=tmp_path, yes=False, code=6)
    assert output.stdout == "Nothing saved.\n"
    assert notes(tmp_path) is None


def test_the_client_adds_a_note(tmp_path: Path) -> None:
    output = run(*example("add_note"), "call home", *example("notes_agent"), cwd=tmp_path)
    assert output.stdout.splitlines() == ["The agent wants to: Add a note", "Saved.", "Add a note: completed"]
    assert notes(tmp_path) == "- call home\n"


def test_the_proxy_forwards_a_note(tmp_path: Path) -> None:
    prompt("buy milk", *example("no_passwords"), *example("notes_agent"), cwd=tmp_path)
    assert notes(tmp_path) == "- buy milk\n"


def test_the_proxy_refuses_a_password(tmp_path: Path) -> None:
    output = prompt("the password is 1234", *example("no_passwords"), *example("notes_agent"), cwd=tmp_path, code=1)
    assert "would contain a password" in output.stderr
    assert notes(tmp_path) is None


def test_the_example_tests_pass(tmp_path: Path) -> None:
    tests = sorted(map(str, EXAMPLES.glob("test_*.py")))
    output = run(sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "-p", "no:xdist", *tests, cwd=ROOT)
    assert "9 passed" in output.stdout


def test_the_commands_of_the_testing_page_run(tmp_path: Path) -> None:
    page = (ROOT / "docs" / "testing.md").read_text(encoding="utf-8")
    (command,) = [shown["command"] for shown in SHOWN.finditer(page) if "--acp-agent" in shown["command"]]
    (tmp_path / "bin").mkdir()
    for name in ("python", "pytest"):
        line = f"exec {sys.executable}" + (" -m pytest" if name == "pytest" else "")
        (tmp_path / "bin" / name).write_text(f'#!/bin/sh\n{line} "$@"\n')
        (tmp_path / "bin" / name).chmod(0o755)
    extra = f"-p no:cacheprovider -p no:xdist --acp-record {tmp_path / 'taken'}"
    environment = f"PATH={tmp_path / 'bin'}:$PATH PYTEST_ADDOPTS='{extra}'"
    assert "3 passed" in run("/bin/sh", "-c", f"{environment} {command}", cwd=ROOT).stdout
    assert len(list((tmp_path / "taken").iterdir())) == 3
