"""The result of a probe: an outcome, the reason, and the frames that prove it.

A probe raises one of the exceptions here, or returns, which is a pass.
"""

from __future__ import annotations

from enum import StrEnum

import msgspec


class Outcome(StrEnum):
    """The four outcomes."""

    PASS = "pass"
    FAIL = "fail"
    NOT_APPLICABLE = "not_applicable"
    INCONCLUSIVE = "inconclusive"


class Evidence(msgspec.Struct):
    """One entry of a probe's record: seconds since its start, `out` (sent), `in` (received) or `note`, and the text.

    A long frame is cut; `size` is its full size. `marked` frames prove the verdict.
    """

    t: float
    dir: str
    text: str
    size: int
    marked: bool = False


class Verdict(msgspec.Struct, kw_only=True):
    """The outcome of one requirement; `stderr` is how many bytes the peer wrote there."""

    requirement: str
    outcome: Outcome
    why: str = ""
    evidence: list[Evidence] = []
    seconds: float = 0.0
    stderr: int = 0


class ProbeEnded(Exception):
    """Ends a probe with an outcome."""

    outcome: Outcome


class Failed(ProbeEnded):
    """The peer does not do what it has to."""

    outcome = Outcome.FAIL


class Skipped(ProbeEnded):
    """The requirement does not apply to this peer."""

    outcome = Outcome.NOT_APPLICABLE


class Inconclusive(ProbeEnded):
    """The peer did not do what the probe needs."""

    outcome = Outcome.INCONCLUSIVE
