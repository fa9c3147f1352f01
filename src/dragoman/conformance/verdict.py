"""What a probe found out: an outcome, why, and the frames that prove it.

Probes end by raising one of the three exceptions here, or by coming to their end, which is a pass. Above are the runner
and the reports; below is nothing.
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
    """One thing that passed while a probe ran: seconds since its start, `out` (said), `in` (heard) or `note`.

    A long frame is cut to its first characters; `size` is what it had. `marked` frames are those that prove it.
    """

    t: float
    dir: str
    text: str
    size: int
    marked: bool = False


class Verdict(msgspec.Struct, kw_only=True):
    """What became of one requirement."""

    requirement: str
    outcome: Outcome
    why: str = ""
    evidence: list[Evidence] = []
    seconds: float = 0.0


class Found(Exception):
    """How a probe ends before its end."""

    outcome: Outcome


class Failed(Found):
    """The peer does not do what it has to."""

    outcome = Outcome.FAIL


class Skipped(Found):
    """The requirement does not concern this peer."""

    outcome = Outcome.NOT_APPLICABLE


class Unsure(Found):
    """The peer did not come to the point where it shows."""

    outcome = Outcome.INCONCLUSIVE
