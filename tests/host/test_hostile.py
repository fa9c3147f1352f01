"""Attacks are refused as documented, and a client that works meanwhile is served throughout.

The short form of `python -m tests.host.hostile.run`, against a real `dragoman serve` with tokens.
"""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

import pytest

from tests.host.hostile.attacks import ATTACKS
from tests.host.hostile.floods import FLOODS
from tests.host.hostile.run import hostile_run, table

GARBAGE = 5_000


@pytest.mark.skipif(sys.platform != "linux", reason="needs /proc")
def test_attackers_are_refused_and_other_clients_are_not_affected(tmp_path: Path) -> None:
    outcome = asyncio.run(hostile_run(tmp_path.resolve(), GARBAGE, "short"))
    assert outcome.faults == [], table(outcome)
    assert len(outcome.refused) == len(ATTACKS) + len(FLOODS) + 2  # a client whose token expires, in two ways
    assert outcome.garbage >= GARBAGE
    assert outcome.answers["error"] > GARBAGE // 10
    assert outcome.turns > 2
    assert outcome.visits > 2
