"""The answers that a person can give to a question, each by one key, and what they mean.

Yes once, for the session, for the folder, always, and no; each only where it can be said to the agent with the options
that it offers, and where there is something to remember. Options that none of these keys says are offered by number, so
that nothing an agent offers is lost (peers.md 42). Pure.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from dragoman.cli.ui.key_prompt import Choice as Shown
from dragoman.policy.decision import ALLOW, DENY
from dragoman.policy.grants import Scope
from dragoman.policy.permission_options import choose
from dragoman.roles.client.permission.prompt import Asked, Choice
from dragoman.schema.permission import PermissionOption


class Key(NamedTuple):
    """One key: how it is shown, and the answer it gives."""

    shown: Shown
    choice: Choice


# Scope -> key and meaning.
_YES: dict[str, tuple[str, str]] = {
    Scope.ONCE: ("y", "yes, this once"),
    Scope.SESSION: ("s", "yes, for this session"),
    Scope.WORKSPACE: ("w", "yes, always in this folder"),
    Scope.ALWAYS: ("a", "yes, always and everywhere"),
}

# Agents that can only be told yes are told "cancelled", after which most end their turn (peers.md 42).
_CLOSING = "no; the agent offers no way to say so, and is told that the turn is cancelled"


def keys(asked: Asked, scopes: Sequence[str]) -> list[Key]:
    """The keys that answer a question, in the order in which they are shown."""
    options = asked.options
    wanted = scopes if asked.can_be_remembered else (Scope.ONCE,)
    found: list[Key] = []
    said: set[str] = set()  # the options that our keys say
    for scope in wanted:
        option = choose(options, ALLOW, scope)
        if options and option is None:
            continue
        # What the agent calls it is shown where it is told exactly that: beside "once", it would mislead.
        name = "" if option is None or option in said else _name(options, option)
        key, meaning = _YES[scope]
        found.append(Key(Shown(key, meaning, key, name), Choice(ALLOW, scope)))
        said |= {option} if option is not None else set()
    refusal = choose(options, DENY)
    meaning = "no" if refusal is not None or not options else _CLOSING
    found.append(Key(Shown("n", meaning, "n", _name(options, refusal)), Choice(DENY)))
    said |= {refusal} if refusal is not None else set()
    for number, each in enumerate(options, 1):
        if each.option_id not in said:
            shown = Shown(str(number), _MEANINGS.get(each.kind, "choose"), str(number), each.name)
            found.append(Key(shown, Choice(option_id=each.option_id)))
    return found


_MEANINGS = {
    "allow_once": "yes, this once",
    "allow_always": "yes, always in this folder",
    "reject_once": "no",
    "reject_always": "no, never in this folder",
}


def _name(options: Sequence[PermissionOption], option_id: str | None) -> str:
    return next((option.name for option in options if option.option_id == option_id), "")
