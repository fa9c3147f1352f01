"""A remote agent behind Streamable HTTP, as a transport: POSTs one after the other, answers on event streams.

Takes an Address, gives the Transport contract (reference 3.2). Every POST names its session where it has one; a session
gets a stream as soon as it is known. Where the official servers deviate (reference 3.3, 3.4) it is absorbed here. Above
is the engine or roles/client/reconnect/transport.py; below are feed.py and httpx.
"""

from __future__ import annotations

import asyncio
import sys
from collections import deque
from collections.abc import Callable, Coroutine, Mapping
from contextlib import suppress

import httpx
from msgspec import UnsetType

from dragoman.errors import ConnectionFailed, ProtocolError, StartFailed, TransportClosed
from dragoman.transport.base import CLOSE_PATIENCE, WRITE_STALL, Take
from dragoman.transport.flow_control import Gate
from dragoman.transport.inlet import Inlet
from dragoman.transport.remote import headers as names
from dragoman.transport.remote.address import Address, Remote
from dragoman.transport.remote.client import post_answers
from dragoman.transport.remote.client.event_stream import Feed
from dragoman.transport.remote.client.post import Postman, http_client
from dragoman.transport.remote.client.ws_frames import on_one_line
from dragoman.transport.remote.errors import failed, quoted, refused
from dragoman.transport.remote.retry import Outage
from dragoman.transport.remote.sse import Batch
from dragoman.transport.remote.streams import OPENING, Gist, gist
from dragoman.wire.envelope import Id
from dragoman.wire.frames import MAX_FRAME, Frame

# The status of a message that is larger than the server takes.
TOO_LARGE = 413

# A server has said by then whether it has a stream. Seconds.
ANSWER_PATIENCE = 15.0

# A session's stream is there by then, or something is wrong that its message will tell. Seconds.
STREAM_PATIENCE = 10.0

# The answer to session/load comes by another stream than the history. From a server that does not say what comes first
# it is held until the session's stream has been quiet for this long; seconds, and at most for so many.
QUIET = 0.1
QUIET_AT_MOST = 5.0

# How an update begins, which is nearly all that ever comes; it needs no closer look.
_UPDATE = b'{"jsonrpc":"2.0","method":"session/update",'

# Requests of the agent whose sessions are remembered for their answers; the oldest are forgotten.
REMEMBERED = 4096


class HttpTransport:
    """A peer behind Streamable HTTP. The first frame must be initialize: with it the connection begins."""

    def __init__(
        self,
        address: Address,
        remote: Remote,
        *,
        report: Callable[[str], None] | None = None,
        stall: float = WRITE_STALL,
        max_frame: int = MAX_FRAME,
    ) -> None:
        self.peer = f"agent {address.shown}"
        self.connection_id = ""
        self._address = address
        self._patience = remote.patience
        self._say = report or (lambda _: None)
        self._outage = Outage(self._say)
        self._max_frame = max_frame
        self._loop = asyncio.get_running_loop()
        self._client = http_client(address, remote)
        self._postman = Postman(self._client, address, remote, self._outage)
        self._inlet = Inlet()
        self._room = asyncio.Event()
        self._queue: deque[bytes] = deque()
        self._gate = Gate(stall, lambda: None)
        self._posting: asyncio.Task[None] | None = None
        self._posted = 0
        self._largest = sys.maxsize  # bytes of a message that the server takes, where it says so
        self._main: Feed | None = None
        self._feeds: dict[str, Feed] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._asked: dict[Id, str] = {}  # requests of the agent: their sessions
        self._opening: dict[Id, str] = {}  # our requests that open a session that has a name already
        self._ended: ConnectionFailed | None = None
        self._closing: asyncio.Future[None] | None = None

    # --- reading ----------------------------------------------------------------------------------------------

    async def receive(self) -> list[Frame]:
        """The next frames of any stream; raises why there are no more after the last one."""
        return await self._inlet.receive()

    def listen(self, take: Take) -> None:
        """Offer what one read of a stream brought to `take`, while nothing older waits."""
        self._inlet.listen(take)

    def _follow(self, session: str | None) -> Feed:
        async def open_stream(headers: Mapping[str, str]) -> httpx.Response:
            asked = {"Accept": "text/event-stream", "Accept-Encoding": "identity", **self._named(session), **headers}
            request = self._client.build_request("GET", self._address.url, headers=asked)
            request.extensions["timeout"] = {**request.extensions["timeout"], "read": None}
            try:
                async with asyncio.timeout(ANSWER_PATIENCE):  # a stream may be silent for ever, but not unanswered
                    return await self._client.send(request, stream=True)
            except Exception as error:  # httpx also lets through what its parts raise, such as the end of a TLS stream
                raise failed(self.peer, error) from None

        feed = Feed(
            self.peer,
            open_stream,
            self._arrived,
            session=session,
            patience=self._patience,
            outage=self._outage,
            max_frame=self._max_frame,
        )
        feed.is_numbered = self._postman.counts
        self._spawn(self._attend(feed))
        return feed

    async def _attend(self, feed: Feed) -> None:
        try:
            await feed.follow()
        except ConnectionFailed as error:
            if not feed.opened.done():
                feed.opened.set_result(False)
            self._end(error)

    async def _arrived(self, feed: Feed, batch: Batch) -> None:
        if feed.session is None:
            await self._arrived_beside(batch)
        else:
            for frame in batch.frames:
                if not frame.startswith(_UPDATE) and b'"id"' in frame and b'"method"' in frame:
                    self._heed(frame, feed.session)
            self._inlet.deliver(list(batch.frames))
        while self._inlet.is_full and self._ended is None:
            self._room.clear()
            self._inlet.when_room(self._room.set)
            await self._room.wait()

    async def _arrived_beside(self, batch: Batch) -> None:
        """Frames of the connection's stream: answers that open sessions, and what belongs to none."""
        for place, frame in enumerate(batch.frames):
            said = self._heed(frame, None)
            if said is not None and not said.method and not isinstance(said.id, UnsetType):
                session = self._opening.pop(said.id, None)
                if session is not None:
                    await self._settle(session, batch.after.get(place, b""))
                elif (opened := post_answers.opened(frame)) is not None:
                    self._stream(opened)
            self._inlet.deliver([frame])

    def _heed(self, frame: bytes, session: str | None) -> Gist | None:
        """Remember the session of the agent's request, for our answer to it."""
        try:
            said = gist(frame)
        except ProtocolError:
            return None  # not ours to judge: the engine will
        session = said.session or session
        if said.method and not isinstance(said.id, UnsetType) and session is not None:
            self._asked[said.id] = session
            if len(self._asked) > REMEMBERED:
                del self._asked[next(iter(self._asked))]
        return said

    async def _settle(self, session: str, after: bytes) -> None:
        """Let the history of a session arrive before the answer that ends it, which came by another stream."""
        feed = self._feeds.get(session)
        if feed is None or not (feed.opened.done() and feed.opened.result()):
            if feed is None or not feed.opened.done():
                return
            self._feeds.pop(session)  # refused before the session was opened (the official Python server)
            self._stream(session)
            return
        number, is_told, _ = after.partition(b" ")
        try:
            async with asyncio.timeout(QUIET_AT_MOST):
                if is_told and number.isdigit():
                    while feed.number < int(number):
                        feed.news.clear()
                        await feed.news.wait()
                    return
                while True:  # until nothing came for a while
                    feed.news.clear()
                    async with asyncio.timeout(QUIET):
                        await feed.news.wait()
        except TimeoutError:
            pass

    def _stream(self, session: str) -> Feed:
        """The stream of a session, asked for if it is not yet."""
        feed = self._feeds.get(session)
        if feed is None:
            feed = self._feeds[session] = self._follow(session)
        return feed

    # --- writing ----------------------------------------------------------------------------------------------

    def send(self, data: bytes, session: str | None = None) -> None:
        """Queue one frame; they are posted one after the other."""
        if self._ended is not None:
            raise self._ended.with_traceback(None)
        self._queue.append(data)
        self._gate.add(len(data))
        if self._posting is None:
            self._posting = self._loop.create_task(self._post_all(), name=f"dragoman posts to {self.peer}")

    def congested(self) -> bool:
        """Whether so much waits to be posted that the sender should wait."""
        return self._gate.congested()

    async def drain(self) -> None:
        """Wait until little is left to post."""
        await self._gate.drain()

    def unsent(self) -> list[bytes]:
        """After the end: the frames that no socket has ever been given."""
        return list(self._queue)[1 if self._postman.has_left else 0 :]

    async def _post_all(self) -> None:
        try:
            while self._queue and self._ended is None:
                data = self._queue[0]
                self._postman.has_left = False
                await self._post(data)
                self._queue.popleft()
                self._postman.has_left = False
                self._gate.took(len(data))
        except ConnectionFailed as error:
            self._end(error)
        finally:
            self._posting = None

    async def _post(self, data: bytes) -> None:
        try:
            said = gist(data)
        except ProtocolError:
            said = Gist()
        if not self.connection_id:
            await self._introduce(data)
            return
        session = said.session
        if session is None and not said.method and not isinstance(said.id, UnsetType):
            session = self._asked.pop(said.id, None)  # an answer goes where the question came from
        if len(data) > self._largest:
            limit = post_answers.at_most(self._largest)
        else:
            answer = await self._put(data, said, session)
            if answer.status_code != TOO_LARGE:
                self._judge(answer, said)
                return
            limit = quoted(answer.content) or "the server does not take it"
        outsized = post_answers.outsized(said, len(data), limit)
        if outsized.told is None:
            self._say(f"{self.peer}: {outsized.words}")
        else:
            self._opening.pop(said.id, None)  # type: ignore[arg-type]
            self._inlet.deliver([outsized.told])
        if outsized.sent is not None:
            self._judge(await self._put(outsized.sent, said, session), said)

    async def _put(self, data: bytes, said: Gist, session: str | None) -> httpx.Response:
        """Post one message; gives what the server says to it."""
        self._posted += 1
        if session is not None and said.method:
            if said.method in OPENING and not isinstance(said.id, UnsetType):
                self._opening[said.id] = session
            await self._await_stream(session)
        number = {names.FRAME: str(self._posted)}
        if self._main is not None and self._main.is_numbered:
            number[names.CURSOR] = str(self._main.number)
        answer = await self._postman.deliver(data, {**number, **self._named(session)})
        if answer.status_code == 404 and said.method in OPENING and post_answers.is_about_session(answer.content):
            # The official Python server knows no session before its answer (reference 3.3): ask without naming it.
            answer = await self._postman.deliver(data, {**number, **self._named(None)})
        return answer

    async def _introduce(self, data: bytes) -> None:
        """The first message: its answer comes at once, and names the connection."""
        answer = await self._postman.introduce(data)
        self.connection_id = answer.headers.get(names.CONNECTION, "")
        if answer.status_code != 200:
            raise refused(self._address.shown, answer.status_code, answer.headers, answer.content)
        if not self.connection_id or not post_answers.is_answer(answer.content):
            raise StartFailed(f"{self._address.shown}: what answers there is no ACP server; check the path")
        self._postman.counts = answer.headers.get(names.CURSOR, "").isdigit()
        largest = answer.headers.get(names.LARGEST, "")
        self._largest = int(largest) if largest.isdigit() else sys.maxsize
        self._main = self._follow(None)
        self._inlet.deliver([on_one_line(answer.content)])

    def _judge(self, answer: httpx.Response, said: Gist) -> None:
        """What the answer to a POST means."""
        status, body = answer.status_code, answer.content
        if status in (200, 202, 204):
            if post_answers.is_answer(body):
                self._inlet.deliver([on_one_line(body)])
            return
        error = refused(self.peer, status, answer.headers, body, doing=said.method or "an answer")
        if status in (404, 410) and not post_answers.is_about_session(body):
            raise TransportClosed(f"{self.peer} closed the connection, or does not know it any more")
        if status in (401, 403):
            raise error
        if said.method and not isinstance(said.id, UnsetType):
            self._opening.pop(said.id, None)
            told = body if post_answers.answers(body, said.id) else post_answers.refusal(said.id, status, str(error))
            self._inlet.deliver([on_one_line(told)])
        else:
            self._say(str(error))

    async def _await_stream(self, session: str) -> None:
        """The stream of a session is open before anything is said in it, or known not to be there yet."""
        feed = self._stream(session)
        if not feed.opened.done():
            try:
                async with asyncio.timeout(STREAM_PATIENCE):
                    await asyncio.shield(feed.opened)
            except TimeoutError:
                self._say(f"{self.peer}: the stream of session {session} does not open; going on without it")

    def _named(self, session: str | None) -> dict[str, str]:
        """The headers that say which connection and which session."""
        headers = {names.CONNECTION: self.connection_id}
        if session is not None:
            headers[names.SESSION] = session.encode("utf-8").decode("latin-1")
        return headers

    # --- ending -----------------------------------------------------------------------------------------------

    def _spawn(self, work: Coroutine[None, None, None]) -> None:
        task = self._loop.create_task(work, name=f"dragoman follows {self.peer}")
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    def _end(self, error: ConnectionFailed) -> None:
        if self._ended is None:
            self._ended = error
        self._inlet.end(self._ended)
        self._gate.fail(self._ended)
        self._room.set()

    async def close(self, reason: str = "") -> None:
        """Post what is queued within a bounded time, end the connection at the server, and let go."""
        if self._closing is not None:
            await asyncio.shield(self._closing)
            return
        self._closing = self._loop.create_future()
        because = f": {reason}" if reason else ""
        closed = TransportClosed(f"the connection to {self.peer} was closed{because}")
        is_over = self._ended is not None
        posting = self._posting
        try:
            async with asyncio.timeout(CLOSE_PATIENCE):
                if posting is not None and not is_over:
                    await self._gate.empty()
                self._end(closed)
                if self.connection_id and not is_over:
                    await self._client.delete(self._address.url, headers=self._named(None))
        except Exception:  # who cannot be told goodbye finds out
            pass
        finally:
            self._end(closed)
            tasks = [*self._tasks, *([posting] if posting is not None else [])]
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            with suppress(Exception):  # of sockets whose other end is gone
                await self._client.aclose()
            self._closing.set_result(None)
