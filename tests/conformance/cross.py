"""`python -m tests.conformance.cross`: try every fault with every requirement of its side; only its own may find it.

A fault of a remote transport is tried with all requirements of its transport and a few others. This takes minutes, so
`make check-faults` runs it, not the test suite. Arguments are the beginnings of ids of faults, `--against START` those
of requirements, --workers N the number of processes. What is found is tried again alone, because on a busy machine an
answer may be late.
"""

from __future__ import annotations

import argparse
import sys
from concurrent.futures import ProcessPoolExecutor
from functools import partial

from dragoman.conformance.requirement import Requirement, requirements
from dragoman.conformance.verdict import Outcome, Verdict
from tests.conformance import checked_agents, test_client, test_remote

# It repeats others by design: it compares every message with the whole schema.
SUMS_UP = "agent.schema.01"


def requirements_for(fault: Requirement) -> list[Requirement]:
    """Return the requirements to try on a fault."""
    found = [each for each in requirements().values() if each.side == fault.side]
    if fault.way:
        ways = [each for each in found if each.way == fault.way]
        found = [*ways, *(each for each in found if each.id in test_remote.ELSEWHERE)]
    return [
        each for each in found if each.applies(fault.first_dialect, fault.way) and (each.id != SUMS_UP or each is fault)
    ]


def check_fault(id: str, others: list[Requirement]) -> list[Verdict]:
    """Return the verdicts of these requirements on the peer with this fault."""
    fault = requirements()[id]
    if fault.way:
        return test_remote.check_fault(fault, others)
    if fault.side == "agent":
        return list(checked_agents.check_all(checked_agents.agent_with_fault_of(id), others).values())
    return test_client.check_all(*((id, each, fault.first_dialect) for each in others))


def find_fault(id: str, against: tuple[str, ...] = ("",)) -> tuple[str, dict[str, str]]:
    """Return the requirements that find this fault, with their reasons."""
    verdicts = check_fault(
        id, [each for each in requirements_for(requirements()[id]) if each.id == id or each.id.startswith(against)]
    )
    found = {verdict.requirement: verdict for verdict in verdicts if verdict.outcome is Outcome.FAIL}
    for wrong in found.keys() ^ {id}:
        [found[wrong]] = check_fault(id, [requirements()[wrong]])
    return id, {each: verdict.why for each, verdict in found.items() if verdict.outcome is Outcome.FAIL}


def main(arguments: list[str]) -> int:
    """Print every fault that its own requirement does not find, or another one does; return 1 when there is any."""
    parser = argparse.ArgumentParser(prog="python -m tests.conformance.cross", description=__doc__)
    parser.add_argument("starts", nargs="*", metavar="START", default=["agent", "client"])
    parser.add_argument("--against", action="append", metavar="START")
    parser.add_argument("--workers", type=int, default=2, metavar="N")
    options = parser.parse_args(arguments)
    chosen = [each.id for each in requirements().values() if each.id.startswith(tuple(options.starts))]
    against = tuple(options.against or [""])
    wrong = 0
    with ProcessPoolExecutor(options.workers) as crew:
        for number, (id, found) in enumerate(crew.map(partial(find_fault, against=against), chosen), 1):
            print(f"\r{number} of {len(chosen)}: {id}   ", end="", file=sys.stderr, flush=True)
            wrong += found.keys() != {id}
            if id not in found:
                print(f"{id}: its own requirement does not find it", flush=True)
            for other in found.keys() - {id}:
                print(f"{id}: {other} finds it too: {found[other]}", flush=True)
    print(f"{len(chosen)} faults, {wrong} not found by their own requirement alone")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
