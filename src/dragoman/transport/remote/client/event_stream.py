"""Follow one event stream of a server across interruptions: the connection's, or that of a session.

Events with ids are resumed (Last-Event-ID). Without ids a stream that broke is the end: nobody knows what was missed.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping

from dragoman.errors import ConnectionFailed, TransportClosed, Unreachable
from dragoman.transport.remote.client.http_client import HttpResponse, read_body
from dragoman.transport.remote.client.post_answers import is_session_unknown
from dragoman.transport.remote.errors import network_error, status_error
from dragoman.transport.remote.retry import Backoff, Outage, RetryLoop
from dragoman.transport.remote.sse import EventBatch, EventParser, parse_cursor

# A server that sends keep-alives (both official ones do every 15 seconds) and is silent for this long is gone. Seconds.
SILENCE_TIMEOUT = 60.0

# A stream that ended normally is requested again; after this many in a row without an event it is over.
MAX_EMPTY_ENDS = 5

# The reason to request a stream again that ended normally.
STREAM_ENDED = "the stream ended"


class EventStream:
    """One followed stream. `opened` says whether the server has it: True, or False for an unknown session."""

    def __init__(
        self,
        name: str,
        open_stream: Callable[[Mapping[str, str]], Awaitable[HttpResponse]],
        on_batch: Callable[[EventStream, EventBatch], Awaitable[None]],
        *,
        session: str | None,
        backoff: Backoff,
        outage: Outage,
    ) -> None:
        self.session = session
        self.last_number = 0  # of the last event, where events are numbered
        self.event_arrived = asyncio.Event()  # set at every event
        self.is_numbered = False
        self._loop = asyncio.get_running_loop()
        self.opened: asyncio.Future[bool] = self._loop.create_future()
        self._name = name
        self._open_stream = open_stream
        self._on_batch = on_batch
        self._backoff = backoff
        self._outage = outage
        self._last_event_id = ""
        self._empty_ends = 0
        self._has_keepalive = False

    async def follow(self) -> None:
        """Read until the stream is over; raise ConnectionFailed when the connection is over."""
        reason = ""
        while True:
            # Servers and proxies may end streams normally at any time: that is no interruption.
            was_cut = reason not in ("", STREAM_ENDED)
            retry = RetryLoop(self._name, self._backoff, self._outage, reason, was_cut=was_cut)
            response = await retry.run(self._request_stream)
            if response is None:
                return
            if not self.opened.done():
                self.opened.set_result(True)
            reason = await self._read_events(response)

    async def _request_stream(self) -> HttpResponse | None:
        headers = {"Last-Event-ID": self._last_event_id or "0"} if self.is_numbered else {}
        response = await self._open_stream(headers)
        if response.status_code == 200 and "text/event-stream" in response.headers.get("content-type", ""):
            return response
        try:
            body = await read_body(response.status_code, response.aiter_raw())
        except Exception as broken:
            raise network_error(self._name, broken) from None
        finally:
            await response.aclose()
        if response.status_code == 200:
            raise Unreachable(f"{self._name}: the response is not an event stream; is a proxy in between?")
        error = status_error(self._name, response.status_code, response.headers, body, action="an event stream")
        if response.status_code == 409:  # the server has not noticed yet that the last stream is gone
            error.is_passing = True
        if response.status_code == 404 and self.session is not None and is_session_unknown(body):
            if not self.opened.done():
                self.opened.set_result(False)
            return None
        if response.status_code in (404, 410):
            raise TransportClosed(f"{self._name} closed the connection, or does not know it any more")
        raise error

    async def _read_events(self, response: HttpResponse) -> str:
        """Read one response to its end; return why it ended."""
        parser = EventParser()
        try:
            async with asyncio.timeout(None) as limit:
                async for data in response.aiter_raw():
                    batch = parser.feed_batch(data)
                    self._has_keepalive = self._has_keepalive or parser.comment_count > 0
                    if batch.frames:
                        limit.reschedule(None)  # delivery may have to wait for the receiver
                        await self._deliver_batch(batch)
                    if self._has_keepalive:
                        limit.reschedule(self._loop.time() + SILENCE_TIMEOUT)
        except ConnectionFailed:
            raise
        except Exception as error:
            if not self.is_numbered:
                raise TransportClosed(
                    f"{self._name}: a stream was cut ({_cut_reason(error)}), and this server cannot "
                    "resume it; load the session again"
                ) from None
            return _cut_reason(error)
        finally:
            await _close_response(response)
        self._empty_ends += 1
        if self._empty_ends > MAX_EMPTY_ENDS:
            raise TransportClosed(f"{self._name}: it ends every stream at once")
        return STREAM_ENDED

    async def _deliver_batch(self, batch: EventBatch) -> None:
        self._empty_ends = 0
        await self._on_batch(self, batch)
        if batch.last_id:  # only now: whoever waits for this number must find the events delivered
            self.is_numbered = True
            self._last_event_id = batch.last_id.decode("ascii", "replace")
            self.last_number = parse_cursor(self._last_event_id) or self.last_number
        self.event_arrived.set()


def _cut_reason(error: BaseException) -> str:
    """Return why a stream ended too early, without the texts of HTTP libraries about chunks and bodies."""
    return "silence" if isinstance(error, TimeoutError) else "the stream was cut"


async def _close_response(response: HttpResponse) -> None:
    try:
        await response.aclose()
    except Exception:  # already broken
        pass
