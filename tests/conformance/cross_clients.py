"""`python -m tests.conformance.cross_clients`: every fault of a client meets every requirement; one finds it.

Takes minutes, so it is no test of the suite: `make check-faults` runs it. Arguments are beginnings of ids.
"""

from __future__ import annotations

import sys

from dragoman.conformance.requirement import requirements
from dragoman.conformance.verdict import Outcome
from tests.conformance.test_client_twins import CLIENT, tried

# Fault -> other requirements that see it too, for what they ask of a client is a part of what it breaks.
ALLOWED: dict[str, frozenset[str]] = {
    "client.frame.03": frozenset({"client.files.15"}),  # a write of a megabyte is a line of a megabyte
}


def main(starts: list[str]) -> int:
    """Print what is found by more than its own requirement; 1 when anything is."""
    chosen = [each for each in CLIENT if not starts or each.id.startswith(tuple(starts))]
    wrong = 0
    for fault in chosen:
        asked = [each for each in requirements().values() if each.side == "client" and each.applies(fault.home)]
        verdicts = tried(*((fault.id, each, fault.home) for each in asked))
        found = {verdict.requirement for verdict in verdicts if verdict.outcome is Outcome.FAIL}
        others = sorted(found - {fault.id} - ALLOWED.get(fault.id, frozenset()))
        if others or fault.id not in found:
            wrong += 1
            missed = "" if fault.id in found else "not found by its own; "
            print(f"{fault.id}: {missed}also found by {', '.join(others) or 'none'}", flush=True)
    print(f"{len(chosen)} faults, {wrong} not found by their own requirement alone")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
