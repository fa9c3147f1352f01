"""The agent under test at a URL, over Streamable HTTP or WebSocket.

Each probe is a connection of its own to the same server. Probes of the wire send requests through `channel`.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from itertools import pairwise
from typing import Any

from dragoman.conformance.harness.agent import AgentUnderTest
from dragoman.conformance.harness.http_client import Answer, EventStream, HttpChannel
from dragoman.conformance.harness.peer import PROCESS, Json, PeerUnderTest, ReceivedFrame, Timeouts
from dragoman.conformance.harness.settings import AgentSettings
from dragoman.conformance.harness.targets import workspace
from dragoman.conformance.harness.ws_client import WsChannel
from dragoman.conformance.requirement import Requirement
from dragoman.conformance.verdict import Inconclusive, ProbeEnded
from dragoman.engine.peer_info import offers
from dragoman.errors import ConnectionFailed, DragomanError


class RemoteAgentUnderTest(AgentUnderTest):
    """What HTTP and WebSocket have in common."""

    sessions: list[tuple[object, str]]
    token: str = ""
    tls: str | bool | None = None
    url: str = ""

    async def open_session(self, *, capabilities: Json = None, **members: Json) -> str:
        """Open a session and remember it, because the server stays."""
        found = await super().open_session(capabilities=capabilities, **members)
        self.sessions.append((self.transport, found))
        return found

    async def close_sessions(self) -> None:
        """Close and delete the sessions of this probe as far as the agent allows: a server limits their number."""
        count = len(self.record)
        for method in ("close", "delete"):
            if not offers(f"agent.sessionCapabilities.{method}", self.capabilities):
                continue
            for transport, session in self.sessions:
                if transport is self.transport and self.closed is None:
                    with suppress(DragomanError):  # a dialect that cannot say it
                        await self.request_in_dialect(f"session/{method}", {"sessionId": session}, TIDY)
        del self.record[count:]

    def initialize_message(self) -> dict[str, Json]:
        """Return an initialize to send by hand."""
        return {"jsonrpc": "2.0", "id": "first", "method": "initialize", "params": self.initialize_params()}

    def new_session_message(self) -> dict[str, Json]:
        """Return a session/new to send by hand."""
        params = self.new_session_params("5e1f0f0e-0c51-4a0a-9d1e-2b1d7a9f2c11")
        return {"jsonrpc": "2.0", "id": "new", "method": "session/new", "params": params}

    def request_message(self, method: str, params: Json, id: Json = "asked") -> dict[str, Json]:
        """Return a request of v1 in the agent's dialect to send by hand."""
        name, wire = self.to_wire(method, params)
        return {"jsonrpc": "2.0", "id": id, "method": name, "params": wire}

    def require_status(self, answer: Answer, what: str, *statuses: int) -> None:
        """Require that the answer has one of these statuses."""
        wanted = " or ".join(map(str, statuses))
        self.require(answer.status in statuses, f"{what} was answered with {answer.status}, not {wanted}")

    def require_counting(self) -> None:
        """Require that the numbers in the agent's text go up by one, without a gap."""
        blocks = [frame.update.get("content") for frame in self.updates()]
        text = "".join(str(block.get("text", "")) for block in blocks if isinstance(block, dict))
        found = [int(digits) for digits in re.findall(r"\d+", text)]
        self.assume(len(found) >= FEW, "the agent did not count; add a prompt for 'flood' that makes it, with --script")
        gap = next((pair for pair in pairwise(found) if pair[1] != pair[0] + 1), None)
        self.require(gap is None, f"after {gap[0] if gap else ''} came {gap[1] if gap else ''}")
        self.note(f"{len(found)} numbers came in order")

    async def send_garbage(self, *pieces: bytes) -> None:
        """Open a socket, send each of these, and close it."""
        address = self.channel.address
        context: Any = None
        if address.is_secure:
            from dragoman.transport.remote.address import tls_context

            context = tls_context(self.tls, address.display_url)
        headers = "".join(f"{name}: {value}\r\n" for name, value in address.headers).encode()
        for piece in pieces:
            piece = piece.replace(b"Connection: Upgrade\r\n", b"Connection: Upgrade\r\n" + headers)
            self.note(f"another client sends {len(piece)} bytes: {piece[:40]!r}")
            try:
                async with asyncio.timeout(self.timeouts.answer):
                    reader, writer = await asyncio.open_connection(address.host, address.port, ssl=context)
                    writer.write(piece)
                    await writer.drain()
                    frame = asyncio.ensure_future(reader.read(4096))
                    await asyncio.wait([frame], timeout=GARBLED)
                    self.note(f"it is answered with {frame.result()[:40]!r}" if frame.done() else "it is not answered")
                    frame.cancel()
                    await asyncio.gather(frame, return_exceptions=True)
                    writer.transport.abort()
            except (OSError, TimeoutError):
                continue

    @property
    def channel(self) -> HttpChannel | WsChannel:
        """The channel of frames."""
        assert isinstance(self.transport, HttpChannel | WsChannel)
        return self.transport


# A session that is not closed by then is left to the server. Seconds.
TIDY = 2.0

# The time for an answer to garbage, if there is one. Seconds.
GARBLED = 0.5

# Fewer numbers are no flood.
FEW = 50


class HttpAgentUnderTest(RemoteAgentUnderTest):
    """The agent under test over Streamable HTTP."""

    @property
    def channel(self) -> HttpChannel:
        """The channel of frames, which also sends single requests."""
        assert isinstance(self.transport, HttpChannel)
        return self.transport

    def require_error(self, frame: ReceivedFrame | None, what: str, *codes: int) -> dict[str, Any]:
        """Require an error; a refusal by HTTP status needs no code."""
        if frame is not None and frame.raw in self.channel.refusals:
            codes = ()
        return super().require_error(frame, what, *codes)

    async def wait_reply(self, id: Json, seconds: float | None = None) -> ReceivedFrame | None:
        """Wait for an answer after everything is posted, because posting a thousand requests takes time."""
        with suppress(TimeoutError):
            async with asyncio.timeout(self.timeouts.start):
                await self.channel.drain()
        return await super().wait_reply(id, seconds)

    async def connect(self) -> str:
        """Connect by hand, without a stream; return the connection id."""
        answer = await self.post_initialize({})
        self.assume(answer.status == 200 and self.channel.connection, "the server gave no connection")
        return self.channel.connection

    async def open_session_stream(self) -> EventStream:
        """Connect by hand, with the stream of the connection."""
        await self.connect()
        self.channel.main = stream = await self.channel.open()
        self.assume(
            stream.answer.status == 200, f"the stream of the connection was answered with {stream.answer.status}"
        )
        return stream

    async def disconnect(self) -> Answer:
        """Delete our connection; return the answer."""
        return await self.channel.ask("DELETE", None, self.channel.session_headers())

    async def post_new_session(self) -> Answer:
        """POST a session/new by hand; return the answer."""
        return await self.channel.post(self.new_session_message(), self.channel.session_headers())

    async def post_request(self, method: str, params: Json, header: str | None, id: Json = "asked") -> Answer:
        """POST a request of v1 in the dialect by hand; `header` is the session in Acp-Session-Id."""
        return await self.channel.post(self.request_message(method, params, id), self.channel.session_headers(header))

    async def post_prompt(self, session: str, header: str | None, id: Json = "asked", text: str = "") -> Answer:
        """POST a prompt by hand, with the session in the message and in the header; return the answer."""
        prompt = {"sessionId": session, "prompt": [{"type": "text", "text": text or self.prompt_for("plain")}]}
        return await self.post_request("session/prompt", prompt, header, id)

    async def post_initialize(self, headers: dict[str, str]) -> Answer:
        """POST an initialize by hand with these headers; the connection, if there is one, is closed at the end."""
        answer = await self.channel.post(self.initialize_message(), headers)
        self.channel.connection = answer.headers.get("acp-connection-id", "")
        return answer

    async def wait_on_either(self, main: EventStream, stream: EventStream, id: Json, seconds: float) -> Json:
        """Return the answer on either stream, where another requirement covers which."""
        waits = [asyncio.ensure_future(self.wait_on(each, id, seconds)) for each in (stream, main)]
        try:
            for done in asyncio.as_completed(waits):
                if (found := await done) is not None:
                    return found
            return None
        finally:
            for wait in waits:
                wait.cancel()
            await asyncio.gather(*waits, return_exceptions=True)

    async def wait_on(self, stream: EventStream, id: Json, seconds: float | None = None) -> Json:
        """Return the answer on this stream, None when it does not come in time."""
        end = asyncio.get_running_loop().time() + (self.timeouts.answer if seconds is None else seconds)
        while True:
            for message in stream.messages():
                if isinstance(message, dict) and "method" not in message and message.get("id") == id:
                    return message
            left = end - asyncio.get_running_loop().time()
            if left <= 0 or stream.ended.is_set():
                return None
            stream.changed.clear()
            await asyncio.wait([asyncio.ensure_future(stream.changed.wait())], timeout=left)


class WsAgentUnderTest(RemoteAgentUnderTest):
    """The agent under test over WebSocket."""

    @property
    def channel(self) -> WsChannel:
        """The socket."""
        assert isinstance(self.transport, WsChannel)
        return self.transport

    def connect_again(self) -> WsChannel:
        """Return another socket that is not connected yet; the caller closes it."""
        return WsChannel(self.url, token=self.token, tls=self.tls, note=self._record)


class UrlAgent:
    """An agent that runs at a URL."""

    def __init__(
        self,
        url: str,
        dialect: str,
        *,
        timeouts: Timeouts = PROCESS,
        settings: AgentSettings | None = None,
        token: str = "",
        tls: str | bool | None = None,
    ) -> None:
        self.url = url
        self.dialect = dialect
        self.timeouts = timeouts
        self.settings = settings
        self.token = token
        self.tls = tls
        self.way = "ws" if url.startswith("ws") else "http"

    @asynccontextmanager
    async def start(self, requirement: Requirement) -> AsyncIterator[PeerUnderTest]:
        """Connect a fresh client; inconclusive when nobody answers."""
        with workspace() as folder:
            kind = WsAgentUnderTest if self.way == "ws" else HttpAgentUnderTest
            line = (WsChannel if self.way == "ws" else HttpChannel)(self.url, token=self.token, tls=self.tls)
            peer = kind(
                line, self.dialect, self.timeouts, workspace=folder, needs=requirement.needs, settings=self.settings
            )
            peer.sessions = []
            peer.url, peer.token, peer.tls = self.url, self.token, self.tls
            line.note = peer._record
            try:
                if isinstance(line, WsChannel):
                    try:
                        answer = await line.connect()
                    except ConnectionFailed as error:
                        raise Inconclusive(str(error)) from None
                    if answer.status != 101 and not requirement.way:
                        peer.inconclusive(f"the upgrade was answered with {answer.status}")
                yield peer
                await peer.close_sessions()
            except ProbeEnded:
                await peer.close_sessions()
                raise
            finally:
                await line.close()
