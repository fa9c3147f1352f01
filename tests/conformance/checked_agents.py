"""Our agents as targets in this process: without a fault, and with one."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable

from dragoman.agents.everything.agent import everything
from dragoman.conformance.harness.peer import Timeouts
from dragoman.conformance.harness.settings import AgentSettings
from dragoman.conformance.requirement import Requirement, requirements
from dragoman.conformance.runner import check
from dragoman.conformance.verdict import Verdict
from dragoman.schema.side import Side
from dragoman.transport.base import Transport
from tests.conformance.faults.fault import Fault, FaultyPeer, faults
from tests.conformance.memory_agent import MEMORY, MemoryAgent

# test_remote.py tries what is about remote transports.
AGENT = [each for each in requirements().values() if each.side is Side.AGENT and not each.way]

# How many agents run at a time: most of a probe is waiting, and a missing answer costs a whole timeout.
AT_ONCE = 24


def our_agent(dialect: str, timeouts: Timeouts = MEMORY) -> MemoryAgent:
    """Return our agent without a fault."""

    async def serve(transport: Transport) -> None:
        await everything(dialect).serve(transport, report=lambda _: None)

    return MemoryAgent(serve, dialect, timeouts=timeouts)


# What the user has to allow or to say so that a requirement applies.
SETTINGS = {"agent.auth.04": AgentSettings(allows_logout=True), "agent.auth.09": AgentSettings(auth_method="key")}


def agent_with_fault_of(id: str, timeouts: Timeouts = MEMORY) -> MemoryAgent:
    """Return our agent with the fault of this requirement."""
    made = faulty_agent(requirements()[id].first_dialect, faults()[id], timeouts)
    made.settings = SETTINGS.get(id)
    return made


def faulty_agent(dialect: str, fault: Fault, timeouts: Timeouts = MEMORY) -> MemoryAgent:
    """Return our agent with one fault."""

    async def serve(transport: Transport) -> None:
        await everything(dialect).serve(FaultyPeer(transport, fault), report=lambda _: None)

    return MemoryAgent(serve, dialect, timeouts=timeouts)


def check_all(target: MemoryAgent, wanted: Iterable[Requirement]) -> dict[str, Verdict]:
    """Return the verdicts on these requirements, by id."""

    async def work() -> dict[str, Verdict]:
        return {verdict.requirement: verdict async for verdict in check(target, wanted, AT_ONCE)}

    return asyncio.run(work())


def describe(verdicts: Iterable[Verdict]) -> str:
    """Return verdicts as text, for a failed test."""
    return "\n".join(f"{verdict.requirement} {verdict.outcome}: {verdict.why}" for verdict in verdicts)
