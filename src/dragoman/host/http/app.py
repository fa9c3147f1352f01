"""A host as one ASGI app: agents at /acp and /acp/NAME, the API, the status page, and what machines ask about it.

    async with House(agents, store=store, directory=register) as house:
        app = Host(house, tokens=Tokens(register))

Serve it with transport/remote/serving, or mount it anywhere; close it before the house. Each request is let in by the
same door; only /healthz and /readyz, which tell nothing, are open. Below are the endpoint, the house and the pages.
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
from dragoman.host.auth.authenticate import Admission
from dragoman.host.auth.oidc import Issuer
from dragoman.host.auth.tokens import Tokens
from dragoman.host.host import House
from dragoman.host.http import status_page
from dragoman.host.http.api import Answer, Api, Call
from dragoman.host.http.metrics import CONTENT_TYPE, Metrics, watch
from dragoman.transport.base import Transport
from dragoman.transport.remote.errors import STATUS_KINDS
from dragoman.transport.remote.server.asgi import Message, Receive, Request, Scope, Send
from dragoman.transport.remote.server.auth import Admit, Refused, Visitor
from dragoman.transport.remote.server.endpoint import Endpoint, slow_down
from dragoman.transport.remote.server.limits import Limits
from dragoman.transport.remote.server.origin import local_only

logger = logging.getLogger("dragoman")

# How soon whoever came with a token that was revoked is put out. Seconds.
REVOKED = 2.0

# The API takes names and roles; nothing that long is either. Bytes, seconds.
LARGEST = 64 * 1024
PATIENCE = 10.0

# Sessions on the status page; nobody reads more.
SHOWN = 200

# How a protocol error of the API is said in HTTP.
_STATUSES = {
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
    "content-security-policy": status_page.POLICY,
    "referrer-policy": "no-referrer",  # a token may stand in the address
}


class Host:
    """A house with its doors; an ASGI app."""

    def __init__(
        self,
        house: House,
        *,
        tokens: Tokens | None = None,
        issuer: Issuer | None = None,
        local: Admit | None = local_only,
        admit: Admit | None = None,
        limits: Limits | None = None,
        origins: Collection[str] = (),
        hosts: Collection[str] = (),
        metrics: Metrics | None = None,
    ) -> None:
        """`admit` is a door of one's own; without it tokens, the issuer and (`local`) the owner are let in."""
        self.limits = limits or Limits()
        self.metrics = metrics or Metrics()
        self._house = house
        self._tokens = tokens
        door: Admit = local_only if local is not None else _nobody
        if tokens is not None:
            door = Admission(tokens, issuer, local)
        self._admit = admit or door
        self._endpoint = Endpoint(
            self._accept,
            admit=self._admit,
            limits=self.limits,
            origins=origins,
            hosts=hosts,
            agents=house.roster.knows,
        )
        self._origins = frozenset(origins)
        self._api = Api(house, tokens)
        self._began = time.monotonic()
        self._sweeper: asyncio.TimerHandle | None = None
        self._is_closing = False
        watch(self.metrics, house, self._endpoint)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request or one WebSocket."""

        async def counting(message: Message) -> None:
            if message["type"].endswith("response.start") and message["status"] >= 400:
                self.metrics.count("refusals", STATUS_KINDS.get(message["status"], str(message["status"])))
            await send(message)

        if scope["type"] == "http":
            request = Request(scope, receive, counting, self._origins)
            if _is_ours(request.path):
                await self._serve(request)
                return
        await self._endpoint(scope, receive, counting)

    async def close(self, reason: str = "the host was stopped") -> None:
        """Let nobody in any more, and everybody go."""
        self._is_closing = True
        if self._sweeper is not None:
            self._sweeper.cancel()
            self._sweeper = None
        await self._endpoint.close(reason)

    # --- connections --------------------------------------------------------------------------------------------

    async def _accept(self, transport: Transport, visitor: Visitor) -> None:
        self.metrics.count("connections")
        if visitor.token and self._sweeper is None and not self._is_closing:
            self._sweeper = asyncio.get_running_loop().call_later(REVOKED, self._sweep)
        try:
            await self._house.receive(transport, visitor)
        except ConnectionFailed:
            pass

    def _sweep(self) -> None:
        """Put out whoever came with a token that was revoked since."""
        self._sweeper = None
        tokens = self._tokens
        ids = {visitor.token for visitor in self._endpoint.visitors if visitor.token}
        if tokens is None or not ids:
            return
        try:
            revoked = {id for id in ids if not tokens.is_valid(id)}
        except StoreFault:
            revoked = set()  # a file that cannot be read says nothing; the next look will
        if revoked:
            self._endpoint.expel(lambda visitor: visitor.token in revoked, "the token you came with was revoked")
        self._sweeper = asyncio.get_running_loop().call_later(REVOKED, self._sweep)

    # --- pages --------------------------------------------------------------------------------------------------

    async def _serve(self, request: Request) -> None:
        try:
            if request.path in _OPEN:
                await _OPEN[request.path](self, request)
                return
            visitor = await self._admitted(request)
            if request.path.startswith("/api/"):
                await self._answer_api(request, visitor)
            elif request.method not in ("GET", "HEAD"):
                raise Refused(405, "this page can only be read", {"allow": "GET, HEAD"})
            else:
                await _PAGES[request.path](self, request, visitor)
        except Refused as refused:
            await request.refuse(refused)
        except Exception:
            logger.exception("a request to %s failed", request.path)
            if not request.started:
                await request.refuse(Refused(500, "the host failed; its log says how"))

    async def _admitted(self, request: Request) -> Visitor:
        knock = request.knock()
        self._endpoint.check(knock)
        visitor = await self._admit(knock)
        wait = self._endpoint.allow(visitor.user, 1)
        if wait:
            raise slow_down(wait)
        return visitor

    async def _healthy(self, request: Request) -> None:
        await request.answer(200, b'{"status":"ok"}')

    async def _ready(self, request: Request) -> None:
        """Whether sessions can be served: not while it ends, nor when nothing can be kept."""
        why = "the host is stopping" if self._is_closing else await self._house.upkeep.look()
        if why:
            body = msgspec.json.encode({"status": "not ready", "reason": why})
            await request.answer(503, body, {"retry-after": "5"})
            return
        await request.answer(200, b'{"status":"ready"}')

    async def _status(self, request: Request, visitor: Visitor) -> None:
        house = self._house
        seen = await house.visible(visitor)
        rooms = [house.rooms.get(one.session_id) for one in seen]
        root = str(request.scope.get("root_path", "")).rstrip("/")
        text = status_page.page(
            version=__version__,
            uptime=time.monotonic() - self._began,
            user=visitor.user,
            agents=[
                (name, f"{root}/acp" if at == 0 else f"{root}/acp/{name}") for at, name in enumerate(house.roster.names)
            ],
            sessions=[
                status_page.Shown(
                    id=one.session_id,
                    name=one.name or "",
                    agent=(room.standing.agent if room is not None else "") or one.agent or "",
                    is_awake=room is not None and room.is_awake,
                    is_working=room is not None and room.queue.running is not None,
                    members=[member.shown for member in room.members.values()] if room is not None else [],
                    updated=one.updated_at,
                )
                for one, room in zip(seen[:SHOWN], rooms, strict=False)
            ],
            left_out=max(len(seen) - SHOWN, 0),
            counts={
                "awake": sum(1 for room in rooms if room is not None and room.is_awake),
                "asleep": sum(1 for room in rooms if room is None or not room.is_awake),
                "people": len(
                    {member.desk.id for room in rooms if room is not None for member in room.members.values()}
                ),
            },
        )
        await _give(request, text.encode(), _PAGE_HEADERS)

    async def _metrics(self, request: Request, visitor: Visitor) -> None:
        if visitor.session is not None:
            raise Refused(403, "a link to a session does not show what the host does")
        text = self.metrics.text({"version": __version__})
        await _give(request, text.encode(), {"content-type": CONTENT_TYPE})

    # --- the API ------------------------------------------------------------------------------------------------

    async def _answer_api(self, request: Request, visitor: Visitor) -> None:
        body: Any = {}
        if request.method == "POST":
            data = await request.body(LARGEST, PATIENCE)
            try:
                body = msgspec.json.decode(data) if data.strip() else {}
            except msgspec.DecodeError:
                raise Refused(400, "the body must be JSON") from None
            if not isinstance(body, dict):
                raise Refused(400, "the body must be a JSON object")
        try:
            answer = await self._api.answer(request.method, request.path, Call(visitor, request.query, body))
        except ProtocolError as error:
            status = _STATUSES.get(error.kind, 503 if isinstance(error, StoreFault) else 500)
            raise Refused(status, error.message, kind=error.kind) from None
        await _say(request, answer)


async def _say(request: Request, answer: Answer) -> None:
    if answer.lines is None:
        await request.answer(200, msgspec.json.encode(answer.value))
        return
    body = b"".join(line + b"\n" for line in answer.lines)
    await _give(request, body, {"content-type": "application/x-ndjson"})


async def _give(request: Request, body: bytes, headers: Mapping[str, str]) -> None:
    await request.start(200, {"content-length": str(len(body)), "cache-control": "no-store", **headers})
    await request.send({"type": "http.response.body", "body": b"" if request.method == "HEAD" else body})


async def _nobody(_: Any) -> Visitor:
    raise Refused(401, "this host lets nobody in: it has no tokens, and its owner may not come without one")


def _is_ours(path: str) -> bool:
    return path in _OPEN or path in _PAGES or path.startswith("/api/")


_OPEN = {"/healthz": Host._healthy, "/readyz": Host._ready}
_PAGES = {"/": Host._status, "": Host._status, "/metrics": Host._metrics}
