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

from dragoman.dialect.dialects import load_dialect as find_dialect
from dragoman.dialect.losses import losses
from dragoman.engine.codec import may_have_side_data, strip_side_data
from dragoman.engine.connection import Connection, Tap
from dragoman.engine.decode import json_values
from dragoman.engine.handler import Handler
from dragoman.engine.incoming import Incoming
from dragoman.engine.pending import DoneCallback
from dragoman.errors import Kind, ProtocolError
from dragoman.roles.agent.agent import emulator_settings
from dragoman.roles.client.dial import ConnectedAgent, Dialer
from dragoman.roles.client.terminal_login import mark_login_methods
from dragoman.schema.base import encode
from dragoman.schema.methods import METHODS
from dragoman.schema.side import Side
from dragoman.transport.base import Transport
from dragoman.wire.envelope import Envelope, Id, encode_call, encode_error, encode_result

# A client that has ended its input still gets the answers to what it asked, if they come so soon: some agents install
# themselves before they say anything (peers.md 59). Seconds.
ANSWER_TIMEOUT = 120.0

# How often it is looked meanwhile whether the client is still there to read them. Seconds.
POLL_INTERVAL = 0.2

# Shapes of messages whose losses were worked out; past this many nothing new is looked at.
MAX_SHAPES = 500


# Calls that name a request of the other side, whose ids are our own on each connection.
_NAMES_REQUEST = frozenset({"elicitation/create"})


class _Forwarded(NamedTuple):
    """A request that was passed on: to whom, as what, and the session whose turn it is."""

    target: Connection
    id: Id
    turn_session: str | None = None

    def cancel(self) -> None:
        """Its sender takes it back: a turn, where requests cannot be taken back, is cancelled as a turn."""
        speech = self.target.codec
        if self.turn_session is not None and speech is not None and not speech.dialect.cancels:
            self.target.notify("session/cancel", {"sessionId": self.turn_session})
        else:
            self.target.cancel_request(self.id, wait=True)


class Relay:
    """One client on the front, one agent (or one process for each folder) on the back."""

    def __init__(
        self,
        transport: Transport,
        dialer: Dialer,
        *,
        client_dialect: str = "auto",
        permission: str = "ask",
        report: Callable[[str], None],
    ) -> None:
        self.report = report
        self._dialer = dialer
        self._claims: dict[tuple[Side, str], Handler] = {}
        self._forwarded: dict[tuple[Side, Id], _Forwarded] = {}
        self._seen_shapes: set[Any] = set()
        self._agent_by_session: dict[
            str, ConnectedAgent
        ] = {}  # where a session lives, when there is more than one process
        self._agent: ConnectedAgent | None = None
        self.same_dialect = False
        self.client = Connection(
            transport,
            Side.AGENT,
            {"initialize": self._initialize, "$/cancel_request": self._cancel_handler(Side.AGENT)},
            fallback=self._forward_to_agent,
            settings=emulator_settings(permission=permission),
            peer_dialect=None if client_dialect == "auto" else find_dialect(client_dialect),
            report=report,
        )
        self._answer_forwarded = asyncio.Event()  # set when something that was passed on has its answer
        self._is_client_reading: Callable[[], bool] | None = getattr(transport, "has_reader", None)
        if self._is_client_reading is not None:
            self.client.on_eof = self._finish_answers

    def claim(self, receiver: Side, method: str, handler: Handler) -> None:
        """Let this handler have the calls of a method that `receiver` would get; before `run`."""
        self._claims[receiver, method] = handler
        if receiver is Side.AGENT and method != "initialize":
            self.client.handlers[method] = handler

    async def run(self) -> BaseException:
        """Relay until one of the two leaves; gives the reason."""
        self.client.start()
        try:
            await self.client.ended.wait()
        finally:
            await self._dialer.close()
            await self.client.close()
        assert self.client.failure is not None
        return self.client.failure

    async def _finish_answers(self) -> None:
        """The client asks nothing more, and can be asked nothing: it waits for its answers, or has left."""
        self.client.note_peer_eof()
        assert self._is_client_reading is not None
        loop = asyncio.get_running_loop()
        end = loop.time() + ANSWER_TIMEOUT
        while self._has_open_requests and self._is_client_reading() and loop.time() < end:
            if self.client.running_requests.is_busy:
                await self.client.running_requests.wait_finished(POLL_INTERVAL)
                continue
            self._answer_forwarded.clear()
            with suppress(TimeoutError):
                async with asyncio.timeout(POLL_INTERVAL):
                    await self._answer_forwarded.wait()

    @property
    def _has_open_requests(self) -> bool:
        return self.client.running_requests.is_busy or any(receiver is Side.AGENT for receiver, _ in self._forwarded)

    # --- the introduction -------------------------------------------------------------------------------------

    def _initialize(self, incoming: Incoming, done: DoneCallback) -> Awaitable[None] | None:
        if self._agent is not None:
            raise _already_initialized()
        claimed = self._claims.get((Side.AGENT, "initialize"))

        def introduced(result: Any, error: ProtocolError | None) -> None:
            done(result, error)
            if self._agent is not None and self._agent.connection.failure is not None:
                self._on_agent_lost(self._agent.connection.failure)

        return claimed(incoming, introduced) if claimed else self._start_and_answer(incoming, introduced)

    async def _start_and_answer(self, incoming: Incoming, done: DoneCallback) -> None:
        done(await self.start_agent(incoming.params, incoming.values), None)

    async def start_agent(self, params: Any, raw_params: Any) -> Any:
        """Start the agent with what the client offers; gives what the agent offers, as plain values."""
        if self._agent is not None:
            raise _already_initialized()
        back = {method: handler for (side, method), handler in self._claims.items() if side is Side.CLIENT}
        handlers: dict[str, Handler] = {"$/cancel_request": self._cancel_handler(Side.CLIENT), **back}
        side = json_values(params.meta or {}).get("dragoman", {})
        if isinstance(side.get("workingDirectory"), str) and side["workingDirectory"].startswith("/"):
            self._dialer.cwd = side["workingDirectory"]
        if "mcpServers" in side and self._dialer.dialect != "2025.1":  # may hold secrets, and has no place elsewhere
            meta = {**params.meta, "dragoman": {**side, "mcpServers": []}}
            params = msgspec.structs.replace(params, meta=meta)
        dialled = await self._dialer.start(params, handlers, self._forward_to_client, raw_params)
        self._agent = dialled
        assert self.client.codec is not None
        self.same_dialect = self.client.codec.dialect.name == self._dialer.dialect
        if self.same_dialect:  # both ends say everything the same way: nothing is left to emulate
            self.client.emulation = dialled.connection.emulation = None
            self.client.tap = self._frame_tap(self.client, Side.AGENT)
        self._listen_to(dialled.connection)
        self.report(f"client speaks {self.client.codec.dialect.name}, agent speaks {self._dialer.dialect}")
        return mark_login_methods(dialled.initialize_values)

    def _listen_to(self, agent: Connection) -> None:
        """An agent's updates are a stream: they take the shortest way there is."""
        agent.on_close = self._on_agent_lost
        if self.same_dialect:
            agent.tap = self._frame_tap(agent, Side.CLIENT)
        elif (Side.CLIENT, "session/update") not in self._claims:
            agent.tap = text_chunk_tap(agent, self.client)

    def _on_agent_lost(self, error: BaseException) -> None:
        """The agent is gone: what the client waits for was answered with the reason; then we leave too."""
        if not self.client.ended.is_set():  # else the client left first, and we ended the agent ourselves
            self.report(str(error))
            self.client.close_soon(error)

    # --- same dialect: frames as they came --------------------------------------------------------------------

    def _frame_tap(self, source: Connection, receiver: Side) -> Any:
        claimed = frozenset(method for side, method in self._claims if side is receiver)

        def tap(envelope: Envelope, frame: bytes) -> tuple[bool, Awaitable[None] | None]:
            method = envelope.method
            if method in claimed or method in _NAMES_REQUEST or method == "initialize":
                return False, None
            target = self.connection_to(receiver)
            if may_have_side_data(frame):
                envelope, frame = _strip_side_data(envelope)
            if envelope.id is UNSET:
                if method == "$/cancel_request":
                    return False, None
                target.outbox.write(frame)
            else:
                self._forward_request(source, target, receiver, envelope)
            return True, target.transport.drain() if target.transport.congested() else None

        return tap

    def _forward_request(self, source: Connection, target: Connection, receiver: Side, envelope: Envelope) -> None:
        origin, method = envelope.id, str(envelope.method)
        assert not isinstance(origin, UnsetType)
        row = METHODS.get((receiver, method))
        if row is not None and row.gate and not target.offers(row.gate):
            source.send_error(origin, error=_not_offered(method, row.gate))
            return

        def done(answer: Any, error: ProtocolError | None) -> None:
            self._forget_request(receiver, origin)
            if error is not None:
                source.send_error(origin, error=error)
            elif answer.error is not UNSET and answer.result is UNSET:
                source.outbox.write(encode_error(origin, answer.error))
            else:
                result = Raw(b"{}") if answer.result is UNSET else answer.result
                source.outbox.write(encode_result(origin, result))

        id = target.forward(method, envelope.params, done)
        if id is not UNSET:
            self._forwarded[receiver, origin] = _Forwarded(target, id)

    def _forget_request(self, receiver: Side, origin: Id) -> None:
        self._forwarded.pop((receiver, origin), None)
        self._answer_forwarded.set()

    def connection_to(self, receiver: Side) -> Connection:
        """The connection to whoever receives."""
        if receiver is Side.CLIENT:
            return self.client
        if self._agent is None:
            raise ProtocolError(Kind.INVALID_STATE, "no agent has been reached yet; send initialize first")
        return self._agent.connection

    # --- two dialects: through the vocabulary -----------------------------------------------------------------

    def _forward_to_agent(self, incoming: Incoming, done: DoneCallback) -> Awaitable[None] | None:
        if self._agent is None:
            if incoming.is_request:
                raise ProtocolError(
                    Kind.INVALID_STATE, f"{incoming.method} came before initialize; send initialize first"
                )
            return None
        if self._dialer.dialect == "2025.1" and incoming.method == "session/new":
            return self._open_in_own_process(incoming, done)
        session = getattr(incoming.params, "session_id", None) if incoming.row is not None else None
        home = self._agent_by_session.get(session) if isinstance(session, str) else None
        return self._forward(incoming, done, (home or self._agent).connection, Side.AGENT)

    async def _open_in_own_process(self, incoming: Incoming, done: DoneCallback) -> None:
        """A 2025.1 agent has one folder: a session in another one gets another process."""
        dialled = await self._dialer.agent_for_cwd(incoming.params.cwd)
        self._agent = self._dialer.main  # which may have moved
        self._listen_to(dialled.connection)

        def opened(result: Any, error: ProtocolError | None) -> None:
            if error is None:
                self._agent_by_session[json_values(result).get("sessionId", "")] = dialled
            done(result, error)

        self._forward(incoming, opened, dialled.connection, Side.AGENT)

    def _forward_to_client(self, incoming: Incoming, done: DoneCallback) -> Awaitable[None] | None:
        if incoming.method in _NAMES_REQUEST:
            incoming.source = self._map_request_id(incoming.values)
        return self._forward(incoming, done, self.client, Side.CLIENT)

    def _map_request_id(self, params: Any) -> Any:
        """A question about a request of the client's names it as the agent knows it; the client knows another id."""
        if isinstance(params, dict) and "requestId" in params:
            for (receiver, origin), passed in self._forwarded.items():
                if receiver is Side.AGENT and passed.id == params["requestId"]:
                    return {**params, "requestId": origin}
        return params

    def _forward(
        self, incoming: Incoming, done: DoneCallback, target: Connection, receiver: Side
    ) -> Awaitable[None] | None:
        """Say the message again on the other connection; its answer comes back the same way."""
        if not self.same_dialect:
            self._report_losses(incoming, target, receiver)
        if not incoming.is_request:
            target.notify(incoming.method, incoming.values, foreign=True)
            return target.transport.drain() if target.transport.congested() else None
        origin = incoming.id
        assert not isinstance(origin, UnsetType)
        if incoming.row is not None:
            incoming.params  # noqa: B018  (invalid params are answered here, with every fault, not by the peer)

        def answered(result: Any, error: ProtocolError | None) -> None:
            self._forget_request(receiver, origin)
            done(json_values(result) if error is None else None, error)

        id = target.call(incoming.method, incoming.values, answered, raw=True)
        if id is not UNSET:
            turn = incoming.params.session_id if incoming.method == "session/prompt" else None
            self._forwarded[receiver, origin] = _Forwarded(target, id, turn)
        return None

    def _cancel_handler(self, receiver: Side) -> Handler:
        """`$/cancel_request` towards `receiver`: ids are our own on each side, so name the request as it knows it.

        Whoever takes a request back still gets its answer. A request that was claimed is its handler's to give up.
        """

        def cancel(incoming: Incoming, _: DoneCallback) -> None:
            named = incoming.params.request_id
            found = self._forwarded.get((receiver, named))
            if found is not None:
                found.cancel()
            elif receiver is Side.AGENT or self._agent is not None:
                self.connection_to(receiver.other).running_requests.cancel(named)

        return cancel

    def _report_losses(self, incoming: Incoming, target: Connection, receiver: Side) -> None:
        """Tell, once for each kind of message, what the other dialect has no words for."""
        if target.codec is None or len(self._seen_shapes) >= MAX_SHAPES:
            return
        source = incoming.values
        if not isinstance(source, dict):
            return
        update = source.get("update")
        update = update if isinstance(update, dict) else {}
        shape = (receiver, incoming.method, update.get("sessionUpdate"), frozenset(source), frozenset(update))
        if shape in self._seen_shapes:
            return
        self._seen_shapes.add(shape)
        kind = f" ({shape[2]})" if shape[2] else ""
        spoken = target.codec.dialect
        expected = _EXPECTED | _EMULATED.get(incoming.method, frozenset())
        for path in losses(spoken, receiver, incoming.method, source):
            if path not in expected and path != incoming.method:  # a whole message is told of when it is not passed
                self.client.report_once(f"{incoming.method}{kind}: {spoken.name} has no word for {path}")


# Members every dialect but v1 leaves to its ledger; nothing is lost with them.
_EXPECTED = frozenset({"sessionId", "protocolVersion", "cwd", "mcpServers"})

# Members that are said in another way (a command line, a text, yes or no) or done by the ledger instead.
_EMULATED: dict[str, frozenset[str]] = {
    "fs/read_text_file": frozenset({"line", "limit"}),
    "terminal/create": frozenset({"command", "args", "args[]", "env", "outputByteLimit"}),
    "session/request_permission": frozenset({"options[]", "options[].kind", "toolCall.rawInput", "toolCall.status"}),
}


def text_chunk_tap(source: Connection, target: Connection) -> Tap:
    """Between two dialects: bare pieces of text are said again at once; all else takes the long way, in its turn."""
    assert source.codec is not None
    assert target.codec is not None
    read, say = source.codec.dialect.chunk_form.parse_params, target.codec.dialect.chunk_form.render_params
    ledgers = [end.emulation.emulator for end in (source, target) if end.emulation is not None]
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
        target.outbox.write(encode_call(UNSET, "session/update", say(chunk)))
        return True, transport.drain() if transport.congested() else None

    return tap


def write_stderr(data: bytes) -> None:
    """An agent's own words on stderr, to whoever reads ours."""
    try:
        os.write(2, data)
    except OSError:
        pass


def _already_initialized() -> ProtocolError:
    return ProtocolError(Kind.INVALID_STATE, "this connection is initialized already; open a new one")


def _not_offered(method: str, gate: str) -> ProtocolError:
    what = gate.partition(".")[2]
    return ProtocolError(
        Kind.CAPABILITY_UNSUPPORTED,
        f"{method} needs {what}, which the peer does not offer",
        {"method": method, "capability": what},
    )


def _strip_side_data(envelope: Envelope) -> tuple[Envelope, bytes]:
    """The same call without what the peer put under our own key."""
    params: Any = UNSET
    if envelope.params is not UNSET:
        params = Raw(encode(strip_side_data(json_values(envelope.params), str(envelope.method))))
    cleaned = Envelope(id=envelope.id, method=envelope.method, params=params)
    return cleaned, encode_call(envelope.id, str(envelope.method), None if params is UNSET else params)
