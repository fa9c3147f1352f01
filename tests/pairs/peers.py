"""Hand-written peers: a client of any dialect that serves files, terminals and questions, and recorded frames.

The client sends raw JSON from the table in words.py, and uses nothing of Dragoman but the memory transport. `Watched`
wraps an agent's transport and records every frame, so that a test sees both ends of a translator.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine
from contextlib import asynccontextmanager
from typing import Any

import msgspec

from dragoman import Agent, ConnectionFailed
from dragoman.roles.client.dial import Dialer
from dragoman.roles.proxy.relay import Relay
from dragoman.testing import ScriptedPeer
from dragoman.testing.scripted_peer import TIMEOUT as PEER_TIMEOUT
from dragoman.transport.base import Transport, WrappedTransport
from dragoman.transport.memory import memory_pair
from dragoman.wire.frames import Frame
from tests.pairs.words import ALL_WORDS, Event, Json, Words

CWD = "/home/user/project"
BOUND = 20.0

# What a client's terminal prints.
OUTPUT = "two files\n"


class HandClient:
    """A client of one dialect, with its own small set of files and terminals."""

    def __init__(
        self, transport: Transport, words: Words, *, allow: bool = True, timeout: float = PEER_TIMEOUT
    ) -> None:
        self.words = words
        self.allow = allow
        self.files = {f"{CWD}/note.txt": "one\ntwo\nthree\n"}
        self.calls: list[Json] = []  # requests of the agent
        self.events: list[Event] = []  # updates, as the words read them
        self.updates: list[Json] = []  # updates, as they came
        self.session = ""
        self.on_call: Callable[[Json], None] | None = None
        self._peer = ScriptedPeer(transport, timeout)
        self._ids = 100
        self._pushed = False

    # --- asking -------------------------------------------------------------------------------------------------

    async def request(self, method: str, params: Json) -> Json:
        """Send a request; serve the agent until the answer comes."""
        return await self.answer(self.ask(method, params))

    def ask(self, method: str, params: Json) -> int:
        """Send a request without waiting; return its id."""
        self._ids += 1
        self._peer.send({"jsonrpc": "2.0", "id": self._ids, "method": method, "params": params})
        return self._ids

    def notify(self, method: str, params: Json) -> None:
        """Send a notification."""
        self._peer.send({"jsonrpc": "2.0", "method": method, "params": params})

    async def answer(self, id: int) -> Json:
        """The answer with this id: result or error; everything before it is served."""
        while True:
            message = await self._peer.receive()
            if "method" not in message:
                if message.get("id") == id:
                    return message
                continue
            self._serve(message)

    async def event(self, wanted: Event) -> None:
        """Serve the agent until it sends this event."""
        while wanted not in self.events:
            await self.serve_next()

    async def serve_next(self) -> None:
        """Serve one message of the agent."""
        message = await self._peer.receive()
        if "method" in message:
            self._serve(message)

    async def open(self, *, files: bool = True, terminals: bool = True, cwd: str = CWD) -> None:
        """Initialize and make a session."""
        words = self.words
        introduced = await self.request("initialize", words.initialize(files, terminals, cwd))
        assert "result" in introduced, introduced
        made = await self.request("session/new", words.new(cwd, "chosen-by-client"))
        assert "result" in made, made
        self.session = words.opened(made["result"], "chosen-by-client")
        self.events.clear()

    async def prompt(self, text: str) -> Json:
        """One turn; its result or error."""
        return await self.request("session/prompt", self.words.prompt(self.session, text))

    # --- serving ------------------------------------------------------------------------------------------------

    def _serve(self, message: Json) -> None:
        if message["method"] == "session/update":
            self._hear(message["params"])
        elif "id" in message:
            self.calls.append(message)
            if self.on_call is not None:
                self.on_call(message)
            reply = self._reply(message["method"], message.get("params", {}))
            self._peer.send({"jsonrpc": "2.0", "id": message["id"], **reply})

    def _hear(self, params: Json) -> None:
        self.updates.append(params)
        event = self.words.event(params)
        if event[0] == "available_commands_update" or event[0] == "available_commands":
            return
        self.events.append(event)
        if event[0] == "asks":  # crow: the question is an update, and the answer a message of its own
            wanted = ("Allow",) if self.allow else ("Reject", "Deny")
            options = params["update"]["permission_options"]
            chosen = next(option["id"] for option in options if option["title"].startswith(wanted))
            self.notify(
                "permission_response", {"session_id": self.session, "tool_call_id": event[1], "option_id": chosen}
            )

    def _reply(self, method: str, params: Json) -> Json:
        words = self.words
        if method == "fs/read_text_file":
            if params["path"] not in self.files:
                return {"error": {"code": -32002, "message": "no such file", "data": {"kind": "resource_not_found"}}}
            return {"result": words.content(self._excerpt(params))}
        if method == "fs/write_text_file":
            self.files[params["path"]] = params["content"]
            return {"result": words.written}
        if method == "session/request_permission":
            return {"result": self._decide(params)}
        if method == "terminal/create":
            return {"result": words.terminal("t1")}
        if method == "terminal/output":
            return {"result": words.screen(OUTPUT)}
        if method == "terminal/wait_for_exit":
            if words.name == "draft" and not self._pushed:  # the draft pushes what was printed
                self._pushed = True
                self.ask("terminal/output", {"terminalId": "t1", "data": OUTPUT, "stream": "stdout"})
            return {"result": words.ended(0)}
        if method in ("terminal/kill", "terminal/release"):
            return {"result": words.done("killed" if method == "terminal/kill" else "released")}
        return {"error": {"code": -32601, "message": f"no {method} here"}}

    def _excerpt(self, params: Json) -> str:
        lines = self.files[params["path"]].splitlines(keepends=True)
        first = int(params.get("line") or params.get("startLine") or 1)
        last = int(params["endLine"]) if "endLine" in params else first - 1 + int(params.get("limit", len(lines)))
        return "".join(lines[first - 1 : last])

    def _decide(self, params: Json) -> Json:
        if self.words.name == "draft":
            return {"granted": True, "scope": "once"} if self.allow else {"granted": False}
        wanted = "allow_once" if self.allow else "reject_once"
        chosen = next(option["optionId"] for option in params["options"] if option["kind"] == wanted)
        return {"outcome": {"outcome": "selected", "optionId": chosen}}


Act = Callable[["HandAgent", Json], Awaitable[Json | None]]


class HandAgent:
    """An agent of one dialect that runs the test's function in each turn."""

    def __init__(self, transport: Transport, words: Words, act: Act) -> None:
        self.words = words
        self.session = "made-by-agent"
        self.introduced: Json = {}
        self._act = act
        self._peer = ScriptedPeer(transport)
        self._ids = 500
        self._later: list[Json] = []

    async def serve(self) -> None:
        """Answer until the client disconnects; `act` returns the answer to a prompt."""
        while True:
            message = self._later.pop(0) if self._later else await self._peer.receive()
            method, params = message.get("method"), message.get("params", {})
            if method == "initialize":
                self.introduced = params
                self._answer(message, self.words.introduction)
            elif method == "session/new":
                self.session = params.get("session_id", self.session)
                self._answer(message, self.words.made(self.session))
            elif method == "session/prompt":
                self._answer(message, await self._act(self, params) or self.words.stopped)
            elif method == "cancel":
                self._answer(message, {})

    def notify(self, method: str, params: Json) -> None:
        """Send a notification."""
        self._peer.send({"jsonrpc": "2.0", "method": method, "params": params})

    async def call(self, method: str, params: Json) -> Json:
        """Send a request to the client and return its answer; other messages are handled later."""
        self._ids += 1
        self._peer.send({"jsonrpc": "2.0", "id": self._ids, "method": method, "params": params})
        while True:
            message = await self._peer.receive()
            if "method" not in message and message.get("id") == self._ids:
                return message
            self._later.append(message)

    def _answer(self, message: Json, result: Json) -> None:
        answer = result if "error" in result else {"result": result}
        self._peer.send({"jsonrpc": "2.0", "id": message["id"], **answer})


class Watched(WrappedTransport):
    """A transport that records all messages: `received` from the other end, `said` to it."""

    def __init__(self, inner: Transport) -> None:
        super().__init__(inner)
        self.received: list[Json] = []
        self.said: list[Json] = []

    async def receive(self) -> list[Frame]:
        frames = await super().receive()
        self.received.extend(msgspec.json.decode(frame) for frame in frames if isinstance(frame, bytes))
        return frames

    def send(self, data: bytes, session: str | None = None) -> None:
        self.said.append(msgspec.json.decode(data))
        super().send(data, session)

    def calls(self, method: str) -> list[Json]:
        """The params of each call of this method that the agent sent."""
        return [frame["params"] for frame in self.received if frame.get("method") == method]


class Meeting:
    """A client of one dialect, an agent of another, and a proxy between them; both connections can be read."""

    def __init__(self, client: HandClient, wire: Watched, reports: list[str], theirs: Words) -> None:
        self.client = client
        self.wire = wire  # the agent's end
        self.reports = reports
        self.theirs = theirs  # the agent's words

    @property
    def agent_events(self) -> list[Event]:
        """The events of the agent, from its own frames."""
        events = [self.theirs.event(frame["params"]) for frame in self.wire.said if frame.get("method") == _UPDATE]
        return [event for event in events if event[0] not in ("available_commands_update", "available_commands")]


_UPDATE = "session/update"


@asynccontextmanager
async def meeting(
    client: str, agent: str, who: Agent | Act, *, allow: bool = True, permission: str = "ask"
) -> AsyncIterator[Meeting]:
    """Connect a hand-written client of one dialect with `who` in another: our Agent, or a hand-written one."""
    reports: list[str] = []
    async with asyncio.timeout(BOUND):
        front, outside = memory_pair()
        back, inside = memory_pair()
        wire = Watched(inside)
        if isinstance(who, Agent):
            who.dialect = agent
            serving = asyncio.create_task(who.serve(wire, report=reports.append))
        else:
            serving = asyncio.create_task(_until_left(HandAgent(wire, ALL_WORDS[agent], who)))
        relay = Relay(
            front,
            Dialer(back, dialect=agent, cwd=CWD, report=reports.append),
            client_dialect="banjo" if client == "banjo" else "auto",  # a banjo client looks like one of v1
            permission=permission,
            report=reports.append,
        )
        running = asyncio.create_task(relay.run())
        try:
            yield Meeting(HandClient(outside, ALL_WORDS[client], allow=allow), wire, reports, ALL_WORDS[agent])
        finally:
            await outside.close()
            await asyncio.gather(running, serving)


async def _until_left(agent: HandAgent) -> None:
    try:
        await agent.serve()
    except ConnectionFailed:
        return


def run(work: Coroutine[Any, Any, None]) -> None:
    """Run a coroutine to its end."""
    asyncio.run(work)
