"""`connect(capable=...)` chooses a configured agent by what it said of itself; unknown is not enough."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from dragoman import connect
from dragoman.cli.main import main
from dragoman.config.agent_choice import facts_from_initialize
from dragoman.config.config_file import NamedAgent, add_entry
from dragoman.config.introductions import Introductions
from dragoman.config.paths import user_paths
from dragoman.errors import StartFailed


@pytest.fixture(autouse=True)
def own_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("CONFIG", "STATE", "DATA", "CACHE"):
        monkeypatch.setenv(f"XDG_{name}_HOME", str(tmp_path / name.lower()))


def configure(name: str, *words: str, **capabilities: object) -> NamedAgent:
    agent = NamedAgent(name=name, command=sys.executable, args=("-m", "dragoman", "agent", *words))
    add_entry(user_paths().config_file, agent)
    if capabilities:
        facts = facts_from_initialize({"agentCapabilities": capabilities}, "2026-11-17T00:00:00Z")
        Introductions(user_paths().introductions).note(name, agent.argv, facts)
    return agent


@pytest.mark.item("004-77", "RG-25")
async def test_a_program_connects_to_the_agent_that_can_do_what_it_needs() -> None:
    configure("plain", "nosuch", promptCapabilities={"audio": True})
    configure("unknown", "nosuch")
    configure("able", "everything", loadSession=True, promptCapabilities={"image": True})
    async with connect(capable={"loadSession", "image"}) as agent:
        assert agent.capabilities.load_session


def test_without_a_known_agent_the_candidates_are_told() -> None:
    configure("plain", "nosuch", promptCapabilities={"audio": True})
    configure("unknown", "nosuch")
    with pytest.raises(StartFailed, match=r"plain \(lacks load\); unknown \(unknown: load\)"):
        connect(capable={"load"})


def test_a_capability_that_does_not_exist_and_two_targets_are_errors_of_the_program() -> None:
    with pytest.raises(ValueError, match="there is no capability 'fly'"):
        connect(capable={"fly"})
    with pytest.raises(ValueError, match="give a target"):
        connect()
    with pytest.raises(ValueError, match="give a target, or capable"):
        connect(["agent"], capable={"load"})


def test_a_run_keeps_what_the_agent_said_of_itself(capsys: pytest.CaptureFixture[str]) -> None:
    agent = configure("able", "everything")
    assert main(["run", "-a", "able", "--quiet", "--no-store", "/echo hello"]) == 0
    facts = Introductions(user_paths().introductions).find("able", agent.argv)
    assert facts is not None
    assert facts.can["loadSession"]
    assert facts.source == "initialize"
