"""For any input of a peer, each request gets one answer, nothing is logged as an error, and the next turn works.

DRAGOMAN_FUZZ_FRAMES is the number of mutated frames per dialect, DRAGOMAN_FUZZ_SEED what they are drawn from; "random"
draws a fresh one. A failure names its seed.
"""

from __future__ import annotations

import asyncio
import gc
import os
import resource
import secrets
import sys

import pytest

from tests.fuzz.peers import AGENTS
from tests.fuzz.run import AgentRun, ClientRun, watched

SHORT_RUN = 10_000  # in `make test`; `make fuzz` sends two million, from a fresh seed
FRAMES = int(os.environ.get("DRAGOMAN_FUZZ_FRAMES", SHORT_RUN))
SEED = os.environ.get("DRAGOMAN_FUZZ_SEED", "dragoman")

# What all sessions and tables of the longest connection may weigh, and far below what keeping every frame would.
GROWTH = 256 * 1024 * 1024


def peak() -> int:
    unit = 1 if sys.platform == "darwin" else 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit


@pytest.mark.timeout(0 if FRAMES > SHORT_RUN else 300)
@pytest.mark.parametrize("dialect", AGENTS)
@pytest.mark.parametrize("role", [AgentRun, ClientRun])
def test_a_connection_still_works_after_any_frames(dialect: str, role: type[AgentRun] | type[ClientRun]) -> None:
    seed = secrets.token_hex(4) if SEED == "random" else SEED
    print(f"DRAGOMAN_FUZZ_SEED={seed} DRAGOMAN_FUZZ_FRAMES={FRAMES}")
    run = role(dialect, seed)
    before = peak()
    with watched() as surfaced:
        asyncio.run(run.go(FRAMES // 2, surfaced))
        gc.collect()
    assert not surfaced.found, "\n".join(surfaced.found[:3])
    assert run.frames >= FRAMES // 2
    assert run.valid >= run.frames / 2, f"only {run.valid} of {run.frames} were JSON"
    assert run.requests >= run.frames / 10, f"only {run.requests} of {run.frames} were requests"
    assert peak() - before < GROWTH
