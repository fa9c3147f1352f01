"""POST, GET and DELETE of an endpoint: Streamable HTTP as reference 3.2 tells it, and as the official clients need it.

Each request is refused with its status or served. Above is the endpoint, which knows the connections; below are the
streams. Where the documents and the two official SDKs disagree we take what both clients can live with.
"""

from __future__ import annotations

import asyncio
from contextlib import aclosing
from typing import TYPE_CHECKING

from msgspec import UNSET, UnsetType

from dragoman.errors import ConnectionFailed, Kind, ProtocolError, TransportClosed
from dragoman.transport.base import CLOSE_PATIENCE
from dragoman.transport.remote.resume import Gone
from dragoman.transport.remote.server import landing_page
from dragoman.transport.remote.server.asgi import Request
from dragoman.transport.remote.server.auth import Refused, Visitor
from dragoman.transport.remote.server.http_transport import Reader, StreamsTransport
from dragoman.transport.remote.sse import cursor
from dragoman.transport.remote.streams import WITHIN, Gist, NotOne, gist
from dragoman.wire.envelope import Id

if TYPE_CHECKING:
    from dragoman.transport.remote.server.endpoint import Endpoint, Link

# A session id is a header, and longer ones are no ids (the official TypeScript server has the same bound).
LONGEST_ID = 1024


async def serve(endpoint: Endpoint, request: Request) -> None:
    """Answer one HTTP request."""
    id: Id | UnsetType = UNSET
    try:
        if request.method == "OPTIONS":
            endpoint.check(request.knock())
            await request.answer(204)
            return
        answering = {"POST": _post, "GET": _get, "DELETE": _delete}.get(request.method)
        if answering is None:
            raise Refused(405, "use POST, GET or DELETE", {"allow": "POST, GET, DELETE"})
        visitor = await endpoint.admitted(request)
        if landing_page.is_wanted(request):
            await landing_page.give(request, visitor)
            return
        await answering(endpoint, request, visitor)
    except _Answered as answered:
        id = answered.id
        await request.refuse(answered.refused, id)
    except Refused as refused:
        if landing_page.is_wanted(request):
            await landing_page.refuse(request, refused)
            return
        await request.refuse(refused, id)


class _Answered(Exception):
    """A refusal of a message whose id is known."""

    def __init__(self, refused: Refused, id: Id | UnsetType) -> None:
        self.refused = refused
        self.id = id


# --- POST -----------------------------------------------------------------------------------------------------


async def _post(endpoint: Endpoint, request: Request, visitor: Visitor) -> None:
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind != "application/json":
        raise Refused(415, "send the message with content-type application/json")
    body = await request.body(endpoint.limits.body, endpoint.limits.body_patience)
    try:
        said = gist(body)
    except NotOne as error:
        raise _Answered(
            Refused(501 if error.kind == Kind.CAPABILITY_UNSUPPORTED else 400, error.message), None
        ) from None
    except ProtocolError as error:
        raise _Answered(Refused(400, error.message, kind=Kind.PARSE_ERROR), None) from None
    try:
        connection = request.headers.get("acp-connection-id")
        if said.method == "initialize":
            if connection is not None:
                raise Refused(400, "this connection is initialized already; leave the header out for a new one")
            await _introduce(endpoint, request, visitor, body, said)
            return
        link = endpoint.find(connection, visitor)
        transport = _streams(link)
        _check_session(request, transport, said)
        if (seen := _number(request, "dragoman-cursor")) is not None:
            transport.acknowledge(seen)
        try:
            await transport.post(body, said, _number(request, "dragoman-frame") or 0)
        except TimeoutError:
            raise Refused(
                503, "too many messages are unread; send this one again later", {"retry-after": "5"}
            ) from None
    except Refused as refused:
        raise _Answered(refused, said.id if said.method else UNSET) from None
    await request.answer(202)


async def _introduce(endpoint: Endpoint, request: Request, visitor: Visitor, body: bytes, said: Gist) -> None:
    """A new connection: its initialize is answered here, all that follows on streams."""
    transport = StreamsTransport(f"client {visitor.user} at {visitor.address or 'an unknown place'}", endpoint.limits)
    link = endpoint.begin(visitor, transport)
    answer = transport.introduce(body, said)
    if isinstance(said.id, UnsetType):
        transport.fail(TransportClosed("initialize had no id"))
        raise Refused(400, "initialize is a request; give it an id")
    try:
        async with asyncio.timeout(endpoint.limits.introduction):
            reply = await answer
    except TimeoutError:
        transport.fail(TransportClosed("initialize was not answered in time"))
        raise Refused(504, f"initialize was not answered within {endpoint.limits.introduction:g} seconds") from None
    except ConnectionFailed as error:
        raise Refused(503, f"the agent ended before it answered: {error}", {"retry-after": "1"}) from None
    largest = str(endpoint.limits.body)
    said_ = {"acp-connection-id": link.id, "dragoman-cursor": "0", "dragoman-largest": largest}
    await request.answer(200, reply, said_)


def _check_session(request: Request, transport: StreamsTransport, said: Gist) -> None:
    """The session that a header names must be the one in the body, and one that this connection has."""
    header = request.headers.get("acp-session-id")
    if header is not None and said.session is not None and header != said.session:
        raise Refused(400, f"the header names session {header!r} and the message {said.session!r}")
    session = header or said.session
    if said.method in WITHIN and session is None:
        raise Refused(400, f"{said.method} needs a session: the header Acp-Session-Id, or sessionId in its params")
    if session is not None and len(session) > LONGEST_ID:
        raise Refused(400, f"a session id has at most {LONGEST_ID} characters")
    if session is not None and session not in transport.routing.known and (said.method in WITHIN or not said.method):
        raise Refused(
            404, f"session {session!r} is not open on this connection; load or resume it", kind=Kind.SESSION_NOT_FOUND
        )


# --- GET and DELETE -------------------------------------------------------------------------------------------


async def _get(endpoint: Endpoint, request: Request, visitor: Visitor) -> None:
    accept = request.headers.get("accept", "")
    if "text/event-stream" not in accept and "*/*" not in accept:
        raise Refused(406, "ask for it with accept: text/event-stream")
    link = endpoint.find(request.headers.get("acp-connection-id"), visitor)
    transport = _streams(link)
    session = request.headers.get("acp-session-id")
    if session is not None:
        if not session or len(session) > LONGEST_ID:
            raise Refused(400, f"a session id has 1 to {LONGEST_ID} characters")
        if visitor.session is not None and session != visitor.session:
            raise Refused(404, f"there is no session {session!r} for you", kind=Kind.SESSION_NOT_FOUND)
    stream = transport.stream(session)
    if stream is None:
        raise Refused(429, f"{endpoint.limits.streams} streams are the most for one connection", {"retry-after": "5"})
    last = request.headers.get("last-event-id")
    after = None if last is None else cursor(last)
    if last is not None and after is None:
        raise Refused(400, "that Last-Event-ID is none of ours")
    if stream.reader is not None and after is None:
        raise Refused(409, "this stream is being read already; only a GET with Last-Event-ID takes it over")
    try:
        reader = transport.open(stream, after)
    except Gone as gone:
        transport.fail(TransportClosed(f"{transport.peer} missed too much: {gone}"))
        raise Refused(404, f"{gone}; initialize a new connection and load your sessions") from None
    if session is not None:
        transport.routing.known.add(session)
    await _tell(request, link, transport, reader, endpoint.limits.keepalive)


async def _tell(request: Request, link: Link, transport: StreamsTransport, reader: Reader, keepalive: float) -> None:
    """Send a stream until it ends or its client goes."""
    loop = asyncio.get_running_loop()
    task = asyncio.current_task()
    assert task is not None
    watching = loop.create_task(_watch(request))
    watching.add_done_callback(lambda _: reader.leave())
    limit: asyncio.TimerHandle | None = None

    def ended(_: object) -> None:  # a client that does not read must not keep its request when its connection is over
        nonlocal limit
        limit = loop.call_later(CLOSE_PATIENCE, task.cancel)

    transport.closed.add_done_callback(ended)
    headers = {
        "content-type": "text/event-stream",
        "cache-control": "no-store",
        "x-accel-buffering": "no",  # proxies of the nginx kind would hold events back
        "acp-connection-id": link.id,
    }
    try:
        await request.start(200, headers)
        async with aclosing(reader.chunks(keepalive)) as chunks:
            async for chunk in chunks:
                await request.send({"type": "http.response.body", "body": chunk, "more_body": True})
        await request.send({"type": "http.response.body", "body": b""})
    except asyncio.CancelledError:
        if limit is None or task.uncancel() > 0:
            raise
    finally:
        transport.closed.remove_done_callback(ended)
        if limit is not None:
            limit.cancel()
        watching.cancel()


async def _watch(request: Request) -> None:
    while (await request.receive())["type"] != "http.disconnect":
        pass


async def _delete(endpoint: Endpoint, request: Request, visitor: Visitor) -> None:
    link = endpoint.find(request.headers.get("acp-connection-id"), visitor)
    link.transport.fail(TransportClosed(f"{link.transport.peer} ended the connection"))
    await request.answer(202)


def _streams(link: Link) -> StreamsTransport:
    if not isinstance(link.transport, StreamsTransport):
        raise Refused(404, "that connection is a WebSocket; send its messages there")
    return link.transport


def _number(request: Request, name: str) -> int | None:
    value = request.headers.get(name)
    if value is None:
        return None
    found = cursor(value)
    if found is None:
        raise Refused(400, f"the header {name} is a number")
    return found
