"""Authentication: methods on offer, authenticate, logout, status (docs/protocol/auth.md).

A method on offer is one Struct with a `form`.
"""

from __future__ import annotations

from dragoman.schema.base import UNSET, Maybe, Model


class AuthForm:
    """How a method is carried out: by the agent itself, or in a terminal beside it."""

    AGENT = "agent"
    TERMINAL = "terminal"


class AuthMethod(Model, kw_only=True):
    """A way to authenticate that an agent offers."""

    id: str
    name: str
    description: Maybe[str] = UNSET
    type: Maybe[str] = UNSET
    args: Maybe[list[str]] = UNSET
    env: Maybe[dict[str, str]] = UNSET

    @property
    def form(self) -> str:
        """Which form this is; every type but "terminal" reads as "agent" (docs/protocol/auth.md#methods)."""
        return AuthForm.TERMINAL if self.type == AuthForm.TERMINAL else AuthForm.AGENT


class AuthenticateParams(Model, kw_only=True):
    """authenticate."""

    method_id: str


class AuthenticateResult(Model, kw_only=True):
    """Authenticated."""


class LogoutParams(Model, kw_only=True):
    """logout."""


class LogoutResult(Model, kw_only=True):
    """Logged out."""


class AuthState:
    """Whether somebody is logged in."""

    AUTHENTICATED = "authenticated"
    UNAUTHENTICATED = "unauthenticated"
    NOT_REQUIRED = "not_required"
    UNKNOWN = "unknown"


class AuthAccount(Model, kw_only=True):
    """An account that the agent knows."""

    label: str
    active: Maybe[bool] = UNSET
    name: Maybe[str] = UNSET
    email: Maybe[str] = UNSET
    organization: Maybe[str] = UNSET


class AuthStatusParams(Model, kw_only=True):
    """auth/status."""


class AuthStatusResult(Model, kw_only=True):
    """Who is logged in."""

    state: str
    accounts: Maybe[list[AuthAccount]] = UNSET


class AuthStatusUpdateParams(Model, kw_only=True):
    """auth/status_update: the same, told unasked."""

    state: str
    accounts: Maybe[list[AuthAccount]] = UNSET
