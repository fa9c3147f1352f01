"""`python -m tests.conformance.cross`: every fault against every requirement; only its own may find it.

Takes minutes, so it is no test of the suite: `make check-faults` runs it. Arguments are beginnings of ids. Where a
fault cannot help being seen by a second requirement, ALLOWED says so.
"""

from __future__ import annotations

import sys

from dragoman.conformance.twin import faults
from dragoman.conformance.verdict import Outcome
from tests.conformance.tried import AGENT, tried, twin

# Fault -> other requirements that see it too, for what they ask of an agent is a part of what it breaks.
ALLOWED: dict[str, frozenset[str]] = {}


def main(starts: list[str]) -> int:
    """Print what is found by more than its own requirement; 1 when anything is."""
    chosen = [each for each in AGENT if not starts or each.id.startswith(tuple(starts))]
    wrong = 0
    for number, requirement in enumerate(chosen):
        print(f"\r{number} of {len(chosen)}", end=" ", file=sys.stderr, flush=True)
        verdicts = tried(twin(requirement.home, faults()[requirement.id]), AGENT)
        found = {id for id, verdict in verdicts.items() if verdict.outcome is Outcome.FAIL}
        others = sorted(found - {requirement.id} - ALLOWED.get(requirement.id, frozenset()))
        if others or requirement.id not in found:
            wrong += 1
            missed = "" if requirement.id in found else "not found by its own; "
            print(f"{requirement.id}: {missed}also found by {', '.join(others) or 'none'}", flush=True)
    print(f"{len(chosen)} faults, {wrong} not found by their own requirement alone")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
