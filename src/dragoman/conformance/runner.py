"""The runner: start a fresh peer for every probe, several at a time, and give verdicts in the order of the table."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Iterable

from dragoman.conformance.harness.peer import PeerUnderTest
from dragoman.conformance.harness.targets import Target
from dragoman.conformance.requirement import Requirement, probes
from dragoman.conformance.verdict import Outcome, ProbeEnded, Verdict
from dragoman.errors import StartFailed


async def check(target: Target, requirements: Iterable[Requirement], jobs: int = 1) -> AsyncIterator[Verdict]:
    """Try every requirement that applies to the target's dialect; verdicts come in the order given."""
    limit = asyncio.Semaphore(jobs)
    tempo: dict[str, float] = {}

    async def one(requirement: Requirement) -> Verdict:
        async with limit:
            return await try_one(target, requirement, tempo)

    selected = [requirement for requirement in requirements if requirement.applies(target.dialect, target.way)]
    tasks = [asyncio.ensure_future(one(requirement)) for requirement in selected]
    try:
        for task in tasks:
            yield await task
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def try_one(target: Target, requirement: Requirement, response_times: dict[str, float] | None = None) -> Verdict:
    """Return the verdict on one requirement. Raise StartFailed when the peer cannot be started at all.

    `response_times` is how long the peer took for each method in earlier probes.
    """
    start = time.monotonic()
    verdict = Verdict(requirement=requirement.id, outcome=Outcome.PASS)
    peer: PeerUnderTest | None = None
    try:
        async with asyncio.timeout(target.timeouts.probe), target.start(requirement) as peer:
            peer.response_times = peer.response_times if response_times is None else response_times
            await probes()[requirement.id](peer)
    except ProbeEnded as ended:
        verdict.outcome, verdict.why = ended.outcome, str(ended)
    except TimeoutError:
        verdict.outcome = Outcome.INCONCLUSIVE
        verdict.why = f"the probe did not finish within {target.timeouts.probe:g} seconds"
    except (StartFailed, asyncio.CancelledError):
        raise
    except Exception as error:  # an unexpected behavior of a peer must not stop the run
        verdict.outcome = Outcome.INCONCLUSIVE
        verdict.why = f"the probe itself failed: {type(error).__name__}: {error}"
    if peer is not None:
        verdict.evidence, verdict.stderr = peer.evidence(), peer.stderr_size
    verdict.seconds = round(time.monotonic() - start, 3)
    return verdict
