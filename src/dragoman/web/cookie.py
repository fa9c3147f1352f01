"""The cookie that takes the place of a token in a browser, and what a request with it must look like.

Only our own page may use it: a cookie is also sent for pages of other ports of the same machine.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable

from msgspec import structs

from dragoman.transport.remote.server.auth import Authenticate, AuthRequest, Principal, Refused, bearer_token

# How long a browser keeps a token that does not expire: as long as the default lifetime of tokens. Seconds.
MAX_AGE = 90 * 86400

# How much longer it keeps a token that expires: so that the host can say that it has expired. Seconds.
KEPT_AFTER_EXPIRY = 7 * 86400

# Browsers ignore longer cookies. Bytes of name, value and attributes.
MAX_COOKIE_BYTES = 4000

# What a token may consist of: those of the host, and JSON Web Tokens.
_TOKEN = re.compile(r"[A-Za-z0-9._~+/=-]+")

# The path of a page, as its browser sees it: proxies may have put a prefix before ours.
_BASE = re.compile(r"/([A-Za-z0-9._~%@:+-]+/)*")

# Where a browser may say that a request comes from: typed by the user, or from our own page.
_OWN_SITES = ("none", "same-origin")


def cookie_name(request: AuthRequest) -> str:
    """Return the name of the cookie. Hosts on other ports of a machine share its cookies, so the port is in it."""
    port = request.headers.get("host", "").rpartition(":")[2]
    return f"dragoman_{port}" if port.isdigit() else "dragoman"


def cookie_token(request: AuthRequest) -> str:
    """Return the token of the cookie; "" without one, or if another page than ours makes the request."""
    if request.headers.get("sec-fetch-site", "none") not in _OWN_SITES:
        return ""
    name = cookie_name(request)
    for pair in request.headers.get("cookie", "").split(";"):  # browsers send the longest path first
        key, _, value = pair.strip().partition("=")
        if key == name and _TOKEN.fullmatch(value):
            return value
    return ""


def with_cookie(authenticate: Authenticate) -> Authenticate:
    """Return an `authenticate` that also takes the token of the cookie, where a request has no other."""

    async def authenticate_with_cookie(request: AuthRequest) -> Principal:
        token = "" if bearer_token(request) else cookie_token(request)
        return await authenticate(with_token(request, token) if token else request)

    return authenticate_with_cookie


def with_token(request: AuthRequest, token: str) -> AuthRequest:
    """Return the request with this token."""
    return structs.replace(request, headers={**request.headers, "authorization": f"Bearer {token}"})


def set_cookie(
    request: AuthRequest, token: str, path: str, expires_at: float | None, clock: Callable[[], float] = time.time
) -> str:
    """Return the Set-Cookie header for a token that was accepted, or for no token: then the cookie is removed."""
    age = MAX_AGE if expires_at is None else min(MAX_AGE, int(expires_at - clock()) + KEPT_AFTER_EXPIRY)
    parts = [f"{cookie_name(request)}={token}", f"Path={path}", f"Max-Age={age if token else 0}"]
    parts += ["HttpOnly", "SameSite=Strict"]
    if request.is_secure or request.headers.get("origin", "").startswith("https://"):  # a proxy may end TLS before us
        parts.append("Secure")
    text = "; ".join(parts)
    if not _TOKEN.fullmatch(token or "x") or len(text) > MAX_COOKIE_BYTES:
        raise Refused(400, "a browser cannot keep this token; use one of this host (dragoman tokens create)")
    return text


def check_base(base: object) -> str:
    """Return the path of the page, as its browser sends it."""
    if not isinstance(base, str) or _BASE.fullmatch(base) is None or len(base) > 500:
        raise Refused(400, "base is the path of the page; it begins and ends with a slash")
    return base
