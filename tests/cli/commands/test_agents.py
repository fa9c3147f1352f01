"""`dragoman agents` and `config`, and the choice of an agent."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.cli.process import EVERYTHING, TIMEOUT, dragoman
from tests.process_start import started


@pytest.fixture
def path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A PATH that has only what the test puts there."""
    folder = tmp_path / "bin"
    folder.mkdir()
    monkeypatch.setenv("PATH", str(folder))
    return folder


def program(path: Path, name: str) -> None:
    """The everything agent under another name."""
    (path / name).write_text(f"#!{sys.executable}\nfrom dragoman.cli.main import main\nmain(['agent', 'everything'])\n")
    (path / name).chmod(0o755)


def test_without_any_agent_the_list_names_well_known_ones(path: Path) -> None:
    ran = dragoman("agents")
    assert ran.returncode == 0
    assert "opencode acp  (npm opencode-ai)" in ran.stdout
    assert "dragoman agents add NAME -- CMD" in ran.stdout


def test_configured_and_found_agents_are_listed(path: Path) -> None:
    program(path, "qwen")
    ran = dragoman("agents", "add", "mine", "--env", "KEY=secret", "--default", "--", "my-agent", "--acp")
    assert ran.returncode == 0
    assert "my-agent is not on PATH" in ran.stderr
    listing = dragoman("agents").stdout
    assert "mine  my-agent --acp  configured, the default" in listing
    assert "qwen  qwen --acp      on PATH" in listing
    result = json.loads(dragoman("agents", "--json").stdout)
    assert result["default"] == "mine"
    mine, qwen = result["agents"]
    assert (mine["env"], mine["found"], mine["source"]) == (["KEY"], False, "config")
    assert (qwen["name"], qwen["found"], qwen["source"]) == ("qwen", True, "path")
    assert "secret" not in json.dumps(result)
    assert dragoman("agents", "--names").stdout.split() == ["mine", "qwen"]


def test_a_well_known_agent_needs_only_its_name(path: Path) -> None:
    assert dragoman("agents", "add", "gemini").returncode == 0
    assert json.loads(dragoman("agents", "--json").stdout)["agents"][0]["args"] == ["--acp"]
    assert dragoman("agents", "remove", "gemini").returncode == 0
    assert dragoman("agents", "--names").stdout.strip() == ""


@pytest.mark.parametrize(
    ("arguments", "code", "expected"),
    [
        (["add"], 2, "add needs the name of an agent"),
        (["add", "a b", "--", "x"], 2, "use letters"),
        (["add", "nosuch"], 2, "nosuch is not a well-known agent"),
        (["add", "a", "--env", "X", "--", "x"], 2, "--env takes NAME=VALUE"),
        (["remove", "nosuch"], 1, "there is no agent 'nosuch'"),
        (["default", "nosuch"], 1, "there is no agent 'nosuch'"),
        (["list", "x"], 2, "list takes no name"),
        (["sing"], 2, "invalid choice: 'sing'"),
    ],
)
def test_wrong_usage_is_one_line(path: Path, arguments: list[str], code: int, expected: str) -> None:
    ran = dragoman("agents", *arguments)
    assert ran.returncode == code
    assert expected in ran.stderr
    assert ran.stderr.count("\n") == 1


# --- which agent is meant -------------------------------------------------------------------------------------


def test_the_only_agent_on_path_is_used(path: Path, tmp_path: Path) -> None:
    program(path, "qwen")
    ran = dragoman("run", "--prompt", "/echo found", cwd=tmp_path)
    assert (ran.returncode, ran.stdout) == (0, "found\n"), ran.stderr


def test_the_only_configured_agent_is_used_before_those_on_path(path: Path, tmp_path: Path) -> None:
    program(path, "qwen")
    program(path, "gemini")
    dragoman("agents", "add", "mine", "--", *EVERYTHING)
    ran = dragoman("run", "--prompt", "/echo mine", cwd=tmp_path)
    assert (ran.returncode, ran.stdout) == (0, "mine\n"), ran.stderr


def test_an_agent_is_named_and_used_as_it_is_configured(path: Path, tmp_path: Path) -> None:
    there = tmp_path / "there"
    there.mkdir()
    (there / "a.txt").write_text("one\n")
    dragoman("agents", "add", "other", "--", "no-such-program")
    dragoman("agents", "add", "mine", "--cwd", str(there), "--dialect", "draft", "--", *EVERYTHING)
    ran = dragoman("run", "--agent", "mine", "--prompt", "/read a.txt", cwd=tmp_path)
    assert "has 1 line" in ran.stdout
    dragoman("agents", "default", "mine")
    assert "has 1 line" in dragoman("run", "--prompt", "/read a.txt", cwd=tmp_path).stdout


def test_none_or_several_agents_are_wrong_usage_with_advice(path: Path) -> None:
    ran = dragoman("run", "--prompt", "x")
    assert ran.returncode == 2
    assert "no agent is configured or on PATH; give its command after --" in ran.stderr
    assert ran.stderr.count("\n") == 1
    program(path, "qwen")
    program(path, "gemini")
    ran = dragoman("run", "--prompt", "x")
    assert ran.returncode == 2
    assert "choose one with --agent NAME, or permanently with: dragoman agents default NAME" in ran.stderr
    assert "  gemini  gemini --acp  on PATH\n  qwen    qwen --acp    on PATH\n" in ran.stderr
    ran = dragoman("run", "--prompt", "x", "--agent", "nosuch")
    assert ran.returncode == 2
    assert "there is no agent 'nosuch'" in ran.stderr
    assert dragoman("run", "--prompt", "x", "--agent", "qwen", "--", "y").returncode == 2


def test_one_long_command_does_not_widen_the_rows_of_other_agents(path: Path) -> None:
    assert dragoman("agents", "add", "short", "--", "my-agent", "--acp").returncode == 0
    assert dragoman("agents", "add", "long", "--", f"/opt/{'x' * 200}/agent").returncode == 0
    rows = {row.split()[0]: row for row in dragoman("agents").stdout.splitlines()}
    assert len(rows["short"]) < 80
    assert rows["short"].endswith("  configured")
    assert rows["long"].endswith("/agent  configured")


def test_a_team_is_listed_with_the_command_that_a_user_would_type(path: Path) -> None:
    assert dragoman("agents", "add", "one", "--", "my-agent").returncode == 0
    config = Path(dragoman("config", "path").stdout.strip())
    config.write_text(config.read_text() + '\n[teams.web]\nagents = { a = "one" }\n')
    assert "web  dragoman team serve web  configured\n" in dragoman("agents").stdout


def test_choosing_a_found_agent_as_default_adds_it(path: Path) -> None:
    program(path, "qwen")
    program(path, "gemini")
    assert dragoman("agents", "default", "qwen").returncode == 0
    assert json.loads(dragoman("config", "show", "--json").stdout)["agent"] == "qwen"


def test_translate_takes_an_agent_by_name(path: Path, tmp_path: Path) -> None:
    dragoman("agents", "add", "mine", "--dialect", "draft", "--", *EVERYTHING, "--dialect", "draft")
    hello = {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {"protocolVersion": 1}}
    command = [sys.executable, "-m", "dragoman", "translate", "--agent", "mine"]
    # Like an editor, it stays connected until the answer comes: agents start slowly.
    with started(command, cwd=tmp_path, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as editor:
        assert editor.stdin is not None
        assert editor.stdout is not None
        editor.stdin.write(json.dumps(hello) + "\n")
        editor.stdin.flush()
        answer = json.loads(editor.stdout.readline())
        editor.stdin.close()
        assert editor.wait(TIMEOUT) == 0
    assert answer["result"]["agentInfo"]["name"] == "everything"
    assert dragoman("translate", "--agent", "mine", "--", "x", cwd=tmp_path).returncode == 2


# --- config ---------------------------------------------------------------------------------------------------


def test_config_shows_all_paths(path: Path, tmp_path: Path) -> None:
    file = tmp_path / "config" / "dragoman" / "config.toml"
    assert dragoman("config", "path").stdout == f"{file}\n"
    output = dragoman("config", cwd=tmp_path).stdout
    assert f"{file}  (does not exist)" in output
    assert "no default; see dragoman agents" in output
    result = json.loads(dragoman("config", "--json", cwd=tmp_path).stdout)
    assert result["files"]["agents"] == {"path": str(file), "exists": False}
    assert result["policyMode"] == "default"


def test_config_check_prints_every_error_with_its_line(path: Path, tmp_path: Path) -> None:
    assert dragoman("config", "check", cwd=tmp_path).stdout == "no errors\n"
    folder = tmp_path / "config" / "dragoman"
    folder.mkdir(parents=True)
    (folder / "config.toml").write_text("version = 1\ncolor = 'red'\n[agents.a]\nmode = 1\n")
    ran = dragoman("config", "check", cwd=tmp_path)
    assert ran.returncode == 1
    assert "config.toml: line 2: color: unknown setting" in ran.stderr
    assert "line 4: agents.a.mode: must be a text" in ran.stderr
    assert len(json.loads(dragoman("config", "check", "--json", cwd=tmp_path).stdout)["faults"]) == 3
    ran = dragoman("run", "--prompt", "x", cwd=tmp_path)
    assert ran.returncode == 2
    assert "line 2: color" in ran.stderr
    assert ran.stderr.count("\n") == 1
