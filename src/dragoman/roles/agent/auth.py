"""Who is logged in on one connection: authenticate, logout, auth/status, and the guard before sessions (reference 1.4).

The author's hooks decide about credentials, and for how long; kept here is only whether somebody is in and until when.
Credentials are handed to the hook and nowhere else. Above is the reception.
"""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

from msgspec import UNSET

from dragoman.dialect.reshape import SIDE_DATA_KEY
from dragoman.dialect.side_data import side_data_of
from dragoman.engine.peer_info import offers
from dragoman.errors import Kind, ProtocolError
from dragoman.roles.agent.session import OFFICIAL_DIALECTS
from dragoman.schema.auth import (
    AuthenticateParams,
    AuthenticateResult,
    AuthForm,
    AuthState,
    AuthStatusResult,
    AuthStatusUpdateParams,
    LogoutResult,
)

if TYPE_CHECKING:
    from dragoman.roles.agent.hooks import LoginValidity
    from dragoman.roles.agent.served_client import ServedClient


def utc_now() -> datetime:
    """The time now, by which logins end."""
    return datetime.now(UTC)


# A login is looked at again so long after its end, for clocks are not that exact. Seconds.
EXPIRY_SLACK = 0.01

# Session calls that need no login: they only let go.
WITHOUT_LOGIN = frozenset({"session/cancel", "session/close"})


def requires_login(method: str) -> bool:
    """Whether a method needs a login where the agent requires one."""
    return method.startswith("session/") and method not in WITHOUT_LOGIN


class ClientLogin:
    """The login of one client."""

    def __init__(self, client: ServedClient) -> None:
        self._client = client
        self._is_logged_in = False
        self._expires_at: datetime | None = None
        self._last_status: AuthStatusResult | None = None  # what the client knows of it
        self._expiry_timer: asyncio.TimerHandle | None = None
        self._notify_task: asyncio.Task[None] | None = None  # kept, for a task that nobody holds may vanish

    @property
    def allows_sessions(self) -> bool:
        """Whether nothing stands between the client and its sessions."""
        return not self._client.agent.auth_required or (self._is_logged_in and not self._is_expired)

    @property
    def _is_expired(self) -> bool:
        return self._expires_at is not None and self._expires_at <= utc_now()

    async def require(self) -> None:
        """Raise auth_required unless somebody is logged in, here or by a login that the agent has stored."""
        agent = self._client.agent
        if self.allows_sessions or self._apply_validity(await agent.call_hook("logged_in")):
            return
        known = [method.id for method in agent.auth_methods] or list(agent.auth_hooks)
        why = "the login has expired; authenticate again" if self._is_logged_in else "authenticate first"
        raise ProtocolError(Kind.AUTH_REQUIRED, f"{why} ({', '.join(known)})", {"authMethods": known})

    async def authenticate(self, params: AuthenticateParams) -> AuthenticateResult:
        """authenticate: the author's hook for the method sees the credentials, if the dialect carries any."""
        check = self._find_auth_hook(params.method_id)
        if check is None:
            return AuthenticateResult()
        credentials = side_data_of(params).get("credentials")
        verdict = await self._client.agent.call_function(check, credentials if isinstance(credentials, dict) else {})
        entered = self._apply_validity(True if verdict is None else verdict)
        await self.notify_status()
        if not entered:
            raise ProtocolError(Kind.AUTH_REQUIRED, f"the agent did not accept the credentials for {params.method_id}")
        if self._expires_at is None or self._client.dialect in OFFICIAL_DIALECTS:
            return AuthenticateResult()
        return AuthenticateResult(meta={SIDE_DATA_KEY: {"expiresAt": _format_time(self._expires_at)}})

    def _apply_validity(self, validity: LoginValidity) -> bool:
        """Take a hook's word: no, yes, or yes until a time."""
        if not isinstance(validity, datetime | timedelta):
            if validity:
                self._is_logged_in, self._expires_at = True, None
            return bool(validity)
        until = utc_now() + validity if isinstance(validity, timedelta) else validity
        # Wherever no zone is given, the machine's own is meant.
        self._is_logged_in, self._expires_at = True, until.astimezone(UTC)
        return not self._is_expired

    def _find_auth_hook(self, method_id: str) -> Any:
        agent = self._client.agent
        check = agent.auth_hooks.get(method_id)
        if check is not None:
            return check
        declared = {method.id: method for method in agent.auth_methods}
        if self._client.dialect == "banjo" or not method_id:
            return next(iter(agent.auth_hooks.values()), None)  # its params mean nothing (seed 003): the first decides
        if method_id in declared and declared[method_id].form == AuthForm.TERMINAL:
            raise ProtocolError(
                Kind.INVALID_PARAMS, f"{method_id} is done in a terminal: run the agent there with its arguments"
            )
        known = [id for id, method in declared.items() if method.form != AuthForm.TERMINAL] + [
            id for id in agent.auth_hooks if id not in declared
        ]
        if (known and method_id not in declared) or agent.auth_required:
            raise ProtocolError(
                Kind.INVALID_PARAMS, f"unknown method {method_id!r}; there are: {', '.join(known) or 'none'}"
            )
        return None

    async def logout(self, _: Any) -> LogoutResult:
        """logout: sessions need a login again."""
        await self._client.agent.call_hook("logout")
        self._is_logged_in, self._expires_at = False, None
        await self.notify_status()
        return LogoutResult()

    async def status(self, _: Any) -> AuthStatusResult:
        """auth/status."""
        self._last_status = await self._current_status()
        return self._last_status

    async def _current_status(self) -> AuthStatusResult:
        agent = self._client.agent
        if not agent.auth_required:
            return AuthStatusResult(state=AuthState.NOT_REQUIRED if not agent.auth_hooks else AuthState.UNKNOWN)
        try:
            await self.require()
        except ProtocolError:
            return AuthStatusResult(state=AuthState.UNAUTHENTICATED)
        accounts = await agent.call_hook("accounts")
        return AuthStatusResult(state=AuthState.AUTHENTICATED, accounts=list(accounts) if accounts else UNSET)

    async def notify_status(self) -> None:
        """auth/status_update: told unasked when it has changed, to clients that were offered the status."""
        reception = self._client
        if not reception.lifecycle.is_initialized or not offers("agent.auth.status", reception.capabilities):
            return
        before = self._last_status
        status = await self.status(None)
        self._schedule_expiry()
        if status != before:
            news = AuthStatusUpdateParams(state=status.state, accounts=status.accounts)
            reception.connection.notify("auth/status_update", news)

    def _schedule_expiry(self) -> None:
        """Tell the client, too, when the login ends by itself."""
        self.cancel_expiry()
        if self._is_logged_in and self._expires_at is not None and not self._is_expired:
            left = (self._expires_at - utc_now()).total_seconds()
            self._expiry_timer = asyncio.get_running_loop().call_later(left + EXPIRY_SLACK, self._on_expired)

    def _on_expired(self) -> None:
        self._notify_task = asyncio.get_running_loop().create_task(self.notify_status())

    def cancel_expiry(self) -> None:
        """The client is gone, or its login is another: nobody waits for the end of this one."""
        if self._expiry_timer is not None:
            self._expiry_timer.cancel()
            self._expiry_timer = None


def lenient_params(values: Any) -> AuthenticateParams:
    """The params of banjo's authenticate, which may be anything (seed 003)."""
    method = values.get("methodId") if isinstance(values, dict) else None
    return AuthenticateParams(method_id=method if isinstance(method, str) else "", meta=UNSET)


def _format_time(time: datetime) -> str:
    return time.isoformat(timespec="milliseconds").replace("+00:00", "Z")
