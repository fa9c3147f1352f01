"""Clients: the sound one keeps every requirement, and each broken twin is found by its own."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import msgspec
import pytest

from dragoman.conformance.client_twin import twin
from dragoman.conformance.harness.timeouts import MEMORY, Pace
from dragoman.conformance.probe import probes
from dragoman.conformance.requirement import Level, Requirement, requirements
from dragoman.conformance.runner import try_one
from dragoman.conformance.twin import faults
from dragoman.conformance.verdict import Outcome, Verdict
from dragoman.dialect.dialects import DIALECT_NAMES

CLIENT = [each for each in requirements().values() if each.side == "client" and not each.way]

# Several wait for something that never comes, and cost nothing meanwhile.
AT_ONCE = 24

# A client that must not raise an alarm is given the time it needs on a busy machine; what is in order comes at once.
PATIENT = msgspec.structs.replace(MEMORY, start=15.0, answer=3.0, turn=15.0, leave=6.0)
# One that must be found is waited for until it prompts, and no longer than usual for what never comes.
BRISK = msgspec.structs.replace(MEMORY, start=15.0)

# Which requirements of clients answer to the numbered lines of peers.md, "JSON-RPC level" and "Ordering".
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


def tried(*pairs: tuple[str, Requirement, str], pace: Pace = BRISK) -> list[Verdict]:
    """The verdicts of requirements on twins (by fault, requirement, dialect), several at a time."""

    async def work() -> list[Verdict]:
        limit = asyncio.Semaphore(AT_ONCE)

        async def one(fault: str, requirement: Requirement, dialect: str) -> Verdict:
            async with limit:
                return await try_one(twin(fault, dialect, pace=pace), requirement)

        return await asyncio.gather(*(one(*pair) for pair in pairs))

    return asyncio.run(work())


def told(verdicts: Sequence[Verdict]) -> list[str]:
    """For the reader of a failure."""
    return [f"{verdict.requirement}: {verdict.outcome}: {verdict.why}" for verdict in verdicts]


def test_there_are_eighty_requirements_and_each_has_a_probe_and_a_fault() -> None:
    ids = [each.id for each in CLIENT]
    assert len(ids) >= 80
    assert set(ids) <= probes().keys()
    assert set(ids) <= faults().keys()


def test_each_fault_is_found_by_its_own_requirement() -> None:
    """All at once, for most of them wait; what is missed in a hurry has all the time of the sound one."""

    def missed(wanted: list[Requirement], pace: Pace) -> list[Verdict]:
        verdicts = tried(*((each.id, each, each.home) for each in wanted), pace=pace)
        return [verdict for verdict in verdicts if verdict.outcome is not Outcome.FAIL]

    doubtful = [requirements()[verdict.requirement] for verdict in missed(CLIENT, BRISK)]
    wrong = missed(doubtful, PATIENT)
    assert not wrong, told(wrong)


@pytest.mark.parametrize("dialect", DIALECT_NAMES)
def test_the_sound_client_raises_no_alarm(dialect: str) -> None:
    pairs = [("", each, dialect) for each in CLIENT if each.applies(dialect)]
    wrong = [
        verdict
        for verdict in tried(*pairs, pace=PATIENT)
        if verdict.outcome is not Outcome.PASS
        # It lends files, so what holds for those that do not is not asked of it; nor what it need not do.
        and not (verdict.outcome is Outcome.NOT_APPLICABLE and _is_optional(requirements()[verdict.requirement]))
    ]
    assert not wrong, told(wrong)


def _is_optional(requirement: Requirement) -> bool:
    return bool(requirement.needs) or requirement.level is Level.MAY


def test_a_fault_is_not_found_by_its_neighbours() -> None:
    """A few of each chapter; all of them are tried by `make check-faults`."""
    pairs = []
    for number, each in enumerate(CLIENT):
        if number % 5 == 0:
            others = [other for other in CLIENT if other.applies(each.home) and other.id != each.id]
            pairs += [(each.id, others[(number * 7 + step * 31) % len(others)], each.home) for step in range(2)]
    alarms = [
        f"{fault} is found by {verdict.requirement}: {verdict.why}"
        for (fault, _, _), verdict in zip(pairs, tried(*pairs, pace=PATIENT), strict=True)
        if verdict.outcome is Outcome.FAIL
    ]
    assert not alarms


@pytest.mark.parametrize("line", PEERS)
def test_what_real_peers_do_is_required_of_clients(line: int) -> None:
    """The table names requirements that there are, each with the fault that the chapters' tests find."""
    for id in PEERS[line]:
        assert requirements()[id].side == "client"
        assert id in faults()


def test_a_verdict_has_the_frames_that_prove_it() -> None:
    [verdict] = tried(("client.rpc.05", requirements()["client.rpc.05"], "v1"))
    marked = [each for each in verdict.evidence if each.marked]
    assert verdict.outcome is Outcome.FAIL
    assert [each.dir for each in marked] == ["in"]
    assert '"result": null' in marked[0].text
