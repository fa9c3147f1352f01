"""Agents and clients over HTTP and WebSocket: ours pass, and each seeded fault is found by its own requirement."""

from __future__ import annotations

import asyncio
import re
import subprocess
import sys
from collections.abc import Awaitable, Callable, Iterator
from functools import partial

import msgspec
import pytest

from dragoman.conformance.harness.peer import Timeouts
from dragoman.conformance.harness.remote_agent import UrlAgent
from dragoman.conformance.requirement import Level, Requirement, requirements
from dragoman.conformance.runner import try_one
from dragoman.conformance.verdict import Outcome, Verdict
from tests.conformance.faults.fault import NO_FAULT, RemoteFault, faults
from tests.conformance.faults.faulty_client import run_sound_client
from tests.conformance.faults.faulty_server import serve_faulty
from tests.conformance.faults.memory_client import MemoryUrlClient
from tests.conformance.memory_agent import MEMORY

REMOTE = [each for each in requirements().values() if each.way]
AGENT = [each for each in REMOTE if each.side == "agent"]
CLIENT = [each for each in REMOTE if each.side == "client"]
TOKEN = "check-token"

# A transport is the same in all dialects; these requirements of it use turns or loads, which v2 has in another form.
# `make conformance` has all of them in v2.
IN_V2 = [
    each
    for each in AGENT
    if each.id.endswith(("http.10", "http.11", "http.28", "http.29", "http.30", "ws.09", "ws.11"))
]

# How many probes run at a time: most of a probe is waiting.
AT_ONCE = 16

# A peer that must pass gets time on a busy machine; one that must fail gets short timeouts.
SLOW = msgspec.structs.replace(MEMORY, start=20.0, answer=10.0, turn=20.0, exit=20.0)
FAST = msgspec.structs.replace(MEMORY, start=10.0, answer=1.0, turn=5.0)

# A few of the other requirements, over both transports: all of them take a minute.
ELSEWHERE = (
    "agent.v2rpc.03", "agent.v2prompt.10", "agent.v2resume.01", "agent.v2cancel.01", "agent.v2question.01",
    "agent.rpc.03", "agent.init.01", "agent.cancel.01", "agent.session.16", "agent.permission.05",
    "client.rpc.04", "client.life.01", "client.order.05", "client.update.01", "client.permission.01",
)  # fmt: skip


async def check_url(url: str, requirement: Requirement, way: str, timeouts: Timeouts, dialect: str = "") -> Verdict:
    """Return the verdict on a requirement at a URL, in a dialect or the first that it applies to."""
    spoken = dialect or requirement.first_dialect
    return await try_one(UrlAgent(url.replace("http", way, 1), spoken, timeouts=timeouts, token=TOKEN), requirement)


def check_fault(fault: Requirement, others: list[Requirement]) -> list[Verdict]:
    """Return the verdicts of requirements on the server or client with this fault."""

    async def client(requirement: Requirement) -> Verdict:
        target = MemoryUrlClient(run_sound_client, "v1", fault.way, timeouts=FAST, fault=faults()[fault.id])
        return await try_one(target, requirement)

    async def agent() -> list[Verdict]:
        limit = asyncio.Semaphore(AT_ONCE)
        async with serve_faulty(faults()[fault.id], token=TOKEN) as url:

            async def one(requirement: Requirement) -> Verdict:
                async with limit:
                    return await check_url(url, requirement, fault.way, FAST)

            return await asyncio.gather(*map(one, others))

    return run_all(client, others) if fault.side == "client" else asyncio.run(agent())


def run_all(work: Callable[[Requirement], Awaitable[Verdict]], wanted: list[Requirement]) -> list[Verdict]:
    """Try these, a few at a time."""

    async def run() -> list[Verdict]:
        limit = asyncio.Semaphore(AT_ONCE)

        async def one(requirement: Requirement) -> Verdict:
            async with limit:
                return await work(requirement)

        return await asyncio.gather(*(one(each) for each in wanted))

    return asyncio.run(run())


def describe(verdicts: list[Verdict]) -> str:
    """Return verdicts as text, for a failed test."""
    return "\n".join(f"{verdict.requirement} {verdict.outcome}: {verdict.why}" for verdict in verdicts)


def not_passed(verdicts: list[Verdict]) -> list[Verdict]:
    """Return the verdicts that did not pass and are not optional."""
    return [
        each
        for each in verdicts
        if each.outcome is not Outcome.PASS
        and not (each.outcome is Outcome.NOT_APPLICABLE and requirements()[each.requirement].level is Level.MAY)
    ]


def test_both_sides_have_requirements_for_both_transports() -> None:
    assert {(each.side.value, each.way) for each in REMOTE} == {
        (side, way) for side in ("agent", "client") for way in ("http", "ws")
    }
    assert all(isinstance(faults()[each.id], RemoteFault) for each in REMOTE)


@pytest.mark.parametrize(("dialect", "wanted"), [("v1", AGENT), ("v2", IN_V2)])
def test_our_server_passes_every_requirement(dialect: str, wanted: list[Requirement]) -> None:
    elsewhere = [requirements()[id] for id in ELSEWHERE if id.startswith("agent")]

    async def run() -> list[Verdict]:
        limit = asyncio.Semaphore(AT_ONCE)
        others = [(each, way) for each in elsewhere for way in ("http", "ws") if each.applies(dialect, way)]
        async with serve_faulty(NO_FAULT, token=TOKEN) as url:

            async def one(requirement: Requirement, way: str) -> Verdict:
                async with limit:
                    return await check_url(url, requirement, way, SLOW, dialect)

            return await asyncio.gather(*(one(each, way) for each, way in [*((e, e.way) for e in wanted), *others]))

    verdicts = asyncio.run(run())
    assert not not_passed(verdicts), describe(not_passed(verdicts))
    assert len(verdicts) == len(wanted) + 10


@pytest.mark.parametrize(("dialect", "wanted"), [("v1", AGENT), ("v2", IN_V2)])
def test_every_fault_of_a_server_is_found_by_its_own_requirement(dialect: str, wanted: list[Requirement]) -> None:
    async def work(requirement: Requirement) -> Verdict:
        async with serve_faulty(faults()[requirement.id], token=TOKEN) as url:
            return await check_url(url, requirement, requirement.way, FAST, dialect)

    verdicts = run_all(work, wanted)
    missed = [each for each in verdicts if each.outcome is not Outcome.FAIL]
    assert not missed, describe(missed)
    assert all(each.why and any(proof.marked for proof in each.evidence) for each in verdicts)
    assert TOKEN not in str([each.evidence for each in verdicts])


@pytest.mark.parametrize(("dialect", "wanted"), [("v1", CLIENT), ("v2", CLIENT[::4])])
def test_our_client_passes_every_requirement(dialect: str, wanted: list[Requirement]) -> None:
    program = partial(run_sound_client, dialect=dialect)

    async def work(requirement: Requirement) -> Verdict:
        return await try_one(MemoryUrlClient(program, dialect, requirement.way, timeouts=SLOW), requirement)

    verdicts = run_all(work, wanted)
    assert len(verdicts) >= 6
    assert not not_passed(verdicts), describe(not_passed(verdicts))


def test_every_fault_of_a_client_is_found_by_its_own_requirement() -> None:
    async def work(requirement: Requirement) -> Verdict:
        fault = faults()[requirement.id]
        return await try_one(
            MemoryUrlClient(run_sound_client, "v1", requirement.way, timeouts=FAST, fault=fault), requirement
        )

    verdicts = run_all(work, CLIENT)
    missed = [each for each in verdicts if each.outcome is not Outcome.FAIL]
    assert not missed, describe(missed)


# --- the command --------------------------------------------------------------------------------------------------

TIMEOUT = 90  # seconds; three requirements take one


@pytest.fixture(scope="module")
def address() -> Iterator[str]:
    """A server with one fault: it accepts pages of other origins."""
    command = [sys.executable, "-m", "tests.conformance.faults.faulty_server", "--fault", "agent.http.36"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        try:
            yield process.stdout.readline().strip()
        finally:
            process.terminate()


def check(*words: str) -> subprocess.CompletedProcess[str]:
    """Run the command."""
    command = [sys.executable, "-m", "dragoman", "check", *words]
    return subprocess.run(command, capture_output=True, text=True, timeout=TIMEOUT, check=False)


def test_the_command_checks_a_url(address: str) -> None:
    ran = check("agent", "--only", "agent.http.36", "agent.http.15", "agent.rpc.03", address)
    assert ran.returncode == 0, ran.stdout + ran.stderr  # a SHOULD alone does not fail a check
    assert "initialize from a page of https://evil.example was answered with 200" in ran.stdout
    assert "2 passed, 1 failed" in ran.stdout


def test_an_unreachable_url_is_reported_in_one_line() -> None:
    ran = check("agent", "ws://127.0.0.1:9/acp")
    assert ran.returncode == 7
    assert re.fullmatch(r"dragoman check agent: the agent cannot be checked: .* cannot be reached: .*\n", ran.stderr)


def test_requirements_of_remote_transports_do_not_apply_to_a_command() -> None:
    ran = check("agent", "--only", "agent.http", "--dialect", "v1", "--", "agent")
    assert ran.returncode == 2
    assert "no such requirement applies to a command" in ran.stderr


def test_a_client_gets_the_url() -> None:
    client = [sys.executable, "-m", "tests.conformance.faults.faulty_client", "--", "{url}"]
    ran = check("client", "--dialect", "v1", "--over", "ws", "--only", "client.ws.03", "--", *client)
    assert ran.returncode == 0, ran.stdout + ran.stderr
    assert "1 passed, 0 failed" in ran.stdout
