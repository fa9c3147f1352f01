"""A host as an ASGI app: the web page at /, agents at /acp and /acp/NAME, the API, status, metrics and health.

All paths need authentication except /healthz, /readyz and the files of the page, which reveal nothing.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Collection, Mapping
from typing import Any

import msgspec

from dragoman import __version__
from dragoman.errors import ConnectionFailed, Kind, ProtocolError, StoreFault
from dragoman.host import access_changes
from dragoman.host.auth.authenticate import Authenticator
from dragoman.host.auth.oidc import Oidc
from dragoman.host.auth.token_calls import FileTokens, TokenCalls
from dragoman.host.auth.tokens import Tokens
from dragoman.host.fleet.links import LINK_LIMITS
from dragoman.host.fleet.links import PATH as LINK_PATH
from dragoman.host.host import Host
from dragoman.host.http import sign_in, status_page
from dragoman.host.http.access_log import AccessLog, note_status, note_user
from dragoman.host.http.api import Api, ApiRequest
from dragoman.host.http.metrics import CONTENT_TYPE, Metrics, register_sources
from dragoman.host.http.page_api import Documents, Download
from dragoman.host.http.reading_slots import ReadingSlots
from dragoman.host.visible_sessions import visible_sessions
from dragoman.store.contract import Selection
from dragoman.transport.base import Transport
from dragoman.transport.remote.errors import STATUS_KINDS
from dragoman.transport.remote.server import landing_page
from dragoman.transport.remote.server.asgi import Message, Receive, Request, Scope, Send
from dragoman.transport.remote.server.auth import (
    BASIC_CHALLENGE,
    Authenticate,
    Principal,
    Refused,
    with_basic_token,
)
from dragoman.transport.remote.server.endpoint import Endpoint
from dragoman.transport.remote.server.limits import ServerLimits, UnfinishedMessage
from dragoman.transport.remote.server.origin import authenticate_local
from dragoman.web import assets
from dragoman.web.cookie import with_cookie

logger = logging.getLogger("dragoman")

# How often connections are checked for revoked tokens. Seconds.
REVOCATION_CHECK_INTERVAL = 2.0

# The API takes names and roles, which are short. Bytes, seconds.
MAX_BODY = 64 * 1024
BODY_TIMEOUT = 10.0

# Sessions on the status page. Nobody reads more.
MAX_SESSIONS_SHOWN = 200

# Sessions that the status page counts: enough to be exact for a person, few enough to be read at each visit.
MAX_SESSIONS_COUNTED = 5000

# The HTTP status for protocol errors of the API.
_HTTP_STATUS = {
    Kind.SESSION_NOT_FOUND: 404,
    Kind.RESOURCE_NOT_FOUND: 404,
    Kind.METHOD_NOT_FOUND: 404,
    Kind.SESSION_EXPIRED: 410,
    Kind.PERMISSION_DENIED: 403,
    Kind.INVALID_PARAMS: 400,
    Kind.RATE_LIMITED: 429,
    Kind.CAPABILITY_UNSUPPORTED: 501,
}

_PAGE_HEADERS = {
    "content-type": "text/html; charset=utf-8",
    "content-security-policy": status_page.CONTENT_SECURITY_POLICY,
    "referrer-policy": "no-referrer",  # the address may contain a token
}


class HostApp:
    """A host as an ASGI app: HostApp(host, tokens=Tokens(database)). Close it before the host."""

    def __init__(
        self,
        host: Host,
        *,
        tokens: Tokens | TokenCalls | None = None,
        oidc: Oidc | None = None,
        local: Authenticate | None = authenticate_local,
        authenticate: Authenticate | None = None,
        limits: ServerLimits | None = None,
        origins: Collection[str] = (),
        hosts: Collection[str] = (),
        metrics: Metrics | None = None,
        access_log: AccessLog | None = None,
        documents: Documents | None = None,
    ) -> None:
        """Create the app. `authenticate` replaces tokens, issuer and the `local` owner as the way to log in.

        `documents` renders sessions as files for people, by the name of the format.
        """
        self.limits = limits or ServerLimits()
        self.metrics = metrics or Metrics()
        self._host = host
        self._tokens = tokens = FileTokens(tokens) if isinstance(tokens, Tokens) else tokens
        default_authenticate: Authenticate = authenticate_local if local is not None else _refuse_everybody
        self._authenticator = Authenticator(tokens, oidc, local) if tokens is not None else None
        if self._authenticator is not None:
            default_authenticate = self._authenticator
        self._authenticate = note_user(with_cookie(authenticate or default_authenticate))
        self._access_log = access_log
        self._endpoint = Endpoint(
            self._accept,
            authenticate=self._authenticate,
            limits=self.limits,
            origins=origins,
            hosts=hosts,
            has_agent=host.agent_catalog.has_agent,
        )
        self._origins = frozenset(origins)
        self._link_endpoint = None
        if host.fleet is not None:
            links = host.fleet.links
            self._endpoint.connections_elsewhere = host.fleet.connections_elsewhere
            self._link_endpoint = Endpoint(
                links.accept,
                authenticate=note_user(links.authenticate),
                limits=LINK_LIMITS,
                hosts=hosts,
                has_agent=lambda name: name == LINK_PATH.removeprefix("/"),
            )
        self._api = Api(host, tokens, limits=self.limits, documents=documents)
        self._reading_slots = ReadingSlots()
        self._started_at = time.monotonic()
        self._revocation_timer: asyncio.TimerHandle | None = None
        self._revocation_check: asyncio.Task[None] | None = None
        self._is_closing = False
        register_sources(self.metrics, host, self._endpoint)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request or one WebSocket."""
        log = self._access_log
        if log is None or scope["type"] == "lifespan":
            await self._serve(scope, receive, send)
            return
        record = log.begin(scope)
        try:
            await self._serve(scope, receive, note_status(record, send))
        finally:
            log.end(record)

    async def _serve(self, scope: Scope, receive: Receive, send: Send) -> None:
        async def counting_send(message: Message) -> None:
            if message["type"].endswith("response.start") and message["status"] >= 400:
                self.metrics.count("refusals", STATUS_KINDS.get(message["status"], str(message["status"])))
            await send(message)

        if scope["type"] in ("http", "websocket"):
            scope = sign_in.without_link_path(scope)
        if scope["type"] == "http":
            request = Request(scope, receive, counting_send, self._origins)
            if (
                request.path in _PUBLIC_PAGES
                or request.path in _PAGES
                or request.path.startswith(("/api/", assets.ASSET_PATH))
                or ("token" in request.query and landing_page.is_wanted(request))
            ):
                await self._serve_page(request)
                return
        if self._link_endpoint is not None and scope["path"] == LINK_PATH:
            await self._link_endpoint(scope, receive, counting_send)
            return
        await self._endpoint(scope, receive, counting_send)

    def replace_settings(
        self, *, limits: ServerLimits, origins: Collection[str], hosts: Collection[str], oidc: Oidc | None
    ) -> None:
        """Use other limits, origins, host names and issuer from now on. Open connections keep their limits."""
        self.limits = limits
        self._origins = frozenset(origins)
        self._endpoint.replace_settings(limits, origins, hosts)
        if self._authenticator is not None:
            self._authenticator.oidc = oidc

    async def close(self, reason: str = "the host was stopped") -> None:
        """Accept no more connections, and close all."""
        self._is_closing = True
        if self._revocation_timer is not None:
            self._revocation_timer.cancel()
            self._revocation_timer = None
        if self._revocation_check is not None:
            self._revocation_check.cancel()
        await self._endpoint.close(reason)
        if self._link_endpoint is not None:
            await self._link_endpoint.close(reason)

    # --- connections --------------------------------------------------------------------------------------------

    async def _accept(self, transport: Transport, principal: Principal) -> None:
        self.metrics.count("connections")
        if principal.token_id and self._revocation_timer is None and not self._is_closing:
            self._schedule_revocation_check()
        try:
            await self._host.serve_client(transport, principal)
        except ConnectionFailed:
            pass

    def _schedule_revocation_check(self) -> None:
        loop = asyncio.get_running_loop()
        self._revocation_timer = loop.call_later(REVOCATION_CHECK_INTERVAL, self._start_revocation_check)

    def _start_revocation_check(self) -> None:
        self._revocation_timer = None
        self._revocation_check = asyncio.get_running_loop().create_task(self._disconnect_revoked())

    def check_revoked(self) -> None:
        """Check now whether connections use a token that was revoked elsewhere."""
        if self._is_closing or (self._revocation_check is not None and not self._revocation_check.done()):
            return
        if self._revocation_timer is not None:
            self._revocation_timer.cancel()
        self._start_revocation_check()

    async def _disconnect_revoked(self) -> None:
        """Close connections whose token was revoked since, and withdraw the prompts that were sent with it."""
        tokens = self._tokens
        principals = (*self._endpoint.principals, *access_changes.prompting_principals(self._host))
        ids = {principal.token_id for principal in principals if principal.token_id}
        if tokens is None or not ids:
            return
        try:
            revoked = {id for id in ids if not await tokens.is_valid(id)}
        except StoreFault:
            revoked = set()  # the file cannot be read now; check again next time
        if revoked:
            access_changes.refuse_all_prompts(
                self._host,
                lambda principal: principal.token_id in revoked and not _may_renew(principal),
                "the token or link with which it was sent is not valid any more",
            )
            self._endpoint.disconnect(lambda principal: principal.token_id in revoked, "your token was revoked")
        if self._revocation_timer is None and not self._is_closing:
            self._schedule_revocation_check()

    # --- pages --------------------------------------------------------------------------------------------------

    async def _serve_page(self, request: Request) -> None:
        try:
            if request.path in _PUBLIC_PAGES:
                await _PUBLIC_PAGES[request.path](self, request)
                return
            if request.path in _SIGN_IN:
                await self._serve_sign_in(request)
                return
            if request.path not in _PAGES and not request.path.startswith("/api/"):
                await self._serve_asset(request)
                return
            asked = request.auth_request()
            principal = await self._endpoint.authenticate_page(
                with_basic_token(asked) if request.path in _PAGES else asked
            )
            if request.path.startswith("/api/"):
                await self._serve_api(request, principal)
            elif request.method not in ("GET", "HEAD"):
                raise Refused(405, "this page is read-only", {"allow": "GET, HEAD"})
            else:
                await _PAGES[request.path](self, request, principal)
        except Refused as refused:
            if refused.status == 401 and request.path in _PAGES and "text/html" in request.headers.get("accept", ""):
                refused.headers["www-authenticate"] = BASIC_CHALLENGE  # the browser asks its user
            await request.refuse(refused)
        except Exception:
            logger.exception("a request to %r failed", request.path)
            if not request.is_started:
                await request.refuse(Refused(500, "the host failed; see its log"))

    async def _serve_asset(self, request: Request) -> None:
        """Serve a file of the web page, or the page itself. Whoever opens a link signs in there."""
        self._endpoint.check_host_and_origin(request.auth_request())
        if request.method not in ("GET", "HEAD"):
            raise Refused(405, "this page is read-only", {"allow": "GET, HEAD"})
        if request.path == "":  # the files are found relative to the page
            await request.respond(308, headers={"location": f"{request.scope.get('root_path', '')}/"})
            return
        if request.path.startswith("/acp/"):  # the link names an agent; the page of its session needs no name
            query = request.scope.get("query_string", b"").decode("latin-1")
            await request.respond(307, headers={"location": f"../acp?{query}", "referrer-policy": "no-referrer"})
            return
        is_link = "token" in request.query
        asset = assets.page() if is_link else assets.find_asset(request.path)
        if asset is None:
            raise Refused(404, "there is no such file of the page; load the page again")
        body, headers = asset.response(request.headers.get("accept-encoding", ""))
        await request.start_response(200, headers)
        await request.send({"type": "http.response.body", "body": b"" if request.method == "HEAD" else body})

    async def _serve_sign_in(self, request: Request) -> None:
        if request.method != "POST":
            raise Refused(405, "send the token with POST", {"allow": "POST"})
        body = await self._read_json(request, request.auth_request().address)
        await _SIGN_IN[request.path](self._endpoint, request, body)

    async def _serve_health(self, request: Request) -> None:
        await request.respond(200, b'{"status":"ok"}')

    async def _serve_readiness(self, request: Request) -> None:
        """Answer whether sessions can be served: not while it stops, nor when the store fails."""
        fleet = self._host.fleet
        reason = "the host is stopping" if self._is_closing else ""
        if not reason and fleet is not None:  # first: an engine that is away takes long to answer
            reason = fleet.unavailable_reason()
        reason = reason or await self._host.store.unavailable_reason()
        if fleet is not None:
            fleet.probes.note(str((request.scope.get("client") or ("",))[0]), is_ready=not reason)
        if reason:
            body = msgspec.json.encode({"status": "not ready", "reason": reason})
            await request.respond(503, body, {"retry-after": "5"})
            return
        await request.respond(200, b'{"status":"ready"}')

    async def _serve_status(self, request: Request, principal: Principal) -> None:
        host = self._host
        summaries = await visible_sessions(host, principal, Selection(limit=MAX_SESSIONS_COUNTED))
        rooms = [host.rooms.get(summary.session_id) for summary in summaries]
        root = str(request.scope.get("root_path", "")).rstrip("/")
        text = status_page.render_page(
            version=__version__,
            uptime=time.monotonic() - self._started_at,
            user=principal.user,
            agents=[
                (name, f"{root}/acp" if at == 0 else f"{root}/acp/{name}")
                for at, name in enumerate(host.agent_catalog.names)
            ],
            sessions=[
                status_page.SessionView(
                    id=summary.session_id,
                    name=summary.name or "",
                    agent=(room.state.agent if room is not None else "") or summary.agent or "",
                    is_awake=room is not None and room.agent.is_running,
                    is_working=room is not None and room.queue.running is not None,
                    members=[member.presence for member in room.members.values()] if room is not None else [],
                    updated=summary.updated_at,
                )
                for summary, room in zip(summaries[:MAX_SESSIONS_SHOWN], rooms, strict=False)
            ],
            left_out=max(len(summaries) - MAX_SESSIONS_SHOWN, 0),
            counts={
                "awake": sum(1 for room in rooms if room is not None and room.agent.is_running),
                "asleep": sum(1 for room in rooms if room is None or not room.agent.is_running),
                "people": len(
                    {member.client.id for room in rooms if room is not None for member in room.members.values()}
                ),
            },
        )
        await _send_body(request, text.encode(), _PAGE_HEADERS)

    async def _serve_metrics(self, request: Request, principal: Principal) -> None:
        if principal.session is not None:
            raise Refused(403, "a share link gives no access to metrics")
        text = self.metrics.render({"version": __version__})
        await _send_body(request, text.encode(), {"content-type": CONTENT_TYPE})

    # --- the API ------------------------------------------------------------------------------------------------

    async def _read_json(self, request: Request, user: str) -> dict[str, Any]:
        unfinished = UnfinishedMessage(self._endpoint.byte_budget, user)
        data = await request.read_body(MAX_BODY, BODY_TIMEOUT, unfinished)
        try:
            body = msgspec.json.decode(data) if data.strip() else {}
        except (msgspec.DecodeError, RecursionError):  # the latter: it is nested without end
            raise Refused(400, "the body must be JSON") from None
        if not isinstance(body, dict):
            raise Refused(400, "the body must be a JSON object")
        return body

    async def _serve_api(self, request: Request, principal: Principal) -> None:
        if request.method not in ("GET", "HEAD"):
            await self._answer_api(request, principal)
            return
        async with self._reading_slots.reading(principal):
            await self._answer_api(request, principal)

    async def _answer_api(self, request: Request, principal: Principal) -> None:
        body = await self._read_json(request, principal.user) if request.method == "POST" else {}
        try:
            response = await self._api.dispatch(
                request.method, request.path, ApiRequest(principal, request.query, body)
            )
        except ProtocolError as error:
            status = _HTTP_STATUS.get(error.kind, 503 if isinstance(error, StoreFault) else 500)
            raise Refused(status, error.message, kind=error.kind) from None
        if isinstance(response, list):  # lines of JSON
            lines = b"".join(line + b"\n" for line in response)
            await _send_body(request, lines, {"content-type": "application/x-ndjson"})
        elif isinstance(response, Download):  # stored, never shown as a page of this host
            headers = {"content-type": response.content_type, "content-disposition": "attachment"}
            try:
                await _send_body(request, response.body, headers)
            finally:
                response.on_sent()
        else:
            await request.respond(200, msgspec.json.encode(response))


def _may_renew(principal: Principal) -> bool:
    """Tell whether the token of a user has expired: nobody revoked it, so what was sent with it goes on."""
    return principal.session is None and principal.expires_at is not None and principal.expires_at <= time.time()


async def _send_body(request: Request, body: bytes, headers: Mapping[str, str]) -> None:
    await request.start_response(200, {"content-length": str(len(body)), "cache-control": "no-store", **headers})
    await request.send({"type": "http.response.body", "body": b"" if request.method == "HEAD" else body})


async def _refuse_everybody(_: Any) -> Principal:
    raise Refused(401, "this host accepts nobody: it has no tokens, and its owner may not connect without one")


_PUBLIC_PAGES = {
    "/healthz": HostApp._serve_health,
    "/readyz": HostApp._serve_readiness,
    **dict.fromkeys(("/", "", "/sw.js", "/manifest.webmanifest"), HostApp._serve_asset),
}
_SIGN_IN = {sign_in.SIGN_IN: sign_in.sign_in, sign_in.SIGN_OUT: sign_in.sign_out}
_PAGES = {"/status": HostApp._serve_status, "/metrics": HostApp._serve_metrics}
