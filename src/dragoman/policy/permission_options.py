"""Answer an agent's permission request with one of the options it offers, or with none.

If no option expresses the decision exactly, the answer is "cancelled", never an option that allows more
(docs/protocol/peers.md#lost-options). If the agent has no option for a scope, we remember the scope and answer "once".
Pure.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from dragoman.policy.decision import ALLOW, DENY, Verdict
from dragoman.policy.grants import SCOPES, Scope


class OfferedOption(Protocol):
    """An option that an agent offers: its own id and a kind, perhaps unknown."""

    @property
    def option_id(self) -> str: ...
    @property
    def kind(self) -> str: ...


# Verdict and scope -> kinds of options that express it, best first. An option never allows more than the user did.
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

# What choosing an agent's option means to us. An agent's "always" applies to this project
# (docs/protocol/peers.md#forgotten-always).
KIND_MEANINGS: dict[str, tuple[Verdict, str]] = {
    "allow_once": (ALLOW, Scope.ONCE),
    "allow_always": (ALLOW, Scope.WORKSPACE),
    "reject_once": (DENY, Scope.ONCE),
    "reject_always": (DENY, Scope.WORKSPACE),
}

_VERDICT_PREFIXES: dict[str, Verdict] = {"allow": ALLOW, "reject": DENY, "deny": DENY}


def choose_option(options: Sequence[OfferedOption], verdict: Verdict, scope: str = Scope.ONCE) -> str | None:
    """Return the id of the option that expresses a decision; None if there is none, which is answered "cancelled"."""
    if verdict is ALLOW and scope != Scope.ONCE:
        for option in options:  # the draft uses the scope as option id
            if option.option_id == scope and option.kind.startswith("allow"):
                return option.option_id
    for kind in OPTION_KINDS.get((verdict, scope), ()):
        for option in options:
            # An option whose id is a larger scope does not mean "once", whatever its kind.
            if option.kind == kind and (option.option_id == scope or option.option_id not in SCOPES[1:]):
                return option.option_id
    return None


def option_meaning(option: OfferedOption) -> tuple[Verdict, str] | None:
    """Return the verdict and scope that an option means; None for an unknown kind."""
    found = KIND_MEANINGS.get(option.kind)
    if found is None:  # an unknown kind counts as once (docs/protocol/peers.md#unknown-option-kinds)
        verdict = next((each for word, each in _VERDICT_PREFIXES.items() if option.kind.startswith(word)), None)
        return None if verdict is None else (verdict, Scope.ONCE)
    if found[0] is ALLOW and option.option_id in SCOPES:
        return ALLOW, option.option_id
    return found
