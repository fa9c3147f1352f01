"""Our client passes every requirement, and each seeded fault is found by its own requirement."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import msgspec
import pytest

from dragoman.conformance.harness.peer import Timeouts
from dragoman.conformance.requirement import Level, Requirement, probes, requirements
from dragoman.conformance.runner import try_one
from dragoman.conformance.verdict import Outcome, Verdict
from dragoman.dialect.dialects import DIALECT_NAMES
from tests.conformance.faults.fault import faults
from tests.conformance.faults.faulty_client import faulty_client
from tests.conformance.memory_agent import MEMORY

CLIENT = [each for each in requirements().values() if each.side == "client" and not each.way]

# How many clients run at a time: most of a probe is waiting.
AT_ONCE = 24

# A client that must pass gets the time it needs on a busy machine.
SLOW = msgspec.structs.replace(MEMORY, start=15.0, answer=3.0, turn=15.0, exit=6.0)
# A client that must fail gets time to send its prompt, and short timeouts for what never comes.
FAST = msgspec.structs.replace(MEMORY, start=15.0)

# The requirements of clients for the numbers of docs/protocol/peers.md#json-rpc-level and #ordering.
PEERS: dict[int, tuple[str, ...]] = {
    1: ("client.rpc.06", "client.rpc.14", "client.rpc.15", "client.update.24"),
    2: ("client.rpc.16", "client.rpc.17", "client.rpc.18", "client.rpc.21"),
    3: ("client.rpc.08", "client.rpc.09"),
    4: ("client.rpc.11", "client.rpc.12"),
    5: ("client.turn.11",),
    6: ("client.rpc.05",),
    7: ("client.rpc.04", "client.rpc.06"),
    8: ("client.rpc.28", "client.rpc.29", "client.order.08"),
    9: ("client.rpc.27",),
    10: ("client.turn.04", "client.turn.12"),
    11: ("client.rpc.25", "client.rpc.30", "client.turn.11"),
    12: ("client.process.02",),
    13: ("client.order.01", "client.order.18"),
    14: ("client.order.02", "client.order.03", "client.order.15"),
    15: ("client.order.11", "client.order.12", "client.order.13"),
    16: ("client.session.13", "client.order.17"),
    17: ("client.update.17",),
    18: ("client.order.07", "client.order.14", "client.update.03", "client.update.04", "client.update.06"),
    19: ("client.update.16",),
}


def check_all(*pairs: tuple[str, Requirement, str], timeouts: Timeouts = FAST) -> list[Verdict]:
    """Return the verdicts on clients (by fault, requirement, dialect), several at a time."""

    async def work() -> list[Verdict]:
        limit = asyncio.Semaphore(AT_ONCE)

        async def one(fault: str, requirement: Requirement, dialect: str) -> Verdict:
            async with limit:
                return await try_one(faulty_client(fault, dialect, timeouts=timeouts), requirement)

        return await asyncio.gather(*(one(*pair) for pair in pairs))

    return asyncio.run(work())


def describe(verdicts: Sequence[Verdict]) -> list[str]:
    """Return verdicts as text, for a failed test."""
    return [f"{verdict.requirement}: {verdict.outcome}: {verdict.why}" for verdict in verdicts]


def test_there_are_eighty_requirements_and_each_has_a_probe_and_a_fault() -> None:
    ids = [each.id for each in CLIENT]
    assert len(ids) >= 80
    assert set(ids) <= probes().keys()
    assert set(ids) <= faults().keys()


def test_each_fault_is_found_by_its_own_requirement() -> None:
    """Run all at once; try those that are missed again with more time."""

    def missed(wanted: list[Requirement], timeouts: Timeouts) -> list[Verdict]:
        verdicts = check_all(*((each.id, each, each.first_dialect) for each in wanted), timeouts=timeouts)
        return [verdict for verdict in verdicts if verdict.outcome is not Outcome.FAIL]

    doubtful = [requirements()[verdict.requirement] for verdict in missed(CLIENT, FAST)]
    wrong = missed(doubtful, SLOW)
    assert not wrong, describe(wrong)


@pytest.mark.parametrize("dialect", DIALECT_NAMES)
def test_our_client_passes_every_requirement(dialect: str) -> None:
    pairs = [("", each, dialect) for each in CLIENT if each.applies(dialect)]
    wrong = [
        verdict
        for verdict in check_all(*pairs, timeouts=SLOW)
        if verdict.outcome is not Outcome.PASS
        # Our client offers files, so requirements for clients without them do not apply, nor optional ones.
        and not (verdict.outcome is Outcome.NOT_APPLICABLE and _is_optional(requirements()[verdict.requirement]))
    ]
    assert not wrong, describe(wrong)


def _is_optional(requirement: Requirement) -> bool:
    return bool(requirement.needs) or requirement.level is Level.MAY


def test_a_fault_is_not_found_by_other_requirements() -> None:
    """Try a few of each chapter; `make check-faults` tries all."""
    pairs = []
    for number, each in enumerate(CLIENT):
        if number % 5 == 0:
            others = [other for other in CLIENT if other.applies(each.first_dialect) and other.id != each.id]
            pairs += [
                (each.id, others[(number * 7 + step * 31) % len(others)], each.first_dialect) for step in range(2)
            ]
    alarms = [
        f"{fault} is found by {verdict.requirement}: {verdict.why}"
        for (fault, _, _), verdict in zip(pairs, check_all(*pairs, timeouts=SLOW), strict=True)
        if verdict.outcome is Outcome.FAIL
    ]
    assert not alarms


@pytest.mark.parametrize("line", PEERS)
def test_what_real_peers_do_is_required_of_clients(line: int) -> None:
    """The table names existing requirements with a fault."""
    for id in PEERS[line]:
        assert requirements()[id].side == "client"
        assert id in faults()


def test_a_verdict_has_the_frames_that_prove_it() -> None:
    [verdict] = check_all(("client.rpc.05", requirements()["client.rpc.05"], "v1"))
    marked = [each for each in verdict.evidence if each.marked]
    assert verdict.outcome is Outcome.FAIL
    assert [each.dir for each in marked] == ["in"]
    assert '"result": null' in marked[0].text
