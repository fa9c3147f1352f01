"""The first look at an agent: whether it answers initialize, in which dialect, and the timeouts."""

from __future__ import annotations

import asyncio
import json
import sys

import pytest

from dragoman.conformance.harness import peer, preflight
from dragoman.conformance.harness.peer import PROCESS
from dragoman.conformance.harness.preflight import AgentPreflight, check_agent
from dragoman.conformance.harness.targets import CommandAgent
from dragoman.errors import StartFailed
from dragoman.transport.base import Transport
from tests.conformance.checked_agents import our_agent
from tests.conformance.memory_agent import MemoryAgent

SILENT = ["/bin/sh", "-c", "echo no key is set >&2; exec sleep 60"]


@pytest.mark.parametrize("dialect", ["v1", "draft", "crow", "2025.1"])
def test_the_dialect_is_detected(dialect: str) -> None:
    def agent(request: str) -> MemoryAgent:
        target = our_agent(dialect, PROCESS)
        target.dialect = request  # the agent is what it is, whatever it is asked in
        return target

    assert asyncio.run(check_agent(agent)).dialect == dialect


def test_a_silent_agent_has_one_deadline_and_its_stderr_is_quoted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(preflight, "DEADLINE", 0.8)
    monkeypatch.setattr(preflight, "NEXT", 0.1)
    monkeypatch.setattr(preflight, "BEAT", 0.1)
    reports: list[str] = []
    with pytest.raises(StartFailed) as caught:
        asyncio.run(check_agent(lambda dialect: CommandAgent(SILENT, dialect), "", reports.append))
    assert "was started, and did not answer initialize within 0.8 seconds" in str(caught.value)
    assert "no key is set" in str(caught.value)
    assert "(v1, v2, draft, crow, 2025.1)" in reports[-1]


def test_endless_output_is_ended_by_its_size(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(peer, "NOISE", 100_000)
    flood = ["/bin/sh", "-c", "exec cat /dev/urandom"]
    with pytest.raises(StartFailed, match="of what is not a message"):
        asyncio.run(check_agent(lambda dialect: CommandAgent(flood, dialect)))


@pytest.mark.parametrize(
    ("command", "words"),
    [
        (["cat"], r"it is not an ACP agent: it sends back what it gets; many agents speak ACP only with an option"),
        (["sh", "-c", "echo hello"], r'exited with status 0; it wrote what is not ACP: "hello"; many agents'),
        ([sys.executable, "-c", "pass"], r"without any output; does the program end with agent.run\(\)\?"),
    ],
)
def test_a_program_that_is_no_agent_is_described_as_run_describes_it(command: list[str], words: str) -> None:
    with pytest.raises(StartFailed, match=words):
        asyncio.run(check_agent(lambda dialect: CommandAgent(command, dialect)))


def _refusing(dialect: str) -> MemoryAgent:
    async def serve(transport: Transport) -> None:
        while True:
            for frame in await transport.receive():
                assert isinstance(frame, bytes)
                error = {"code": -32000, "message": "no"}
                transport.send(json.dumps({"jsonrpc": "2.0", "id": json.loads(frame)["id"], "error": error}).encode())

    return MemoryAgent(serve, dialect)


def test_a_refusal_counts_only_with_a_known_dialect() -> None:
    found = asyncio.run(check_agent(_refusing, "v1"))
    assert found == AgentPreflight("v1", False, "it refused initialize: {'code': -32000, 'message': 'no'}")
    with pytest.raises(StartFailed, match=r"refused initialize.*--dialect"):
        asyncio.run(check_agent(_refusing))
