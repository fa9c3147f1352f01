"""From what the user configured to what a host is made of: places, limits, roots, the guard, who is trusted.

Takes [host] of config.toml, with the flags of a command over it; gives values for the house and its doors, or a
ConfigFault that says which setting is wrong. Above are the commands; starts nothing.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from dragoman.config.grants import GrantsFile
from dragoman.config.host_section import HostSection
from dragoman.config.paths import UserPaths
from dragoman.config.policy_files import PolicyLoader
from dragoman.errors import ConfigFault
from dragoman.host.auth.oidc import OidcSettings
from dragoman.host.limits import HostLimits
from dragoman.policy.grants import Grant
from dragoman.roles.client.permission.guard import Guard
from dragoman.roles.client.permission.prompt import AskUser
from dragoman.transport.remote.server.auth import Principal
from dragoman.transport.remote.server.limits import ServerLimits

# Limits of the house by the names that users know them by; all others are of its doors, under their own names.
HOST_LIMIT_FIELDS: Mapping[str, str] = {
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
_GUARD_TIMEOUT_FACTOR = 2.0


def limit_names() -> list[str]:
    """The names of all limits."""
    return [*ServerLimits.__struct_fields__, *HOST_LIMIT_FIELDS]


def endpoint_limits(section: HostSection) -> ServerLimits:
    """What its doors bear."""
    unknown = [name for name in section.limits if name not in limit_names()]
    if unknown:
        raise ConfigFault(
            [f"host.limits: there is no {name}; there are {', '.join(limit_names())}" for name in unknown]
        )
    ours = {name: value for name, value in section.limits.items() if name in ServerLimits.__struct_fields__}
    return ServerLimits(**{name: _cast_like(value, getattr(ServerLimits(), name)) for name, value in ours.items()})


def host_limits(section: HostSection) -> HostLimits:
    """What the house lets happen."""
    said = {field: section.limits[name] for name, field in HOST_LIMIT_FIELDS.items() if name in section.limits}
    values = {field: _cast_like(value, getattr(HostLimits(), field)) for field, value in said.items()}
    return HostLimits(**values, waits_unattended=section.unattended == "wait")


def oidc_settings(section: HostSection) -> OidcSettings | None:
    """Whose bearer tokens count beside our own."""
    said = section.issuer
    return (
        None if said is None else OidcSettings(**{name: getattr(said, name) for name in OidcSettings.__struct_fields__})
    )


def roots_lookup(section: HostSection) -> Callable[[Principal], Sequence[str] | None]:
    """Where a visitor may open sessions: the owner on this machine anywhere, unless roots were said."""
    shared = _existing_folders(section.roots, "host.roots")
    own = {user: _existing_folders(paths, f"host.user_roots.{user}") for user, paths in section.user_roots.items()}

    def of(visitor: Principal) -> Sequence[str] | None:
        found = own.get(visitor.user, shared)
        return None if visitor.is_local and not found else found

    return of


class SessionGrants(GrantsFile):
    """The owner's grants, which the members of a session may use and not add to: what they answer for always holds in
    that session, and no longer than its agent runs."""

    def __init__(self, path: str) -> None:
        super().__init__(path)
        self._session_grants: tuple[Grant, ...] = ()

    def current(self) -> tuple[Grant, ...]:
        """Those of the owner, and of this session."""
        return (*super().current(), *self._session_grants)

    def add(self, grants: Iterable[Grant], *, now: float) -> None:
        """Remember more, here alone."""
        self._session_grants = (*(grant for grant in self._session_grants if not grant.is_expired(now)), *grants)

    def forget_run(self, run: str) -> None:
        """The agent has ended."""
        self._session_grants = ()


def guard_factory(section: HostSection, paths: UserPaths) -> Callable[[AskUser | None], Guard]:
    """What makes the guard of each session: by the policy, the grants and the audit of the owner."""
    patience = host_limits(section).unattended_timeout * _GUARD_TIMEOUT_FACTOR
    policy = os.path.expanduser(section.policy) or None

    def made(ask: AskUser | None) -> Guard:
        grants, mode = SessionGrants(paths.grants), section.mode or None
        return Guard.for_user(paths, policy=policy, grants=grants, ask=ask, mode=mode, patience=patience)

    made(None)  # files that cannot be used are told before anything starts
    return made


def warnings(hosting: HostSection, here: UserPaths) -> list[str]:
    """What the owner's policy allows more than it may seem to."""
    policy = PolicyLoader(here, user_file=os.path.expanduser(hosting.policy) or None).load(())
    return [warning for file in policy.files for warning in file.warnings()]


def _existing_folders(paths: Sequence[str], name: str) -> tuple[str, ...]:
    found = tuple(os.path.realpath(os.path.expanduser(path)) for path in paths)
    missing = [path for path in found if not os.path.isdir(path)]
    if missing:
        raise ConfigFault([f"{name}: there is no folder {path}" for path in missing])
    return found


def _cast_like(value: float, like: float) -> Any:
    return int(value) if isinstance(like, int) else float(value)
