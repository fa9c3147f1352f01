"""A Streamable HTTP client with hand-written headers (docs/protocol/http.md#requests).

A probe sends single requests, or uses it as a channel of frames. It shares no code with the client that it checks.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any

import msgspec

from dragoman.conformance.verdict import Inconclusive, Skipped
from dragoman.errors import ConnectionFailed, StartFailed, TransportClosed
from dragoman.transport.base import FrameQueue
from dragoman.transport.remote.address import RemoteAddress, RemoteOptions, parse_address, tls_context
from dragoman.transport.remote.sse import EventParser, ServerSentEvent
from dragoman.transport.remote.streams import OPENING_METHODS
from dragoman.wire.frames import Frame

Json = Any
Note = Callable[[str, str], Any]

# To connect to the server, and for it to begin an answer: it may have to start an agent. Seconds.
REACH, BEGIN = 10.0, 60.0

# The answer to session/load comes on another stream than the history: hold it until that is quiet. Seconds.
QUIET, QUIET_AT_MOST = 0.1, 5.0

JSON = {"Content-Type": "application/json"}
SSE = {"Accept": "text/event-stream"}


class Answer(msgspec.Struct, frozen=True):
    """The answer to one request; header names in lower case."""

    status: int
    headers: dict[str, str]
    body: bytes = b""

    @property
    def kind(self) -> str:
        """The media type, without its parameters."""
        return self.headers.get("content-type", "").partition(";")[0].strip().lower()

    @property
    def json(self) -> Json:
        """The body as JSON, or None."""
        return parse_json(self.body)


class EventStream:
    """One event stream: its answer and its events."""

    def __init__(self, answer: Answer, session: str | None) -> None:
        self.answer = answer
        self.session = session
        self.events: list[ServerSentEvent] = []
        self.ended = asyncio.Event()
        self.changed = asyncio.Event()
        self.task: asyncio.Task[None] | None = None

    @property
    def is_open(self) -> bool:
        """Whether the server opened it and it has not ended."""
        return self.answer.status == 200 and not self.ended.is_set()

    def messages(self) -> list[Json]:
        """Return the messages; None for what is not JSON."""
        return [parse_json(event.data) for event in self.events]

    async def close(self) -> None:
        """Stop reading and close the socket."""
        if self.task is not None:
            self.task.cancel()
            await asyncio.gather(self.task, return_exceptions=True)


class HttpChannel:
    """One client of a URL; a connection begins with the first initialize that is sent."""

    def __init__(self, url: str, *, token: str = "", tls: str | bool | None = None, note: Note | None = None) -> None:
        try:
            import httpx
        except ModuleNotFoundError as error:
            raise StartFailed(f"{error.name} is not installed; run: pip install 'dragoman[host]'") from None
        self.address: RemoteAddress = parse_address(url, RemoteOptions(token=token, tls=tls))
        self.peer = self.address.display_url
        self.note: Note = note or (lambda *_: None)
        self.connection = ""
        self.main: EventStream | None = None
        self.streams: dict[str, EventStream] = {}
        self.cookies: dict[str, str] = {}
        self.is_eager = True
        """Whether the channel opens streams by itself."""
        self.refusals: list[bytes] = []
        """The frames that stand for a refusal by a status."""
        self.statuses: list[tuple[Json, Answer]] = []
        """The messages that were posted as frames, and the status of each."""
        self._http = httpx
        self._client = httpx.AsyncClient(
            verify=tls_context(tls, self.peer) if self.address.is_secure else False,
            trust_env=not self.address.is_loopback,
            timeout=httpx.Timeout(BEGIN, connect=REACH),
            limits=httpx.Limits(max_connections=None, max_keepalive_connections=4, keepalive_expiry=1.0),
        )
        self._extra: list[EventStream] = []
        self._frames = FrameQueue()
        self._queue: list[bytes] = []
        self._posting: asyncio.Task[None] | None = None
        self._opening: dict[str, str] = {}  # our requests that open a session with a name, by their ids
        self._request_sessions: dict[str, str] = {}  # the sessions of the agent's requests, by their ids
        self._later: set[asyncio.Task[Any]] = set()
        self._locks: dict[str, asyncio.Lock] = {}
        self._is_initialized = False
        self._ended: ConnectionFailed | None = None  # why nothing more can be posted

    # --- single requests ------------------------------------------------------------------------------------------

    async def ask(self, method: str, body: bytes | None = None, headers: Mapping[str, str] | None = None) -> Answer:
        """Send one request with these headers, besides cookies and the token; do not read a stream."""
        fields = dict(headers or {})
        self.note("out", format_request(method, self.address.target, fields, body))
        response = await self._send(method, body, fields)
        try:
            is_stream = response.status_code == 200 and response.headers.get("content-type", "").startswith("text/ev")
            content = b"" if is_stream else await response.aread()
        finally:
            await response.aclose()
        answer = Answer(response.status_code, dict(response.headers), content)
        self.note("in", format_answer(answer))
        return answer

    async def post(self, message: Json, headers: Mapping[str, str] | None = None) -> Answer:
        """POST a message, or bytes as they are."""
        body = message if isinstance(message, bytes) else json.dumps(message, ensure_ascii=False).encode()
        return await self.ask("POST", body, {**JSON, **(headers or {})})

    async def open(self, session: str | None = None, headers: Mapping[str, str] | None = None) -> EventStream:
        """GET a stream of this connection; its messages are received as frames too."""
        fields = {**SSE, **self.session_headers(session), **(headers or {})}
        self.note("out", format_request("GET", self.address.target, fields, None))
        response = await self._send("GET", None, fields)
        content = b"" if response.status_code == 200 else await response.aread()
        stream = EventStream(Answer(response.status_code, dict(response.headers), content), session)
        self.note("in", format_answer(stream.answer))
        if response.status_code == 200:
            stream.task = asyncio.ensure_future(self._read(stream, response))
            self._extra.append(stream)
        else:
            stream.ended.set()
            await response.aclose()
        return stream

    def session_headers(self, session: str | None = None) -> dict[str, str]:
        """Return the headers that name our connection and a session."""
        found = {"Acp-Connection-Id": self.connection} if self.connection else {}
        if session is not None:
            found["Acp-Session-Id"] = session
        return found

    async def _send(self, method: str, body: bytes | None, headers: Mapping[str, str]) -> Any:
        fields = [(name, value) for name, value in self.address.headers if name.lower() not in map(str.lower, headers)]
        if self.cookies and "Cookie" not in headers:
            fields.append(("Cookie", "; ".join(f"{name}={value}" for name, value in self.cookies.items())))
        fields += [(name, value) for name, value in headers.items() if value]
        request = self._http.Request(method, self.address.url, headers=fields, content=body)
        request.extensions["timeout"] = {"connect": REACH, "read": BEGIN, "write": BEGIN, "pool": REACH}
        if "Accept" in headers:  # a stream may be quiet
            request.extensions["timeout"]["read"] = None
        try:
            async with asyncio.timeout(BEGIN):
                response = await self._client.send(request, stream=True)
        except (self._http.HTTPError, OSError) as error:
            raise TransportClosed(f"{self.peer} cannot be reached: {error or type(error).__name__}") from None
        for line in response.headers.get_list("set-cookie"):
            name, is_there, value = line.partition(";")[0].partition("=")
            if is_there:
                self.cookies[name.strip()] = value.strip()
        return response

    async def _read(self, stream: EventStream, response: Any) -> None:
        parser = EventParser()
        try:
            async for piece in response.aiter_raw():
                for event in parser.feed(piece):
                    await self._on_event(stream, event)
        except (self._http.HTTPError, OSError):
            pass
        finally:
            stream.ended.set()
            stream.changed.set()
            with suppress(Exception):
                await response.aclose()

    # --- a line of frames -----------------------------------------------------------------------------------------

    async def _on_event(self, stream: EventStream, event: ServerSentEvent) -> None:
        message = parse_json(event.data)
        if isinstance(message, dict) and "method" not in message and stream.session is None:
            session = self._opening.pop(json.dumps(message.get("id")), None)
            if session is not None:
                await self._wait_quiet(session)
            found = message.get("result")
            result = found if isinstance(found, dict) else {}
            opened = result.get("sessionId") or result.get("session_id")
            if isinstance(opened, str) and self.is_eager:
                task = asyncio.ensure_future(self.ensure(opened))
                self._later.add(task)
                task.add_done_callback(self._later.discard)
        elif isinstance(message, dict) and "id" in message:
            session = session_of(message) or stream.session
            if session is not None:
                self._request_sessions[json.dumps(message["id"])] = session
        stream.events.append(event)
        stream.changed.set()
        self._frames.deliver([event.data])

    async def _wait_quiet(self, session: str) -> None:
        stream = self.streams.get(session)
        if stream is None or not stream.is_open:
            return
        with suppress(TimeoutError):
            async with asyncio.timeout(QUIET_AT_MOST):
                while True:
                    stream.changed.clear()
                    async with asyncio.timeout(QUIET):
                        await stream.changed.wait()

    async def receive(self) -> list[Frame]:
        """Return the frames from any stream, or from the answer to a POST."""
        return await self._frames.receive()

    def send(self, data: bytes) -> None:
        """Post one frame, after those before it."""
        if self._ended is not None:
            raise self._ended.with_traceback(None)
        self._queue.append(data)
        if self._posting is None:
            self._posting = asyncio.ensure_future(self._post_all())

    def write_raw(self, data: bytes) -> None:
        """Skip: there are no lines here."""
        raise Skipped("it is about lines on a pipe, which HTTP has not")

    async def drain(self) -> None:
        """Wait until everything is posted."""
        if self._posting is not None:
            await asyncio.wait([self._posting])

    async def send_eof(self) -> None:
        """End the connection."""
        await self.drain()
        if self.connection:
            await self.ask("DELETE", None, self.session_headers())
        self._end(TransportClosed("the connection was ended"))

    async def _post_all(self) -> None:
        try:
            while self._queue and self._ended is None:
                await self._post(self._queue.pop(0))
        except ConnectionFailed as error:
            self._end(error)
        finally:
            self._posting = None

    async def _post(self, data: bytes) -> None:
        fields = parse_json(data)
        message = fields if isinstance(fields, dict) else {}
        method, id = message.get("method"), json.dumps(message.get("id"))
        if method == "initialize" and not self._is_initialized:
            if self.connection:  # one that was refused has a connection all the same
                await self.ask("DELETE", None, self.session_headers())
            answer = await self._post_message(message, data, {})
            self.connection = answer.headers.get("acp-connection-id", "")
            self._is_initialized = isinstance(answer.json, dict) and "result" in answer.json
            if answer.status == 200 and self.connection and self.is_eager:
                self.main = await self.open()
        else:
            session = session_of(message) or (None if method else self._request_sessions.pop(id, None))
            if session is not None and method in OPENING_METHODS and method != "session/new":
                self._opening[id] = session
            if session is not None and method != "session/new" and self.is_eager:
                await self.ensure(session)
            answer = await self._post_message(message, data, self.session_headers(session))
        if answer.body and answer.status < 300:
            self._frames.deliver([answer.body])
        elif answer.status >= 300:
            self._on_refusal(message, answer)

    async def _post_message(self, message: Json, data: bytes, headers: Mapping[str, str]) -> Answer:
        response = await self._send("POST", data, {**JSON, **headers})
        content = await response.aread()
        await response.aclose()
        answer = Answer(response.status_code, dict(response.headers), content)
        self.statuses.append((message, answer))
        if answer.status != 202:
            self.note("note", f"the POST was answered with {format_answer(answer)}")
        return answer

    def _on_refusal(self, message: dict[str, Json], answer: Answer) -> None:
        """Make a reply of a refusal by status, whether its body is JSON-RPC or not."""
        fields = answer.json
        if isinstance(fields, dict) and isinstance(fields.get("error"), dict) and "code" in fields["error"]:
            self.refusals.append(answer.body)
            self._frames.deliver([answer.body])
        elif "method" in message and "id" in message:
            why = f"HTTP {answer.status}: {answer.body[:200].decode('utf-8', 'replace')}"
            error = {"code": -32000, "message": why}
            self.refusals.append(json.dumps({"jsonrpc": "2.0", "id": message["id"], "error": error}).encode())
            self._frames.deliver([self.refusals[-1]])

    async def ensure(self, session: str) -> EventStream:
        """Return the stream of a session; open it if needed."""
        async with self._locks.setdefault(session, asyncio.Lock()):  # two would be one too many
            stream = self.streams.get(session)
            if stream is None or not stream.is_open:
                stream = self.streams[session] = await self.open(session)
            return stream

    def _end(self, error: ConnectionFailed) -> None:
        self._ended = self._ended or error
        self._frames.end(error)

    async def close(self) -> None:
        """Close the connection and its streams."""
        self._end(TransportClosed("the checker closed the connection"))
        waiting = [*self._later, *([self._posting] if self._posting is not None else [])]
        for task in waiting:
            task.cancel()
        await asyncio.gather(*waiting, return_exceptions=True)
        for stream in self._extra:
            await stream.close()
        with suppress(ConnectionFailed, TimeoutError, Inconclusive):
            if self.connection:
                self.note = lambda *_: None
                async with asyncio.timeout(REACH):
                    await self.ask("DELETE", None, self.session_headers())
        await self._client.aclose()


def parse_json(data: bytes) -> Json:
    """Return the JSON value, or None."""
    try:
        return json.loads(data)
    except (ValueError, RecursionError):
        return None


def session_of(message: Json) -> str | None:
    """Return the session that a call names."""
    params = message.get("params") if isinstance(message, dict) else None
    found = (params.get("sessionId") or params.get("session_id")) if isinstance(params, dict) else None
    return found if isinstance(found, str) else None


def format_request(method: str, target: str, headers: Mapping[str, str], body: bytes | None) -> str:
    """Return a request as evidence, without secrets."""
    lines = [f"{method} {target.partition('?')[0]}", *(f"{name}: {value}" for name, value in headers.items())]
    return "\n".join(lines) + ("" if body is None else f"\n\n{body[:4000].decode('utf-8', 'backslashreplace')}")


def format_answer(answer: Answer) -> str:
    """Return an answer as evidence."""
    names = ("content-type", "acp-connection-id", "set-cookie")
    lines = [str(answer.status), *(f"{name}: {answer.headers[name]}" for name in names if name in answer.headers)]
    return "\n".join(lines) + (f"\n\n{answer.body[:4000].decode('utf-8', 'backslashreplace')}" if answer.body else "")
