"""The login of one client: authenticate, logout, auth/status, and the check before session calls
(docs/protocol/auth.md). The author's hooks get the credentials and decide how long a login is valid.
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
from dragoman.schema import auth as types

if TYPE_CHECKING:
    from dragoman.roles.agent.agent import LoginValidity
    from dragoman.roles.agent.served_client import ServedClient


def utc_now() -> datetime:
    """Return the current time, against which logins expire."""
    return datetime.now(UTC)


# The expiry timer fires this late, because clocks are not exact. Seconds.
EXPIRY_SLACK = 0.01


class ClientLogin:
    """The login of one client."""

    def __init__(self, client: ServedClient) -> None:
        self._client = client
        self._is_logged_in = False
        self._expires_at: datetime | None = None
        self._last_status: types.AuthStatusResult | None = None  # the status that the client was last sent
        self._expiry_timer: asyncio.TimerHandle | None = None
        self._notify_task: asyncio.Task[None] | None = None  # a reference, so that the task is not garbage collected

    @property
    def allows_sessions(self) -> bool:
        """Whether the client may use sessions without another login check."""
        return not self._client.agent.auth_required or (self._is_logged_in and not self._is_expired)

    @property
    def _is_expired(self) -> bool:
        return self._expires_at is not None and self._expires_at <= utc_now()

    async def require(self) -> None:
        """Raise auth_required unless the client has authenticated or the agent has a stored login."""
        agent = self._client.agent
        if self.allows_sessions or self._apply_validity(await agent._call_hook("logged_in")):
            return
        known = [method.id for method in agent.auth_methods] or list(agent._auth_hooks)
        why = "the login has expired; authenticate again" if self._is_logged_in else "authenticate first"
        how = ", ".join(known) or "this agent offers no auth method; its author declares one with @agent.authenticate"
        raise ProtocolError(Kind.AUTH_REQUIRED, f"{why} ({how})", {"authMethods": known})

    async def authenticate(self, params: types.AuthenticateParams) -> types.AuthenticateResult:
        """Handle authenticate: call the author's hook with the credentials, if the dialect carries any."""
        check = self._find_auth_hook(params.method_id)
        if check is None:
            return types.AuthenticateResult()
        credentials = side_data_of(params).get("credentials")
        verdict = await self._client.agent._call_function(check, credentials if isinstance(credentials, dict) else {})
        is_accepted = self._apply_validity(True if verdict is None else verdict)
        await self.notify_status()
        if not is_accepted:
            raise ProtocolError(Kind.AUTH_REQUIRED, f"the agent did not accept the credentials for {params.method_id}")
        if self._expires_at is None or self._client.dialect.official:
            return types.AuthenticateResult()
        expires_at = self._expires_at.isoformat(timespec="milliseconds").replace("+00:00", "Z")
        return types.AuthenticateResult(meta={SIDE_DATA_KEY: {"expiresAt": expires_at}})

    def _apply_validity(self, validity: LoginValidity) -> bool:
        """Apply the result of a hook: invalid, valid, or valid until a time."""
        if not isinstance(validity, datetime | timedelta):
            if validity:
                self._is_logged_in, self._expires_at = True, None
            return bool(validity)
        until = utc_now() + validity if isinstance(validity, timedelta) else validity
        # A datetime without a zone is in local time.
        self._is_logged_in, self._expires_at = True, until.astimezone(UTC)
        return not self._is_expired

    def _find_auth_hook(self, method_id: str) -> Any:
        agent = self._client.agent
        check = agent._auth_hooks.get(method_id)
        if check is not None:
            return check
        declared = {method.id: method for method in agent.auth_methods}
        if not self._client.dialect.names_auth_method or not method_id:
            # Banjo's params have no meaning (docs/protocol/dialects.md#banjo-authenticate): the first hook decides.
            return next(iter(agent._auth_hooks.values()), None)
        if method_id in declared and declared[method_id].form == types.AuthForm.TERMINAL:
            raise ProtocolError(
                Kind.INVALID_PARAMS,
                f"{method_id} needs a terminal: run the agent there with the arguments of the method",
            )
        known = [id for id, method in declared.items() if method.form != types.AuthForm.TERMINAL] + [
            id for id in agent._auth_hooks if id not in declared
        ]
        if (known and method_id not in declared) or agent.auth_required:
            raise ProtocolError(
                Kind.INVALID_PARAMS, f"unknown auth method {method_id!r}; available: {', '.join(known) or 'none'}"
            )
        return None

    async def logout(self, _: Any) -> types.LogoutResult:
        """Handle logout: session calls need a login again."""
        await self._client.agent._call_hook("logout")
        self._is_logged_in, self._expires_at = False, None
        await self.notify_status()
        return types.LogoutResult()

    async def status(self, _: Any) -> types.AuthStatusResult:
        """Handle auth/status."""
        self._last_status = await self._current_status()
        return self._last_status

    async def _current_status(self) -> types.AuthStatusResult:
        agent = self._client.agent
        if not agent.auth_required:
            return types.AuthStatusResult(
                state=types.AuthState.NOT_REQUIRED if not agent._auth_hooks else types.AuthState.UNKNOWN
            )
        try:
            await self.require()
        except ProtocolError:
            return types.AuthStatusResult(state=types.AuthState.UNAUTHENTICATED)
        accounts = await agent._call_hook("accounts")
        return types.AuthStatusResult(
            state=types.AuthState.AUTHENTICATED, accounts=list(accounts) if accounts else UNSET
        )

    async def notify_status(self) -> None:
        """Send auth/status_update if the status changed and the client was offered the status."""
        client = self._client
        if not client.lifecycle.is_initialized or not offers("agent.auth.status", client.capabilities):
            return
        before = self._last_status
        status = await self.status(None)
        self._schedule_expiry()
        if status != before:
            params = types.AuthStatusUpdateParams(state=status.state, accounts=status.accounts)
            client.connection.notify("auth/status_update", params)

    def _schedule_expiry(self) -> None:
        self.cancel_expiry()
        if self._is_logged_in and self._expires_at is not None and not self._is_expired:
            left = (self._expires_at - utc_now()).total_seconds()
            self._expiry_timer = asyncio.get_running_loop().call_later(left + EXPIRY_SLACK, self._on_expired)

    def _on_expired(self) -> None:
        self._notify_task = asyncio.get_running_loop().create_task(self.notify_status())

    def cancel_expiry(self) -> None:
        """Cancel the expiry timer."""
        if self._expiry_timer is not None:
            self._expiry_timer.cancel()
            self._expiry_timer = None


def lenient_params(values: Any) -> types.AuthenticateParams:
    """Read the params of banjo's authenticate, which may be anything (docs/protocol/dialects.md#banjo-authenticate)."""
    method = values.get("methodId") if isinstance(values, dict) else None
    return types.AuthenticateParams(method_id=method if isinstance(method, str) else "", meta=UNSET)
