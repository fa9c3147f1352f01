"""POST, GET and DELETE of an endpoint: Streamable HTTP (docs/protocol/http.md).

Where the documents and the two official SDKs disagree, we do what both official clients accept.
"""

from __future__ import annotations

import asyncio
from contextlib import aclosing
from typing import TYPE_CHECKING

from msgspec import UNSET, UnsetType

from dragoman.dialect.peek import FramePeek, NotOneMessage, peek_frame
from dragoman.errors import ConnectionFailed, Kind, ProtocolError, TransportClosed
from dragoman.transport.base import CLOSE_TIMEOUT
from dragoman.transport.remote.resume import FramesGone
from dragoman.transport.remote.server import landing_page
from dragoman.transport.remote.server.asgi import Request
from dragoman.transport.remote.server.auth import Principal, Refused
from dragoman.transport.remote.server.http_transport import FrameStreamReader, HttpServerTransport
from dragoman.transport.remote.server.limits import UnfinishedMessage
from dragoman.transport.remote.sse import KEEPALIVE, parse_cursor
from dragoman.transport.remote.streams import SESSION_METHODS
from dragoman.wire.envelope import Id

if TYPE_CHECKING:
    from dragoman.transport.remote.server.endpoint import Endpoint, ServedConnection

# A longer session id is refused, since it is a header (the official TypeScript server has the same limit).
MAX_SESSION_ID = 1024


async def serve(endpoint: Endpoint, request: Request) -> None:
    """Answer one HTTP request."""
    # A POST is a JSON-RPC message, and so is its refusal: with the id of the message, or null while that is unknown.
    id: Id | UnsetType = None if request.method == "POST" else UNSET
    try:
        if request.method == "OPTIONS":
            endpoint.check_host_and_origin(request.auth_request())
            await request.respond(204)
            return
        serve_method = {"POST": _post, "GET": _get, "DELETE": _delete}.get(request.method)
        if serve_method is None:
            raise Refused(405, "use POST, GET or DELETE", {"allow": "POST, GET, DELETE"})
        principal = await endpoint.authenticate(request)
        if landing_page.is_wanted(request):
            await landing_page.send_page(request, principal)
            return
        await serve_method(endpoint, request, principal)
    except _RefusedMessage as error:
        await request.refuse(error.refused, error.id)
    except Refused as refused:
        if landing_page.is_wanted(request):
            await landing_page.send_refusal(request, refused)
            return
        await request.refuse(refused, id)


class _RefusedMessage(Exception):
    """A refusal of a message whose id is known."""

    def __init__(self, refused: Refused, id: Id) -> None:
        self.refused = refused
        self.id = id


async def _post(endpoint: Endpoint, request: Request, principal: Principal) -> None:
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind != "application/json":
        raise Refused(415, "send the message with content-type application/json")
    unfinished = UnfinishedMessage(endpoint.byte_budget, principal.user)
    body = await request.read_body(endpoint.limits.body, endpoint.limits.body_timeout, unfinished)
    try:
        peek = peek_frame(body)
    except NotOneMessage as error:
        raise Refused(501 if error.kind == Kind.CAPABILITY_UNSUPPORTED else 400, error.message) from None
    except ProtocolError as error:
        raise Refused(400, error.message, kind=Kind.PARSE_ERROR) from None
    try:
        connection_id = request.headers.get("acp-connection-id")
        if peek.method == "initialize":
            if connection_id is not None:
                raise Refused(400, "this connection is initialized already; leave the header out for a new one")
            await _post_initialize(endpoint, request, principal, body, peek)
            return
        connection = endpoint.find_connection(connection_id, principal)
        transport = _require_http_transport(connection)
        _check_session(request, transport, peek)
        if (cursor := _header_number(request, "dragoman-cursor")) is not None:
            transport.acknowledge(cursor)
        try:
            await transport.deliver_post(body, peek, _header_number(request, "dragoman-frame") or 0)
        except TimeoutError:
            raise Refused(
                503, "too many messages are unread; send this one again later", {"retry-after": "5"}
            ) from None
    except Refused as refused:
        raise _RefusedMessage(
            refused, peek.id if peek.method and not isinstance(peek.id, UnsetType) else None
        ) from None
    await request.respond(202)


async def _post_initialize(
    endpoint: Endpoint, request: Request, principal: Principal, body: bytes, peek: FramePeek
) -> None:
    """Open a connection: answer its initialize in the response; everything later goes to streams."""
    transport = HttpServerTransport(
        f"client {principal.user} at {principal.address or 'an unknown place'}", endpoint.limits
    )
    connection = endpoint.open_connection(principal, transport)
    answer = transport.deliver_initialize(body, peek)
    if isinstance(peek.id, UnsetType):
        transport.fail(TransportClosed("initialize had no id"))
        raise Refused(400, "initialize is a request; give it an id")
    try:
        async with asyncio.timeout(endpoint.limits.initialize_timeout):
            reply = await answer
    except TimeoutError:
        transport.fail(TransportClosed("initialize was not answered in time"))
        raise Refused(
            504, f"initialize was not answered within {endpoint.limits.initialize_timeout:g} seconds"
        ) from None
    except ConnectionFailed as error:
        raise Refused(503, f"the agent ended before it answered: {error}", {"retry-after": "1"}) from None
    max_message = str(endpoint.limits.body)
    headers = {"acp-connection-id": connection.id, "dragoman-cursor": "0", "dragoman-largest": max_message}
    await request.respond(200, reply, headers)


def _check_session(request: Request, transport: HttpServerTransport, peek: FramePeek) -> None:
    """Check that the session in the header is the one in the body, and open on this connection."""
    header = request.headers.get("acp-session-id")
    if header is not None and peek.session is not None and header != peek.session:
        raise Refused(400, f"the header names session {header!r} and the message {peek.session!r}")
    session = header or peek.session
    if peek.method in SESSION_METHODS and session is None:
        raise Refused(400, f"{peek.method} needs a session: the header Acp-Session-Id, or sessionId in its params")
    if session is not None and len(session) > MAX_SESSION_ID:
        raise Refused(400, f"a session id has at most {MAX_SESSION_ID} characters")
    if (
        session is not None
        and session not in transport.router.known_sessions
        and (peek.method in SESSION_METHODS or not peek.method)
    ):
        raise Refused(
            404, f"session {session!r} is not open on this connection; load or resume it", kind=Kind.SESSION_NOT_FOUND
        )


async def _get(endpoint: Endpoint, request: Request, principal: Principal) -> None:
    accept = request.headers.get("accept", "")
    if "text/event-stream" not in accept and "*/*" not in accept:
        raise Refused(406, "send accept: text/event-stream")
    connection = endpoint.find_connection(request.headers.get("acp-connection-id"), principal)
    transport = _require_http_transport(connection)
    session = request.headers.get("acp-session-id")
    if session is not None:
        if not session or len(session) > MAX_SESSION_ID:
            raise Refused(400, f"a session id has 1 to {MAX_SESSION_ID} characters")
        if principal.session is not None and session != principal.session:
            raise Refused(404, f"there is no session {session!r} for you", kind=Kind.SESSION_NOT_FOUND)
    stream = transport.session_stream(session)
    if stream is None:
        raise Refused(429, f"{endpoint.limits.streams} streams are the most for one connection", {"retry-after": "5"})
    last = request.headers.get("last-event-id")
    after = None if last is None else parse_cursor(last)
    if last is not None and after is None:
        raise Refused(400, "this Last-Event-ID is not one of ours")
    if stream.reader is not None and after is None:
        raise Refused(409, "this stream is being read already; only a GET with Last-Event-ID takes it over")
    try:
        reader = transport.open_reader(stream, after)
    except FramesGone as error:
        transport.fail(TransportClosed(f"{transport.peer} missed too much: {error}"))
        raise Refused(404, f"{error}; initialize a new connection and load your sessions") from None
    if session is not None:
        transport.router.known_sessions.add(session)
    await _send_stream(request, connection, transport, reader, endpoint.limits.keepalive)


async def _send_stream(
    request: Request,
    connection: ServedConnection,
    transport: HttpServerTransport,
    reader: FrameStreamReader,
    keepalive: float,
) -> None:
    """Send a stream until it ends or its client disconnects."""
    loop = asyncio.get_running_loop()
    task = asyncio.current_task()
    assert task is not None
    disconnect_task = loop.create_task(_wait_disconnect(request))
    disconnect_task.add_done_callback(lambda _: reader.stop())
    timer: asyncio.TimerHandle | None = None

    def cancel_later(
        _: object,
    ) -> None:  # a client that does not read must not keep its request when its connection is over
        nonlocal timer
        timer = loop.call_later(CLOSE_TIMEOUT, task.cancel)

    transport.closed.add_done_callback(cancel_later)
    headers = {
        "content-type": "text/event-stream",
        "cache-control": "no-store",
        "x-accel-buffering": "no",  # proxies such as nginx would buffer events
        "acp-connection-id": connection.id,
    }
    try:
        await request.start_response(200, headers)
        # nginx holds back the headers of an HTTP/2 response until its first byte; the client waits for them.
        await request.send({"type": "http.response.body", "body": KEEPALIVE, "more_body": True})
        async with aclosing(reader.read_chunks(keepalive)) as chunks:
            async for chunk in chunks:
                await request.send({"type": "http.response.body", "body": chunk, "more_body": True})
        await request.send({"type": "http.response.body", "body": b""})
    except asyncio.CancelledError:
        if timer is None or task.uncancel() > 0:
            raise
    finally:
        transport.closed.remove_done_callback(cancel_later)
        if timer is not None:
            timer.cancel()
        disconnect_task.cancel()


async def _wait_disconnect(request: Request) -> None:
    while (await request.receive())["type"] != "http.disconnect":
        pass


async def _delete(endpoint: Endpoint, request: Request, principal: Principal) -> None:
    connection = endpoint.find_connection(request.headers.get("acp-connection-id"), principal)
    connection.transport.fail(TransportClosed(f"{connection.transport.peer} ended the connection"))
    await request.respond(202)


def _require_http_transport(connection: ServedConnection) -> HttpServerTransport:
    if not isinstance(connection.transport, HttpServerTransport):
        raise Refused(404, "that connection is a WebSocket; send its messages there")
    return connection.transport


def _header_number(request: Request, name: str) -> int | None:
    value = request.headers.get(name)
    if value is None:
        return None
    number = parse_cursor(value)
    if number is None:
        raise Refused(400, f"the header {name} is a number")
    return number
