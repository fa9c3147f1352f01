"""Our own agent keeps every requirement in every dialect, and each seeded fault is found by its own requirement."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from dragoman.conformance.pace import PROCESS
from dragoman.conformance.requirement import Requirement, requirements
from dragoman.conformance.run import try_one
from dragoman.conformance.subject import MemoryAgent
from dragoman.conformance.twin import Fault, faults
from dragoman.conformance.verdict import Outcome, Verdict
from dragoman.dialect.registry import NAMES
from dragoman.transport.contract import Transport
from tests.conformance.tried import AGENT, AT_ONCE, sound, told, tried, twin

# Beside its own requirement each fault meets these: none of them may cry wolf.
OTHERS = ("agent.rpc.03", "agent.init.01", "agent.prompt.14")

WRONG = (Outcome.FAIL, Outcome.INCONCLUSIVE)

# What surprises at the pace of memory is tried again with the time that processes get: on a busy machine a whole wait
# may pass while others run. What is wrong stays wrong.


@pytest.mark.parametrize("dialect", NAMES)
def test_our_agent_keeps_every_requirement(dialect: str) -> None:
    verdicts = tried(sound(dialect), AGENT)
    doubtful = [requirements()[id] for id, each in verdicts.items() if each.outcome in WRONG]
    verdicts |= tried(sound(dialect, PROCESS), doubtful)
    wrong = [each for each in verdicts.values() if each.outcome in WRONG]
    assert not wrong, told(wrong)
    assert len(verdicts) >= 100


async def _found(requirement: Requirement, limit: asyncio.Semaphore) -> list[Verdict]:
    fault: Fault = faults()[requirement.id]
    others = [requirements()[id] for id in OTHERS if id.rpartition(".")[0] != requirement.chapter]
    async with limit:
        found = []
        for each in (requirement, *others):
            verdict = await try_one(twin(requirement.home, fault), each)
            if (verdict.outcome is Outcome.FAIL) != (each is requirement):
                verdict = await try_one(twin(requirement.home, fault, PROCESS), each)
            found.append(verdict)
        return found


def test_every_fault_is_found_by_its_own_requirement() -> None:
    async def work() -> list[list[Verdict]]:
        limit = asyncio.Semaphore(AT_ONCE)
        return await asyncio.gather(*(_found(requirement, limit) for requirement in AGENT))

    found = asyncio.run(work())
    missed = [own for own, *_ in found if own.outcome is not Outcome.FAIL]
    assert not missed, told(missed)
    silent = [own for own, *_ in found if not own.why or not own.evidence]
    assert not silent, f"failures without a reason or without evidence: {told(silent)}"
    alarms = [f"{own.requirement} -> {each.requirement}: {each.why}" for own, *others in found
              for each in others if each.outcome is Outcome.FAIL]  # fmt: skip
    assert not alarms, "\n".join(alarms)


def test_a_probe_that_waits_for_ever_is_ended() -> None:
    async def deaf(transport: Transport) -> None:
        await asyncio.Event().wait()

    verdict = tried(MemoryAgent(deaf, "v1"), [requirements()["agent.cancel.03"]])["agent.cancel.03"]
    assert verdict.outcome is Outcome.INCONCLUSIVE
    assert "did not introduce itself" in verdict.why


def test_a_peer_that_dies_at_once_stops_nothing() -> None:
    async def dying(transport: Transport) -> None:
        await transport.close()

    wanted = [requirements()[id] for id in ("agent.rpc.03", "agent.init.01", "agent.frame.13")]
    verdicts = tried(MemoryAgent(dying, "v1"), wanted)
    assert verdicts["agent.init.01"].outcome is Outcome.FAIL
    assert list(verdicts) == [each.id for each in wanted]
    assert any("gone" in each.text for each in verdicts["agent.init.01"].evidence)


def test_nothing_is_left_in_the_folder_for_temporary_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    tried(sound("v1"), [requirements()["agent.permission.05"]])
    assert not list(tmp_path.iterdir())
