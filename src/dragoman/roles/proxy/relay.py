"""Two connections joined: what a client says goes to an agent and back, whatever either of them speaks.

While both speak the same dialect, frames pass as they came: only JSON-RPC ids are mapped, and calls that the client did
not offer are refused. Otherwise every message passes through the vocabulary, once out of one dialect and once into the
other. What somebody claims (see proxy) is theirs; the rest is forwarded. A slow reader slows its producer.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Any, NamedTuple

import msgspec
from msgspec import UNSET, Raw, UnsetType

from dragoman.dialect.dialects import dialect as find_dialect
from dragoman.dialect.losses import losses
from dragoman.engine.codec import may_name_side, untainted
from dragoman.engine.connection import Connection, Tap
from dragoman.engine.decode import values
from dragoman.engine.handler import Handler
from dragoman.engine.incoming import Incoming
from dragoman.engine.pending import Done
from dragoman.errors import Kind, ProtocolError
from dragoman.roles.agent.agent import settings
from dragoman.roles.client.dial import Dial, Dialled
from dragoman.roles.client.terminal_login import marked
from dragoman.schema.base import encode
from dragoman.schema.methods import METHODS
from dragoman.schema.side import Side
from dragoman.transport.base import Transport
from dragoman.wire.envelope import Envelope, Id, say_call, say_error, say_result

# A client that has ended its input still gets the answers to what it asked, if they come so soon: some agents install
# themselves before they say anything (peers.md 59). Seconds.
ANSWER_PATIENCE = 120.0

# How often it is looked meanwhile whether the client is still there to read them. Seconds.
GLANCE = 0.2

# Shapes of messages whose losses were worked out; past this many nothing new is looked at.
SHAPES = 500


# Calls that name a request of the other side, whose ids are our own on each connection.
_NAMING = frozenset({"elicitation/create"})


class _Forwarded(NamedTuple):
    """A request that was passed on: to whom, as what, and the session whose turn it is."""

    target: Connection
    id: Id
    turn: str | None = None

    def call_off(self) -> None:
        """Its sender takes it back: a turn, where requests cannot be taken back, is cancelled as a turn."""
        speech = self.target.speech
        if self.turn is not None and speech is not None and not speech.dialect.cancels:
            self.target.notify("session/cancel", {"sessionId": self.turn})
        else:
            self.target.call_off(self.id, wait=True)


class Relay:
    """One client on the front, one agent (or one process for each folder) on the back."""

    def __init__(
        self,
        transport: Transport,
        dial: Dial,
        *,
        client_dialect: str = "auto",
        permission: str = "ask",
        report: Callable[[str], None],
    ) -> None:
        self.report = report
        self._dial = dial
        self._claims: dict[tuple[Side, str], Handler] = {}
        self._forwarded: dict[tuple[Side, Id], _Forwarded] = {}
        self._shapes: set[Any] = set()
        self._homes: dict[str, Dialled] = {}  # where a session lives, when there is more than one process
        self._first: Dialled | None = None
        self.same = False
        self.front = Connection(
            transport,
            Side.AGENT,
            {"initialize": self._initialize, "$/cancel_request": self._cancelling(Side.AGENT)},
            fallback=self._to_agent,
            settings=settings(permission=permission),
            speaks=None if client_dialect == "auto" else find_dialect(client_dialect),
            report=report,
        )
        self._answered = asyncio.Event()  # set when something that was passed on has its answer
        self._is_heard: Callable[[], bool] | None = getattr(transport, "is_heard", None)
        if self._is_heard is not None:
            self.front.on_eof = self._answer_the_rest

    def claim(self, receiver: Side, method: str, handler: Handler) -> None:
        """Let this handler have the calls of a method that `receiver` would get; before `run`."""
        self._claims[receiver, method] = handler
        if receiver is Side.AGENT and method != "initialize":
            self.front.handlers[method] = handler

    async def run(self) -> BaseException:
        """Relay until one of the two leaves; gives the reason."""
        self.front.start()
        try:
            await self.front.ended.wait()
        finally:
            await self._dial.close()
            await self.front.close()
        assert self.front.failure is not None
        return self.front.failure

    async def _answer_the_rest(self) -> None:
        """The client asks nothing more, and can be asked nothing: it waits for its answers, or has left."""
        self.front.deafen()
        assert self._is_heard is not None
        loop = asyncio.get_running_loop()
        end = loop.time() + ANSWER_PATIENCE
        while self._owes_answers and self._is_heard() and loop.time() < end:
            if self.front.inbound.is_busy:
                await self.front.inbound.finish(GLANCE)
                continue
            self._answered.clear()
            with suppress(TimeoutError):
                async with asyncio.timeout(GLANCE):
                    await self._answered.wait()

    @property
    def _owes_answers(self) -> bool:
        return self.front.inbound.is_busy or any(receiver is Side.AGENT for receiver, _ in self._forwarded)

    # --- the introduction -------------------------------------------------------------------------------------

    def _initialize(self, incoming: Incoming, done: Done) -> Awaitable[None] | None:
        if self._first is not None:
            raise _initialized()
        claimed = self._claims.get((Side.AGENT, "initialize"))

        def introduced(result: Any, error: ProtocolError | None) -> None:
            done(result, error)
            if self._first is not None and self._first.connection.failure is not None:
                self._agent_left(self._first.connection.failure)

        return claimed(incoming, introduced) if claimed else self._introduce(incoming, introduced)

    async def _introduce(self, incoming: Incoming, done: Done) -> None:
        done(await self.reach(incoming.params, incoming.values), None)

    async def reach(self, introduction: Any, source: Any) -> Any:
        """Start the agent with what the client offers; gives what the agent offers, as plain values."""
        if self._first is not None:
            raise _initialized()
        back = {method: handler for (side, method), handler in self._claims.items() if side is Side.CLIENT}
        handlers: dict[str, Handler] = {"$/cancel_request": self._cancelling(Side.CLIENT), **back}
        side = values(introduction.meta or {}).get("dragoman", {})
        if isinstance(side.get("workingDirectory"), str) and side["workingDirectory"].startswith("/"):
            self._dial.cwd = side["workingDirectory"]
        if "mcpServers" in side and self._dial.dialect != "2025.1":  # may hold secrets, and has no place elsewhere
            meta = {**introduction.meta, "dragoman": {**side, "mcpServers": []}}
            introduction = msgspec.structs.replace(introduction, meta=meta)
        dialled = await self._dial.open(introduction, handlers, self._to_client, source)
        self._first = dialled
        assert self.front.speech is not None
        self.same = self.front.speech.dialect.name == self._dial.dialect
        if self.same:  # both ends say everything the same way: nothing is left to emulate
            self.front.emulation = dialled.connection.emulation = None
            self.front.tap = self._tap(self.front, Side.AGENT)
        self._listen_to(dialled.connection)
        self.report(f"client speaks {self.front.speech.dialect.name}, agent speaks {self._dial.dialect}")
        return marked(dialled.introduction_values)

    def _listen_to(self, agent: Connection) -> None:
        """An agent's updates are a stream: they take the shortest way there is."""
        agent.on_close = self._agent_left
        if self.same:
            agent.tap = self._tap(agent, Side.CLIENT)
        elif (Side.CLIENT, "session/update") not in self._claims:
            agent.tap = short_way(agent, self.front)

    def _agent_left(self, error: BaseException) -> None:
        """The agent is gone: what the client waits for was answered with the reason; then we leave too."""
        if not self.front.ended.is_set():  # else the client left first, and we ended the agent ourselves
            self.report(str(error))
            self.front.leave(error)

    # --- same dialect: frames as they came --------------------------------------------------------------------

    def _tap(self, source: Connection, receiver: Side) -> Any:
        claimed = frozenset(method for side, method in self._claims if side is receiver)

        def tap(envelope: Envelope, frame: bytes) -> tuple[bool, Awaitable[None] | None]:
            method = envelope.method
            if method in claimed or method in _NAMING or method == "initialize":
                return False, None
            target = self.target(receiver)
            if may_name_side(frame):
                envelope, frame = _cleaned(envelope)
            if envelope.id is UNSET:
                if method == "$/cancel_request":
                    return False, None
                target.outbox.write(frame)
            else:
                self._pass_request(source, target, receiver, envelope)
            return True, target.transport.drain() if target.transport.congested() else None

        return tap

    def _pass_request(self, source: Connection, target: Connection, receiver: Side, envelope: Envelope) -> None:
        origin, method = envelope.id, str(envelope.method)
        assert not isinstance(origin, UnsetType)
        row = METHODS.get((receiver, method))
        if row is not None and row.gate and not target.offers(row.gate):
            source.answer(origin, error=_not_offered(method, row.gate))
            return

        def done(answer: Any, error: ProtocolError | None) -> None:
            self._forget(receiver, origin)
            if error is not None:
                source.answer(origin, error=error)
            elif answer.error is not UNSET and answer.result is UNSET:
                source.outbox.write(say_error(origin, answer.error))
            else:
                result = Raw(b"{}") if answer.result is UNSET else answer.result
                source.outbox.write(say_result(origin, result))

        id = target.forward(method, envelope.params, done)
        if id is not UNSET:
            self._forwarded[receiver, origin] = _Forwarded(target, id)

    def _forget(self, receiver: Side, origin: Id) -> None:
        self._forwarded.pop((receiver, origin), None)
        self._answered.set()

    def target(self, receiver: Side) -> Connection:
        """The connection to whoever receives."""
        if receiver is Side.CLIENT:
            return self.front
        if self._first is None:
            raise ProtocolError(Kind.INVALID_STATE, "no agent has been reached yet; send initialize first")
        return self._first.connection

    # --- two dialects: through the vocabulary -----------------------------------------------------------------

    def _to_agent(self, incoming: Incoming, done: Done) -> Awaitable[None] | None:
        if self._first is None:
            if incoming.is_request:
                raise ProtocolError(
                    Kind.INVALID_STATE, f"{incoming.method} came before initialize; send initialize first"
                )
            return None
        if self._dial.dialect == "2025.1" and incoming.method == "session/new":
            return self._open_at_home(incoming, done)
        session = getattr(incoming.params, "session_id", None) if incoming.row is not None else None
        home = self._homes.get(session) if isinstance(session, str) else None
        return self._pass(incoming, done, (home or self._first).connection, Side.AGENT)

    async def _open_at_home(self, incoming: Incoming, done: Done) -> None:
        """A 2025.1 agent has one folder: a session in another one gets another process."""
        dialled = await self._dial.at(incoming.params.cwd)
        self._first = self._dial.first  # which may have moved
        self._listen_to(dialled.connection)

        def opened(result: Any, error: ProtocolError | None) -> None:
            if error is None:
                self._homes[values(result).get("sessionId", "")] = dialled
            done(result, error)

        self._pass(incoming, opened, dialled.connection, Side.AGENT)

    def _to_client(self, incoming: Incoming, done: Done) -> Awaitable[None] | None:
        if incoming.method in _NAMING:
            incoming.source = self._renamed(incoming.values)
        return self._pass(incoming, done, self.front, Side.CLIENT)

    def _renamed(self, params: Any) -> Any:
        """A question about a request of the client's names it as the agent knows it; the client knows another id."""
        if isinstance(params, dict) and "requestId" in params:
            for (receiver, origin), passed in self._forwarded.items():
                if receiver is Side.AGENT and passed.id == params["requestId"]:
                    return {**params, "requestId": origin}
        return params

    def _pass(self, incoming: Incoming, done: Done, target: Connection, receiver: Side) -> Awaitable[None] | None:
        """Say the message again on the other connection; its answer comes back the same way."""
        if not self.same:
            self._note_losses(incoming, target, receiver)
        if not incoming.is_request:
            target.notify(incoming.method, incoming.values, foreign=True)
            return target.transport.drain() if target.transport.congested() else None
        origin = incoming.id
        assert not isinstance(origin, UnsetType)
        if incoming.row is not None:
            incoming.params  # noqa: B018  (invalid params are answered here, with every fault, not by the peer)

        def answered(result: Any, error: ProtocolError | None) -> None:
            self._forget(receiver, origin)
            done(values(result) if error is None else None, error)

        id = target.call(incoming.method, incoming.values, answered, raw=True)
        if id is not UNSET:
            turn = incoming.params.session_id if incoming.method == "session/prompt" else None
            self._forwarded[receiver, origin] = _Forwarded(target, id, turn)
        return None

    def _cancelling(self, receiver: Side) -> Handler:
        """`$/cancel_request` towards `receiver`: ids are our own on each side, so name the request as it knows it.

        Whoever takes a request back still gets its answer. A request that was claimed is its handler's to give up.
        """

        def cancel(incoming: Incoming, _: Done) -> None:
            named = incoming.params.request_id
            found = self._forwarded.get((receiver, named))
            if found is not None:
                found.call_off()
            elif receiver is Side.AGENT or self._first is not None:
                self.target(receiver.other).inbound.cancel(named)

        return cancel

    def _note_losses(self, incoming: Incoming, target: Connection, receiver: Side) -> None:
        """Tell, once for each kind of message, what the other dialect has no words for."""
        if target.speech is None or len(self._shapes) >= SHAPES:
            return
        source = incoming.values
        if not isinstance(source, dict):
            return
        update = source.get("update")
        update = update if isinstance(update, dict) else {}
        shape = (receiver, incoming.method, update.get("sessionUpdate"), frozenset(source), frozenset(update))
        if shape in self._shapes:
            return
        self._shapes.add(shape)
        kind = f" ({shape[2]})" if shape[2] else ""
        spoken = target.speech.dialect
        expected = _EXPECTED | _MADE_UP_FOR.get(incoming.method, frozenset())
        for path in losses(spoken, receiver, incoming.method, source):
            if path not in expected and path != incoming.method:  # a whole message is told of when it is not passed
                self.front.say_once(f"{incoming.method}{kind}: {spoken.name} has no word for {path}")


# Members every dialect but v1 leaves to its ledger; nothing is lost with them.
_EXPECTED = frozenset({"sessionId", "protocolVersion", "cwd", "mcpServers"})

# Members that are said in another way (a command line, a text, yes or no) or done by the ledger instead.
_MADE_UP_FOR: dict[str, frozenset[str]] = {
    "fs/read_text_file": frozenset({"line", "limit"}),
    "terminal/create": frozenset({"command", "args", "args[]", "env", "outputByteLimit"}),
    "session/request_permission": frozenset({"options[]", "options[].kind", "toolCall.rawInput", "toolCall.status"}),
}


def short_way(source: Connection, target: Connection) -> Tap:
    """Between two dialects: bare pieces of text are said again at once; all else takes the long way, in its turn."""
    assert source.speech is not None
    assert target.speech is not None
    read, say = source.speech.dialect.chunk.read, target.speech.dialect.chunk.say
    ledgers = [end.emulation.ledger for end in (source, target) if end.emulation is not None]
    transport = target.transport

    def tap(envelope: Envelope, _: bytes) -> tuple[bool, Awaitable[None] | None]:
        if envelope.method != "session/update" or envelope.id is not UNSET or envelope.params is UNSET:
            return False, None
        chunk = read(envelope.params)
        for ledger in ledgers:
            if chunk is None:
                break
            chunk = ledger.pass_chunk(chunk)
        if chunk is None:
            return False, None
        target.outbox.write(say_call(UNSET, "session/update", say(chunk)))
        return True, transport.drain() if transport.congested() else None

    return tap


def pass_on(data: bytes) -> None:
    """An agent's own words on stderr, to whoever reads ours."""
    try:
        os.write(2, data)
    except OSError:
        pass


def _initialized() -> ProtocolError:
    return ProtocolError(Kind.INVALID_STATE, "this connection is initialized already; open a new one")


def _not_offered(method: str, gate: str) -> ProtocolError:
    what = gate.partition(".")[2]
    return ProtocolError(
        Kind.CAPABILITY_UNSUPPORTED,
        f"{method} needs {what}, which the peer does not offer",
        {"method": method, "capability": what},
    )


def _cleaned(envelope: Envelope) -> tuple[Envelope, bytes]:
    """The same call without what the peer put under our own key."""
    params: Any = UNSET
    if envelope.params is not UNSET:
        params = Raw(encode(untainted(values(envelope.params), str(envelope.method))))
    cleaned = Envelope(id=envelope.id, method=envelope.method, params=params)
    return cleaned, say_call(envelope.id, str(envelope.method), None if params is UNSET else params)
