"""From what the user configured to what a host is made of: places, limits, roots, the guard, who is trusted.

Takes [host] of config.toml, with the flags of a command over it; gives values for the house and its doors, or a
ConfigFault that says which setting is wrong. Above are the commands; starts nothing.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from dragoman.config.grants import Grants
from dragoman.config.host_section import Hosting
from dragoman.config.paths import Places
from dragoman.config.policy_files import Policies
from dragoman.errors import ConfigFault
from dragoman.host.auth.oidc import Trust
from dragoman.host.limits import Bounds
from dragoman.policy.grants import Grant
from dragoman.roles.client.permission.guard import Guard
from dragoman.roles.client.permission.prompt import AskUser
from dragoman.transport.remote.server.auth import Visitor
from dragoman.transport.remote.server.limits import Limits

# Limits of the house by the names that users know them by; all others are of its doors, under their own names.
HOUSE_LIMITS: Mapping[str, str] = {
    "prompts": "prompts",
    "sessions": "sessions",
    "members": "members",
    "patience": "patience",
    "unattended": "unattended",
    "asleep": "idle",
    "opening": "opening",
    "stopping": "stopping",
}

# A guard waits for the room, which knows who is there; its own patience only has to be longer. Seconds.
_NEVER = 2.0


def names() -> list[str]:
    """The names of all limits."""
    return [*Limits.__struct_fields__, *HOUSE_LIMITS]


def limits(hosting: Hosting) -> Limits:
    """What its doors bear."""
    unknown = [name for name in hosting.limits if name not in names()]
    if unknown:
        raise ConfigFault([f"host.limits: there is no {name}; there are {', '.join(names())}" for name in unknown])
    ours = {name: value for name, value in hosting.limits.items() if name in Limits.__struct_fields__}
    return Limits(**{name: _as(value, getattr(Limits(), name)) for name, value in ours.items()})


def bounds(hosting: Hosting) -> Bounds:
    """What the house lets happen."""
    said = {field: hosting.limits[name] for name, field in HOUSE_LIMITS.items() if name in hosting.limits}
    values = {field: _as(value, getattr(Bounds(), field)) for field, value in said.items()}
    return Bounds(**values, waits=hosting.unattended == "wait")


def trust(hosting: Hosting) -> Trust | None:
    """Whose bearer tokens count beside our own."""
    said = hosting.issuer
    return None if said is None else Trust(**{name: getattr(said, name) for name in Trust.__struct_fields__})


def roots(hosting: Hosting) -> Callable[[Visitor], Sequence[str] | None]:
    """Where a visitor may open sessions: the owner on this machine anywhere, unless roots were said."""
    shared = _folders(hosting.roots, "host.roots")
    own = {user: _folders(paths, f"host.user_roots.{user}") for user, paths in hosting.user_roots.items()}

    def of(visitor: Visitor) -> Sequence[str] | None:
        found = own.get(visitor.user, shared)
        return None if visitor.local and not found else found

    return of


class Recalled(Grants):
    """The owner's grants, which the members of a session may use and not add to: what they answer for always holds in
    that session, and no longer than its agent runs."""

    def __init__(self, path: str) -> None:
        super().__init__(path)
        self._here: tuple[Grant, ...] = ()

    def current(self) -> tuple[Grant, ...]:
        """Those of the owner, and of this session."""
        return (*super().current(), *self._here)

    def add(self, grants: Iterable[Grant], *, now: float) -> None:
        """Remember more, here alone."""
        self._here = (*(grant for grant in self._here if not grant.is_over(now)), *grants)

    def end_run(self, run: str) -> None:
        """The agent has ended."""
        self._here = ()


def guard(hosting: Hosting, here: Places) -> Callable[[AskUser | None], Guard]:
    """What makes the guard of each session: by the policy, the grants and the audit of the owner."""
    patience = bounds(hosting).unattended * _NEVER
    policy = os.path.expanduser(hosting.policy) or None

    def made(ask: AskUser | None) -> Guard:
        grants, mode = Recalled(here.grants), hosting.mode or None
        return Guard.of_user(here, policy=policy, grants=grants, ask=ask, mode=mode, patience=patience)

    made(None)  # files that cannot be used are told before anything starts
    return made


def warnings(hosting: Hosting, here: Places) -> list[str]:
    """What the owner's policy allows more than it may seem to."""
    policy = Policies(here, own=os.path.expanduser(hosting.policy) or None).load(())
    return [warning for file in policy.files for warning in file.warnings()]


def _folders(paths: Sequence[str], name: str) -> tuple[str, ...]:
    found = tuple(os.path.realpath(os.path.expanduser(path)) for path in paths)
    missing = [path for path in found if not os.path.isdir(path)]
    if missing:
        raise ConfigFault([f"{name}: there is no folder {path}" for path in missing])
    return found


def _as(value: float, like: float) -> Any:
    return int(value) if isinstance(like, int) else float(value)
