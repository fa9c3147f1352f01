"""Agents of ours before the checker, in this process: the sound one, and its twins with one fault each."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable

from dragoman.agents.everything.agent import everything
from dragoman.conformance.harness.targets import MemoryAgent
from dragoman.conformance.harness.timeouts import MEMORY, Pace
from dragoman.conformance.requirement import Requirement, requirements
from dragoman.conformance.runner import check
from dragoman.conformance.twin import Fault, Faulty
from dragoman.conformance.verdict import Verdict
from dragoman.schema.side import Side
from dragoman.transport.base import Transport

# What is about remote transports is tried in test_remote.py.
AGENT = [each for each in requirements().values() if each.side is Side.AGENT and not each.way]

# Agents at a time: most of a probe is waiting, and what is never answered costs a whole wait.
AT_ONCE = 24


def sound(dialect: str, pace: Pace = MEMORY) -> MemoryAgent:
    """Our agent as it is."""

    async def serve(transport: Transport) -> None:
        await everything(dialect).serve(transport, report=lambda _: None)

    return MemoryAgent(serve, dialect, pace=pace)


def twin(dialect: str, fault: Fault, pace: Pace = MEMORY) -> MemoryAgent:
    """Our agent with one fault."""

    async def serve(transport: Transport) -> None:
        await everything(dialect).serve(Faulty(transport, fault), report=lambda _: None)

    return MemoryAgent(serve, dialect, pace=pace)


def tried(subject: MemoryAgent, wanted: Iterable[Requirement]) -> dict[str, Verdict]:
    """What became of these requirements, by id."""

    async def work() -> dict[str, Verdict]:
        return {verdict.requirement: verdict async for verdict in check(subject, wanted, AT_ONCE)}

    return asyncio.run(work())


def told(verdicts: Iterable[Verdict]) -> str:
    """Verdicts in words, for a test that failed."""
    return "\n".join(f"{verdict.requirement} {verdict.outcome}: {verdict.why}" for verdict in verdicts)
