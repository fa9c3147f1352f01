"""One WebSocket to a server: dialled, upgraded, and then nothing but messages in and out.

Takes an Address and headers; gives frames to a callback, several at once, straight from the loop's read. The handshake
is that of `websockets`; reading is our own (messages.py). It does not know what comes after it: when the socket is lost
it says so once, and whoever holds it decides (websocket.py).
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import cast

from websockets.frames import Frame as SocketFrame
from websockets.frames import Opcode

from dragoman.errors import Unreachable
from dragoman.transport.base import COALESCE, HIGH_WATER, LOW_WATER
from dragoman.transport.remote.address import TLS, Address, trust
from dragoman.transport.remote.client.ws_frames import CLOSE, PING, Broken, Cutter
from dragoman.transport.remote.client.ws_handshake import Handshake
from dragoman.transport.remote.errors import failed
from dragoman.wire.frames import Frame

# A server on the other side of the world, with a slow name lookup and TLS, has answered by then. Seconds.
OPEN_PATIENCE = 30.0

# A quiet socket is asked for a sign of life so often, and given up when none comes: routers forget idle connections
# after minutes, and a laptop that slept must notice soon. Seconds.
PING_EVERY = 20.0
PONG_WITHIN = 20.0

Lost = Callable[["Link", int, str], None]  # close code (1006: none came) and reason


class Link(asyncio.Protocol):
    """A WebSocket; `opened` has the headers of the 101 when it is open."""

    def __init__(
        self,
        handshake: Handshake,
        take: Callable[[list[Frame], int], None],
        lost: Lost,
        *,
        max_frame: int,
        stall: float,
    ) -> None:
        self._handshake: Handshake | None = handshake
        self._request = handshake.request
        self._name = handshake.name
        self._early: bytes | None = b""  # what came before anybody said `start`
        self._take = take
        self._lost: Lost | None = lost
        self._cutter = Cutter(max_frame)
        self._loop = asyncio.get_running_loop()
        self.opened: asyncio.Future[dict[str, list[str]]] = self._loop.create_future()
        self.gone: asyncio.Future[None] = self._loop.create_future()
        self.is_full = False
        self.on_room: Callable[[], None] | None = None
        self._stall = stall
        self._stalled: asyncio.TimerHandle | None = None
        self._transport: asyncio.Transport | None = None
        self._fresh: list[bytes] = []
        self._fresh_size = 0
        self._in_pass = False
        self._heard = True
        self._asked = False
        self._paused = False
        self._closing: tuple[int, str] | None = None
        self._beat: asyncio.TimerHandle | None = None

    # --- reading ----------------------------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Ask for the upgrade."""
        self._transport = cast(asyncio.Transport, transport)
        self._transport.set_write_buffer_limits(high=HIGH_WATER, low=LOW_WATER)
        self._transport.write(self._request)

    def data_received(self, data: bytes) -> None:
        """Give the messages that these bytes complete."""
        self._heard = True
        if self._early is not None:
            self._early += data if self._handshake is None else self._shake(data)
            return
        try:
            frames = self._cutter.feed(data)
        except Broken as error:
            self._send_close(error.code, str(error))
            self._lose(error.code, f"it does not speak WebSocket properly: {error}")
            return
        if frames and self._lost is not None:
            self._take(frames, len(data))
        if self._cutter.controls:
            self._control()

    def start(self) -> None:
        """Whoever opened this is ready: give what came meanwhile."""
        early, self._early = self._early, None
        if early:
            self.data_received(early)
        if self.gone.done():
            self._lose(1006, "the socket was cut")

    def _shake(self, data: bytes) -> bytes:
        """Take the answer to the upgrade; give what stands behind it."""
        assert self._handshake is not None
        try:
            answer = self._handshake.feed(data)
        except Unreachable as error:
            self._fail(error)
            return b""
        if answer is None:
            return b""
        self._handshake = None
        self._beat = self._loop.call_later(PING_EVERY, self._listen_for_life)
        if not self.opened.done():
            self.opened.set_result(answer[0])
        return answer[1]

    def _control(self) -> None:
        controls, self._cutter.controls = self._cutter.controls, []
        for opcode, payload in controls:
            if opcode == PING:
                self._write(SocketFrame(Opcode.PONG, payload).serialize(mask=True))
            elif opcode == CLOSE:
                code = int.from_bytes(payload[:2], "big") if len(payload) >= 2 else 1005
                reason = payload[2:].decode("utf-8", "replace")
                if self._closing is None:
                    self._send_close(code if code != 1005 else 1000, "")
                self._lose(code, reason)

    def pause(self) -> None:
        """Read no more: the one above has not taken what there is."""
        if not self._paused and self._transport is not None:
            self._paused = True
            self._transport.pause_reading()

    def go_on(self) -> None:
        """Read on."""
        if self._paused and self._transport is not None:
            self._paused = False
            self._heard = True
            self._transport.resume_reading()

    # --- writing ----------------------------------------------------------------------------------------------

    def send(self, data: bytes) -> None:
        """One text message; the first of a loop pass leaves at once, the others together."""
        frame = SocketFrame(Opcode.TEXT, data).serialize(mask=True)
        if not self._in_pass:
            self._in_pass = True
            self._loop.call_soon(self._end_pass)
            self._write(frame)
            return
        self._fresh.append(frame)
        self._fresh_size += len(frame)
        if self._fresh_size >= COALESCE:
            self._flush()

    @property
    def waiting(self) -> int:
        """Bytes that the socket has not taken yet."""
        return self._fresh_size + (0 if self._transport is None else self._transport.get_write_buffer_size())

    def _end_pass(self) -> None:
        self._in_pass = False
        self._flush()

    def _flush(self) -> None:
        if self._fresh:
            fresh, self._fresh, self._fresh_size = self._fresh, [], 0
            self._write(b"".join(fresh))

    def _write(self, data: bytes) -> None:
        if self._transport is not None and not self._transport.is_closing():
            self._transport.write(data)

    def pause_writing(self) -> None:
        """The socket is full; it must take something within the stall limit."""
        self.is_full = True
        self._watch(self.waiting)

    def resume_writing(self) -> None:
        """There is room again."""
        self.is_full = False
        if self._stalled is not None:
            self._stalled.cancel()
            self._stalled = None
        if self.on_room is not None:
            self.on_room()

    def _watch(self, before: int) -> None:
        def check() -> None:
            now = self.waiting
            if now < before:
                self._watch(now)
            else:
                self._lose(1006, f"it took no bytes for {self._stall:g} seconds while {now} were waiting")

        self._stalled = self._loop.call_later(self._stall, check)

    # --- ending -----------------------------------------------------------------------------------------------

    def _listen_for_life(self) -> None:
        if self._heard or self._paused:
            self._heard = self._asked = False
            self._beat = self._loop.call_later(PING_EVERY, self._listen_for_life)
        elif not self._asked:
            self._asked = True
            self._write(SocketFrame(Opcode.PING, b"").serialize(mask=True))
            self._beat = self._loop.call_later(PONG_WITHIN, self._listen_for_life)
        else:
            self._lose(1006, f"no sign of life for {PING_EVERY + PONG_WITHIN:g} seconds")

    async def close(self, code: int, reason: str, patience: float) -> None:
        """Say goodbye, wait a moment for the same, and let go."""
        self._flush()
        self._lost = None
        if self._closing is None and self.opened.done() and self._transport is not None:
            self._send_close(code, reason)
            try:
                async with asyncio.timeout(patience):
                    await asyncio.shield(self.gone)
            except TimeoutError:
                pass
        self.abort()

    def abort(self) -> None:
        """Let go at once."""
        self._lost = None
        self._still()
        if self._transport is not None:
            self._transport.abort()

    def _send_close(self, code: int, reason: str) -> None:
        self._closing = (code, reason)
        payload = code.to_bytes(2, "big") + reason.encode()[:120].decode("utf-8", "ignore").encode()
        self._write(SocketFrame(Opcode.CLOSE, payload).serialize(mask=True))

    def eof_received(self) -> None:
        """The server is done."""
        if self._handshake is not None and not self.opened.done():
            try:
                self._handshake.finish()
            except Unreachable as error:
                self._fail(error)

    def connection_lost(self, exc: Exception | None) -> None:
        """The socket is gone."""
        if not self.gone.done():
            self.gone.set_result(None)
        if not self.opened.done():
            self._fail(failed(self._name, exc or ConnectionResetError(0, "it hung up before it had answered")))
        if self._early is None:
            why = "" if exc is None else (getattr(exc, "strerror", None) or str(exc))
            self._lose(1006, why or "the socket was cut")

    def _fail(self, error: Unreachable) -> None:
        if not self.opened.done():
            self.opened.set_exception(error)
            self.opened.exception()  # whoever waits may have been cancelled
        self.abort()

    def _lose(self, code: int, reason: str) -> None:
        lost, self._lost = self._lost, None
        self._still()
        if lost is not None and self.opened.done():
            lost(self, code, reason)
        if self._transport is not None:
            self._transport.close()

    def _still(self) -> None:
        for timer in (self._beat, self._stalled):
            if timer is not None:
                timer.cancel()


async def open_link(
    address: Address,
    headers: Sequence[tuple[str, str]],
    take: Callable[[list[Frame], int], None],
    lost: Lost,
    *,
    tls: TLS,
    max_frame: int,
    stall: float,
) -> tuple[Link, dict[str, list[str]]]:
    """Dial and upgrade; gives the link and the headers of the 101. Raises Unreachable."""
    loop = asyncio.get_running_loop()

    def make() -> Link:
        return Link(Handshake(address, headers), take, lost, max_frame=max_frame, stall=stall)

    link: Link | None = None
    try:
        async with asyncio.timeout(OPEN_PATIENCE):
            _, link = await _dial(loop, address, make, tls)
            return link, await link.opened
    except BaseException as error:
        if link is not None:
            link.abort()
        if isinstance(error, Unreachable) or not isinstance(error, Exception):
            raise
        raise failed(address.shown, error) from None


async def _dial(
    loop: asyncio.AbstractEventLoop, address: Address, make: Callable[[], Link], tls: TLS
) -> tuple[asyncio.BaseTransport, Link]:
    """A socket to the server, through the proxy of the environment where there is one."""
    from dragoman.transport.remote.client.http_proxy import proxy_of, tunnel

    context = trust(tls, address.shown) if address.is_secure else None
    proxy = proxy_of(address)
    if proxy is None:
        return await loop.create_connection(make, address.host, address.port, ssl=context)
    socket = await tunnel(proxy, address)
    return await loop.create_connection(
        make, sock=socket, ssl=context, server_hostname=address.host if context is not None else None
    )
