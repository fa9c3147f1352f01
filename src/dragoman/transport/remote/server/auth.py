"""Who knocks at a remote door, who is let in, and how a knock is refused.

A Knock is what is known of a request before anybody let it in; an `Admit` turns it into a Visitor or raises Refused.
Above are the endpoint and the host; below is nothing. Which tokens exist and who owns what is not known here.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Any, TypeAlias

from msgspec import Struct

from dragoman.errors import DragomanError, Kind
from dragoman.transport.base import Transport
from dragoman.transport.remote.errors import STATUS_KINDS

# What a role may do contains what the ones before it may (seed 004 section 17.2).
ROLES = ("viewer", "editor", "admin")

# A browser cannot set headers on a WebSocket: the token stands behind this prefix in the subprotocols instead.
BEARER_SUBPROTOCOL_PREFIX = "dragoman.bearer."


class Principal(Struct, frozen=True, kw_only=True):
    """Who is at the other end, as far as the door knows."""

    user: str
    role: str = "admin"  # the most this visitor may be in any session
    agent: str = ""  # NAME of /acp/NAME; "" for /acp
    session: str | None = None  # a share link opens this session alone
    expires_at: float | None = None  # time.time() after which the connection is ended
    address: str = ""  # for people
    is_local: bool = False  # the owner of this process, on this machine
    token_id: str = ""  # the id (no secret) of the token that let them in; who revokes that puts them out


class AuthRequest(Struct, frozen=True, kw_only=True):
    """A request before anybody let it in."""

    path: str = "/"  # below the place where the endpoint is mounted
    headers: Mapping[str, str] = {}  # names in lower case
    query: Mapping[str, str] = {}
    address: str = ""  # of the other end, without its port
    port: int = 0  # of the other end
    is_secure: bool = False  # whether it came over TLS
    server_address: tuple[str, int] = ("", 0)  # the address and port it came to
    socket_cache: dict[str, Any] = {}  # what was found out of the socket it came by, for all that come by it


class Refused(DragomanError):
    """A knock that is answered with this HTTP status; the message says what to do."""

    def __init__(
        self, status: int, message: str, headers: Mapping[str, str] | None = None, *, kind: str | None = None
    ) -> None:
        super().__init__(message)
        self.status = status
        self.message = message
        self.headers = dict(headers or {})
        self.kind = kind or STATUS_KINDS.get(status, Kind.INTERNAL_ERROR)


# Lets a knock in, or raises Refused.
Authenticate: TypeAlias = Callable[[AuthRequest], Awaitable[Principal]]

# Serves one connection until it ends; called once for each, as a task of the endpoint.
ServeConnection: TypeAlias = Callable[[Transport, Principal], Awaitable[None]]


def bearer_token(request: AuthRequest) -> str:
    """The token that a knock brings: in Authorization, as ?token=, or as a WebSocket subprotocol; "" for none."""
    scheme, _, token = request.headers.get("authorization", "").partition(" ")
    if scheme.lower() == "bearer" and token.strip():
        return token.strip()
    if token := request.query.get("token", ""):
        return token
    for offered in request.headers.get("sec-websocket-protocol", "").split(","):
        if offered.strip().startswith(BEARER_SUBPROTOCOL_PREFIX):
            return offered.strip().removeprefix(BEARER_SUBPROTOCOL_PREFIX)
    return ""


def unauthorized_error(message: str) -> Refused:
    """The refusal of somebody who brings no leave, or none that counts any more."""
    return Refused(401, message, {"www-authenticate": 'Bearer realm="dragoman"'})
