"""The command itself: help, usage errors, and a start that imports little."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from dragoman import __version__
from dragoman.cli.main import COMMANDS, overview
from tests.cli.process import DRAGOMAN, EVERYTHING, TIMEOUT, dragoman


def test_help_shows_examples() -> None:
    ran = dragoman("--help")
    assert ran.returncode == 0
    assert ran.stdout.strip() == overview().strip()
    assert "dragoman run --prompt" in ran.stdout
    assert all(f"\n  {name} " in ran.stdout for name in COMMANDS)


def test_without_a_command_help_is_shown_with_exit_code_2() -> None:
    ran = dragoman()
    assert ran.returncode == 2
    assert "examples:" in ran.stdout


def test_version_is_printed() -> None:
    assert dragoman("--version").stdout == f"dragoman {__version__}\n"


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_has_help(name: str) -> None:
    ran = dragoman(name, "--help")
    assert ran.returncode == 0
    assert ran.stdout.startswith(f"usage: dragoman {name}")
    assert ran.stderr == ""


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (["nosuch"], "there is no command 'nosuch'; choose one of: demo"),
        (["run"], "give its command after --"),
        (["run", "--prompt", "x"], "give its command after --"),
        (["run", "--prompt", "x", "y", "--", "x"], "give the prompt once"),
        (["run", "x", "--file", "/no/such/file", "--", "x"], "there is no file /no/such/file"),
        (["run", "x", "--timeout", "-1", "--", "x"], "--timeout must be a number of seconds"),
        (["run", "x", "--option", "y", "--", "x"], "--option takes ID=VALUE"),
        (["run", "x", "--quiet", "--verbose", "--", "x"], "--quiet and --verbose cannot be used together"),
        (["run", "--nosuch", "--", "x"], "unrecognized arguments: --nosuch"),
        (["run", "--dialect", "x", "--", "x"], "invalid choice: 'x'"),
        (["run", "--prompt", "x", "--cwd", "/no/such/folder", "--", "x"], "there is no folder /no/such/folder"),
        (["run", "--prompt", " ", "--", "x"], "the prompt is empty"),
        (["translate"], "give its command after --"),
        (["translate", "--permission", "perhaps", "--", "x"], "invalid choice: 'perhaps'"),
        (["agent"], "give the name of an agent"),
        (["agent", "nosuch"], "there is no agent 'nosuch'"),
        (["agent", "everything", "--dialect", "x"], "there is no dialect 'x'"),
        (["demo", "--", "x"], "takes no command"),
    ],
)
def test_wrong_usage_is_one_line_that_says_what_to_do(
    arguments: list[str], expected: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))  # no agent is found there
    ran = dragoman(*arguments)
    assert ran.returncode == 2
    assert expected in ran.stderr
    assert ran.stderr.count("\n") == 1
    assert ran.stderr.startswith("dragoman")
    assert ran.stdout == ""


def test_a_missing_agent_command_is_one_error_line() -> None:
    ran = dragoman("translate", "--", "no-such-agent-anywhere", text='{"jsonrpc":"2.0","id":1,"method":"initialize"}\n')
    assert "Traceback" not in ran.stderr
    ran = dragoman("run", "--prompt", "x", "--", "no-such-agent-anywhere")
    assert ran.returncode == 7
    assert "no such command" in ran.stderr
    assert ran.stderr.count("\n") == 1


def frames(*arguments: str, text: str) -> tuple[list[dict[str, object]], str]:
    """Return the answers of an agent to these lines, and its stderr."""
    ran = subprocess.run([*EVERYTHING, *arguments], input=text, capture_output=True, text=True, timeout=TIMEOUT)
    assert ran.returncode == 0, ran.stderr
    assert ran.stdout.endswith("\n")
    return [json.loads(line) for line in ran.stdout.splitlines()], ran.stderr


@pytest.mark.item("001-12")
def test_the_agent_uses_stdin_and_stdout_and_exits_at_eof() -> None:
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
    assert "not a message" in stderr  # the log


def test_an_agent_starts_without_unneeded_imports() -> None:
    script = "import sys; from dragoman.cli.main import main; main(['agent', 'everything']); print(*sys.modules)"
    ran = subprocess.run(
        [sys.executable, "-c", script], stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=TIMEOUT
    )
    loaded = set(ran.stderr.split())  # file descriptor 1 is for the protocol; prints go to stderr
    assert "dragoman.agents.everything.agent" in loaded
    assert not loaded & {
        "argparse",
        "difflib",
        "tempfile",
        "dragoman.cli.commands.run",
        "dragoman.workspace",
    }


def test_dragoman_runs_as_a_module() -> None:
    assert DRAGOMAN[1:] == ["-m", "dragoman"]
    assert dragoman("--version").returncode == 0
