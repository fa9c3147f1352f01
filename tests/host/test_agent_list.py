"""A host lists its agents with what they said of themselves; nothing is started for it."""

from __future__ import annotations

import shlex
import sys
from pathlib import Path

import pytest

from dragoman.config.agent_choice import compare
from dragoman.config.config_file import NamedAgent
from dragoman.config.introductions import Introductions
from dragoman.config.paths import user_paths
from dragoman.host.agents import AgentCatalog, agent_target
from tests.host.memory_host import TALKER, open_session, running_host


@pytest.mark.item("RG-25")
async def test_a_client_learns_what_the_agents_of_a_host_can_do_and_chooses(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    async with running_host() as hosted, hosted.client("ann") as ann:
        offered = ann.initialize_result.agent_capabilities
        assert offered
        assert (offered.meta or {})["dragoman"]["agents"] is True
        await open_session(ann, tmp_path)
        listed = (await ann.request("_dragoman/agents", {}))["agents"]
        assert [agent["name"] for agent in listed] == ["talker"]
        assert "loadSession" in listed[0]["capabilities"]
        assert listed[0]["date"].startswith("20")


@pytest.mark.item("RG-25")
async def test_an_agent_that_was_not_started_is_unknown_or_as_it_was_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    from dragoman.config.agent_choice import facts_from_initialize

    catalog = AgentCatalog([TALKER], lambda _: ["talker"], print, 1.0)
    assert catalog.describe()[0]["capabilities"] is None
    said = {"agentCapabilities": {"loadSession": True}, "authMethods": [{"id": "x", "name": "X", "type": "terminal"}]}
    facts = facts_from_initialize(said, "2026-11-17T00:00:00Z")
    Introductions(user_paths().introductions).note("talker", TALKER.argv, facts)
    assert catalog.describe()[0]["logins"] == ["terminal"]
    assert catalog.describe()[0]["capabilities"] == ["loadSession"]
    assert compare("talker", facts, ["loadSession"]).fits


async def test_the_dialect_of_an_agent_is_detected_once(tmp_path: Path) -> None:
    starts = tmp_path / "starts"
    script = tmp_path / "agent.sh"
    command = shlex.join([sys.executable, "-m", "dragoman", "agent", "everything", "--dialect", "v2"])
    script.write_text(f"#!/bin/sh\necho >> {shlex.quote(str(starts))}\nexec {command}\n")
    script.chmod(0o755)
    agent = NamedAgent(name="wide", command=str(script))
    catalog = AgentCatalog([agent], agent_target, lambda _: None, 60.0)
    counts = []
    for _ in range(2):
        started = await catalog.start_agent(agent)
        assert started.dialect == "v2"
        await started.close()
        counts.append(len(starts.read_text().splitlines()))
    assert counts == [2, 3]  # first it was asked for v1, which it does not speak
