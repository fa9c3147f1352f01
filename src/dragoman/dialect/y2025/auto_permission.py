"""Leave, for a client that cannot be asked: it controls by what it serves (reference 5.17).

Takes the setting, what the client lends and what the tool call would do; gives the kinds of options to look for and the
reason, which the user is told. Pure; knows no connection.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, NamedTuple

from dragoman.schema.permission import PermissionOption, PermissionOptionKind
from dragoman.schema.toolcall import ToolKind

FILES: Final = "text files"
TERMINALS: Final = "terminals"

# What the client itself carries out when such a tool call goes ahead, so that it has the last word.
NEEDED_CAPABILITY: Final = {
    ToolKind.READ: FILES,
    ToolKind.EDIT: FILES,
    ToolKind.DELETE: FILES,
    ToolKind.MOVE: FILES,
    ToolKind.EXECUTE: TERMINALS,
}

ALLOW_KINDS: Final = (PermissionOptionKind.ALLOW_ONCE, PermissionOptionKind.ALLOW_ALWAYS)
REJECT_KINDS: Final = (PermissionOptionKind.REJECT_ONCE, PermissionOptionKind.REJECT_ALWAYS)


class AutoDecision(NamedTuple):
    """The kinds of options that would do, best first, and why."""

    kinds: tuple[str, ...]
    reason: str


def decide(permission: str, kind: str, capabilities: Iterable[str]) -> AutoDecision:
    """What to answer to a question about a tool call of this kind."""
    if permission == "allow":
        return AutoDecision(ALLOW_KINDS, "everything is allowed by the permission setting")
    if permission == "deny":
        return AutoDecision(REJECT_KINDS, "everything is denied by the permission setting")
    needed = NEEDED_CAPABILITY.get(kind)
    if needed is None:
        return AutoDecision(REJECT_KINDS, "the client cannot be asked and does not carry out such a tool call itself")
    if needed in capabilities:
        return AutoDecision(ALLOW_KINDS[:1], f"the client cannot be asked, but serves {needed} itself")
    return AutoDecision(REJECT_KINDS, f"the client cannot be asked and serves no {needed}")


def choose_option(options: list[PermissionOption], kinds: tuple[str, ...]) -> PermissionOption | None:
    """The first option of the best kind there is."""
    for kind in kinds:
        for option in options:
            if option.kind == kind:
                return option
    return None
