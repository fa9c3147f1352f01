"""A transport to an agent behind Streamable HTTP: POSTs one after the other, answers on event streams.

Handles deviations of the official servers (docs/protocol/http.md#python-sdk, docs/protocol/http.md#typescript-sdk).
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Coroutine, Mapping
from contextlib import suppress

from msgspec import UnsetType

from dragoman.dialect.peek import FramePeek, opened_session, peek_frame
from dragoman.errors import ConnectionFailed, ProtocolError, StartFailed, TransportClosed
from dragoman.transport.base import CLOSE_TIMEOUT, WRITE_STALL
from dragoman.transport.flow_control import FlowControl
from dragoman.transport.remote import headers as names
from dragoman.transport.remote.address import RemoteAddress, RemoteOptions
from dragoman.transport.remote.client import post_answers
from dragoman.transport.remote.client.dial import RemoteTransport
from dragoman.transport.remote.client.event_stream import EventStream
from dragoman.transport.remote.client.http_client import HttpAnswer, HttpResponse, build_http_client
from dragoman.transport.remote.client.post import Poster
from dragoman.transport.remote.client.ws_frames import join_lines
from dragoman.transport.remote.errors import network_error, quote_body, status_error
from dragoman.transport.remote.sse import EventBatch
from dragoman.transport.remote.streams import OPENING_METHODS
from dragoman.wire.envelope import Id

# The status for a message that is larger than the server allows.
STATUS_TOO_LARGE = 413

# How long a server may take to answer whether it has a stream. Seconds.
ANSWER_TIMEOUT = 15.0

# How long a session's stream may take to open. Seconds.
STREAM_OPEN_TIMEOUT = 10.0

# The answer to session/load comes on another stream than the history. If the server does not mark the order, the answer
# is held until the session's stream has been quiet for this long. Seconds; and the most it is held.
QUIET_PERIOD = 0.1
QUIET_TIMEOUT = 5.0

# How an update begins: nearly every frame, and it needs no further check.
_UPDATE_PREFIX = b'{"jsonrpc":"2.0","method":"session/update",'

# Requests of the agent whose sessions are kept for their answers; the oldest are dropped.
MAX_AGENT_REQUESTS = 4096


class HttpTransport(RemoteTransport):
    """A peer behind Streamable HTTP. The first frame must be initialize, which opens the connection."""

    def __init__(
        self, address: RemoteAddress, remote: RemoteOptions, report: Callable[[str], None] | None = None
    ) -> None:
        super().__init__(address, remote, report)
        self._client = build_http_client(address, remote)
        self._poster = Poster(self._client, address, remote, self._outage)
        self._queue: deque[bytes] = deque()
        self._flow_control = FlowControl(WRITE_STALL, lambda: None)
        self._post_task: asyncio.Task[None] | None = None
        self._post_count = 0
        self._connection_stream: EventStream | None = None
        self._session_streams: dict[str, EventStream] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._agent_requests: dict[Id, str] = {}  # requests of the agent: their sessions
        self._opening_requests: dict[Id, str] = {}  # our requests that open a session with a known id

    def _start_stream(self, session: str | None) -> EventStream:
        async def open_stream(headers: Mapping[str, str]) -> HttpResponse:
            try:
                async with asyncio.timeout(ANSWER_TIMEOUT):  # a stream may be silent forever, but must be answered
                    return await self._client.open_stream({**self._connection_headers(session), **headers})
            except Exception as error:  # httpx also raises errors of its parts, such as the end of a TLS stream
                raise network_error(self.peer, error) from None

        stream = EventStream(
            self.peer,
            open_stream,
            self._on_batch,
            session=session,
            backoff=self._remote.backoff,
            outage=self._outage,
        )
        stream.is_numbered = self._poster.server_deduplicates
        self._spawn(self._run_stream(stream))
        return stream

    async def _run_stream(self, stream: EventStream) -> None:
        try:
            await stream.follow()
        except ConnectionFailed as error:
            if not stream.opened.done():
                stream.opened.set_result(False)
            self._end(error)

    async def _on_batch(self, stream: EventStream, batch: EventBatch) -> None:
        if stream.session is None:
            await self._on_connection_batch(batch)
        else:
            for frame in batch.frames:
                if not frame.startswith(_UPDATE_PREFIX) and b'"id"' in frame and b'"method"' in frame:
                    self._note_agent_request(frame, stream.session)
            self._incoming.deliver(list(batch.frames))
        while self._incoming.is_full and self._end_error is None:
            self._space_available.clear()
            self._incoming.call_when_drained(self._space_available.set)
            await self._space_available.wait()

    async def _on_connection_batch(self, batch: EventBatch) -> None:
        """Handle frames of the connection's stream: answers that open sessions, and frames of no session."""
        for index, frame in enumerate(batch.frames):
            peek = self._note_agent_request(frame, None)
            if peek is not None and not peek.method and not isinstance(peek.id, UnsetType):
                session = self._opening_requests.pop(peek.id, None)
                if session is not None:
                    await self._wait_for_history(session, batch.after.get(index, b""))
                elif (session := opened_session(frame)) is not None:
                    self._session_stream(session)
            self._incoming.deliver([frame])

    def _note_agent_request(self, frame: bytes, session: str | None) -> FramePeek | None:
        """Remember the session of the agent's request, for our answer to it."""
        try:
            peek = peek_frame(frame)
        except ProtocolError:
            return None  # the engine reports it
        session = peek.session or session
        if peek.method and not isinstance(peek.id, UnsetType) and session is not None:
            self._agent_requests[peek.id] = session
            if len(self._agent_requests) > MAX_AGENT_REQUESTS:
                del self._agent_requests[next(iter(self._agent_requests))]
        return peek

    async def _wait_for_history(self, session: str, after: bytes) -> None:
        """Wait until the history of a session has arrived, before the answer that ends it is delivered."""
        stream = self._session_streams.get(session)
        if stream is None or not (stream.opened.done() and stream.opened.result()):
            if stream is None or not stream.opened.done():
                return
            self._session_streams.pop(session)  # refused before the session was opened (the official Python server)
            self._session_stream(session)
            return
        number, is_marked, _ = after.partition(b" ")
        try:
            async with asyncio.timeout(QUIET_TIMEOUT):
                if is_marked and number.isdigit():
                    while stream.last_number < int(number):
                        stream.event_arrived.clear()
                        await stream.event_arrived.wait()
                    return
                while True:  # until nothing came for QUIET_PERIOD
                    stream.event_arrived.clear()
                    async with asyncio.timeout(QUIET_PERIOD):
                        await stream.event_arrived.wait()
        except TimeoutError:
            pass

    def _session_stream(self, session: str) -> EventStream:
        """Return the stream of a session; request it if there is none yet."""
        stream = self._session_streams.get(session)
        if stream is None:
            stream = self._session_streams[session] = self._start_stream(session)
        return stream

    def send(self, data: bytes, session: str | None = None) -> None:
        """Queue one frame; frames are posted one after the other."""
        if self._end_error is not None:
            raise self._end_error.with_traceback(None)
        self._queue.append(data)
        self._flow_control.add(len(data))
        if self._post_task is None:
            self._post_task = self._loop.create_task(self._post_queue(), name=f"dragoman posts to {self.peer}")

    def congested(self) -> bool:
        """Whether so much is queued that the sender should wait."""
        return self._flow_control.congested()

    async def drain(self) -> None:
        """Wait until little is queued."""
        await self._flow_control.drain()

    def unsent(self) -> list[bytes]:
        """Return the frames that were never given to a socket, after the end."""
        return list(self._queue)[1 if self._poster.may_have_arrived else 0 :]

    async def _post_queue(self) -> None:
        try:
            while self._queue and self._end_error is None:
                data = self._queue[0]
                self._poster.may_have_arrived = False
                await self._post(data)
                self._queue.popleft()
                self._poster.may_have_arrived = False
                self._flow_control.remove(len(data))
        except ConnectionFailed as error:
            self._end(error)
        finally:
            self._post_task = None

    async def _post(self, data: bytes) -> None:
        try:
            peek = peek_frame(data)
        except ProtocolError:
            peek = FramePeek()
        if not self.connection_id:
            await self._post_initialize(data)
            return
        session = peek.session
        if session is None and not peek.method and not isinstance(peek.id, UnsetType):
            session = self._agent_requests.pop(peek.id, None)  # an answer goes to the session of its request
        if len(data) > self._max_message:
            limit = post_answers.limit_text(self._max_message)
        else:
            answer = await self._post_message(data, peek, session)
            if answer.status_code != STATUS_TOO_LARGE:
                self._process_post_answer(answer, peek)
                return
            limit = quote_body(answer.content) or "the server refuses it"
        outcome = post_answers.too_large_outcome(peek, len(data), limit)
        if outcome.answer is None:
            self._report(f"{self.peer}: {outcome.text}")
        else:
            self._opening_requests.pop(peek.id, None)  # type: ignore[arg-type]
            self._incoming.deliver([outcome.answer])
        if outcome.replacement is not None:
            self._process_post_answer(await self._post_message(outcome.replacement, peek, session), peek)

    async def _post_message(self, data: bytes, peek: FramePeek, session: str | None) -> HttpAnswer:
        """Post one message; return the server's response."""
        self._post_count += 1
        if session is not None and peek.method:
            if peek.method in OPENING_METHODS and not isinstance(peek.id, UnsetType):
                self._opening_requests[peek.id] = session
            await self._await_stream(session)
        number = {names.FRAME_NUMBER: str(self._post_count)}
        if self._connection_stream is not None and self._connection_stream.is_numbered:
            number[names.CURSOR] = str(self._connection_stream.last_number)
        answer = await self._poster.post_with_retry(data, {**number, **self._connection_headers(session)})
        if (
            answer.status_code == 404
            and peek.method in OPENING_METHODS
            and post_answers.is_session_unknown(answer.content)
        ):
            # The official Python server knows no session before its answer (docs/protocol/http.md#python-sdk): post
            # without naming it.
            answer = await self._poster.post_with_retry(data, {**number, **self._connection_headers(None)})
        return answer

    async def _post_initialize(self, data: bytes) -> None:
        """Post initialize, whose answer comes in the response and names the connection."""
        answer = await self._poster.post_initialize(data)
        self.connection_id = answer.headers.get(names.CONNECTION_ID, "")
        if answer.status_code != 200:
            raise status_error(self._address.display_url, answer.status_code, answer.headers, answer.content)
        if not self.connection_id or not post_answers.is_answer(answer.content):
            raise StartFailed(f"{self._address.display_url}: there is no ACP server at this address; check the path")
        self._poster.server_deduplicates = answer.headers.get(names.CURSOR, "").isdigit()
        self._note_max_message(answer.headers.get(names.MAX_MESSAGE, ""))
        self._connection_stream = self._start_stream(None)
        self._incoming.deliver([join_lines(answer.content)])

    def _process_post_answer(self, answer: HttpAnswer, peek: FramePeek) -> None:
        """Handle the response to a POST."""
        status, body = answer.status_code, answer.content
        if status in (200, 202, 204):
            if post_answers.is_answer(body):
                self._incoming.deliver([join_lines(body)])
            return
        error = status_error(self.peer, status, answer.headers, body, action=peek.method or "an answer")
        if status in (404, 410) and not post_answers.is_session_unknown(body):
            raise TransportClosed(f"{self.peer} closed the connection, or does not know it any more")
        if status in (401, 403):
            raise error
        if peek.method and not isinstance(peek.id, UnsetType):
            self._opening_requests.pop(peek.id, None)
            frame = (
                body
                if post_answers.is_answer_to(body, peek.id)
                else post_answers.refusal_frame(peek.id, status, str(error))
            )
            self._incoming.deliver([join_lines(frame)])
        else:
            self._report(str(error))

    async def _await_stream(self, session: str) -> None:
        """Wait until the stream of a session is open, or known not to exist yet."""
        stream = self._session_stream(session)
        if not stream.opened.done():
            try:
                async with asyncio.timeout(STREAM_OPEN_TIMEOUT):
                    await asyncio.shield(stream.opened)
            except TimeoutError:
                self._report(f"{self.peer}: the stream of session {session} does not open; going on without it")

    def _connection_headers(self, session: str | None) -> dict[str, str]:
        """Return the headers that name the connection and the session."""
        headers = {names.CONNECTION_ID: self.connection_id}
        if session is not None:
            headers[names.SESSION_ID] = session.encode("utf-8").decode("latin-1")
        return headers

    def _spawn(self, work: Coroutine[None, None, None]) -> None:
        task = self._loop.create_task(work, name=f"dragoman follows {self.peer}")
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    def _end(self, error: ConnectionFailed) -> None:
        super()._end(error)
        self._flow_control.fail(self._end_error or error)

    async def _release(self, error: ConnectionFailed, reason: str) -> None:
        """Post what is queued, then close the connection at the server."""
        is_over = self._end_error is not None
        post_task = self._post_task
        try:
            async with asyncio.timeout(CLOSE_TIMEOUT):
                if post_task is not None and not is_over:
                    await self._flow_control.wait_empty()
                self._end(error)
                if self.connection_id and not is_over:
                    await self._client.delete(self._connection_headers(None))
        except Exception:  # the server will notice by itself
            pass
        finally:
            self._end(error)
            tasks = [*self._tasks, *([post_task] if post_task is not None else [])]
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            with suppress(Exception):  # sockets whose other end is gone
                await self._client.aclose()
