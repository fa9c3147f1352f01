"""What policy answers: allow, ask or deny, and why.

Ordered by strictness, so that "the strictest wins" is a maximum. A reason says what decided: which rule of which file
and line, which mode, which grant.
"""

from __future__ import annotations

from collections.abc import Iterable
from enum import IntEnum

import msgspec


class Verdict(IntEnum):
    """Allow, ask or deny; the larger is the stricter."""

    ALLOW = 0
    ASK = 1
    DENY = 2

    @property
    def label(self) -> str:
        """As it is written in files and shown to people."""
        return self.name.lower()


ALLOW, ASK, DENY = Verdict.ALLOW, Verdict.ASK, Verdict.DENY

VERDICTS_BY_LABEL: dict[str, Verdict] = {verdict.label: verdict for verdict in Verdict}


class DecisionSource:
    """What decided."""

    RULE = "rule"
    MODE = "mode"
    AGENT_MODE = "agent mode"
    GRANT = "grant"
    BOUNDARY = "boundary"
    USER = "user"
    NOBODY = "nobody"
    TIMEOUT = "timeout"
    CANCELLED = "cancelled"
    FAULT = "fault"


class Decision(msgspec.Struct, frozen=True):
    """A verdict, what gave it, and the reason in words."""

    verdict: Verdict
    source: str
    reason: str
    grant: str = ""  # the id of the grant, where one decided

    @property
    def allows(self) -> bool:
        """Whether it is leave."""
        return self.verdict is ALLOW


def strictest(decisions: Iterable[Decision]) -> Decision | None:
    """The strictest of some decisions, the first among equals; None for none."""
    return max(decisions, key=lambda decision: decision.verdict, default=None)
