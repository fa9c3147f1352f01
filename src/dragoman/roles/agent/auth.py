"""Who is logged in on one connection: authenticate, logout, auth/status, and the guard before sessions (reference 1.4).

The author's hooks decide about credentials, and for how long; kept here is only whether somebody is in and until when.
Credentials are handed to the hook and nowhere else. Above is the reception.
"""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

from msgspec import UNSET

from dragoman.dialect.reshape import SIDE
from dragoman.dialect.side_data import side
from dragoman.engine.peer_info import offers
from dragoman.errors import Kind, ProtocolError
from dragoman.roles.agent.session import OFFICIAL
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
    from dragoman.roles.agent.hooks import Verdict
    from dragoman.roles.agent.served_client import Reception


def clock() -> datetime:
    """The time now, by which logins end."""
    return datetime.now(UTC)


# A login is looked at again so long after its end, for clocks are not that exact. Seconds.
LATER = 0.01

# Session calls that need no login: they only let go.
FREE = frozenset({"session/cancel", "session/close"})


def is_guarded(method: str) -> bool:
    """Whether a method needs a login where the agent requires one."""
    return method.startswith("session/") and method not in FREE


class Login:
    """The login of one client."""

    def __init__(self, reception: Reception) -> None:
        self._reception = reception
        self._is_in = False
        self._until: datetime | None = None
        self._told: AuthStatusResult | None = None  # what the client knows of it
        self._alarm: asyncio.TimerHandle | None = None
        self._telling: asyncio.Task[None] | None = None  # kept, for a task that nobody holds may vanish

    @property
    def is_in(self) -> bool:
        """Whether nothing stands between the client and its sessions."""
        return not self._reception.agent.auth_required or (self._is_in and not self._is_over)

    @property
    def _is_over(self) -> bool:
        return self._until is not None and self._until <= clock()

    async def require(self) -> None:
        """Raise auth_required unless somebody is logged in, here or by a login that the agent has stored."""
        agent = self._reception.agent
        if self.is_in or self._enter(await agent.call_hook("logged_in")):
            return
        known = [method.id for method in agent.auth_methods] or list(agent.auth_hooks)
        why = "the login has expired; authenticate again" if self._is_in else "authenticate first"
        raise ProtocolError(Kind.AUTH_REQUIRED, f"{why} ({', '.join(known)})", {"authMethods": known})

    async def authenticate(self, params: AuthenticateParams) -> AuthenticateResult:
        """authenticate: the author's hook for the method sees the credentials, if the dialect carries any."""
        check = self._check(params.method_id)
        if check is None:
            return AuthenticateResult()
        credentials = side(params).get("credentials")
        verdict = await self._reception.agent.call(check, credentials if isinstance(credentials, dict) else {})
        entered = self._enter(True if verdict is None else verdict)
        await self.tell()
        if not entered:
            raise ProtocolError(Kind.AUTH_REQUIRED, f"the agent did not accept the credentials for {params.method_id}")
        if self._until is None or self._reception.spoken in OFFICIAL:
            return AuthenticateResult()
        return AuthenticateResult(meta={SIDE: {"expiresAt": _said(self._until)}})

    def _enter(self, verdict: Verdict) -> bool:
        """Take a hook's word: no, yes, or yes until a time."""
        if not isinstance(verdict, datetime | timedelta):
            if verdict:
                self._is_in, self._until = True, None
            return bool(verdict)
        until = clock() + verdict if isinstance(verdict, timedelta) else verdict
        # Wherever no zone is given, the machine's own is meant.
        self._is_in, self._until = True, until.astimezone(UTC)
        return not self._is_over

    def _check(self, method_id: str) -> Any:
        agent = self._reception.agent
        check = agent.auth_hooks.get(method_id)
        if check is not None:
            return check
        declared = {method.id: method for method in agent.auth_methods}
        if self._reception.spoken == "banjo" or not method_id:
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
        await self._reception.agent.call_hook("logout")
        self._is_in, self._until = False, None
        await self.tell()
        return LogoutResult()

    async def status(self, _: Any) -> AuthStatusResult:
        """auth/status."""
        self._told = await self._status()
        return self._told

    async def _status(self) -> AuthStatusResult:
        agent = self._reception.agent
        if not agent.auth_required:
            return AuthStatusResult(state=AuthState.NOT_REQUIRED if not agent.auth_hooks else AuthState.UNKNOWN)
        try:
            await self.require()
        except ProtocolError:
            return AuthStatusResult(state=AuthState.UNAUTHENTICATED)
        accounts = await agent.call_hook("accounts")
        return AuthStatusResult(state=AuthState.AUTHENTICATED, accounts=list(accounts) if accounts else UNSET)

    async def tell(self) -> None:
        """auth/status_update: told unasked when it has changed, to clients that were offered the status."""
        reception = self._reception
        if not reception.lifecycle.initialized or not offers("agent.auth.status", reception.offered):
            return
        before = self._told
        status = await self.status(None)
        self._watch()
        if status != before:
            news = AuthStatusUpdateParams(state=status.state, accounts=status.accounts)
            reception.connection.notify("auth/status_update", news)

    def _watch(self) -> None:
        """Tell the client, too, when the login ends by itself."""
        self.end()
        if self._is_in and self._until is not None and not self._is_over:
            left = (self._until - clock()).total_seconds()
            self._alarm = asyncio.get_running_loop().call_later(left + LATER, self._ended)

    def _ended(self) -> None:
        self._telling = asyncio.get_running_loop().create_task(self.tell())

    def end(self) -> None:
        """The client is gone, or its login is another: nobody waits for the end of this one."""
        if self._alarm is not None:
            self._alarm.cancel()
            self._alarm = None


def lenient(said: Any) -> AuthenticateParams:
    """The params of banjo's authenticate, which may be anything (seed 003)."""
    method = said.get("methodId") if isinstance(said, dict) else None
    return AuthenticateParams(method_id=method if isinstance(method, str) else "", meta=UNSET)


def _said(time: datetime) -> str:
    return time.isoformat(timespec="milliseconds").replace("+00:00", "Z")
