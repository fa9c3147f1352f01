"""One event stream of a server, followed across its interruptions: the connection's, or that of a session.

Takes a way to ask for the stream and gives events, in order, to a callback. Where events have ids it goes on after the
last one (Last-Event-ID); where they have none, a stream that broke in the middle is the end, for nobody can say what
was missed. Below is httpx; above is the transport (http.py), which knows what the events mean.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from typing import TYPE_CHECKING

from dragoman.errors import ConnectionFailed, TransportClosed, Unreachable
from dragoman.transport.remote.client.post_answers import is_about_session
from dragoman.transport.remote.errors import failed, refused
from dragoman.transport.remote.retry import Outage, Patience, Retrying
from dragoman.transport.remote.sse import Batch, Parser, cursor

if TYPE_CHECKING:
    import httpx

# A server that sends keep-alives (both official ones do every 15 seconds) and is silent for so long is gone. Seconds.
SILENCE = 60.0

# A stream that ended in good order is asked for again; more often than this in a row without an event it is over.
EMPTY_ENDS = 5

# Why a stream is asked for again that ended in good order.
ENDED = "the stream ended"


class Feed:
    """A stream being followed. `opened` says whether the server has it: True, or False for an unknown session."""

    def __init__(
        self,
        name: str,
        open_stream: Callable[[Mapping[str, str]], Awaitable[httpx.Response]],
        take: Callable[[Feed, Batch], Awaitable[None]],
        *,
        session: str | None,
        patience: Patience,
        outage: Outage,
        max_frame: int,
    ) -> None:
        self.session = session
        self.number = 0  # of the last event, where events are numbered
        self.moved = 0.0  # when the last event came
        self.news = asyncio.Event()  # set at every event
        self.is_numbered = False
        self._loop = asyncio.get_running_loop()
        self.opened: asyncio.Future[bool] = self._loop.create_future()
        self._name = name
        self._open = open_stream
        self._take = take
        self._patience = patience
        self._outage = outage
        self._max_frame = max_frame
        self._last = ""
        self._empty = 0
        self._keeps_alive = False

    async def follow(self) -> None:
        """Read until there is nothing more to read; raises ConnectionFailed when the connection is over."""
        reason = ""
        while True:
            # Servers and proxies end streams in good order as they like: that is no cut.
            was_cut = reason not in ("", ENDED)
            retrying = Retrying(self._name, self._patience, self._outage, reason, was_cut=was_cut)
            response = await retrying.run(self._ask)
            if response is None:
                return
            if not self.opened.done():
                self.opened.set_result(True)
            reason = await self._read(response)

    async def _ask(self) -> httpx.Response | None:
        headers = {"Last-Event-ID": self._last or "0"} if self.is_numbered else {}
        response = await self._open(headers)
        if response.status_code == 200 and "text/event-stream" in response.headers.get("content-type", ""):
            return response
        try:
            body = await response.aread()
        except Exception as broken:
            raise failed(self._name, broken) from None
        finally:
            await response.aclose()
        if response.status_code == 200:
            raise Unreachable(f"{self._name}: what answers there is no event stream; is a proxy in the way?")
        error = refused(self._name, response.status_code, response.headers, body, doing="an event stream")
        if response.status_code == 409:  # the server has not noticed yet that the last one is gone
            error.is_passing = True
        if response.status_code == 404 and self.session is not None and is_about_session(body):
            if not self.opened.done():
                self.opened.set_result(False)
            return None
        if response.status_code in (404, 410):
            raise TransportClosed(f"{self._name} closed the connection, or does not know it any more")
        raise error

    async def _read(self, response: httpx.Response) -> str:
        """Read one answer to its end; gives why it ended."""
        parser = Parser(self._max_frame)
        try:
            async with asyncio.timeout(None) as limit:
                async for data in response.aiter_raw():
                    batch = parser.take(data)
                    self._keeps_alive = self._keeps_alive or parser.comments > 0
                    if batch.frames:
                        limit.reschedule(None)  # taking them may have to wait for whoever receives
                        await self._pass_on(batch)
                    if self._keeps_alive:
                        limit.reschedule(self._loop.time() + SILENCE)
        except ConnectionFailed:
            raise
        except Exception as error:
            if not self.is_numbered:
                raise TransportClosed(
                    f"{self._name}: a stream was cut ({_why(error)}), and this server cannot say what was missed; "
                    "load the session again"
                ) from None
            return _why(error)
        finally:
            await _let_go(response)
        self._empty += 1
        if self._empty > EMPTY_ENDS:
            raise TransportClosed(f"{self._name}: it ends every stream at once")
        return ENDED

    async def _pass_on(self, batch: Batch) -> None:
        self._empty = 0
        await self._take(self, batch)
        if batch.last:  # only now: whoever waits for this number must find the events delivered
            self.is_numbered = True
            self._last = batch.last.decode("ascii", "replace")
            self.number = cursor(self._last) or self.number
        self.moved = self._loop.time()
        self.news.set()


def _why(error: BaseException) -> str:
    """Why a stream ended too early; the words of HTTP libraries about chunks and bodies are no help to anybody."""
    return "silence" if isinstance(error, TimeoutError) else "the stream was cut"


async def _let_go(response: httpx.Response) -> None:
    try:
        await response.aclose()
    except Exception:  # what is broken already
        pass
