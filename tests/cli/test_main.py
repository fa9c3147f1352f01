"""The command itself: help that teaches, faults of one line, a start that imports little."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from dragoman import __version__
from dragoman.cli.main import COMMANDS, overview
from tests.cli.process import DRAGOMAN, EVERYTHING, PATIENCE, dragoman


def test_help_teaches_by_example() -> None:
    ran = dragoman("--help")
    assert ran.returncode == 0
    assert ran.stdout.strip() == overview().strip()
    assert "dragoman run --prompt" in ran.stdout
    assert all(f"dragoman {name}" in ran.stdout for name in COMMANDS)


def test_without_a_command_the_help_is_shown_but_it_is_no_success() -> None:
    ran = dragoman()
    assert ran.returncode == 2
    assert "examples:" in ran.stdout


def test_the_version_is_told() -> None:
    assert dragoman("--version").stdout == f"dragoman {__version__}\n"


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_explains_itself(name: str) -> None:
    ran = dragoman(name, "--help")
    assert ran.returncode == 0
    assert ran.stdout.startswith(f"usage: dragoman {name}")
    assert ran.stderr == ""


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["nosuch"], "there is no command 'nosuch'; try: demo"),
        (["run"], "give its command after --"),
        (["run", "--prompt", "x"], "give its command after --"),
        (["run", "--prompt", "x", "y", "--", "x"], "say what to ask once"),
        (["run", "x", "--file", "/no/such/file", "--", "x"], "there is no /no/such/file"),
        (["run", "x", "--timeout", "-1", "--", "x"], "--timeout takes a number of seconds"),
        (["run", "x", "--option", "y", "--", "x"], "--option takes ID=VALUE"),
        (["run", "x", "--quiet", "--verbose", "--", "x"], "--quiet and --verbose contradict each other"),
        (["run", "--nosuch", "--", "x"], "unrecognized arguments: --nosuch"),
        (["run", "--dialect", "x", "--", "x"], "invalid choice: 'x'"),
        (["run", "--prompt", "x", "--cwd", "/no/such/folder", "--", "x"], "there is no folder /no/such/folder"),
        (["run", "--prompt", " ", "--", "x"], "the prompt is empty"),
        (["translate"], "give its command after --"),
        (["translate", "--permission", "perhaps", "--", "x"], "invalid choice: 'perhaps'"),
        (["agent"], "name an agent"),
        (["agent", "nosuch"], "there is no agent 'nosuch'"),
        (["agent", "everything", "--dialect", "x"], "there is no dialect 'x'"),
        (["demo", "--", "x"], "it takes no command"),
    ],
)
def test_wrong_usage_is_one_line_that_says_what_to_do(
    words: list[str], says: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))  # no agent is found there
    ran = dragoman(*words)
    assert ran.returncode == 2
    assert says in ran.stderr
    assert ran.stderr.count("\n") == 1
    assert ran.stderr.startswith("dragoman")
    assert ran.stdout == ""


def test_an_agent_that_is_not_there_is_one_line_too() -> None:
    ran = dragoman("translate", "--", "no-such-agent-anywhere", text='{"jsonrpc":"2.0","id":1,"method":"initialize"}\n')
    assert "Traceback" not in ran.stderr
    ran = dragoman("run", "--prompt", "x", "--", "no-such-agent-anywhere")
    assert ran.returncode == 7
    assert "no such command" in ran.stderr
    assert ran.stderr.count("\n") == 1


def frames(*words: str, text: str) -> tuple[list[dict[str, object]], str]:
    """What an agent answers to these lines, each of which must be JSON, and its stderr."""
    ran = subprocess.run([*EVERYTHING, *words], input=text, capture_output=True, text=True, timeout=PATIENCE)
    assert ran.returncode == 0, ran.stderr
    assert ran.stdout.endswith("\n")
    return [json.loads(line) for line in ran.stdout.splitlines()], ran.stderr


@pytest.mark.item("001-12")
def test_the_agent_speaks_over_its_standard_streams_and_ends_with_them() -> None:
    hello = {
        "jsonrpc": "2.0",
        "id": 1,
        "method": "initialize",
        "params": {"protocolVersion": 1, "clientCapabilities": {}},
    }
    (answer,), stderr = frames(text=json.dumps(hello) + "\n")
    assert answer["id"] == 1
    assert answer["result"]["agentInfo"]["name"] == "everything"  # type: ignore[index]
    assert stderr == ""


@pytest.mark.item("002-10")
def test_stdout_has_json_lines_and_nothing_else(tmp_path: Path) -> None:
    lines = [
        {
            "jsonrpc": "2.0",
            "id": 1,
            "method": "initialize",
            "params": {"protocol_version": 1, "client_capabilities": {}},
        },
        {"jsonrpc": "2.0", "id": 2, "method": "session/new", "params": {"cwd": str(tmp_path), "mcpServers": []}},
        "this line is no JSON",
    ]
    text = "".join((line if isinstance(line, str) else json.dumps(line)) + "\n" for line in lines)
    answers, stderr = frames("--dialect", "crow", text=text)
    assert [answer["id"] for answer in answers if "id" in answer] == [1, 2, None]
    assert "no message" in stderr  # the log


def test_an_agent_starts_without_what_it_does_not_need() -> None:
    script = "import sys; from dragoman.cli.main import main; main(['agent', 'everything']); print(*sys.modules)"
    ran = subprocess.run(
        [sys.executable, "-c", script], stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=PATIENCE
    )
    loaded = set(ran.stderr.split())  # descriptor 1 is the protocol's; prints go to stderr
    assert "dragoman.agents.everything.agent" in loaded
    assert not loaded & {
        "argparse",
        "difflib",
        "tempfile",
        "dragoman.cli.commands.run",
        "dragoman.workspace",
    }


def test_it_is_a_module_too() -> None:
    assert DRAGOMAN[1:] == ["-m", "dragoman"]
    assert dragoman("--version").returncode == 0
