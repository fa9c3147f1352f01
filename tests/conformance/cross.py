"""`python -m tests.conformance.cross`: every fault meets every requirement of its side; only its own may find it.

A fault of a remote transport meets all that is about its way, and a little of what is asked over any. Takes minutes, so
it is no test of the suite: `make check-faults` runs it. Arguments are beginnings of ids of faults, `--against START`
those of what they meet; --workers N is how many processes share the work. What is found in a hurry is tried again
alone, for on a busy machine an answer may be late.
"""

from __future__ import annotations

import argparse
import sys
from concurrent.futures import ProcessPoolExecutor
from functools import partial

from dragoman.conformance.requirement import Requirement, requirements
from dragoman.conformance.twin import faults
from dragoman.conformance.verdict import Outcome, Verdict
from tests.conformance import checked_agents, test_client_twins, test_remote


def asked(fault: Requirement) -> list[Requirement]:
    """The requirements that a fault meets."""
    found = [each for each in requirements().values() if each.side == fault.side]
    if fault.way:
        ways = [each for each in found if each.way == fault.way]
        found = [*ways, *(each for each in found if each.id in test_remote.ELSEWHERE)]
    return [each for each in found if each.applies(fault.home, fault.way)]


def meet(id: str, others: list[Requirement]) -> list[Verdict]:
    """What these requirements say of the twin with this fault."""
    fault = requirements()[id]
    if fault.way:
        return test_remote.met(fault, others)
    if fault.side == "agent":
        return list(checked_agents.tried(checked_agents.twin(fault.home, faults()[id]), others).values())
    return test_client_twins.tried(*((id, each, fault.home) for each in others))


def crossed(id: str, against: tuple[str, ...] = ("",)) -> tuple[str, dict[str, str]]:
    """The requirements that find this fault, with what they say of it."""
    verdicts = meet(id, [each for each in asked(requirements()[id]) if each.id == id or each.id.startswith(against)])
    found = {verdict.requirement: verdict for verdict in verdicts if verdict.outcome is Outcome.FAIL}
    for wrong in found.keys() ^ {id}:
        [found[wrong]] = meet(id, [requirements()[wrong]])
    return id, {each: verdict.why for each, verdict in found.items() if verdict.outcome is Outcome.FAIL}


def main(arguments: list[str]) -> int:
    """Print what is found by more than its own requirement, or not at all; 1 when anything is."""
    parser = argparse.ArgumentParser(prog="python -m tests.conformance.cross", description=__doc__)
    parser.add_argument("starts", nargs="*", metavar="START", default=["agent", "client"])
    parser.add_argument("--against", action="append", metavar="START")
    parser.add_argument("--workers", type=int, default=2, metavar="N")
    options = parser.parse_args(arguments)
    chosen = [each.id for each in requirements().values() if each.id.startswith(tuple(options.starts))]
    against = tuple(options.against or [""])
    wrong = 0
    with ProcessPoolExecutor(options.workers) as crew:
        for number, (id, found) in enumerate(crew.map(partial(crossed, against=against), chosen), 1):
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
