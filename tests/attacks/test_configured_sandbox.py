"""An agent with `sandbox = true` in the config starts in a sandbox whatever starts it."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from dragoman import connect
from dragoman.bridge.mcp.agent_sessions import AgentSessions
from dragoman.bridge.team.team import Team
from dragoman.config.agent_choice import AgentFacts
from dragoman.config.config_file import Config, load_config
from dragoman.config.introductions import Introductions
from dragoman.config.paths import user_paths
from dragoman.schema.content import TextContent
from tests.cli.connect.test_sandbox import needs_landlock
from tests.cli.process import DRAGOMAN, in_process

pytestmark = needs_landlock

AGENT = Path(__file__).parent / "prying_agent.py"


@pytest.fixture
def secret(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """A file outside the folder that the agent works in; and the user has files of their own."""
    for variable in ("XDG_CONFIG_HOME", "XDG_STATE_HOME", "XDG_DATA_HOME"):
        monkeypatch.setenv(variable, str(tmp_path / variable))
    (tmp_path / "work").mkdir()
    (tmp_path / "secret.txt").write_text("canary")
    return os.path.join(tmp_path.resolve(), "secret.txt")


@pytest.fixture
def config(secret: str) -> Config:
    """A config with the agent, before which a chain may stand."""
    path = Path(user_paths().config_file)
    path.parent.mkdir(parents=True, exist_ok=True)
    # The file is no word of its own on the command line: the user's command opens those.
    code = f"import sys; sys.argv = ['', {secret!r}]; exec(open({str(AGENT)!r}).read())"
    path.write_text(
        f"version = 1\n[agents.prying]\ncommand = {sys.executable!r}\nargs = ['-c', {code!r}, {str(AGENT)!r}]\n"
        "sandbox = true\n[chains.chain]\nproxies = ['context']\nagent = 'prying'\n"
    )
    return load_config(str(path))


async def test_as_a_member_of_a_team(config: Config, secret: str, tmp_path: Path) -> None:
    async with Team(tmp_path / "work", {"prying": config.agents["prying"]}) as team:
        assert (await team.ask("prying", secret)).text == "refused: Permission denied"


async def test_as_an_mcp_server(config: Config, secret: str, tmp_path: Path) -> None:
    sessions = AgentSessions(config.agents, "prying", None)
    try:
        driven = await sessions.open("", str(tmp_path / "work"), "", "")
        driven.start([TextContent(text=secret)])
        await driven.wait(60)
        assert driven.text == "refused: Permission denied"
    finally:
        await sessions.close_all()


async def test_behind_a_chain(config: Config, secret: str, tmp_path: Path) -> None:
    work = str(tmp_path / "work")
    for words in (["--chain", "chain"], ["context", "--agent", "prying"]):
        async with connect([*DRAGOMAN, "conduct", *words], cwd=work) as agent:
            session = await agent.open_session(cwd=work)
            assert await session.ask(secret) == "refused: Permission denied"


async def test_chosen_by_its_capabilities(config: Config, secret: str, tmp_path: Path) -> None:
    known = Introductions(user_paths().introductions)
    known.note(
        "prying",
        config.agents["prying"].argv,
        AgentFacts(source="initialize", date="2026-01-01", can={"loadSession": True}),
    )
    work = str(tmp_path / "work")
    async with connect(capable={"loadSession"}, cwd=work) as agent:
        session = await agent.open_session(cwd=work)
        assert await session.ask(secret) == "refused: Permission denied"


def test_asked_for_its_dialect(config: Config, tmp_path: Path) -> None:
    ran = in_process("check", "dialect", "--agent", "prying", cwd=tmp_path / "work")
    assert ran.stdout.startswith("refused: Permission denied"), ran.stdout + ran.stderr
