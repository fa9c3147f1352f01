"""The web page at the address of an agent or a share link: what it is and how to use it.

HTML without scripts. It shows no token but the one in the address that the user opened.
"""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from datetime import UTC, datetime
from html import escape

from dragoman.transport.remote.server.asgi import Request
from dragoman.transport.remote.server.auth import Principal, Refused

# The page loads nothing, runs nothing, cannot be framed, and sends no referrer.
_HEADERS: Mapping[str, str] = {
    "content-type": "text/html; charset=utf-8",
    "content-security-policy": "default-src 'none'; style-src 'unsafe-inline'; frame-ancestors 'none'; "
    "base-uri 'none'; form-action 'none'",
    "referrer-policy": "no-referrer",
    "cache-control": "no-store",
}

_STYLE = """
:root { color-scheme: light dark; }
body { font: 1rem/1.5 system-ui, sans-serif; margin: 0 auto; padding: 1rem; max-width: 45rem; }
h1 { font-size: 1.4rem; }
pre { padding: .75rem; border: 1px solid #8886; white-space: pre-wrap; word-break: break-all; }
"""


def is_wanted(request: Request) -> bool:
    """Whether a browser asks: programs ask for an event stream, or name their connection."""
    accept = request.headers.get("accept", "")
    return (
        request.method == "GET"
        and "text/html" in accept
        and "text/event-stream" not in accept
        and "acp-connection-id" not in request.headers
    )


async def send_page(request: Request, principal: Principal) -> None:
    """Send the page for an authenticated user, with the commands to use."""
    if principal.session is None:
        title, text = "This is the address of an agent.", "It is for programs that speak the Agent Client Protocol."
    else:
        title = "This link opens a session with an agent."
        text = f"Anyone with this link may {_ROLE_RIGHTS.get(principal.role, 'be in it')}: treat it like a password."
    if principal.expires_at is not None:
        text += f" It is valid until {datetime.fromtimestamp(principal.expires_at, UTC):%Y-%m-%d %H:%M} UTC."
    host, save = escape(shlex.quote(_request_url(request))), ""
    if "token" in request.query:  # other users of a machine see its command lines
        host = "shared"
        save = f"<p>Save the link. This asks for it:</p>\n<pre>dragoman hosts add {host}</pre>\n"
    await _send_html(
        request,
        200,
        title,
        f"<p>{escape(text)}</p>\n{save}"
        f"<p>To talk to the agent in a terminal:</p>\n<pre>dragoman chat --host {host}</pre>\n"
        f"<p>For an editor, as the command of its agent:</p>\n<pre>dragoman attach {host}</pre>\n",
    )


async def send_refusal(request: Request, refused: Refused) -> None:
    """Send a page that says why the address cannot be opened."""
    title = "This link is invalid or has expired." if refused.status == 401 else "This cannot be opened."
    await _send_html(request, refused.status, title, f"<p>{escape(refused.message)}</p>\n", refused.headers)


_ROLE_RIGHTS = {"viewer": "read along", "editor": "read along and prompt the agent", "admin": "do everything in it"}


def _request_url(request: Request) -> str:
    """Return the address that the user opened; a proxy before us may have terminated TLS."""
    scheme = "https" if "https" in (request.scope.get("scheme"), request.headers.get("x-forwarded-proto")) else "http"
    query = request.scope.get("query_string", b"").decode("latin-1")
    path = str(request.scope.get("path", ""))
    return f"{scheme}://{request.headers.get('host', '')}{path}{f'?{query}' if query else ''}"


async def _send_html(
    request: Request, status: int, title: str, body: str, headers: Mapping[str, str] | None = None
) -> None:
    text = f"""<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>Dragoman</title>
<style>{_STYLE}</style>
</head>
<body>
<main>
<h1>{escape(title)}</h1>
{body}</main>
</body>
</html>
""".encode()
    await request.start_response(status, {**(headers or {}), **_HEADERS, "content-length": str(len(text))})
    await request.send({"type": "http.response.body", "body": text})
