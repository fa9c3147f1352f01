"""`dragoman editors`: list, show, write, read, undo."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

import pytest

from tests.cli.process import OnTerminal, dragoman, in_process

SETTINGS = """\
// Zed
{
  "theme": "One Dark", // mine
  "agent_servers": {
    "Claude Code": { "type": "custom", "command": "claude", "args": ["--acp"], "env": { "KEY": "secret" }, },
  },
}
"""


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A home of the test, and one configured agent."""
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / ".config"))
    assert in_process("agents", "add", "roof", "--", sys.executable, "-m", "dragoman").returncode == 0
    (tmp_path / ".config" / "zed").mkdir()
    (tmp_path / ".config" / "zed" / "settings.json").write_text(SETTINGS)
    return tmp_path


def zed(home: Path) -> Path:
    return home / ".config" / "zed" / "settings.json"


@pytest.mark.item("003-20")
def test_an_entry_of_zed_is_written_and_read_back_and_its_limits_are_reported(home: Path) -> None:
    ran = in_process("editors", "write", "zed", "roof", "--name", "Roof", "--yes")
    assert ran.returncode == 0, ran.stderr
    assert '+     "Roof": {' in ran.stdout
    assert "shows no icon" in ran.stdout
    assert "restart it (Cmd+Q" in ran.stdout
    text = zed(home).read_text()
    assert text.startswith('// Zed\n{\n  "theme": "One Dark", // mine\n')
    read = json.loads(in_process("editors", "read", "zed", "Roof", "--json").stdout)
    assert read["entries"] == [
        {
            "name": "Roof",
            "kind": "custom",
            "command": sys.executable,
            "args": ["-m", "dragoman"],
            "env": [],
            "mode": None,
            "fault": None,
        }
    ]
    assert in_process("editors", "undo", "zed", "--yes").returncode == 0
    assert zed(home).read_text() == SETTINGS


def test_an_entry_that_a_user_wrote_becomes_an_agent(home: Path) -> None:
    listing = in_process("editors", "read", "zed").stdout
    assert "Claude Code: claude --acp (sets KEY)" in listing
    assert "secret" not in listing
    assert in_process("editors", "read", "zed", "Claude Code", "--add", "claude").returncode == 0
    agents = json.loads(in_process("agents", "--json").stdout)["agents"]
    assert [(each["command"], each["args"]) for each in agents if each["name"] == "claude"] == [("claude", ["--acp"])]


def test_show_prints_the_entry_alone_on_stdout() -> None:
    ran = in_process("editors", "show", "zed", "roof")
    assert json.loads(ran.stdout)["agent_servers"]["roof"]["command"] == sys.executable
    assert "this goes into" in ran.stderr
    ran = in_process("editors", "show", "jetbrains", "--host", "office", "--agent", "claude", "--session", "s")
    entry = json.loads(ran.stdout)["agent_servers"]["office-claude"]
    assert entry["args"][-6:] == ["attach", "office", "--agent", "claude", "--session", "s"]
    ran = in_process("editors", "show", "vscode", "--", sys.executable, "-m", "x")
    (entry,) = json.loads(ran.stdout)["acp.agents"].values()
    assert entry["args"] == ["-m", "x"]
    assert json.loads(in_process("editors", "show", "avante", "roof", "--json").stdout)["via"] == "direct"


def test_variables_stay_in_the_configuration_unless_the_user_says_otherwise() -> None:
    in_process("agents", "add", "keyed", "--env", "API_KEY=geheim", "--", sys.executable)
    ran = in_process("editors", "show", "zed", "keyed")
    assert "geheim" not in ran.stdout
    assert "translate" in ran.stdout
    assert "variables stay in your config.toml" in ran.stderr
    ran = in_process("editors", "show", "zed", "keyed", "--via", "direct")
    assert json.loads(ran.stdout)["agent_servers"]["keyed"]["env"] == {"API_KEY": "geheim"}
    assert "API_KEY go into the editor's file" in ran.stderr


def test_a_url_with_a_secret_is_refused() -> None:
    ran = in_process("editors", "show", "zed", "--host", "https://office.example/s?token=abc")
    assert ran.returncode == 2
    assert "give the host a name" in ran.stderr


def test_without_a_terminal_nothing_is_written_unless_yes_is_said(home: Path) -> None:
    ran = dragoman("editors", "write", "zed", "roof")
    assert ran.returncode == 5
    assert "add --yes" in ran.stderr
    assert '+     "roof": {' in ran.stdout
    assert zed(home).read_text() == SETTINGS
    assert in_process("editors", "write", "zed", "roof", "--dry-run").returncode == 0
    assert zed(home).read_text() == SETTINGS


@pytest.mark.parametrize(("answer", "code"), [("y", 0), ("n", 1)])
def test_the_user_sees_the_change_and_is_asked(home: Path, answer: str, code: int) -> None:
    with OnTerminal("editors", "write", "zed", "roof", cwd=home) as terminal:
        terminal.await_text("[y/N]")
        assert '"roof": {' in terminal.text
        terminal.type(f"{answer}\n")
        assert terminal.end() == code
    assert (zed(home).read_text() == SETTINGS) == bool(code)


def test_files_of_neovim_and_emacs_are_loaded_by_lines_that_are_said_once(home: Path) -> None:
    ran = in_process("editors", "write", "codecompanion", "roof", "--yes")
    assert 'require("dragoman_agents").codecompanion' in ran.stdout
    init = home / ".config" / "nvim" / "init.lua"
    init.write_text('require("dragoman_agents")\n')
    again = in_process("editors", "write", "avante", "roof", "--yes")
    assert "add this once" not in again.stdout
    assert "(load (expand-file-name" in in_process("editors", "write", "agent-shell", "roof", "--yes").stdout
    listing = json.loads(in_process("editors", "list", "--json").stdout)
    entries = {each["name"]: each["entries"] for each in listing}
    assert entries["codecompanion"] == entries["avante"] == entries["agent-shell"] == ["roof"]


@pytest.mark.parametrize(
    ("arguments", "code", "says"),
    [
        (("show", "nvim", "roof"), 2, "choose one of: codecompanion, avante"),
        (("show", "zedd", "roof"), 2, "did you mean zed?"),
        (("write", "marimo", "roof", "--yes"), 1, "run this instead: npx stdio-to-ws"),
        (("undo", "zed"), 1, "written nothing for Zed"),
        (("read", "zed", "Gone"), 1, "there is no entry 'Gone'"),
        (("read", "zed", "--add", "x"), 2, "--add needs the NAME"),
        (("show", "zed", "roof", "--session", "s"), 2, "--session needs --host"),
        (("show", "zed", "--host", "a", "--", "cmd"), 2, "a host starts its agents itself"),
    ],
)
def test_what_cannot_be_done_says_what_to_do(arguments: tuple[str, ...], code: int, says: str) -> None:
    ran = in_process("editors", *arguments)
    assert (ran.returncode, says in ran.stderr) == (code, True), ran.stderr


def test_a_broken_file_is_named_with_its_line_and_left_alone(home: Path) -> None:
    zed(home).write_text('{\n  "a": 1\n  "b": 2\n}\n')
    ran = in_process("editors", "write", "zed", "roof", "--yes")
    assert ran.returncode == 1
    assert 'settings.json: line 3: a comma or "}" was expected' in ran.stderr
    assert "line 3" in in_process("editors").stdout
    assert os.listdir(zed(home).parent) == ["settings.json"]


def test_an_unknown_agent_is_answered_with_a_way_to_name_one_that_works(home: Path) -> None:
    ran = in_process("editors", "show", "zed", "everything")
    assert ran.returncode == 2
    assert "there is no agent 'everything'; choose one with dragoman editors show EDITOR NAME, or " in ran.stderr
    assert in_process("editors", "show", "zed", "roof").returncode == 0
