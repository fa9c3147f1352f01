"""A remote agent behind a WebSocket, as a transport: one connection that may outlive its sockets.

Takes an Address, gives the Transport contract. With a server that can resume, every frame is kept until it is
acknowledged; a socket that is cut is opened again, both sides say how far they came, and nothing is lost or doubled.
With any other server the socket is the connection. Above is the engine or roles/client/reconnect; below ws_socket.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable

from dragoman.errors import ConnectionFailed, ProtocolError, TransportClosed, Unreachable
from dragoman.transport.base import CLOSE_PATIENCE, HIGH_WATER, WRITE_STALL, Take
from dragoman.transport.inlet import Inlet
from dragoman.transport.remote import headers as names
from dragoman.transport.remote.address import Address, Remote
from dragoman.transport.remote.client import post_answers
from dragoman.transport.remote.client.ws_socket import Link, open_link
from dragoman.transport.remote.errors import Farewell
from dragoman.transport.remote.resume import ACK_BYTES, ACK_DELAY, ACK_FRAMES, Gone, Spool, read_ack, say_ack
from dragoman.transport.remote.retry import Outage, Retrying
from dragoman.transport.remote.streams import Gist, gist
from dragoman.wire.frames import MAX_FRAME, Frame

# Our own frames that the server has not acknowledged: beyond this it is not keeping up, and senders wait.
MOST_KEPT = 16 * 1024 * 1024

# Smaller messages are too large for nobody, and are not looked at. Bytes.
NOTED = 32 * 1024

# A large message at which the connection was cut so often in a row is too large for somebody on the way who hangs up
# without a word; without an end it would be sent for ever.
CUTS = 8

# How an acknowledgement begins: a glance at each frame must do.
_ACK = say_ack(0).partition(b',"params"')[0]

# Close codes after which a server that can resume is dialled again: no farewell, it restarts, it is busy, we were slow.
_COMES_BACK = frozenset({1001, 1005, 1006, 1011, 1012, 1013, 1014, names.SLOW})


class WebSocketTransport:
    """A peer behind a WebSocket; make it with `dial`."""

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
        self._address = address
        self._remote = remote
        self._say = report or (lambda _: None)
        self._outage = Outage(self._say)
        self._stall = stall
        self._max_frame = max_frame
        self._loop = asyncio.get_running_loop()
        self._link: Link | None = None
        self._cookies: dict[str, str] = {}
        self._resuming: asyncio.Task[None] | None = None
        self._ended: ConnectionFailed | None = None
        self._closing: asyncio.Future[None] | None = None

        self._inlet = Inlet()
        self._drainers: list[asyncio.Future[None]] = []

        self.connection_id = ""  # what the server calls this connection; "" when it does not say
        self.is_resumable = False
        self._received = 0  # frames of the server
        self._acked = 0  # of them acknowledged
        self._since_ack = 0  # bytes
        self._ack_timer: asyncio.TimerHandle | None = None
        self._spool = Spool(None)  # our frames, until they are acknowledged
        self._largest = sys.maxsize  # bytes of a message that the server takes, where it says so
        self._stuck = (0, 0)  # how many messages the server had after the last cut, and how often it has been as many
        self._heaviest = (NOTED, Gist())  # the largest message that went to a server which cannot resume

    # --- dialling ---------------------------------------------------------------------------------------------

    async def dial(self) -> None:
        """Open the first socket. Raises Unreachable."""
        link, said = await self._open([(names.RESUME, "1")])
        self.connection_id = _only(said, names.CONNECTION)
        self.is_resumable = bool(self.connection_id) and _only(said, names.CURSOR).isdigit()
        self._use(link)

    async def _open(self, headers: list[tuple[str, str]]) -> tuple[Link, dict[str, list[str]]]:
        if self._cookies:  # a balancer keeps us with one server by them (reference 3.2)
            headers = [*headers, ("Cookie", "; ".join(f"{name}={value}" for name, value in self._cookies.items()))]
        link, said = await open_link(
            self._address,
            headers,
            self._arrived,
            self._lost,
            tls=self._remote.tls,
            max_frame=self._max_frame,
            stall=self._stall,
        )
        for line in said.get("set-cookie", ()):
            name, is_there, value = line.partition(";")[0].partition("=")
            if is_there:
                self._cookies[name.strip()] = value.strip()
        largest = _only(said, names.LARGEST)
        self._largest = int(largest) if largest.isdigit() else sys.maxsize
        return link, said

    def _use(self, link: Link) -> None:
        self._link = link
        link.on_room = self._wake_drainers
        link.start()

    # --- reading ----------------------------------------------------------------------------------------------

    async def receive(self) -> list[Frame]:
        """The next frames; raises why there are no more after the last one."""
        return await self._inlet.receive()

    def listen(self, take: Take) -> None:
        """Offer what one read of the socket brought to `take`, while nothing older waits."""
        self._inlet.listen(take)

    def _arrived(self, frames: list[Frame], size: int) -> None:
        if self.is_resumable:
            frames = self._count(frames, size)
            if not frames:
                return
        inlet = self._inlet
        inlet.deliver(frames)
        if inlet.is_full:
            self._wait_for_room()

    def _wait_for_room(self) -> None:
        link = self._link
        if link is not None:  # the producer must feel it when nobody takes what there is
            link.pause()
            self._inlet.when_room(link.go_on)

    def _count(self, frames: list[Frame], size: int) -> list[Frame]:
        """Number the frames, take the acknowledgements out of them, and acknowledge in time."""
        cursors = [read_ack(frame) for frame in frames if type(frame) is bytes and frame.startswith(_ACK)]
        if cursors:
            self._spool.acknowledge(max(cursor or 0 for cursor in cursors))
            self._wake_drainers()
            frames = [frame for frame in frames if read_ack(frame) is None]
        self._received += len(frames)
        self._since_ack += size
        if self._received - self._acked >= ACK_FRAMES or self._since_ack >= ACK_BYTES:
            self._acknowledge()
        elif frames and self._ack_timer is None:
            self._ack_timer = self._loop.call_later(ACK_DELAY, self._acknowledge)
        return frames

    def _acknowledge(self) -> None:
        if self._ack_timer is not None:
            self._ack_timer.cancel()
            self._ack_timer = None
        if self._link is not None and self._received > self._acked:
            self._acked, self._since_ack = self._received, 0
            self._link.send(say_ack(self._received))

    # --- writing ----------------------------------------------------------------------------------------------

    def send(self, data: bytes, session: str | None = None) -> None:
        """Send one frame; without a socket it waits for the next one."""
        if self._ended is not None:
            raise self._ended.with_traceback(None)
        size = len(data)
        if size > self._largest:
            outsized = post_answers.outsized(_gist(data), size, post_answers.at_most(self._largest))
            self._tell(outsized)
            if outsized.sent is None:
                return
            data = outsized.sent
        elif size >= self._heaviest[0] and not self.is_resumable:
            self._heaviest = (size, _gist(data))
        if self.is_resumable:
            self._spool.add(data)
            if self._link is not None:
                self._spool.take()
        if self._link is not None:
            self._link.send(data)

    def congested(self) -> bool:
        """Whether the socket is full, or too much waits for one."""
        if self._link is None:
            return self._spool.size > HIGH_WATER
        return self._link.is_full or self._spool.size > MOST_KEPT

    async def drain(self) -> None:
        """Wait for room."""
        while self._ended is None and self.congested():
            waiter: asyncio.Future[None] = self._loop.create_future()
            self._drainers.append(waiter)
            try:
                await waiter
            finally:
                if waiter in self._drainers:
                    self._drainers.remove(waiter)
        if self._ended is not None:
            raise self._ended.with_traceback(None)

    def _wake_drainers(self) -> None:
        for waiter in self._drainers:
            if not waiter.done():
                waiter.set_result(None)

    def unsent(self) -> list[bytes]:
        """After the end: the frames that no socket has ever been given."""
        return [] if self._link is not None else self._spool.take()

    # --- resuming ---------------------------------------------------------------------------------------------

    def _lost(self, link: Link, code: int, reason: str) -> None:
        """The socket is gone; go on with another one, or say that this was it."""
        if link is not self._link or self._ended is not None:
            return
        self._link = None
        said = f": {reason}" if reason else ""
        if code == names.TOO_LARGE and self.is_resumable:
            self._resuming = self._loop.create_task(self._resume(reason, True), name=f"dragoman resumes {self.peer}")
            return
        if code == names.TOO_LARGE and self._heaviest[0] > NOTED:
            size, about = self._heaviest
            self._tell(post_answers.outsized(about, size, f"the server closed the connection{said}"), now=True)
        if not self.is_resumable or code not in _COMES_BACK:
            farewell = "closed the connection" if code != 1006 else "is gone"
            number = "" if code in (1000, 1001, 1005, 1006) else f" (WebSocket {code})"
            kind = Farewell if code == 1000 else TransportClosed
            self._end(kind(f"{self.peer} {farewell}{number}{said}"))
            return
        self._resuming = self._loop.create_task(self._resume(reason), name=f"dragoman resumes {self.peer}")

    def _tell(self, outsized: post_answers.Outsized, now: bool = False) -> None:
        """A message was too large: its sender is answered, or where nobody waits for an answer it is said."""
        if outsized.told is None:
            self._say(f"{self.peer}: {outsized.words}")
            return
        told: list[Frame] = [outsized.told]
        if now:
            self._inlet.deliver(told)
        else:  # not while it is being sent: nobody waits for the answer yet
            self._loop.call_soon(self._inlet.deliver, told)

    async def _resume(self, reason: str, is_outsized: bool = False) -> None:
        retrying = Retrying(self.peer, self._remote.patience, self._outage, reason, was_cut=not is_outsized)
        try:
            link, said = await retrying.run(self._reopen)
        except ConnectionFailed as error:
            self._end(TransportClosed(str(error)) if _is_gone(error) else error)
            return
        cursor = int(_only(said, names.CURSOR))
        try:
            self._spool.rewind(cursor)
        except Gone as error:
            link.abort()
            self._end(TransportClosed(f"{self.peer} lost count of what it was told: {error}"))
            return
        first = self._spool.first()  # what the server did not take
        self._stuck = (cursor, self._stuck[1] + 1 if self._stuck[0] == cursor and len(first) > NOTED else 0)
        if first and (is_outsized or self._stuck[1] >= CUTS):
            why = f"the connection was cut {CUTS} times while it was sent"
            if is_outsized:
                why = f"on the way it was said: {reason or 'too large'}"
            outsized = post_answers.outsized(_gist(first), len(first), why)
            self._spool.swap(outsized.sent or post_answers.NOTHING)
            self._tell(outsized)
        for frame in self._spool.take():
            link.send(frame)
        self._use(link)
        if self._inlet.is_full:
            self._wait_for_room()
        self._wake_drainers()

    async def _reopen(self) -> tuple[Link, dict[str, list[str]]]:
        cursor = str(self._received)
        link, said = await self._open([(names.CONNECTION, self.connection_id), (names.CURSOR, cursor)])
        if _only(said, names.CONNECTION) != self.connection_id or not _only(said, names.CURSOR).isdigit():
            link.abort()
            raise Unreachable(f"{self.peer} does not know this connection any more", status=404)
        return link, said

    # --- ending -----------------------------------------------------------------------------------------------

    def _end(self, error: ConnectionFailed) -> None:
        if self._ended is None:
            self._ended = error
        if self._ack_timer is not None:
            self._ack_timer.cancel()
            self._ack_timer = None
        self._inlet.end(self._ended)
        self._wake_drainers()

    async def close(self, reason: str = "") -> None:
        """Say goodbye and let go; the server then frees the connection."""
        if self._closing is not None:
            await asyncio.shield(self._closing)
            return
        self._closing = self._loop.create_future()
        because = f": {reason}" if reason else ""
        link, self._link = self._link, None
        self._end(TransportClosed(f"the connection to {self.peer} was closed{because}"))
        try:
            if self._resuming is not None:
                self._resuming.cancel()
                await asyncio.gather(self._resuming, return_exceptions=True)
            if link is not None:
                await link.close(1000, reason, CLOSE_PATIENCE)
        finally:
            if link is not None:
                link.abort()
            self._closing.set_result(None)


def _only(said: dict[str, list[str]], name: str) -> str:
    return said.get(name.lower(), [""])[-1]


def _gist(frame: bytes) -> Gist:
    try:
        return gist(frame)
    except ProtocolError:
        return Gist()


def _is_gone(error: ConnectionFailed) -> bool:
    """Whether the server answered that it has no such connection."""
    return isinstance(error, Unreachable) and error.status in (404, 410)
