"""The first look at an agent: whether it introduces itself, in which dialect, and how long that is waited for."""

from __future__ import annotations

import asyncio
import json

import pytest

from dragoman.conformance.harness import peer, preflight
from dragoman.conformance.harness.preflight import Look, look
from dragoman.conformance.harness.targets import CommandAgent, MemoryAgent
from dragoman.conformance.harness.timeouts import PROCESS
from dragoman.errors import StartFailed
from dragoman.transport.base import Transport
from tests.conformance.checked_agents import sound

SILENT = ["/bin/sh", "-c", "echo no key is set >&2; exec sleep 60"]


@pytest.mark.parametrize("dialect", ["v1", "draft", "crow", "2025.1"])
def test_the_dialect_is_found_out(dialect: str) -> None:
    def agent(asked: str) -> MemoryAgent:
        subject = sound(dialect, PROCESS)
        subject.dialect = asked  # the agent is what it is, whatever it is asked in
        return subject

    assert asyncio.run(look(agent)).dialect == dialect


def test_silence_has_one_deadline_and_is_told_with_the_last_words(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(preflight, "DEADLINE", 0.8)
    monkeypatch.setattr(preflight, "NEXT", 0.1)
    monkeypatch.setattr(preflight, "BEAT", 0.1)
    said: list[str] = []
    with pytest.raises(StartFailed) as caught:
        asyncio.run(look(lambda dialect: CommandAgent(SILENT, dialect), "", said.append))
    assert "was started, and did not answer initialize within 0.8 seconds" in str(caught.value)
    assert "no key is set" in str(caught.value)
    assert "(v1, draft, crow, 2025.1)" in said[-1]


def test_a_flood_of_noise_is_ended_by_its_size(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(peer, "NOISE", 100_000)
    flood = ["/bin/sh", "-c", "exec cat /dev/urandom"]
    with pytest.raises(StartFailed, match="of what is no message"):
        asyncio.run(look(lambda dialect: CommandAgent(flood, dialect)))


def _refusing(dialect: str) -> MemoryAgent:
    async def serve(transport: Transport) -> None:
        while True:
            for frame in await transport.receive():
                assert isinstance(frame, bytes)
                error = {"code": -32000, "message": "no"}
                transport.send(json.dumps({"jsonrpc": "2.0", "id": json.loads(frame)["id"], "error": error}).encode())

    return MemoryAgent(serve, dialect)


def test_a_refusal_is_an_answer_only_where_the_dialect_is_known() -> None:
    found = asyncio.run(look(_refusing, "v1"))
    assert found == Look("v1", False, "it refused initialize: {'code': -32000, 'message': 'no'}")
    with pytest.raises(StartFailed, match=r"refused initialize.*--dialect"):
        asyncio.run(look(_refusing))
