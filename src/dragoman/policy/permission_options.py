"""Decisions as answers to the options that an agent offers: one of them, or none, never one of our own making.

A wish that no option says faithfully is answered "cancelled" rather than by an option that reaches further
(peers.md 42). A scope that the agent has no word for is remembered by us, and the agent is told "once". Pure.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from dragoman.policy.decision import ALLOW, DENY, Verdict
from dragoman.policy.grants import SCOPES, Scope


class OfferedOption(Protocol):
    """What an agent offers: an id of its own and a kind that we know, or not."""

    @property
    def option_id(self) -> str: ...
    @property
    def kind(self) -> str: ...


# Verdict and scope -> kinds of options that say it, best first. Leave is never made larger than it was given.
OPTION_KINDS: dict[tuple[Verdict, str], tuple[str, ...]] = {
    (ALLOW, Scope.ONCE): ("allow_once",),
    (ALLOW, Scope.SESSION): ("allow_once",),
    (ALLOW, Scope.WORKSPACE): ("allow_once",),
    (ALLOW, Scope.ALWAYS): ("allow_always", "allow_once"),
    (DENY, Scope.ONCE): ("reject_once", "reject_always"),
    (DENY, Scope.SESSION): ("reject_once", "reject_always"),
    (DENY, Scope.WORKSPACE): ("reject_once", "reject_always"),
    (DENY, Scope.ALWAYS): ("reject_always", "reject_once"),
}

# What choosing an option of the agent's means to us. "Always" of an agent is about this project (peers.md 40).
KIND_MEANINGS: dict[str, tuple[Verdict, str]] = {
    "allow_once": (ALLOW, Scope.ONCE),
    "allow_always": (ALLOW, Scope.WORKSPACE),
    "reject_once": (DENY, Scope.ONCE),
    "reject_always": (DENY, Scope.WORKSPACE),
}


_VERDICT_PREFIXES: dict[str, Verdict] = {"allow": ALLOW, "reject": DENY, "deny": DENY}


def choose_option(options: Sequence[OfferedOption], verdict: Verdict, scope: str = Scope.ONCE) -> str | None:
    """The id of the option that says this; None when none does, which is answered "cancelled"."""
    if verdict is ALLOW and scope != Scope.ONCE:
        for option in options:  # the draft's own words for how far leave reaches
            if option.option_id == scope and option.kind.startswith("allow"):
                return option.option_id
    for kind in OPTION_KINDS.get((verdict, scope), ()):
        for option in options:
            # An option that is called like a larger scope is not "once", whatever its kind.
            if option.kind == kind and (option.option_id == scope or option.option_id not in SCOPES[1:]):
                return option.option_id
    return None


def option_meaning(option: OfferedOption) -> tuple[Verdict, str] | None:
    """The verdict and scope that choosing an option means; None for an option of no known kind."""
    found = KIND_MEANINGS.get(option.kind)
    if found is None:  # one more kind of leave or refusal (peers.md 27) is no more than once
        verdict = next((each for word, each in _VERDICT_PREFIXES.items() if option.kind.startswith(word)), None)
        return None if verdict is None else (verdict, Scope.ONCE)
    if found[0] is ALLOW and option.option_id in SCOPES:
        return ALLOW, option.option_id
    return found
