"""Allow, ask or deny, and the reason.

Verdicts are ordered by strictness, so "the strictest wins" is a maximum. A reason names the rule with its file and
line, the mode or the grant that decided.
"""

from __future__ import annotations

from enum import IntEnum

import msgspec


class Verdict(IntEnum):
    """Allow, ask or deny; a larger value is stricter."""

    ALLOW = 0
    ASK = 1
    DENY = 2

    def __init__(self, _: int) -> None:
        self.label = self.name.lower()  # the word used in files and shown to users


ALLOW, ASK, DENY = Verdict.ALLOW, Verdict.ASK, Verdict.DENY

VERDICTS_BY_LABEL: dict[str, Verdict] = {verdict.label: verdict for verdict in Verdict}


class DecisionSource:
    """What made a decision."""

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
    """A verdict, its source and its reason."""

    verdict: Verdict
    source: str
    reason: str
    grant: str = ""  # the grant's id if a grant decided
    is_hidden: bool = False  # a rule that denies may apply to what cannot be seen; then ASK never becomes ALLOW

    @property
    def allows(self) -> bool:
        """Whether the verdict is ALLOW."""
        return self.verdict is ALLOW

    @property
    def strictness(self) -> tuple[Verdict, bool]:
        """What of two decisions the stricter one has more of."""
        return self.verdict, self.is_hidden
