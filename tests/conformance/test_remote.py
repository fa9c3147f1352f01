"""Agents and clients over HTTP and WebSocket: ours keep every requirement, each seeded fault is found by its own."""

from __future__ import annotations

import asyncio
import re
import subprocess
import sys
from collections.abc import Awaitable, Callable, Iterator

import msgspec
import pytest

from dragoman.conformance.harness.remote_agent import AddressAgent
from dragoman.conformance.harness.remote_client import MemoryUrlClient, sound
from dragoman.conformance.harness.timeouts import MEMORY, Pace
from dragoman.conformance.remote_twin import SOUND, RemoteFault, twin
from dragoman.conformance.requirement import Level, Requirement, requirements
from dragoman.conformance.runner import try_one
from dragoman.conformance.twin import faults
from dragoman.conformance.verdict import Outcome, Verdict

REMOTE = [each for each in requirements().values() if each.way]
AGENT = [each for each in REMOTE if each.side == "agent"]
CLIENT = [each for each in REMOTE if each.side == "client"]
TOKEN = "check-token"

# Most of a probe is waiting.
AT_ONCE = 16

# What must not be found is given time on a busy machine; what must be found is not waited for longer than needed.
PATIENT = msgspec.structs.replace(MEMORY, start=20.0, answer=10.0, turn=20.0, leave=20.0)
BRISK = msgspec.structs.replace(MEMORY, start=10.0, answer=1.0, turn=5.0)

# What else is asked, a little of everything, over both ways: all of it takes a minute.
ELSEWHERE = (
    "agent.rpc.03", "agent.init.01", "agent.cancel.01", "agent.session.16", "agent.permission.05",
    "client.rpc.04", "client.life.01", "client.order.05", "client.update.01", "client.permission.01",
)  # fmt: skip


async def visited(url: str, requirement: Requirement, way: str, pace: Pace) -> Verdict:
    """What becomes of a requirement at an address."""
    subject = AddressAgent(url.replace("http", way, 1), requirement.home, pace=pace, token=TOKEN)
    return await try_one(subject, requirement)


def met(fault: Requirement, others: list[Requirement]) -> list[Verdict]:
    """What requirements say of the server, or of the client, with this fault."""

    async def client(requirement: Requirement) -> Verdict:
        subject = MemoryUrlClient(sound, "v1", fault.way, pace=BRISK, fault=faults()[fault.id])
        return await try_one(subject, requirement)

    async def agent() -> list[Verdict]:
        limit = asyncio.Semaphore(AT_ONCE)
        async with twin(faults()[fault.id], token=TOKEN) as url:

            async def one(requirement: Requirement) -> Verdict:
                async with limit:
                    return await visited(url, requirement, fault.way, BRISK)

            return await asyncio.gather(*map(one, others))

    return all_of(client, others) if fault.side == "client" else asyncio.run(agent())


def all_of(work: Callable[[Requirement], Awaitable[Verdict]], wanted: list[Requirement]) -> list[Verdict]:
    """Try these, a few at a time."""

    async def run() -> list[Verdict]:
        limit = asyncio.Semaphore(AT_ONCE)

        async def one(requirement: Requirement) -> Verdict:
            async with limit:
                return await work(requirement)

        return await asyncio.gather(*(one(each) for each in wanted))

    return asyncio.run(run())


def told(verdicts: list[Verdict]) -> str:
    """For the reader of a failure."""
    return "\n".join(f"{verdict.requirement} {verdict.outcome}: {verdict.why}" for verdict in verdicts)


def unkept(verdicts: list[Verdict]) -> list[Verdict]:
    """Those that are not passed, and may not be left out either."""
    return [
        each
        for each in verdicts
        if each.outcome is not Outcome.PASS
        and not (each.outcome is Outcome.NOT_APPLICABLE and requirements()[each.requirement].level is Level.MAY)
    ]


def test_there_is_something_to_try_on_both_sides_and_both_ways() -> None:
    assert {(each.side.value, each.way) for each in REMOTE} == {
        (side, way) for side in ("agent", "client") for way in ("http", "ws")
    }
    assert all(isinstance(faults()[each.id], RemoteFault) for each in REMOTE)


def test_our_server_keeps_every_requirement() -> None:
    async def run() -> list[Verdict]:
        limit = asyncio.Semaphore(AT_ONCE)
        others = [(requirements()[id], way) for id in ELSEWHERE if id.startswith("agent") for way in ("http", "ws")]
        async with twin(SOUND, token=TOKEN) as url:

            async def one(requirement: Requirement, way: str) -> Verdict:
                async with limit:
                    return await visited(url, requirement, way, PATIENT)

            return await asyncio.gather(*(one(each, way) for each, way in [*((e, e.way) for e in AGENT), *others]))

    verdicts = asyncio.run(run())
    assert not unkept(verdicts), told(unkept(verdicts))
    assert len(verdicts) == len(AGENT) + len(ELSEWHERE)


def test_every_fault_of_a_server_is_found_by_its_own_requirement() -> None:
    async def work(requirement: Requirement) -> Verdict:
        async with twin(faults()[requirement.id], token=TOKEN) as url:
            return await visited(url, requirement, requirement.way, BRISK)

    verdicts = all_of(work, AGENT)
    missed = [each for each in verdicts if each.outcome is not Outcome.FAIL]
    assert not missed, told(missed)
    assert all(each.why and any(proof.marked for proof in each.evidence) for each in verdicts)
    assert TOKEN not in str([each.evidence for each in verdicts])


def test_our_client_keeps_every_requirement() -> None:
    async def work(requirement: Requirement) -> Verdict:
        return await try_one(MemoryUrlClient(sound, "v1", requirement.way, pace=PATIENT), requirement)

    verdicts = all_of(work, CLIENT)
    assert not unkept(verdicts), told(unkept(verdicts))


def test_every_fault_of_a_client_is_found_by_its_own_requirement() -> None:
    async def work(requirement: Requirement) -> Verdict:
        fault = faults()[requirement.id]
        return await try_one(MemoryUrlClient(sound, "v1", requirement.way, pace=BRISK, fault=fault), requirement)

    verdicts = all_of(work, CLIENT)
    missed = [each for each in verdicts if each.outcome is not Outcome.FAIL]
    assert not missed, told(missed)


# --- the command --------------------------------------------------------------------------------------------------

PATIENCE = 90  # seconds; three requirements take one


@pytest.fixture(scope="module")
def address() -> Iterator[str]:
    """A server with one fault: it lets pages of other places in."""
    command = [sys.executable, "-m", "dragoman.conformance.remote_twin", "--fault", "agent.http.36"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        try:
            yield process.stdout.readline().strip()
        finally:
            process.terminate()


def check(*words: str) -> subprocess.CompletedProcess[str]:
    """Run the command."""
    command = [sys.executable, "-m", "dragoman", "check", *words]
    return subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE, check=False)


def test_an_address_is_checked_by_the_command(address: str) -> None:
    ran = check("agent", "--only", "agent.http.36", "agent.http.15", "agent.rpc.03", address)
    assert ran.returncode == 0, ran.stdout + ran.stderr  # a SHOULD alone does not fail a check
    assert "initialize from a page of https://evil.example was answered with 200" in ran.stdout
    assert "2 passed, 1 failed" in ran.stdout


def test_nobody_at_the_address_is_said_in_one_line() -> None:
    ran = check("agent", "ws://127.0.0.1:9/acp")
    assert ran.returncode == 7
    assert re.fullmatch(r"dragoman check agent: the agent cannot be checked: .* cannot be reached: .*\n", ran.stderr)


def test_what_is_about_addresses_is_not_asked_of_a_command() -> None:
    ran = check("agent", "--only", "agent.http", "--dialect", "v1", "--", "agent")
    assert ran.returncode == 2
    assert "nothing of it is asked of a command" in ran.stderr


def test_a_client_is_given_the_address() -> None:
    client = [sys.executable, "-m", "dragoman.conformance.client_twin", "--", "{url}"]
    ran = check("client", "--dialect", "v1", "--over", "ws", "--only", "client.ws.03", "--", *client)
    assert ran.returncode == 0, ran.stdout + ran.stderr
    assert "1 passed, 0 failed" in ran.stdout
