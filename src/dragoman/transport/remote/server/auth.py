"""Who makes a request, who is allowed in, and how a request is refused. The host checks tokens and roles."""

from __future__ import annotations

import hmac
from base64 import b64decode
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, TypeAlias

from msgspec import Struct, structs

from dragoman.errors import DragomanError, Kind
from dragoman.transport.base import Transport
from dragoman.transport.remote.errors import STATUS_KINDS

# Each role includes the rights of those before it (docs/protocol/draft.md#planned-features).
ROLES = ("viewer", "editor", "admin")

# A browser cannot set headers on a WebSocket: the token follows this prefix in the subprotocols instead.
BEARER_SUBPROTOCOL_PREFIX = "dragoman.bearer."


class Principal(Struct, frozen=True, kw_only=True):
    """The authenticated user of a connection."""

    user: str
    role: str = "admin"  # the highest role of this user in any session
    agent: str = ""  # NAME of /acp/NAME; "" for /acp
    session: str | None = None  # a share link allows only this session
    expires_at: float | None = None  # time.time() after which the connection is closed
    address: str = ""  # to show
    is_local: bool = False  # the owner of this process, on this machine
    token_id: str = ""  # the id (no secret) of the token; revoking the token closes the connection


def may_use_connection(principal: Principal, opener: Principal) -> bool:
    """Tell whether a principal may use a connection of this opener: they are one user, with no fewer rights.

    A user may come with a new token. Guests with links of one name are different people, so each needs their own link.
    """
    if (principal.user, principal.session) != (opener.user, opener.session):
        return False
    if opener.session is not None and principal.token_id != opener.token_id:
        return False
    has_role = principal.role == opener.role or _rank(principal.role) > _rank(opener.role)
    return has_role and (principal.is_local or not opener.is_local)


def _rank(role: str) -> int:
    return ROLES.index(role) if role in ROLES else -1


class AuthRequest(Struct, frozen=True, kw_only=True):
    """A request before authentication."""

    path: str = "/"  # below the mount point of the endpoint
    headers: Mapping[str, str] = {}  # names in lower case
    query: Mapping[str, str] = {}
    address: str = ""  # of the client, without its port
    port: int = 0  # of the client
    is_secure: bool = False  # whether it came over TLS
    server_address: tuple[str, int] = ("", 0)  # the address and port it came to
    socket_cache: dict[str, Any] = {}  # what is known of its socket, shared by all requests of the socket


class Refused(DragomanError):
    """A request that is answered with this HTTP status; the message says what to do."""

    def __init__(
        self, status: int, message: str, headers: Mapping[str, str] | None = None, *, kind: str | None = None
    ) -> None:
        super().__init__(message)
        self.status = status
        self.message = message
        self.headers = dict(headers or {})
        self.kind = kind or STATUS_KINDS.get(status, Kind.INTERNAL_ERROR)


# Authenticates a request, or raises Refused.
Authenticate: TypeAlias = Callable[[AuthRequest], Awaitable[Principal]]

# Serves one connection until it ends; called once for each, as a task of the endpoint.
ServeConnection: TypeAlias = Callable[[Transport, Principal], Awaitable[None]]


def bearer_token(request: AuthRequest) -> str:
    """Return the token of a request: from Authorization, ?token= or a WebSocket subprotocol; "" for none."""
    scheme, _, token = request.headers.get("authorization", "").partition(" ")
    if scheme.lower() == "bearer" and token.strip():
        return token.strip()
    if token := request.query.get("token", ""):
        return token
    for subprotocol in request.headers.get("sec-websocket-protocol", "").split(","):
        if subprotocol.strip().startswith(BEARER_SUBPROTOCOL_PREFIX):
            return subprotocol.strip().removeprefix(BEARER_SUBPROTOCOL_PREFIX)
    return ""


def accept_token(token: str, user: str = "owner") -> Authenticate:
    """Return an `authenticate` for one secret token: whoever sends it is this user."""
    if not token:
        raise ValueError("the token is empty; make one, for example with secrets.token_urlsafe()")

    async def authenticate(request: AuthRequest) -> Principal:
        if not hmac.compare_digest(bearer_token(request).encode(), token.encode()):
            raise unauthorized_error("send the token of this server: Authorization: Bearer TOKEN")
        return Principal(user=user, address=request.address)

    return authenticate


# Makes a browser ask for a token. Browsers show the realm to the user, or nothing.
BASIC_CHALLENGE = 'Basic realm="dragoman: leave the user name empty, the password is your token"'


def with_basic_token(request: AuthRequest) -> AuthRequest:
    """Return the request with the password of its basic authentication as its token.

    Only for pages that change nothing: a browser sends the password also when a page of another site makes the request.
    """
    scheme, _, value = request.headers.get("authorization", "").partition(" ")
    if scheme.lower() != "basic":
        return request
    try:
        _, _, password = b64decode(value.strip(), validate=True).decode().partition(":")
    except ValueError:
        return request
    return structs.replace(request, headers={**request.headers, "authorization": f"Bearer {password}"})


def unauthorized_error(message: str) -> Refused:
    """Return the refusal for a missing or expired token."""
    return Refused(401, message, {"www-authenticate": 'Bearer realm="dragoman"'})
