"""An agent that is given as a command line is named after what runs, not after what runs it."""

from __future__ import annotations

import shlex

import pytest

from dragoman.cli.connect.command_name import command_name
from dragoman.cli.connect.which_agent import resolve_agent
from dragoman.cli.parser import Parser
from dragoman.config.config_file import NamedAgent
from dragoman.host.agents import AgentCatalog
from dragoman.store.session_state import SessionState


@pytest.mark.parametrize(
    ("command", "name"),
    [
        ("my-agent --acp", "my-agent"),
        ("/opt/bin/my-agent", "my-agent"),
        ("dragoman agent everything", "everything"),
        ("dragoman agent --dialect draft", "dragoman"),
        ("dragoman attach office", "dragoman"),
        ("/usr/bin/python3.11 -m dragoman agent everything", "everything"),
        ("python agent.py", "agent"),
        ("python3 -u -X dev tools/my_agent.py --acp", "my_agent"),
        ("python -m my_agent", "my_agent"),
        ("python -m my_agent.cli --acp", "my_agent"),
        ("python", "python"),
        ("python -c work", "python"),
        ("node /srv/claw/dist/index.js", "claw"),
        ("node --no-warnings agent.mjs", "agent"),
        ("npx -y @zed-industries/claude-code-acp@0.4.1", "claude-code-acp"),
        ("npx some-agent@latest", "some-agent"),
        ("uvx fast-agent-acp==0.3.1", "fast-agent-acp"),
        ("uvx --from fast-agent[acp] fast-agent-acp", "fast-agent-acp"),
        ("uv run agent.py", "agent"),
        ("uv run --with rich python -m my_agent", "my_agent"),
        ("uv sync", "uv"),
        ("bun run agent.ts", "agent"),
    ],
)
def test_an_agent_is_named_after_what_runs(command: str, name: str) -> None:
    assert command_name(shlex.split(command)) == name


def test_serve_and_run_use_this_name() -> None:
    parser = Parser("serve", "", "", "")
    assert resolve_agent(parser, None, ["dragoman", "agent", "everything"]).name == "everything"


def test_a_session_that_was_stored_with_the_name_of_the_program_finds_its_agent() -> None:
    agent = NamedAgent(name="everything", command="/usr/bin/dragoman", args=("agent", "everything"))
    catalog = AgentCatalog([agent], lambda _: [], print, 1.0)
    state = SessionState()
    state.agent = "dragoman"
    assert catalog.agent_of(state) == agent
