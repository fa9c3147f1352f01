"""Sign in and out in a browser: a token becomes a cookie that scripts cannot read.

The cookie of a share link holds only below its own path, so one browser can have several links and its own token.
"""

from __future__ import annotations

import re
from typing import Any

import msgspec

from dragoman.transport.remote.server.asgi import Request, Scope
from dragoman.transport.remote.server.auth import Principal, Refused
from dragoman.transport.remote.server.endpoint import Endpoint
from dragoman.web.cookie import check_base, set_cookie, with_token

SIGN_IN, SIGN_OUT = "/api/sign-in", "/api/sign-out"

# The page of a share link: everything of the host is below this path too, for the token with this id.
_LINK_PATH = re.compile(r"(/link/[0-9a-z]{10})(/.*)")


def without_link_path(scope: Scope) -> Scope:
    """Return the scope of a request as if the page of a link were mounted at its path."""
    path, root = str(scope.get("path", "")), str(scope.get("root_path", "")).rstrip("/")
    found = _LINK_PATH.fullmatch(path.removeprefix(root))
    return scope if found is None else {**scope, "root_path": root + found[1]}


async def sign_in(endpoint: Endpoint, request: Request, body: Any) -> None:
    """Answer who the token belongs to and where their page is, and set the cookie."""
    token, base = body.get("token"), check_base(body.get("base"))
    if not isinstance(token, str) or not token:
        raise Refused(400, "token is missing; send it as {token, base}")
    asked = request.auth_request()
    principal = await endpoint.authenticate_page(with_token(asked, token.strip()))
    page = _link_page(base, principal)
    cookie = set_cookie(asked, token.strip(), page, principal.expires_at)
    answer = {"user": principal.user, "role": principal.role, "session": principal.session, "page": page}
    await request.respond(200, msgspec.json.encode(answer), {"set-cookie": cookie})


async def sign_out(endpoint: Endpoint, request: Request, body: Any) -> None:
    """Remove the cookie."""
    asked = request.auth_request()
    endpoint.check_host_and_origin(asked)
    await request.respond(200, b"{}", {"set-cookie": set_cookie(asked, "", check_base(body.get("base")), None)})


def _link_page(base: str, principal: Principal) -> str:
    """Return the path of the page for a principal: a link has its own."""
    own = re.sub(r"link/[0-9a-z]{10}/$", "", base)
    return own if principal.session is None else f"{own}link/{principal.token_id}/"
