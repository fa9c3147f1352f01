"""Streamable HTTP by hand (reference 3.2): single requests as a probe words them, and on top of these a line of frames.

A checker must not lean on the client that it checks others with: every header is written here. As a line it posts one
message after the other, opens the streams that belong to it, and gives what comes on any of them, with where it came.
Above are the stages of remote agents; httpx carries the bytes.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any

import msgspec

from dragoman.conformance.verdict import Skipped, Unsure
from dragoman.errors import ConnectionFailed, StartFailed, TransportClosed
from dragoman.transport.inlet import FrameQueue
from dragoman.transport.remote.address import RemoteAddress, RemoteOptions, parse_address, tls_context
from dragoman.transport.remote.sse import EventParser, ServerSentEvent
from dragoman.transport.remote.streams import OPENING_METHODS
from dragoman.wire.frames import Frame

Json = Any
Note = Callable[[str, str], Any]

# To reach the server, and for it to begin an answer: an agent may have to be started first. Seconds.
REACH, BEGIN = 10.0, 60.0

# The answer to a load comes by another stream than the history: it is given when that was quiet for so long. Seconds.
QUIET, QUIET_AT_MOST = 0.1, 5.0

JSON = {"Content-Type": "application/json"}
SSE = {"Accept": "text/event-stream"}


class Answer(msgspec.Struct, frozen=True):
    """What one request was answered with; header names in lower case."""

    status: int
    headers: dict[str, str]
    body: bytes = b""

    @property
    def kind(self) -> str:
        """The media type, without its parameters."""
        return self.headers.get("content-type", "").partition(";")[0].strip().lower()

    @property
    def json(self) -> Json:
        """The body as JSON, None when it is none."""
        return parsed(self.body)


class Strand:
    """One event stream: how it was answered, and what came."""

    def __init__(self, answer: Answer, session: str | None) -> None:
        self.answer = answer
        self.session = session
        self.events: list[ServerSentEvent] = []
        self.ended = asyncio.Event()
        self.news = asyncio.Event()
        self.task: asyncio.Task[None] | None = None

    @property
    def is_open(self) -> bool:
        """Whether it was granted and has not ended."""
        return self.answer.status == 200 and not self.ended.is_set()

    def messages(self) -> list[Json]:
        """What came as messages; None for what is none."""
        return [parsed(event.data) for event in self.events]

    async def close(self) -> None:
        """Stop reading: the server sees the socket go."""
        if self.task is not None:
            self.task.cancel()
            await asyncio.gather(self.task, return_exceptions=True)


class HttpLine:
    """One client of an address; a connection begins with the first initialize that is sent."""

    def __init__(self, url: str, *, token: str = "", tls: str | bool | None = None, note: Note | None = None) -> None:
        try:
            import httpx
        except ModuleNotFoundError as error:
            raise StartFailed(f"{error.name} is not installed; run: pip install 'dragoman[host]'") from None
        self.address: RemoteAddress = parse_address(url, RemoteOptions(token=token, tls=tls))
        self.peer = self.address.display_url
        self.note: Note = note or (lambda *_: None)
        self.connection = ""
        self.main: Strand | None = None
        self.strands: dict[str, Strand] = {}
        self.cookies: dict[str, str] = {}
        self.is_eager = True
        """Whether streams are opened by the line itself."""
        self.refusals: list[bytes] = []
        """The frames that stand for a refusal by a status."""
        self.statuses: list[tuple[Json, Answer]] = []
        """The messages that were posted as frames, and how each was answered."""
        self._http = httpx
        self._client = httpx.AsyncClient(
            verify=tls_context(tls, self.peer) if self.address.is_secure else False,
            trust_env=not self.address.is_loopback,
            timeout=httpx.Timeout(BEGIN, connect=REACH),
            limits=httpx.Limits(max_connections=None, max_keepalive_connections=4, keepalive_expiry=1.0),
        )
        self._extra: list[Strand] = []
        self._inlet = FrameQueue()
        self._queue: list[bytes] = []
        self._posting: asyncio.Task[None] | None = None
        self._opening: dict[str, str] = {}  # our requests that open a session with a name, by their ids
        self._asked: dict[str, str] = {}  # requests of the agent: their sessions, by their ids
        self._later: set[asyncio.Task[Any]] = set()
        self._locks: dict[str, asyncio.Lock] = {}
        self._is_met = False
        self._ended: ConnectionFailed | None = None  # why nothing more can be posted

    # --- single requests ------------------------------------------------------------------------------------------

    async def ask(self, method: str, body: bytes | None = None, headers: Mapping[str, str] | None = None) -> Answer:
        """One request with exactly these headers, besides cookies and the token; a stream is not read."""
        said = dict(headers or {})
        self.note("out", worded(method, self.address.target, said, body))
        response = await self._send(method, body, said)
        try:
            is_stream = response.status_code == 200 and response.headers.get("content-type", "").startswith("text/ev")
            content = b"" if is_stream else await response.aread()
        finally:
            await response.aclose()
        answer = Answer(response.status_code, dict(response.headers), content)
        self.note("in", told(answer))
        return answer

    async def post(self, message: Json, headers: Mapping[str, str] | None = None) -> Answer:
        """POST a message, or bytes as they are."""
        body = message if isinstance(message, bytes) else json.dumps(message, ensure_ascii=False).encode()
        return await self.ask("POST", body, {**JSON, **(headers or {})})

    async def open(self, session: str | None = None, headers: Mapping[str, str] | None = None) -> Strand:
        """GET a stream of this connection; what comes on it is given as frames too."""
        said = {**SSE, **self.named(session), **(headers or {})}
        self.note("out", worded("GET", self.address.target, said, None))
        response = await self._send("GET", None, said)
        content = b"" if response.status_code == 200 else await response.aread()
        strand = Strand(Answer(response.status_code, dict(response.headers), content), session)
        self.note("in", told(strand.answer))
        if response.status_code == 200:
            strand.task = asyncio.ensure_future(self._read(strand, response))
            self._extra.append(strand)
        else:
            strand.ended.set()
            await response.aclose()
        return strand

    def named(self, session: str | None = None) -> dict[str, str]:
        """The headers that name our connection, and a session."""
        found = {"Acp-Connection-Id": self.connection} if self.connection else {}
        if session is not None:
            found["Acp-Session-Id"] = session
        return found

    async def _send(self, method: str, body: bytes | None, headers: Mapping[str, str]) -> Any:
        said = [(name, value) for name, value in self.address.headers if name.lower() not in map(str.lower, headers)]
        if self.cookies and "Cookie" not in headers:
            said.append(("Cookie", "; ".join(f"{name}={value}" for name, value in self.cookies.items())))
        said += [(name, value) for name, value in headers.items() if value]
        request = self._http.Request(method, self.address.url, headers=said, content=body)
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

    async def _read(self, strand: Strand, response: Any) -> None:
        parser = EventParser()
        try:
            async for piece in response.aiter_raw():
                for event in parser.feed(piece):
                    await self._came(strand, event)
        except (self._http.HTTPError, OSError):
            pass
        finally:
            strand.ended.set()
            strand.news.set()
            with suppress(Exception):
                await response.aclose()

    # --- a line of frames -----------------------------------------------------------------------------------------

    async def _came(self, strand: Strand, event: ServerSentEvent) -> None:
        message = parsed(event.data)
        if isinstance(message, dict) and "method" not in message and strand.session is None:
            session = self._opening.pop(json.dumps(message.get("id")), None)
            if session is not None:
                await self._settled(session)
            found = message.get("result")
            result = found if isinstance(found, dict) else {}
            opened = result.get("sessionId") or result.get("session_id")
            if isinstance(opened, str) and self.is_eager:
                self._soon(self.ensure(opened))
        elif isinstance(message, dict) and "id" in message:
            session = session_of(message) or strand.session
            if session is not None:
                self._asked[json.dumps(message["id"])] = session
        strand.events.append(event)
        strand.news.set()
        self._inlet.deliver([event.data])

    async def _settled(self, session: str) -> None:
        strand = self.strands.get(session)
        if strand is None or not strand.is_open:
            return
        with suppress(TimeoutError):
            async with asyncio.timeout(QUIET_AT_MOST):
                while True:
                    strand.news.clear()
                    async with asyncio.timeout(QUIET):
                        await strand.news.wait()

    async def receive(self) -> list[Frame]:
        """What came on any stream, or as the answer of a POST."""
        return await self._inlet.receive()

    def send(self, data: bytes) -> None:
        """Post one frame, after those before it."""
        if self._ended is not None:
            raise self._ended.with_traceback(None)
        self._queue.append(data)
        if self._posting is None:
            self._posting = asyncio.ensure_future(self._post_all())

    def write_raw(self, data: bytes) -> None:
        """There are no lines here."""
        raise Skipped("it is about lines on a pipe, which HTTP has not")

    async def drain(self) -> None:
        """Wait until all is posted."""
        if self._posting is not None:
            await asyncio.wait([self._posting])

    async def send_eof(self) -> None:
        """End the connection."""
        await self.drain()
        if self.connection:
            await self.ask("DELETE", None, self.named())
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
        said = parsed(data)
        message = said if isinstance(said, dict) else {}
        method, id = message.get("method"), json.dumps(message.get("id"))
        if method == "initialize" and not self._is_met:
            if self.connection:  # one that was refused has a connection all the same
                await self.ask("DELETE", None, self.named())
            answer = await self._posted(message, data, {})
            self.connection = answer.headers.get("acp-connection-id", "")
            self._is_met = isinstance(answer.json, dict) and "result" in answer.json
            if answer.status == 200 and self.connection and self.is_eager:
                self.main = await self.open()
        else:
            session = session_of(message) or (None if method else self._asked.pop(id, None))
            if session is not None and method in OPENING_METHODS and method != "session/new":
                self._opening[id] = session
            if session is not None and method != "session/new" and self.is_eager:
                await self.ensure(session)
            answer = await self._posted(message, data, self.named(session))
        if answer.body and answer.status < 300:
            self._inlet.deliver([answer.body])
        elif answer.status >= 300:
            self._refused(message, answer)

    async def _posted(self, message: Json, data: bytes, headers: Mapping[str, str]) -> Answer:
        response = await self._send("POST", data, {**JSON, **headers})
        content = await response.aread()
        await response.aclose()
        answer = Answer(response.status_code, dict(response.headers), content)
        self.statuses.append((message, answer))
        if answer.status != 202:
            self.note("note", f"the POST was answered with {told(answer)}")
        return answer

    def _refused(self, message: dict[str, Json], answer: Answer) -> None:
        """A refusal with a status is the answer, whether its body says it as JSON-RPC or not."""
        said = answer.json
        if isinstance(said, dict) and isinstance(said.get("error"), dict) and "code" in said["error"]:
            self.refusals.append(answer.body)
            self._inlet.deliver([answer.body])
        elif "method" in message and "id" in message:
            why = f"HTTP {answer.status}: {answer.body[:200].decode('utf-8', 'replace')}"
            error = {"code": -32000, "message": why}
            self.refusals.append(json.dumps({"jsonrpc": "2.0", "id": message["id"], "error": error}).encode())
            self._inlet.deliver([self.refusals[-1]])

    async def ensure(self, session: str) -> Strand:
        """The stream of a session, opened if it is not."""
        async with self._locks.setdefault(session, asyncio.Lock()):  # two would be one too many
            strand = self.strands.get(session)
            if strand is None or not strand.is_open:
                strand = self.strands[session] = await self.open(session)
            return strand

    def _soon(self, work: Any) -> None:
        task = asyncio.ensure_future(work)
        self._later.add(task)
        task.add_done_callback(self._later.discard)

    def _end(self, error: ConnectionFailed) -> None:
        self._ended = self._ended or error
        self._inlet.end(error)

    async def close(self) -> None:
        """Leave nothing at the server."""
        self._end(TransportClosed("the checker let go"))
        waiting = [*self._later, *([self._posting] if self._posting is not None else [])]
        for task in waiting:
            task.cancel()
        await asyncio.gather(*waiting, return_exceptions=True)
        for strand in self._extra:
            await strand.close()
        with suppress(ConnectionFailed, TimeoutError, Unsure):
            if self.connection:
                self.note = lambda *_: None
                async with asyncio.timeout(REACH):
                    await self.ask("DELETE", None, self.named())
        await self._client.aclose()


def parsed(data: bytes) -> Json:
    """JSON, or None."""
    try:
        return json.loads(data)
    except (ValueError, RecursionError):
        return None


def session_of(message: Json) -> str | None:
    """The session that a call names."""
    params = message.get("params") if isinstance(message, dict) else None
    found = (params.get("sessionId") or params.get("session_id")) if isinstance(params, dict) else None
    return found if isinstance(found, str) else None


def worded(method: str, target: str, headers: Mapping[str, str], body: bytes | None) -> str:
    """A request as evidence: without what is secret, which it never has."""
    lines = [f"{method} {target.partition('?')[0]}", *(f"{name}: {value}" for name, value in headers.items())]
    return "\n".join(lines) + ("" if body is None else f"\n\n{body[:4000].decode('utf-8', 'backslashreplace')}")


def told(answer: Answer) -> str:
    """An answer as evidence."""
    shown = ("content-type", "acp-connection-id", "set-cookie")
    lines = [str(answer.status), *(f"{name}: {answer.headers[name]}" for name in shown if name in answer.headers)]
    return "\n".join(lines) + (f"\n\n{answer.body[:4000].decode('utf-8', 'backslashreplace')}" if answer.body else "")
