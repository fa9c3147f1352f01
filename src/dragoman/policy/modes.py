"""Policy modes: the verdict for each operation if no rule and no grant decides.

The table has the five modes of docs/protocol/dialects.md#banjo-modes and the five of docs/protocol/draft.md#modes;
default and plan are in both. ALLOW covers files in the session's folders; other files are asked about. Pure.
"""

from __future__ import annotations

import msgspec

from dragoman.policy.decision import ALLOW, ASK, DENY, Verdict
from dragoman.policy.question import OPERATIONS


class PolicyMode(msgspec.Struct, frozen=True, kw_only=True):
    """One row of the mode table."""

    name: str
    verdicts: dict[str, Verdict]
    when_asked: Verdict = ASK  # the verdict that replaces ASK
    is_firm: bool = False  # its DENY overrides rules and grants that allow


# fmt: off
_MODE_TABLE: dict[str, tuple[Verdict, ...]] = {
    # mode               read   write  delete exec   net    tool   start  switch other
    "default":           (ALLOW, ASK,   ASK,   ASK,   ASK,   ASK,   ASK,   ASK,   ASK),
    "acceptEdits":       (ALLOW, ALLOW, ASK,   ASK,   ASK,   ASK,   ASK,   ASK,   ASK),
    "bypassPermissions": (ALLOW, ALLOW, ALLOW, ALLOW, ALLOW, ALLOW, ALLOW, ALLOW, ALLOW),
    "dontAsk":           (ALLOW, DENY,  DENY,  DENY,  DENY,  DENY,  DENY,  DENY,  DENY),
    "plan":              (ALLOW, DENY,  DENY,  DENY,  ASK,   DENY,  ASK,   ASK,   DENY),
    "code":              (ALLOW, ALLOW, ASK,   ASK,   ASK,   ASK,   ASK,   ASK,   ASK),
    "architect":         (ALLOW, DENY,  DENY,  DENY,  ASK,   ASK,   ASK,   ASK,   ASK),
    "ask":               (ALLOW, DENY,  DENY,  DENY,  DENY,  DENY,  DENY,  ASK,   DENY),
}
# fmt: on

# The verdict that replaces ASK; in all other modes the user is asked.
_WHEN_ASKED: dict[str, Verdict] = {"bypassPermissions": ALLOW, "dontAsk": DENY}

# In these modes DENY is a promise to the user: nothing is executed or changed.
_FIRM_MODES = frozenset({"plan", "architect", "ask"})

MODES: dict[str, PolicyMode] = {
    name: PolicyMode(
        name=name,
        verdicts=dict(zip(OPERATIONS, cells, strict=True)),
        when_asked=_WHEN_ASKED.get(name, ASK),
        is_firm=name in _FIRM_MODES,
    )
    for name, cells in _MODE_TABLE.items()
}

# What a DENY of the table becomes if the mode is the agent's own. It can only make a decision stricter. Real agents use
# `ask` for "asks before it changes anything", so it only asks.
AGENT_MODES: dict[str, Verdict] = {"plan": DENY, "architect": DENY, "ask": ASK}


def mode_summary(name: str) -> str:
    """Return what a mode allows, asks and denies, in one line."""
    by_verdict: dict[str, list[str]] = {}
    for operation, verdict in MODES[name].verdicts.items():
        by_verdict.setdefault(verdict.label, []).append(operation.replace("_", " "))
    longest = max(by_verdict, key=lambda label: len(by_verdict[label]))
    parts = [f"{label} {', '.join(operations)}" for label, operations in by_verdict.items() if label != longest]
    return "; ".join([*parts, f"{longest} {'everything else' if parts else 'everything'}"])


def find_mode(name: str) -> PolicyMode:
    """Return a mode by name; raise ValueError with the known names."""
    found = MODES.get(name)
    if found is None:
        raise ValueError(f"unknown policy mode {name!r}; choose one of {', '.join(MODES)}")
    return found
