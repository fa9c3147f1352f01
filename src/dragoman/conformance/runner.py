"""The runner: a fresh peer and a deadline for every probe, a few at a time, verdicts in the order of the table.

Takes a subject and requirements, gives verdicts as they come. Nothing a peer does stops it: a probe that fails in a way
nobody thought of is inconclusive, and says so. Above are the reports and the command.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Iterable

from dragoman.conformance.harness.peer import Stage
from dragoman.conformance.harness.targets import Subject
from dragoman.conformance.probe import probes
from dragoman.conformance.requirement import Requirement
from dragoman.conformance.verdict import Found, Outcome, Verdict
from dragoman.errors import StartFailed


async def check(subject: Subject, requirements: Iterable[Requirement], jobs: int = 1) -> AsyncIterator[Verdict]:
    """Try every requirement that applies to the subject's dialect; verdicts come in the order given."""
    limit = asyncio.Semaphore(jobs)
    tempo: dict[str, float] = {}

    async def one(requirement: Requirement) -> Verdict:
        async with limit:
            return await try_one(subject, requirement, tempo)

    chosen = [requirement for requirement in requirements if requirement.applies(subject.dialect, subject.way)]
    tasks = [asyncio.ensure_future(one(requirement)) for requirement in chosen]
    try:
        for task in tasks:
            yield await task
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def try_one(subject: Subject, requirement: Requirement, tempo: dict[str, float] | None = None) -> Verdict:
    """What became of one requirement. Raises StartFailed when the peer cannot be started at all.

    `tempo` is how long the peer took for what in earlier probes.
    """
    began = time.monotonic()
    verdict = Verdict(requirement=requirement.id, outcome=Outcome.PASS)
    stage: Stage | None = None
    try:
        async with asyncio.timeout(subject.pace.probe), subject.stage(requirement) as stage:
            stage.tempo = stage.tempo if tempo is None else tempo
            await probes()[requirement.id](stage)
    except Found as found:
        verdict.outcome, verdict.why = found.outcome, str(found)
    except TimeoutError:
        verdict.outcome = Outcome.INCONCLUSIVE
        verdict.why = f"the probe did not come to its end within {subject.pace.probe:g} seconds"
    except (StartFailed, asyncio.CancelledError):
        raise
    except Exception as error:  # a peer did what nobody thought of; the run goes on
        verdict.outcome = Outcome.INCONCLUSIVE
        verdict.why = f"the probe itself failed: {type(error).__name__}: {error}"
    if stage is not None:
        verdict.evidence = stage.evidence()
    verdict.seconds = round(time.monotonic() - began, 3)
    return verdict
