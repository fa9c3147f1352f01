"""The agents of the guides pass the check: no requirement fails that a reader would have to explain."""

from __future__ import annotations

import pytest

from dragoman.conformance.harness.peer import PROCESS, Timeouts
from dragoman.conformance.requirement import Level, requirements
from dragoman.conformance.verdict import Outcome
from dragoman.transport.base import Transport
from examples.notes_agent import agent
from tests.conformance.checked_agents import AGENT, check_all, describe
from tests.conformance.memory_agent import MEMORY, MemoryAgent

# What the agent of the guide has something to show for: it edits, asks for permission, and can be cancelled.
CHAPTERS = ("agent.permission", "agent.cancel", "agent.toolcall")
# It uses no terminal.
OTHERS = {"agent.toolcall.11"}


def _notes_agent(timeouts: Timeouts) -> MemoryAgent:
    async def serve(transport: Transport) -> None:
        await agent.serve(transport, report=lambda _: None)

    return MemoryAgent(serve, "v1", timeouts=timeouts)


@pytest.mark.timeout(120)
def test_the_agent_of_the_guide_breaks_no_must_and_shows_all_it_has() -> None:
    verdicts = check_all(_notes_agent(MEMORY), AGENT)

    def wrong(id: str) -> bool:
        outcome = verdicts[id].outcome
        is_shown = requirements()[id].chapter in CHAPTERS and id not in OTHERS
        fails = outcome is Outcome.FAIL and requirements()[id].level is Level.MUST
        return fails or (is_shown and outcome is Outcome.INCONCLUSIVE)

    verdicts |= check_all(_notes_agent(PROCESS), [requirements()[id] for id in verdicts if wrong(id)])
    assert not [id for id in verdicts if wrong(id)], describe(verdicts[id] for id in verdicts if wrong(id))
