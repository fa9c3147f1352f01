"""Policy modes: what is allowed, asked or denied where neither a rule nor a grant speaks.

THE table, mode by operation: the five of seed 003 ("Permission Modes") and the five of seed 004 section 12; default and
plan are in both. An ALLOW for files is for files in the session's folders; others are asked about. Pure.
"""

from __future__ import annotations

import msgspec

from dragoman.policy.decision import ALLOW, ASK, DENY, Verdict
from dragoman.policy.question import OPERATIONS


class PolicyMode(msgspec.Struct, frozen=True, kw_only=True):
    """One row of the table."""

    name: str
    verdicts: dict[str, Verdict]
    when_asked: Verdict = ASK  # what becomes of a question that would be asked
    is_firm: bool = False  # its DENY stands against rules and grants that allow


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

# What becomes of a question that would be asked; in the other modes it is asked.
_WHEN_ASKED: dict[str, Verdict] = {"bypassPermissions": ALLOW, "dontAsk": DENY}

# Modes whose DENY is a promise to the user: nothing is executed, nothing is changed.
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

# What the DENY cells of a mode become when it is the agent's own mode that has this name. It can only make things
# stricter. `ask` is for real agents "asks before it changes anything", so it is no more than that.
AGENT_MODES: dict[str, Verdict] = {"plan": DENY, "architect": DENY, "ask": ASK}


def find_mode(name: str) -> PolicyMode:
    """The mode of this name; ValueError names those there are."""
    found = MODES.get(name)
    if found is None:
        raise ValueError(f"there is no policy mode {name!r}; there are {', '.join(MODES)}")
    return found
