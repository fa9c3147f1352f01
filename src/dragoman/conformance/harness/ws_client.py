"""A WebSocket client as a channel of frames (docs/protocol/http.md#websocket): one message a text frame."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from typing import Any

from dragoman.conformance.harness.http_client import BEGIN, Answer, format_answer
from dragoman.conformance.verdict import Skipped
from dragoman.errors import ConnectionFailed, StartFailed, TransportClosed
from dragoman.transport.base import FrameQueue
from dragoman.transport.remote.address import RemoteOptions, parse_address, tls_context
from dragoman.wire.frames import Frame

# The time for the server's close frame. Seconds.
CLOSE_TIMEOUT = 3.0


class WsChannel:
    """One socket."""

    def __init__(
        self, url: str, *, token: str = "", tls: str | bool | None = None, note: Callable[[str, str], Any] | None = None
    ) -> None:
        self.address = parse_address(url, RemoteOptions(token=token, tls=tls, upgrade=True))
        self.peer = self.address.display_url
        self.note = note or (lambda *_: None)
        self.answer = Answer(0, {})
        self.binaries = 0
        self.texts: list[str] = []
        self._tls = tls
        self._socket: Any = None
        self._frames = FrameQueue()
        self._queue: list[str | bytes | list[str]] = []
        self._sending: asyncio.Task[None] | None = None
        self._reading: asyncio.Task[None] | None = None
        self._ended: ConnectionFailed | None = None

    @property
    def connection(self) -> str:
        """The id that the server gave the connection."""
        return self.answer.headers.get("acp-connection-id", "")

    @property
    def is_open(self) -> bool:
        """Whether the server accepted the upgrade and has not closed since."""
        return self.answer.status == 101 and self._ended is None

    async def connect(self, headers: Mapping[str, str] | None = None) -> Answer:
        """Connect; return the answer to the upgrade, whatever it is. Raise TransportClosed where nobody answers."""
        try:
            from websockets.asyncio.client import connect
            from websockets.exceptions import InvalidHandshake, InvalidStatus
        except ModuleNotFoundError as error:
            raise StartFailed(f"{error.name} is not installed; run: pip install 'dragoman[host]'") from None
        fields = {**dict(self.address.headers), **(headers or {})}
        url = self.address.url
        if "Host" in fields:  # another name for the same place
            url = url.replace(self.address.netloc, fields.pop("Host"), 1)
        options: dict[str, Any] = {"proxy": None} if self.address.is_loopback else {}
        if self.address.is_secure:
            options["ssl"] = tls_context(self._tls, self.peer)
            options["server_hostname"] = self.address.host  # whatever name the request says
        self.note("out", "\n".join(["GET (upgrade to WebSocket)", *(f"{k}: {v}" for k, v in (headers or {}).items())]))
        try:
            self._socket = await connect(
                url,
                host=self.address.host,
                port=self.address.port,
                additional_headers={name: value for name, value in fields.items() if value},
                user_agent_header=None,
                compression=None,
                max_size=None,
                ping_interval=None,
                open_timeout=BEGIN,  # the upgrade is an answer too
                close_timeout=CLOSE_TIMEOUT,
                **options,
            )
        except InvalidStatus as error:
            response = error.response
            found = {name.lower(): value for name, value in response.headers.raw_items()}
            self.answer = Answer(response.status_code, found, bytes(response.body or b""))
            self._end(TransportClosed(f"the upgrade was answered with {response.status_code}"))
        except (InvalidHandshake, OSError, TimeoutError, EOFError) as error:
            raise TransportClosed(f"{self.peer} cannot be reached: {error or type(error).__name__}") from None
        else:
            raw = self._socket.response.headers.raw_items()
            self.answer = Answer(101, {name.lower(): value for name, value in raw})
            self._reading = asyncio.ensure_future(self._read())
        self.note("in", format_answer(self.answer))
        return self.answer

    async def _read(self) -> None:
        from websockets.exceptions import ConnectionClosed

        try:
            while True:
                data = await self._socket.recv()
                if isinstance(data, str):
                    self.texts.append(data)
                    self._frames.deliver([data.encode("utf-8", "surrogatepass")])
                else:
                    self.binaries += 1
                    self.note("in", f"a binary frame of {len(data)} bytes")
        except ConnectionClosed as closed:
            fields = f"{closed.rcvd.code} {closed.rcvd.reason}" if closed.rcvd else "without a close frame"
            self._end(TransportClosed(f"the server closed the socket: {fields}"))

    def _end(self, error: ConnectionFailed) -> None:
        self._ended = self._ended or error
        self._frames.end(error)

    # --- a line of frames -----------------------------------------------------------------------------------------

    async def receive(self) -> list[Frame]:
        """Return the text frames."""
        return await self._frames.receive()

    def send(self, data: bytes) -> None:
        """Send one text frame."""
        self.send_message(data.decode("utf-8", "replace"))

    def send_message(self, data: str | bytes | list[str]) -> None:
        """Send a text frame, a binary one, or a message in fragments."""
        if self._ended is not None:
            raise self._ended.with_traceback(None)
        self._queue.append(data)
        if self._sending is None:
            self._sending = asyncio.ensure_future(self._send_all())

    async def _send_all(self) -> None:
        from websockets.exceptions import ConnectionClosed

        try:
            while self._queue:
                await self._socket.send(self._queue.pop(0))
        except ConnectionClosed:
            pass  # the reader says so
        finally:
            self._sending = None

    def write_raw(self, data: bytes) -> None:
        """Skip: there are no lines here."""
        raise Skipped("it is about lines on a pipe, which a WebSocket has not")

    async def drain(self) -> None:
        """Wait until everything is sent."""
        if self._sending is not None:
            await asyncio.wait([self._sending])

    async def ping(self, seconds: float) -> bool:
        """Return whether the server answers a ping in time."""
        try:
            async with asyncio.timeout(seconds):
                await (await self._socket.ping())
        except (TimeoutError, Exception):
            return False
        return True

    async def send_eof(self) -> None:
        """Close the socket, and wait for the server's close frame."""
        await self.drain()
        if self._socket is not None:
            await self._socket.close()

    @property
    def close_code(self) -> int | None:
        """The close code of the server; None when it sent none."""
        found = self._socket.protocol.close_rcvd if self._socket is not None else None
        return None if found is None else int(found.code)

    def abort(self) -> None:
        """Close the socket without a close frame."""
        if self._socket is not None:
            self._socket.transport.abort()

    async def close(self) -> None:
        """Close the socket and stop reading."""
        if self._sending is not None:
            self._sending.cancel()
        if self._socket is not None:
            try:
                async with asyncio.timeout(CLOSE_TIMEOUT):
                    await self._socket.close()
            except TimeoutError:
                self.abort()
        if self._reading is not None:
            self._reading.cancel()
            await asyncio.gather(self._reading, return_exceptions=True)
        self._end(TransportClosed("the checker closed the connection"))
