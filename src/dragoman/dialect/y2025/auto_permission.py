"""Permission for a client that cannot be asked: it controls by what it serves
(docs/protocol/extensions.md#choices-for-20251).

Takes the setting, the client's capabilities and the kind of the tool call; gives the option kinds to choose and the
reason for the user. Pure.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, NamedTuple

from dragoman.schema.permission import PermissionOption, PermissionOptionKind
from dragoman.schema.toolcall import ToolKind

FILES: Final = "text files"
TERMINALS: Final = "terminals"

# What the client itself executes for such a tool call, so that it decides in the end.
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
    """The acceptable option kinds, best first, and the reason."""

    kinds: tuple[str, ...]
    reason: str


def decide(permission: str, kind: str, capabilities: Iterable[str]) -> AutoDecision:
    """Return the answer to a request about a tool call of this kind."""
    if permission == "allow":
        return AutoDecision(ALLOW_KINDS, "everything is allowed by the permission setting")
    if permission == "deny":
        return AutoDecision(REJECT_KINDS, "everything is denied by the permission setting")
    needed = NEEDED_CAPABILITY.get(kind)
    if needed is None:
        return AutoDecision(REJECT_KINDS, "the client cannot be asked and does not execute such a tool call itself")
    if needed in capabilities:
        return AutoDecision(ALLOW_KINDS[:1], f"the client cannot be asked, but serves {needed} itself")
    return AutoDecision(REJECT_KINDS, f"the client cannot be asked and serves no {needed}")


def choose_option(options: list[PermissionOption], kinds: tuple[str, ...]) -> PermissionOption | None:
    """Return the first option of the best available kind."""
    for kind in kinds:
        for option in options:
            if option.kind == kind:
                return option
    return None
