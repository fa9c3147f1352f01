"""Our own products pass our own check: every MUST that an agent behind them can show. `make conformance` has all."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterable
from functools import partial

import pytest

from dragoman.agents.everything.agent import everything
from dragoman.config.config_file import NamedAgent
from dragoman.conformance.harness.peer import PROCESS, Timeouts
from dragoman.conformance.harness.targets import CommandAgent, Target
from dragoman.conformance.requirement import Level, Requirement, requirements
from dragoman.conformance.runner import check
from dragoman.conformance.verdict import Outcome
from dragoman.roles.client.dial import Dialer
from dragoman.roles.proxy.attach import attach
from dragoman.roles.proxy.relay import Relay
from dragoman.transport.base import Transport
from dragoman.transport.memory import memory_pair
from tests.conformance.checked_agents import AGENT, AT_ONCE, describe
from tests.conformance.memory_agent import MEMORY, MemoryAgent
from tests.host.memory_host import running_host

MUST = [each for each in AGENT if each.level is Level.MUST]


def _translator(dialect: str, timeouts: Timeouts, client_dialect: str = "v1") -> MemoryAgent:
    """Our agent of another dialect behind a translator, for a client of this dialect."""

    async def serve(transport: Transport) -> None:
        back, inside = memory_pair()
        serving = everything(dialect).start_connection(inside, report=lambda _: None)
        dialer = Dialer(back, dialect=dialect, cwd=os.getcwd(), report=lambda _: None)
        try:
            await Relay(transport, dialer, client_dialect="auto", report=lambda _: None).run()
        finally:
            await serving.close()

    return MemoryAgent(serve, client_dialect, timeouts=timeouts)


async def _failures(make: Callable[[Timeouts], Target], wanted: Iterable[Requirement]) -> tuple[str, int]:
    """Return the failures as text, and how many passed. What fails is tried again with the timeouts of processes."""
    verdicts = {each.requirement: each async for each in check(make(MEMORY), wanted, AT_ONCE)}
    doubtful = [requirements()[id] for id, each in verdicts.items() if each.outcome is Outcome.FAIL]
    verdicts |= {each.requirement: each async for each in check(make(PROCESS), doubtful, AT_ONCE)}
    failed = [each for each in verdicts.values() if each.outcome is Outcome.FAIL]
    return describe(failed), sum(each.outcome is Outcome.PASS for each in verdicts.values())


@pytest.mark.parametrize("dialect", ["v1", "v2", "banjo", "crow", "draft"])
async def test_a_translator_breaks_no_must(dialect: str) -> None:
    failed, passed = await _failures(partial(_translator, dialect), MUST)
    assert not failed, failed
    assert passed >= 150


async def test_a_translator_breaks_no_must_of_v2() -> None:
    failed, passed = await _failures(partial(_translator, "v1", client_dialect="v2"), MUST)
    assert not failed, failed
    assert passed >= 120


async def test_a_translator_for_2025_1_breaks_no_must_of_a_few() -> None:
    """An agent of 2025.1 has one folder, so each folder needs a process."""
    command = [sys.executable, "-m", "dragoman", "translate", "--agent-dialect", "2025.1", "--"]
    command += [sys.executable, "-m", "dragoman", "agent", "everything", "--dialect", "2025.1"]
    wanted = [requirements()[id] for id in ("agent.init.04", "agent.session.09", "agent.update.11", "agent.schema.01")]
    failed, passed = await _failures(lambda _: CommandAgent(command, "v1"), wanted)
    assert not failed, failed
    assert passed >= 3


async def test_attach_breaks_no_must() -> None:
    async with running_host(partial(everything, "v1")) as hosted:

        async def serve(transport: Transport) -> None:
            await attach(transport, hosted.connect_as())

        failed, passed = await _failures(lambda timeouts: MemoryAgent(serve, "v1", timeouts=timeouts), MUST)
    assert not failed, failed
    assert passed >= 150


async def test_attach_breaks_no_must_of_v2() -> None:
    """A v2 client in a room whose agent is v2."""
    wide = NamedAgent(name="wide", command="wide", dialect="v2")
    async with running_host(partial(everything, "v2"), agents=(wide,)) as hosted:

        async def serve(transport: Transport) -> None:
            await attach(transport, hosted.connect_as())

        failed, passed = await _failures(lambda timeouts: MemoryAgent(serve, "v2", timeouts=timeouts), MUST)
    assert not failed, failed
    assert passed >= 120
