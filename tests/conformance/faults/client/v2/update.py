"""v2 clients that crash on an update that agents send."""

from __future__ import annotations

from dragoman.conformance.client.v2.update import CASES
from tests.conformance.faults.edits import disconnect_on
from tests.conformance.faults.fault import ClientFault, Json, seed
from tests.conformance.faults.v2_edits import update_of


def _crash_at(update: Json) -> ClientFault:
    return disconnect_on(lambda message: isinstance(message, dict) and update_of(message) == update)


for id, case in CASES.items():
    seed(id, _crash_at(case.updates[-1]))
