"""Relay: forward messages between a client and an agent. In the same dialect, frames are forwarded as they are, with
mapped ids; otherwise every message is lifted from one dialect and lowered into the other. A slow reader slows its
sender.
"""

from __future__ import annotations

import os
from collections.abc import Awaitable, Callable
from typing import Any, NamedTuple

import msgspec
from msgspec import UNSET, Raw, UnsetType

from dragoman.dialect.dialects import load_dialect
from dragoman.dialect.emulator import SessionIds
from dragoman.dialect.narrow import NARROWED_METHODS
from dragoman.dialect.side_data import without_agent_notes
from dragoman.engine.codec import json_values, may_have_side_data, strip_side_data
from dragoman.engine.connection import Connection
from dragoman.engine.incoming import DoneCallback, Handler, Incoming
from dragoman.errors import Kind, ProtocolError
from dragoman.roles.client.callbacks import mark_login_methods
from dragoman.roles.client.dial import ConnectedAgent, Dialer
from dragoman.roles.emulator_settings import emulator_settings
from dragoman.roles.proxy.last_answers import LastAnswers
from dragoman.roles.proxy.lost_members import LostMembers, initialize_losses
from dragoman.roles.proxy.text_chunk_tap import text_chunk_tap
from dragoman.schema.base import encode
from dragoman.schema.initialize import InitializeParams
from dragoman.schema.methods import METHODS
from dragoman.schema.side import Side
from dragoman.transport.base import Transport
from dragoman.wire.envelope import Envelope, Id, encode_call, encode_error, encode_result

# The protocol version of the vocabulary. A client that asks for a later one is answered with it.
VERSION = 1

_PROMPT = "session/prompt"

# Calls with the id of a request of the other side; ids differ on each connection.
_NAMES_REQUEST = frozenset({"elicitation/create"})


class _Forwarded(NamedTuple):
    """A forwarded request: its connection and id there, its method, and the session if it is a prompt."""

    target: Connection
    id: Id
    method: str
    turn_session: str | None = None

    def cancel(self) -> None:
        """Cancel the request; a prompt is cancelled by session/cancel in a dialect that cannot cancel requests."""
        codec = self.target.sender.codec
        if self.turn_session is not None and codec is not None and not codec.dialect.cancels:
            self.target.notify("session/cancel", {"sessionId": self.turn_session})
        else:
            self.target.cancel_request(self.id, wait=True)


class Relay:
    """One client, and one agent (or one agent process for each folder)."""

    def __init__(
        self,
        transport: Transport,
        dialer: Dialer,
        *,
        client_dialect: str = "auto",
        permission: str = "ask",
        session_ids: SessionIds | None = None,
        report: Callable[[str], None],
    ) -> None:
        self.report = report
        self._dialer = dialer
        self._claims: dict[tuple[Side, str], Handler] = {}
        self._forwarded: dict[tuple[Side, Id], _Forwarded] = {}
        self._agent_by_session: dict[str, ConnectedAgent] = {}  # if there is more than one agent process
        self._agent: ConnectedAgent | None = None
        self.same_dialect = False
        self._narrows = False  # whether the client knows less than the agent tells
        self.client = Connection(
            transport,
            Side.AGENT,
            {"initialize": self._initialize, "$/cancel_request": self._cancel_handler(Side.AGENT)},
            fallback=self.forward_to_agent,
            settings=emulator_settings(permission=permission, session_ids=session_ids),
            peer_dialect=None if client_dialect == "auto" else load_dialect(client_dialect),
            report=report,
        )
        self._lost = LostMembers(self.client.sender.report_once)
        self._last_answers = LastAnswers(self.client, self._has_open_requests)

    def claim(self, receiver: Side, method: str, handler: Handler) -> None:
        """Handle the calls of a method to `receiver` with this handler; before `run`."""
        self._claims[receiver, method] = handler
        if receiver is Side.AGENT and method != "initialize":
            self.client.handlers[method] = handler

    def handler_of(self, receiver: Side, method: str) -> Handler:
        """Return what handles a method now, for a claim that wraps it."""
        default = self.forward_to_client if receiver is Side.CLIENT else self.forward_to_agent
        if (receiver, method) == (Side.AGENT, "initialize"):
            default = self._start_and_answer
        return self._claims.get((receiver, method), default)

    async def run(self) -> BaseException:
        """Relay until the client or the agent disconnects; return the reason."""
        self.client.start()
        try:
            await self.client.ended.wait()
        finally:
            await self._dialer.close()
            await self.client.close()
        assert self.client.failure is not None
        return self.client.failure

    def _has_open_requests(self, besides: str = "") -> bool:
        """Return whether requests of the client are open, besides those of a method."""
        is_turn = self._agent is not None and (Side.AGENT, besides) in self._claims  # a proxy handles the prompts
        return (self.client.running_requests.is_busy and not is_turn) or any(
            receiver is Side.AGENT and each.method != besides for (receiver, _), each in self._forwarded.items()
        )

    # --- initialize -------------------------------------------------------------------------------------------

    def _initialize(self, incoming: Incoming, done: DoneCallback) -> Awaitable[None] | None:
        if self._agent is not None:
            raise _already_initialized()
        claimed = self._claims.get((Side.AGENT, "initialize"))

        def answer(result: Any, error: ProtocolError | None) -> None:
            done(result, error)
            if self._agent is not None and self._agent.connection.failure is not None:
                self._on_agent_lost(self._agent.connection.failure)

        return claimed(incoming, answer) if claimed else self._start_and_answer(incoming, answer)

    async def _start_and_answer(self, incoming: Incoming, done: DoneCallback) -> None:
        done(await self.start_agent(incoming.params, incoming.values), None)

    async def start_agent(self, params: Any, raw_params: Any) -> Any:
        """Start the agent with the client's capabilities; return its answer as plain JSON."""
        if self._agent is not None:
            raise _already_initialized()
        params = agent_params(self._dialer, params)
        spoken = self.client.dialect
        first_try = spoken.name if spoken.official else ""
        handlers = self._agent_handlers()
        connected = await self._dialer.start(params, handlers, self.forward_to_client, raw_params, first_try=first_try)
        return self._adopt(connected, raw_params)

    def _agent_handlers(self) -> dict[str, Handler]:
        claimed = {method: handler for (side, method), handler in self._claims.items() if side is Side.CLIENT}
        return {"$/cancel_request": self._cancel_handler(Side.CLIENT), **claimed}

    def adopt(self, connected: ConnectedAgent, raw_params: Any) -> Any:
        """Take over an agent that was initialized with these params; return its answer as plain JSON."""
        connected.connection.handlers.update(self._agent_handlers())
        connected.connection.fallback = self.forward_to_client
        self.client.peer.note_initialize(raw_params)
        values = self._adopt(connected, raw_params)
        self.client.peer.note_initialize_result(values)
        return values

    def _adopt(self, connected: ConnectedAgent, raw_params: Any) -> Any:
        self._agent = connected
        assert self.client.sender.codec is not None
        self.same_dialect = self.client.sender.codec.dialect.name == self._dialer.dialect
        if self.same_dialect:  # nothing to emulate
            for end in (self.client, connected.connection):
                end.sender.emulation = end.peer.emulator = None
            self.client.tap = self._frame_tap(self.client, Side.AGENT)
        elif connected.connection.dialect.is_wide and not self.client.dialect.is_wide:
            self.client.narrow_updates(self._report_narrowed_losses)
            self._narrows = True
        self._listen_to(connected.connection)
        self.report(f"client speaks {self.client.sender.codec.dialect.name}, agent speaks {self._dialer.dialect}")
        if not self.same_dialect:
            ends = connected.connection.dialect, json_values(raw_params), self.client.dialect
            for line in initialize_losses(*ends, connected.initialize_values):
                self.report(line)
        answer = initialize_answer(connected)
        return answer if self.client.dialect.is_wide else without_agent_notes(answer)

    def _listen_to(self, agent: Connection) -> None:
        """Install the fastest tap for the agent's updates."""
        agent.on_close = self._on_agent_lost
        if self.same_dialect:
            agent.tap = self._frame_tap(agent, Side.CLIENT)
        elif (Side.CLIENT, "session/update") not in self._claims:
            agent.tap = text_chunk_tap(agent, self.client)

    def _on_agent_lost(self, error: BaseException) -> None:
        """End the client's connection, because the agent is gone; its requests are answered with the reason."""
        if not self.client.ended.is_set():  # otherwise the client disconnected first
            self.report(str(error))
            self.client.close_soon(error)

    # --- same dialect: frames unchanged -----------------------------------------------------------------------

    def _frame_tap(self, source: Connection, receiver: Side) -> Any:
        claimed = frozenset(method for side, method in self._claims if side is receiver)
        native = source.dialect.native

        def tap(envelope: Envelope, frame: bytes) -> tuple[bool, Awaitable[None] | None]:
            method = envelope.method
            if method in claimed or method in _NAMES_REQUEST or method == "initialize":
                return False, None
            if native is not None and method == "session/update" and native.is_incomplete(frame):
                return False, None  # the codec completes it
            target = self.connection_to(receiver)
            if not source.sender.trusts_side_data and may_have_side_data(frame):
                envelope, frame = _strip_side_data(envelope)
            if envelope.id is UNSET:
                if method == "$/cancel_request":
                    return False, None
                target.sender.outbox.write(frame)
            else:
                self._forward_request(source, target, receiver, envelope)
            return True, target.transport.drain() if target.transport.congested() else None

        return tap

    def _forward_request(self, source: Connection, target: Connection, receiver: Side, envelope: Envelope) -> None:
        origin, method = envelope.id, str(envelope.method)
        assert not isinstance(origin, UnsetType)
        row = METHODS.get((receiver, method))
        if row is not None and row.gate and not target.offers(row.gate):
            source.sender.send_error(origin, error=_not_offered(method, row.gate))
            return

        def done(answer: Any, error: ProtocolError | None) -> None:
            self._forget_request(receiver, origin)
            if error is not None:
                source.sender.send_error(origin, error=error)
            elif answer.error is not UNSET and answer.result is UNSET:
                source.sender.outbox.write(encode_error(origin, answer.error))
            else:
                result = Raw(b"{}") if answer.result is UNSET else answer.result
                source.sender.outbox.write(encode_result(origin, result))

        id = target.forward(method, envelope.params, done)
        if id is not UNSET:
            self._forwarded[receiver, origin] = _Forwarded(target, id, method)

    def _forget_request(self, receiver: Side, origin: Id) -> None:
        self._forwarded.pop((receiver, origin), None)
        self._last_answers.note_answer()

    def connection_to(self, receiver: Side) -> Connection:
        """Return the connection to the client or to the agent."""
        if receiver is Side.CLIENT:
            return self.client
        if self._agent is None:
            raise ProtocolError(Kind.INVALID_STATE, "the agent is not started yet; send initialize first")
        return self._agent.connection

    def agent_of(self, session_id: object) -> Connection:
        """Return the connection to the agent that has a session."""
        owner = self._agent_by_session.get(session_id) if isinstance(session_id, str) else None
        return self.connection_to(Side.AGENT) if owner is None else owner.connection

    # --- two dialects: through the vocabulary -----------------------------------------------------------------

    def forward_to_agent(self, incoming: Incoming, done: DoneCallback) -> Awaitable[None] | None:
        """Forward a call of the client; a handler for `claim`."""
        if self._agent is None:
            if incoming.is_request:
                raise ProtocolError(
                    Kind.INVALID_STATE, f"{incoming.method} arrived before initialize; send initialize first"
                )
            return None
        if self._dialer.has_one_folder and incoming.method == "session/new":
            return self._open_in_own_process(incoming, done)
        session = getattr(incoming.params, "session_id", None) if incoming.row is not None else None
        return self._forward(incoming, done, self.agent_of(session), Side.AGENT)

    async def _open_in_own_process(self, incoming: Incoming, done: DoneCallback) -> None:
        """Open a session of an agent that has one folder, in the process for its folder."""
        connected = await self._dialer.agent_for_cwd(incoming.params.cwd)
        self._agent = self._dialer.main  # may be another process now
        self._listen_to(connected.connection)

        def answer(result: Any, error: ProtocolError | None) -> None:
            if error is None:
                self._agent_by_session[json_values(result).get("sessionId", "")] = connected
            done(result, error)

        self._forward(incoming, answer, connected.connection, Side.AGENT)

    def forward_to_client(self, incoming: Incoming, done: DoneCallback) -> Awaitable[None] | None:
        """Forward a call of the agent; a handler for `claim`."""
        if incoming.method in _NAMES_REQUEST:
            incoming.values = self._map_request_id(incoming.values)
        return self._forward(incoming, done, self.client, Side.CLIENT)

    def _map_request_id(self, params: Any) -> Any:
        """Replace the id of a client's request, to which a question refers, by the client's own id for it."""
        if isinstance(params, dict) and "requestId" in params:
            for (receiver, origin), forwarded in self._forwarded.items():
                if receiver is Side.AGENT and forwarded.id == params["requestId"]:
                    return {**params, "requestId": origin}
        return params

    def _forward(
        self, incoming: Incoming, done: DoneCallback, target: Connection, receiver: Side
    ) -> Awaitable[None] | None:
        """Send the message on the other connection; its answer comes back the same way."""
        method = incoming.method
        is_narrowed = self._narrows and receiver is Side.CLIENT and method in NARROWED_METHODS
        if not self.same_dialect and not is_narrowed:
            self._lost.report_call(receiver, method, incoming.values, target.dialect)
        if not incoming.is_request:
            target.notify(incoming.method, incoming.values, foreign=True)
            return target.transport.drain() if target.transport.congested() else None
        origin = incoming.id
        assert not isinstance(origin, UnsetType)
        if incoming.row is not None:
            incoming.params  # noqa: B018  (invalid params are answered here, with every error, not by the peer)

        def answer(result: Any, error: ProtocolError | None) -> None:
            self._forget_request(receiver, origin)
            values = json_values(result) if error is None else None
            if not self.same_dialect:
                self._lost.report_result(receiver, method, values, self.connection_to(receiver.other).dialect)
            done(values, error)

        id = target.call(incoming.method, incoming.values, answer, raw=True)
        if id is not UNSET:
            turn = incoming.params.session_id if incoming.method == _PROMPT else None
            self._forwarded[receiver, origin] = _Forwarded(target, id, incoming.method, turn)
        return None

    def _cancel_handler(self, receiver: Side) -> Handler:
        """Return a handler that forwards `$/cancel_request` to `receiver` with the id there; a claimed request is
        cancelled in its handler. The sender of a cancelled request still gets its answer."""

        def cancel(incoming: Incoming, _: DoneCallback) -> None:
            request_id = incoming.params.request_id
            forwarded = self._forwarded.get((receiver, request_id))
            if forwarded is not None:
                forwarded.cancel()
            elif receiver is Side.AGENT or self._agent is not None:
                self.connection_to(receiver.other).running_requests.cancel(request_id)

        return cancel

    def _report_narrowed_losses(self, method: str, params: Any) -> None:
        """Report what the client's dialect cannot carry of a message that was narrowed before."""
        self._lost.report_call(Side.CLIENT, method, json_values(params), self.client.dialect)


def agent_params(dialer: Dialer, params: InitializeParams) -> InitializeParams:
    """Return a client's params of initialize as its agent gets them; the client may name the agent's folder."""
    if params.protocol_version > VERSION:  # some agents refuse a version that they do not know
        params = msgspec.structs.replace(params, protocol_version=VERSION)
    side = json_values(params.meta or {}).get("dragoman", {})
    if isinstance(side.get("workingDirectory"), str) and side["workingDirectory"].startswith("/"):
        dialer.cwd = side["workingDirectory"]
    if "mcpServers" in side and not dialer.has_one_folder:  # they may hold secrets
        meta = {**(params.meta or {}), "dragoman": {**side, "mcpServers": []}}
        params = msgspec.structs.replace(params, meta=meta)
    return params


def initialize_answer(connected: ConnectedAgent) -> Any:
    """Return an agent's answer to initialize, as a client gets it."""
    values = connected.initialize_values
    if connected.initialize_result.protocol_version > VERSION:
        values = {**values, "protocolVersion": VERSION}
    return mark_login_methods(values)


def write_stderr(data: bytes) -> None:
    """Write the agent's stderr to ours."""
    try:
        os.write(2, data)
    except OSError:
        pass


def _already_initialized() -> ProtocolError:
    return ProtocolError(Kind.INVALID_STATE, "this connection is already initialized; open a new one")


def _not_offered(method: str, gate: str) -> ProtocolError:
    capability = gate.partition(".")[2]
    return ProtocolError(
        Kind.CAPABILITY_UNSUPPORTED,
        f"{method} needs the capability {capability}, which the peer does not offer",
        {"method": method, "capability": capability},
    )


def _strip_side_data(envelope: Envelope) -> tuple[Envelope, bytes]:
    """Remove what the peer put under our own key."""
    params: Any = UNSET
    if envelope.params is not UNSET:
        params = Raw(encode(strip_side_data(json_values(envelope.params), str(envelope.method))))
    cleaned = Envelope(id=envelope.id, method=envelope.method, params=params)
    return cleaned, encode_call(envelope.id, str(envelope.method), None if params is UNSET else params)
