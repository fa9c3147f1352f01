"""Turn the [host] section of config.toml, and the flags over it, into the values a host is built from.

Raises a ConfigFault that names the wrong setting. Starts nothing.
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
from dragoman.host.limits import HostLimits
from dragoman.policy.grants import Grant
from dragoman.roles.client.permission.guard import Guard
from dragoman.roles.client.permission.questions import AskUser
from dragoman.transport.remote.server.auth import Principal
from dragoman.transport.remote.server.limits import ServerLimits

# Host limits by their configuration keys. All other keys are limits of the endpoint, under the names of its fields.
HOST_LIMIT_FIELDS: Mapping[str, str] = {
    "prompts": "max_prompts",
    "sessions": "max_sessions",
    "members": "max_members",
    "answer_timeout": "answer_timeout",
    "unattended_timeout": "unattended_timeout",
    "agent_idle_timeout": "idle_timeout",
    "open_timeout": "open_timeout",
    "stop_timeout": "stop_timeout",
}

# A guard waits for the room, which knows who is present, so its own timeout only has to be longer.
_GUARD_TIMEOUT_FACTOR = 2.0


def limit_names() -> list[str]:
    """Return the configuration keys of all limits."""
    return [*ServerLimits.__struct_fields__, *HOST_LIMIT_FIELDS]


def endpoint_limits(section: HostSection) -> ServerLimits:
    """Return the limits of the HTTP endpoint."""
    unknown = [name for name in section.limits if name not in limit_names()]
    if unknown:
        raise ConfigFault(
            [f"host.limits: there is no limit {name}; the limits are {', '.join(limit_names())}" for name in unknown]
        )
    limits = {name: value for name, value in section.limits.items() if name in ServerLimits.__struct_fields__}
    return ServerLimits(**{name: _cast_like(value, getattr(ServerLimits(), name)) for name, value in limits.items()})


def host_limits(section: HostSection) -> HostLimits:
    """Return the limits of the host."""
    values = {field: section.limits[name] for name, field in HOST_LIMIT_FIELDS.items() if name in section.limits}
    typed = {field: _cast_like(value, getattr(HostLimits(), field)) for field, value in values.items()}
    return HostLimits(**typed, waits_unattended=section.unattended == "wait")


def effective_limits(endpoint: ServerLimits, host: HostLimits) -> dict[str, float]:
    """Return every limit by its configuration key, so that whoever reads it can find and change it."""
    values = {name: getattr(endpoint, name) for name in ServerLimits.__struct_fields__}
    return values | {name: getattr(host, field) for name, field in HOST_LIMIT_FIELDS.items()}


def roots_lookup(section: HostSection) -> Callable[[Principal], Sequence[str] | None]:
    """Return a function from a principal to the folders where they may open sessions. None means any folder.

    Only the owner on this machine may use any folder, and only while no roots are configured.
    """
    shared = _existing_folders(section.roots, "host.roots")
    own = {user: _existing_folders(paths, f"host.user_roots.{user}") for user, paths in section.user_roots.items()}

    def roots_of(principal: Principal) -> Sequence[str] | None:
        found = own.get(principal.user, shared)
        return None if principal.is_local and not found else found

    return roots_of


class SessionGrants(GrantsFile):
    """The owner's grants, plus those of one session. Members can use the owner's grants but not add to them. Their
    "always" answers hold only in this session, until its agent exits.
    """

    def __init__(self, path: str) -> None:
        super().__init__(path)
        self._session_grants: tuple[Grant, ...] = ()

    def current(self) -> tuple[Grant, ...]:
        """Return the grants of the owner and of this session."""
        return (*super().current(), *self._session_grants)

    def add(self, grants: Iterable[Grant], *, now: float) -> None:
        """Remember grants for this session only."""
        self._session_grants = (*(grant for grant in self._session_grants if not grant.is_expired(now)), *grants)

    def forget_run(self, run: str) -> None:
        """Drop the grants of this session, because its agent exited."""
        self._session_grants = ()


def guard_factory(section: HostSection, paths: UserPaths) -> Callable[[AskUser | None], Guard]:
    """Return a function that makes the guard of a session from the policy, grants and audit log of the owner."""
    timeout = host_limits(section).unattended_timeout * _GUARD_TIMEOUT_FACTOR
    policy = os.path.expanduser(section.policy) or None

    def make_guard(ask: AskUser | None) -> Guard:
        grants, mode = SessionGrants(paths.grants), section.mode or None
        return Guard.for_user(paths, policy=policy, grants=grants, ask=ask, mode=mode, answer_timeout=timeout)

    make_guard(None)  # report unusable files before anything starts
    return make_guard


def check_policy(section: HostSection, paths: UserPaths) -> None:
    """Raise ConfigFault if the policy file that the host is configured with cannot be used."""
    if section.policy:
        warnings(section, paths)


def warnings(section: HostSection, paths: UserPaths) -> list[str]:
    """Return warnings about rules of the owner's policy that allow more than they seem to."""
    policy = PolicyLoader(paths, user_file=os.path.expanduser(section.policy) or None).load(())
    return [warning for file in policy.files for warning in file.warnings()]


def _existing_folders(paths: Sequence[str], name: str) -> tuple[str, ...]:
    found = tuple(os.path.realpath(os.path.expanduser(path)) for path in paths)
    missing = [path for path in found if not os.path.isdir(path)]
    if missing:
        raise ConfigFault([f"{name}: the folder {path} does not exist" for path in missing])
    return found


def _cast_like(value: float, like: float) -> Any:
    return int(value) if isinstance(like, int) else float(value)
