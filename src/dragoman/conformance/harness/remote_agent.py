"""The stage before an agent at an address, and the address as the subject of a check.

Each probe is a connection of its own, over Streamable HTTP or WebSocket as the address says; probes of the wire itself
word their requests through `line`. What else is asked of agents is asked here too, over the same line. The server is
not ours to start: it is the same one for all probes. Above is the runner.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from itertools import pairwise
from typing import Any

from dragoman.conformance.harness import hello
from dragoman.conformance.harness.agent import AgentStage
from dragoman.conformance.harness.http_client import Answer, HttpLine, Strand
from dragoman.conformance.harness.peer import Heard, Json, Stage
from dragoman.conformance.harness.targets import workspace
from dragoman.conformance.harness.timeouts import PROCESS, Pace
from dragoman.conformance.harness.ws_client import WsLine
from dragoman.conformance.prompts import Script
from dragoman.conformance.requirement import Requirement
from dragoman.conformance.verdict import Found, Unsure
from dragoman.engine.peer_info import offers
from dragoman.errors import ConnectionFailed, DragomanError


class RemoteStage(AgentStage):
    """What both ways have in common."""

    sessions: list[tuple[object, str]]
    token: str = ""
    tls: str | bool | None = None
    url: str = ""

    async def opened(self, *, capabilities: Json = None, **members: Json) -> str:
        """As for any agent; the session is remembered, for the server stays."""
        found = await super().opened(capabilities=capabilities, **members)
        self.sessions.append((self.transport, found))
        return found

    async def tidy(self) -> None:
        """Close and delete the sessions of this probe, as far as the agent lets us: a server has only so many."""
        kept = len(self.record)
        for method in ("close", "delete"):
            if not offers(f"agent.sessionCapabilities.{method}", self.capabilities):
                continue
            for transport, session in self.sessions:
                if transport is self.transport and self.gone is None:
                    with suppress(DragomanError):  # a dialect that cannot say it
                        await self.requested(f"session/{method}", {"sessionId": session}, TIDY)
        del self.record[kept:]

    def first(self) -> dict[str, Json]:
        """An initialize, to be said by hand."""
        params = hello.initialize(self.dialect, self.cwd, hello.ALL[self.dialect])
        return {"jsonrpc": "2.0", "id": "first", "method": "initialize", "params": params}

    def opening(self, id: Json = "new") -> dict[str, Json]:
        """A session/new, to be said by hand."""
        params = hello.new_session(self.dialect, self.cwd, "5e1f0f0e-0c51-4a0a-9d1e-2b1d7a9f2c11")
        return {"jsonrpc": "2.0", "id": id, "method": "session/new", "params": params}

    def message(self, method: str, params: Json, id: Json = "asked") -> dict[str, Json]:
        """A request of the vocabulary in the agent's dialect, to be said by hand."""
        spelled, wire = self.spelled(method, params)
        return {"jsonrpc": "2.0", "id": id, "method": spelled, "params": wire}

    def answered_with(self, answer: Answer, what: str, *statuses: int) -> None:
        """Require that this was answered with one of these statuses."""
        wanted = " or ".join(map(str, statuses))
        self.require(answer.status in statuses, f"{what} was answered with {answer.status}, not {wanted}")

    def count(self) -> None:
        """Require that the numbers in what the agent said go up by one, without a gap."""
        text = "".join(str(heard.update.get("content", {}).get("text", "")) for heard in self.updates())
        found = [int(digits) for digits in re.findall(r"\d+", text)]
        if len(found) < FEW:
            self.unsure("the agent did not count; give words that make it, for 'flood', with --script")
        gap = next((pair for pair in pairwise(found) if pair[1] != pair[0] + 1), None)
        self.require(gap is None, f"after {gap[0] if gap else ''} came {gap[1] if gap else ''}")
        self.note(f"{len(found)} numbers came in order")

    async def garbage(self, *pieces: bytes) -> None:
        """Open a socket, say these bytes, and go."""
        address = self.line.address
        context: Any = None
        if address.is_secure:
            from dragoman.transport.remote.address import tls_context

            context = tls_context(self.tls, address.display_url)
        leave = "".join(f"{name}: {value}\r\n" for name, value in address.headers).encode()
        for piece in pieces:
            piece = piece.replace(b"Connection: Upgrade\r\n", b"Connection: Upgrade\r\n" + leave)
            self.note(f"another client says {len(piece)} bytes: {piece[:40]!r}")
            try:
                async with asyncio.timeout(self.pace.answer):
                    reader, writer = await asyncio.open_connection(address.host, address.port, ssl=context)
                    writer.write(piece)
                    await writer.drain()
                    heard = asyncio.ensure_future(reader.read(4096))
                    await asyncio.wait([heard], timeout=GARBLED)
                    self.note(f"it is answered with {heard.result()[:40]!r}" if heard.done() else "it is not answered")
                    heard.cancel()
                    await asyncio.gather(heard, return_exceptions=True)
                    writer.transport.abort()
            except (OSError, TimeoutError):
                continue

    @property
    def line(self) -> HttpLine | WsLine:
        """What carries the frames."""
        assert isinstance(self.transport, HttpLine | WsLine)
        return self.transport


# A session that is not closed by then is left to the server. Seconds.
TIDY = 2.0

# Garbage that is answered at all is answered by then. Seconds.
GARBLED = 0.5

# Less than so many numbers are no flood.
FEW = 50


class HttpStage(RemoteStage):
    """Before an agent behind Streamable HTTP."""

    @property
    def line(self) -> HttpLine:
        """What carries the frames, and makes single requests."""
        assert isinstance(self.transport, HttpLine)
        return self.transport

    def refused(self, heard: Heard | None, what: str, *codes: int) -> dict[str, Any]:
        """As for any agent; but where HTTP has a status for it, no code is asked for."""
        if heard is not None and heard.raw in self.line.refusals:
            codes = ()
        return super().refused(heard, what, *codes)

    async def answered(self, id: Json, seconds: float | None = None) -> Heard | None:
        """As for any agent, from when all was posted: a thousand requests take their time, which is ours."""
        with suppress(TimeoutError):
            async with asyncio.timeout(self.pace.start):
                await self.line.drain()
        return await super().answered(id, seconds)

    async def connected(self) -> str:
        """A connection by hand, with no stream; gives its id."""
        answer = await self.line.post(self.first())
        found = answer.headers.get("acp-connection-id", "")
        if answer.status != 200 or not found:
            self.unsure("the server gave no connection")
        self.line.connection = found
        return found

    async def streamed(self) -> Strand:
        """A connection by hand, with its stream."""
        await self.connected()
        self.line.main = strand = await self.line.open()
        if strand.answer.status != 200:
            self.unsure(f"the stream of the connection was answered with {strand.answer.status}")
        return strand

    async def on_either(self, main: Strand, strand: Strand, id: Json, seconds: float) -> Json:
        """The answer to a request on either stream, where another requirement is about which."""
        waits = [asyncio.ensure_future(self.on(each, id, seconds)) for each in (strand, main)]
        try:
            for done in asyncio.as_completed(waits):
                if (found := await done) is not None:
                    return found
            return None
        finally:
            for wait in waits:
                wait.cancel()
            await asyncio.gather(*waits, return_exceptions=True)

    async def on(self, strand: Strand, id: Json, seconds: float | None = None) -> Json:
        """The answer to a request on this stream, None when it does not come in time."""
        end = asyncio.get_running_loop().time() + (self.pace.answer if seconds is None else seconds)
        while True:
            for message in strand.messages():
                if isinstance(message, dict) and "method" not in message and message.get("id") == id:
                    return message
            left = end - asyncio.get_running_loop().time()
            if left <= 0 or strand.ended.is_set():
                return None
            strand.news.clear()
            await asyncio.wait([asyncio.ensure_future(strand.news.wait())], timeout=left)


class WsStage(RemoteStage):
    """Before an agent behind a WebSocket."""

    @property
    def line(self) -> WsLine:
        """The socket."""
        assert isinstance(self.transport, WsLine)
        return self.transport

    def other(self) -> WsLine:
        """Another socket, not dialled yet; close it."""
        return WsLine(self.url, token=self.token, tls=self.tls, note=self._note)


class AddressAgent:
    """An agent that somebody serves at an address."""

    def __init__(
        self,
        url: str,
        dialect: str,
        *,
        pace: Pace = PROCESS,
        script: Script | None = None,
        token: str = "",
        tls: str | bool | None = None,
    ) -> None:
        self.url = url
        self.dialect = dialect
        self.pace = pace
        self.script = script
        self.token = token
        self.tls = tls
        self.way = "ws" if url.startswith("ws") else "http"

    @asynccontextmanager
    async def stage(self, requirement: Requirement) -> AsyncIterator[Stage]:
        """A client of its own for each probe; inconclusive when nobody is there."""
        with workspace() as folder:
            kind = WsStage if self.way == "ws" else HttpStage
            line = (WsLine if self.way == "ws" else HttpLine)(self.url, token=self.token, tls=self.tls)
            stage = kind(line, self.dialect, self.pace, workspace=folder, needs=requirement.needs, script=self.script)
            stage.sessions = []
            stage.url, stage.token, stage.tls = self.url, self.token, self.tls
            line.note = stage._note
            try:
                if isinstance(line, WsLine):
                    try:
                        answer = await line.dial()
                    except ConnectionFailed as error:
                        raise Unsure(str(error)) from None
                    if answer.status != 101 and not requirement.way:
                        stage.unsure(f"the upgrade was answered with {answer.status}")
                yield stage
                await stage.tidy()
            except Found:
                await stage.tidy()
                raise
            finally:
                await line.close()
