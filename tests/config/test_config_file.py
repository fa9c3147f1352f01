"""config.toml: agents by name; faults name line and key, and a change keeps the rest of the file."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dragoman.config.config_file import (
    KNOWN_AGENTS,
    Config,
    NamedAgent,
    add_entry,
    installed_agents,
    load_config,
    parse_config,
    remove_entry,
    set_default,
)
from dragoman.errors import ConfigFault

WRITTEN = """\
# my agents
version = 1
default = "two"

[agents.one]
command = "one"
args = ["--acp"]

# the other one
[agents.two]
command = "~/bin/two"
env = { KEY = "value" }
cwd = "/tmp"
dialect = "draft"
mode = "plan"
sandbox = true
"""


def test_agents_are_read_with_all_members() -> None:
    read = parse_config(WRITTEN, "config.toml")
    assert read.default == "two"
    assert read.agents["one"] == NamedAgent(name="one", command="one", args=("--acp",))
    two = read.agents["two"]
    assert two.argv == [os.path.expanduser("~/bin/two")]
    assert (two.env, two.cwd, two.dialect, two.mode, two.sandbox) == ({"KEY": "value"}, "/tmp", "draft", "plan", True)


def test_a_missing_file_configures_no_agents(tmp_path: Path) -> None:
    assert load_config(str(tmp_path / "none" / "config.toml")) == Config()


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        (
            "color = 1",
            "line 1: color: unknown setting; use one of version, default, store, agents, host, hosts, default_host",
        ),
        ("store = 1", "line 1: store: must be true or false"),
        ("version = 2", "line 1: version: unsupported version; this Dragoman reads version 1"),
        ("\nagents = 3", "line 2: agents: agents are written as [agents.NAME]"),
        ("default = 'x'", "line 1: default: there is no agent 'x'; there are none"),
        ("[agents.a]\nargs = ['x']", "line 1: agents.a: command must say what to start"),
        ("[agents.a]\ncommand = ''", "line 2: agents.a.command: command must say what to start"),
        ("[agents.a]\ncommand = 'a'\nargs = 'x'", "line 3: agents.a.args: must be a list of texts"),
        ("[agents.a]\ncommand = 'a'\nenv = { A = 1 }", "line 3: agents.a.env: must be a table of texts"),
        ("[agents.a]\ncommand = 'a'\ndialect = 'x'", "line 3: agents.a.dialect: there is no dialect 'x'"),
        ("[agents.a]\ncommand = 'a'\nsandbox = 'x'", "line 3: agents.a.sandbox: must be true or false"),
        ("[agents.a]\ncommand = 'a'\ncomand = 'x'", "line 3: agents.a.comand: an agent has no such member; it has com"),
        ("[agents.'a b']\ncommand = 'a'", "agents.a b: use letters"),
        ("[agents.a\n", "line 1: "),
        ("version = 1\ndefault = ", "line 2: "),
    ],
)
def test_an_error_names_line_and_key(text: str, fault: str) -> None:
    with pytest.raises(ConfigFault) as raised:
        parse_config(text, "config.toml")
    assert any(each.startswith("config.toml: ") and fault in each for each in raised.value.faults)


def test_all_errors_are_reported_at_once() -> None:
    with pytest.raises(ConfigFault) as raised:
        parse_config("x = 1\n[agents.a]\nmode = 1\n[agents.b]\nargs = 1\ncommand = 'b'", "config.toml")
    assert len(raised.value.faults) == 4


def test_a_file_that_is_not_text_is_an_error(tmp_path: Path) -> None:
    file = tmp_path / "config.toml"
    file.write_bytes(b"version = 1\n# \xff\n")
    with pytest.raises(ConfigFault, match="line 2: the file is not UTF-8"):
        load_config(str(file))


def test_changes_keep_the_rest_of_the_file(tmp_path: Path) -> None:
    file = tmp_path / "config.toml"
    file.write_text(WRITTEN)
    remove_entry(str(file), "agents", "one")
    assert file.read_text().startswith("# my agents\nversion = 1\n")
    assert "# the other one\n[agents.two]" in file.read_text()
    assert "one" not in load_config(str(file)).agents
    add_entry(str(file), NamedAgent(name="three", command="three"))
    set_default(str(file), "agents", "three")
    assert load_config(str(file)).default == "three"
    remove_entry(str(file), "agents", "three")
    assert load_config(str(file)).default == ""
    assert list(load_config(str(file)).agents) == ["two"]
    assert file.read_text().startswith("# my agents\n")


def test_a_new_file_is_readable_by_its_owner_alone(tmp_path: Path) -> None:
    file = tmp_path / "new" / "config.toml"
    add_entry(str(file), NamedAgent(name="a", command="a", env={"API_KEY": "secret"}))
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    with pytest.raises(ConfigFault, match="there is an agent a already"):
        add_entry(str(file), NamedAgent(name="a", command="b"))
    assert load_config(str(file)).agents["a"].command == "a"


@pytest.mark.parametrize("text", ["agents = { one = { command = 'x' } }\n", "agents.one.command = 'x'\n"])
def test_agents_written_in_another_form_are_not_changed(tmp_path: Path, text: str) -> None:
    file = tmp_path / "config.toml"
    file.write_text(text)
    with pytest.raises(ConfigFault, match="remove it by hand"):
        remove_entry(str(file), "agents", "one")
    assert file.read_text() == text


texts = st.text(st.characters(codec="utf-8"), max_size=20)


@given(command=texts.filter(bool), args=st.lists(texts), env=st.dictionaries(texts, texts), cwd=texts)
def test_a_written_agent_reads_back_equal(
    tmp_path_factory: pytest.TempPathFactory, command: str, args: list[str], env: dict[str, str], cwd: str
) -> None:
    file = str(tmp_path_factory.mktemp("config") / "config.toml")
    agent = NamedAgent(name="a", command=command, args=tuple(args), env=env, cwd=cwd, mode="m", sandbox=True)
    add_entry(file, agent)
    assert load_config(file).agents == {"a": agent}


def test_well_known_agents_are_found_on_the_path(tmp_path: Path) -> None:
    for name in ("qwen", "claude-agent-acp", "something-else"):
        (tmp_path / name).touch(mode=0o755)
    assert {name: known.command for name, known in installed_agents({"PATH": str(tmp_path)}).items()} == {
        "claude": ("claude-agent-acp",),
        "qwen": ("qwen", "--acp"),
    }
    assert len({known.name for known in KNOWN_AGENTS}) == len(KNOWN_AGENTS)


# --- teams ----------------------------------------------------------------------------------------------------


TEAM = """\
[agents.ev]
command = "ev"

[teams.web]
agents = { plan = "ev", code = "codex --acp" }
primary = "code"
rules = [{ when = "review", to = "plan" }, { paths = ["*.rs"], to = "code" }]
budget = { tokens = 5000, cost = 0.5 }
depth = 2
"""


def test_a_team_is_an_agent_too() -> None:
    found = parse_config(TEAM, "config.toml")
    team = found.teams["web"]
    assert (team.agents, team.primary, team.depth) == ({"plan": "ev", "code": "codex --acp"}, "code", 2)
    assert [rule.to for rule in team.rules] == ["plan", "code"]
    assert found.agents["web"].args[-3:] == ("team", "serve", "web")


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("[teams]\nweb = 1", "line 2: teams.web: a team is written as a table"),
        ("[teams.web]", "agents must name at least one agent"),
        ('[teams.web]\nagents = { a = "x" }\nprimary = "b"', "line 3: teams.web.primary: there is no agent 'b'"),
        ('[teams.web]\nagents = { a = "x" }\nroute = "dice"', "must be one of primary, rules, ask, all"),
        ('[teams.web]\nagents = { a = "x" }\nroute = "rules"', "needs rules"),
        ('[teams.web]\nagents = { a = "x" }\nrules = [{ to = "a" }]', "a rule has `to`, and `when` or `paths`"),
        ('[teams.web]\nagents = { a = "x" }\nrules = [{ to = "b", when = "x" }]', "there is no agent 'b'"),
        ('[teams.web]\nagents = { a = "x" }\nbudget = { time = 1 }', "a budget has tokens, cost, turns"),
        ('[teams.web]\nagents = { a = "web" }', "the team contains itself"),
        ('[teams.a]\nagents = { x = "b" }\n[teams.b]\nagents = { x = "a" }', "the team contains itself"),
        ('[agents.web]\ncommand = "x"\n[teams.web]\nagents = { a = "x" }', "there is an agent web too"),
        ('[teams.web]\nagents = { "a b" = "x" }', "use letters, digits"),
    ],
)
def test_a_team_that_cannot_be_used_is_named_with_its_line(text: str, fault: str) -> None:
    with pytest.raises(ConfigFault) as caught:
        parse_config(text, "config.toml")
    assert fault in str(caught.value)
