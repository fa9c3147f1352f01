"""Our own agent keeps every requirement in every dialect, and each seeded fault is found by its own requirement."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Iterable
from pathlib import Path

import pytest

from dragoman.conformance.harness import agent
from dragoman.conformance.harness.peer import Heard
from dragoman.conformance.harness.targets import MemoryAgent
from dragoman.conformance.harness.timeouts import PROCESS
from dragoman.conformance.requirement import Requirement, requirements
from dragoman.conformance.runner import try_one
from dragoman.conformance.seeding import errors, speaks, with_
from dragoman.conformance.twin import Fault, Json, Tape, faults
from dragoman.conformance.verdict import Evidence, Outcome, Verdict
from dragoman.dialect.dialects import DIALECT_NAMES
from dragoman.transport.base import Transport
from tests.conformance.checked_agents import AGENT, AT_ONCE, sound, told, tried, twin

# Beside its own requirement each fault meets these: none of them may cry wolf.
OTHERS = ("agent.rpc.03", "agent.init.01", "agent.prompt.14")

WRONG = (Outcome.FAIL, Outcome.INCONCLUSIVE)

# What surprises at the pace of memory is tried again with the time that processes get: on a busy machine a whole wait
# may pass while others run. What is wrong stays wrong.


@pytest.mark.parametrize("dialect", DIALECT_NAMES)
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


def _locked(tape: Tape, message: Json) -> Iterable[Json]:
    """A banner before the introduction, and no session without a login."""
    if tape.method(message) == "initialize":
        yield b"Starting agent v0.1"
    if tape.method(message) == "session/new":
        message = {
            "jsonrpc": "2.0",
            "id": message["id"],
            "error": {"code": -32000, "message": "Authentication required"},
        }
    yield message


def test_noise_is_found_at_an_agent_that_opens_no_session() -> None:
    verdict = tried(twin("v1", speaks(_locked)), [requirements()["agent.frame.01"]])["agent.frame.01"]
    assert (verdict.outcome, verdict.why) == (Outcome.FAIL, "a line on standard output is no message")


def test_the_introduction_is_proven_by_its_own_frame() -> None:
    def nameless(tape: Tape, message: Json) -> Iterable[Json]:
        if tape.method(message) == "initialize":
            yield b"Starting agent v0.1"
            message = {**message, "result": {"protocolVersion": 1}}
        yield message

    verdict = tried(twin("v1", speaks(nameless)), [requirements()["agent.init.08"]])["agent.init.08"]
    assert verdict.outcome is Outcome.FAIL
    assert ["protocolVersion" in each.text for each in verdict.evidence if each.marked] == [True]


@pytest.mark.parametrize("odd", [{"code": "-32601"}, {"message": ["no", "such", "method"]}])
def test_an_error_that_is_none_is_found_wherever_it_is(odd: dict[str, Json]) -> None:
    """Prompts are refused well, unknown methods are not; what that says about offers is not known."""

    def change(tape: Tape, message: Json) -> Iterable[Json]:
        is_odd = tape.method(message) in ("no/such_method", "session/load") and "error" in message
        yield {**message, "error": {**message["error"], **odd}} if is_odd else message

    verdicts = tried(twin("v1", speaks(change)), [requirements()[id] for id in ("agent.rpc.06", "agent.init.16")])
    assert verdicts["agent.rpc.06"].outcome is Outcome.FAIL
    assert verdicts["agent.init.16"].outcome is (Outcome.INCONCLUSIVE if "code" in odd else Outcome.PASS)


def test_a_code_that_is_a_text_is_quoted() -> None:
    fault = errors("no/such_method", with_(code="-32601"))
    verdict = tried(twin("v1", fault), [requirements()["agent.rpc.03"]])["agent.rpc.03"]
    assert verdict.why == "an unknown method was refused with '-32601', not -32601"


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


@pytest.mark.timeout(60)
def test_an_agent_that_names_a_pipe_holds_nothing_up(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    params = {"path": str(tmp_path / "pipe"), "content": "text"}
    asked = Heard(at=0, raw=b"", message=None, evidence=Evidence(0, "in", "", 0), params=params)
    assert agent._read(asked) == {"refused": -32002, "why": "Resource not found: it is no regular file"}
    assert "refused" in agent._write(asked)
    params["path"] = str(tmp_path / "file")
    assert agent._write(asked) == {}
    assert agent._read(asked) == {"content": "text"}


def test_nothing_is_left_in_the_folder_for_temporary_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    tried(sound("v1"), [requirements()["agent.permission.05"]])
    assert not list(tmp_path.iterdir())
