"""An agent process that several rooms of one user share. Each room sees only its own sessions.

Requests get new ids, and their answers the old ones. initialize and authenticate are sent once and answered to all.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import msgspec
from msgspec import UNSET, Raw, UnsetType

from dragoman.dialect.dialects import TurnCancel
from dragoman.dialect.peek import peek_params
from dragoman.errors import ConnectionFailed, TransportClosed
from dragoman.host.pool.ids import (
    MALFORMED_REPLY_ERROR,
    PERMISSION_CANCELLED,
    SESSION_CLOSED_ERROR,
    SESSION_TAKEN_ERROR,
    Deliveries,
    ForwardedRequest,
    SessionOwners,
    SharedCalls,
    add_frame,
    can_close_sessions,
    encode,
    raw_params,
    reply_soon,
    reply_with_id,
)
from dragoman.host.pool.transport import SharedTransport
from dragoman.schema.methods import METHODS, methods_that
from dragoman.transport.base import Transport
from dragoman.wire.envelope import (
    Envelope,
    Id,
    Malformed,
    encode_call,
    encode_error,
    encode_result,
    parse_envelope,
    parse_excerpt,
)
from dragoman.wire.frames import Frame, Oversize

# How long an agent may take to end the turn and session of a room that leaves a shared process. Seconds; the room
# cannot start its agent again before.
RELEASE_TIMEOUT = 5.0

CANCEL = "$/cancel_request"

_REOPEN_METHODS = methods_that("reopens")
_CLOSE_METHODS = methods_that("ends")

# All rooms at a process send the same initialize params and log in as the same user.
_SHARED_METHODS = frozenset(row.name for row in METHODS.values() if row.once_per_process)


class SharedProcess:
    """One process and the transports of its rooms."""

    def __init__(
        self,
        inner: Transport,
        on_closed: Callable[[SharedProcess], None],
        cancel_form: TurnCancel = TurnCancel(),  # noqa: B008  # frozen
    ) -> None:
        self.inner = inner
        self._cancel_form = cancel_form
        self.peer = inner.peer
        self.transports: list[SharedTransport] = []
        self._on_closed = on_closed  # called once, when no room can attach any more
        self._is_closed = False
        self._last_number = 0
        self._requests: dict[int, ForwardedRequest] = {}
        self._shared_calls = SharedCalls()
        self._agent_requests: dict[Id, SharedTransport] = {}  # open requests of the agent, and which room was asked
        self._agent_request_methods: dict[Id, str] = {}
        self._owners = SessionOwners()
        self._reader = asyncio.get_running_loop().create_task(self._read_frames(), name=f"dragoman shares {self.peer}")

    def attach(self) -> SharedTransport:
        """Add a transport for one more room."""
        transport = SharedTransport(self)
        self.transports.append(transport)
        return transport

    # --- from rooms ---------------------------------------------------------------------------------------------

    def send_from(self, transport: SharedTransport, data: bytes) -> None:
        """Send a frame of a room to the process."""
        envelope = parse_envelope(data)
        if isinstance(envelope.method, UnsetType):
            self._send_reply(transport, envelope, data)
        elif isinstance(envelope.id, UnsetType):
            if envelope.method == CANCEL:
                self._cancel_request(transport, peek_params(envelope.params).named_id)
            else:
                self.inner.send(data)
        elif envelope.method in _SHARED_METHODS:
            number, params = self._next_number(), raw_params(envelope.params) or b"{}"
            if self._shared_calls.start_or_join(transport, envelope.id, envelope.method, params, number):
                self.inner.send(encode_call(number, envelope.method, params))
        else:
            self._send_request(transport, envelope.id, envelope.method, raw_params(envelope.params))

    def _send_reply(self, transport: SharedTransport, envelope: Envelope, data: bytes) -> None:
        if not isinstance(envelope.id, UnsetType) and self._agent_requests.get(envelope.id) is transport:
            self._forget_agent_request(envelope.id)
            self.inner.send(data)

    def _send_request(self, transport: SharedTransport, id: Id, method: str, params: bytes | None) -> None:
        session = peek_params(params).session
        if method in _REOPEN_METHODS and session and not self._owners.claim(session, transport):
            reply_soon(transport, encode_error(id, SESSION_TAKEN_ERROR))
            return
        if method == "logout":
            self._shared_calls.forget("authenticate")  # the next login must reach the agent
        number = self._next_number()
        self._requests[number] = ForwardedRequest(transport, id, method, session)
        transport.request_numbers[id] = number
        self.inner.send(encode_call(number, method, params))

    def _cancel_request(self, transport: SharedTransport, id: Id | UnsetType) -> None:
        """Cancel one request of a room. A request that others share goes on."""
        if isinstance(id, UnsetType):
            return
        self._shared_calls.cancel(transport, id)
        number = transport.request_numbers.get(id)
        if number is not None:
            self.inner.send(encode_call(UNSET, CANCEL, encode({"requestId": number})))

    def _next_number(self) -> int:
        self._last_number += 1
        return self._last_number

    # --- from the process ---------------------------------------------------------------------------------------

    async def _read_frames(self) -> None:
        try:
            while True:
                self._deliver(await self.inner.receive())
                for transport in list(self.transports):
                    await transport.wait_for_space()
        except ConnectionFailed as error:
            self._fail(error)
        except Exception as fault:  # our own fault; whoever waits gets an error
            self._fail(ConnectionFailed(f"reading from {self.peer} failed: {fault}"))
        await self.inner.close()

    def _deliver(self, frames: list[Frame]) -> None:
        out: Deliveries = {}
        for frame in frames:
            self._route_frame(frame, out)
        for transport, batch in out.items():
            transport.deliver(batch)

    def _route_frame(self, frame: Frame, out: Deliveries) -> None:
        """Find the room that a frame is for."""
        try:
            if isinstance(frame, Oversize):
                found = parse_excerpt(frame)
                raise Malformed("", "", Envelope(id=found.id, method=found.method))
            envelope = parse_envelope(frame)
        except Malformed as error:
            broken = Envelope(id=error.id, error=Raw(MALFORMED_REPLY_ERROR))
            if error.is_call or not self._route_reply(broken, out):
                add_frame(out, self.transports[:1], frame)  # one room reports it and answers
            return
        if isinstance(envelope.method, UnsetType):
            self._route_reply(envelope, out)
        else:
            self._route_call(envelope.method, envelope, frame, out)

    def _route_call(self, method: str, envelope: Envelope, frame: bytes, out: Deliveries) -> None:
        peek = peek_params(envelope.params)
        if method == CANCEL:
            if not isinstance(peek.named_id, UnsetType) and peek.named_id in self._agent_requests:
                add_frame(out, [self._agent_requests[peek.named_id]], frame)
        elif peek.session is not None:
            self._route_session_call(peek.session, envelope, frame, out)
        elif isinstance(peek.named_id, int) and peek.named_id in self._requests:
            call = self._requests[peek.named_id]
            params = {**msgspec.json.decode(raw_params(envelope.params) or b"{}"), "requestId": call.id}
            self._route_to(call.transport, envelope, encode_call(envelope.id, method, encode(params)), out)
        elif isinstance(envelope.id, UnsetType):
            add_frame(out, self.transports, frame)
        else:
            self._route_to(self.transports[0] if self.transports else None, envelope, frame, out)

    def _route_session_call(self, session: str, envelope: Envelope, frame: bytes, out: Deliveries) -> None:
        owner = self._owners.owner_of(session)
        is_opening = owner is None and any(call.method == "session/new" for call in self._requests.values())
        if not (is_opening and self._owners.hold_early(session, envelope, frame)):
            self._route_to(owner, envelope, frame, out)

    def _route_to(self, transport: SharedTransport | None, envelope: Envelope, frame: bytes, out: Deliveries) -> None:
        """Route a message to one room. A request that reaches none is answered here."""
        if transport is None or transport.is_detached:
            if not isinstance(envelope.id, UnsetType):
                self._decline(envelope.id, str(envelope.method))
            return
        if not isinstance(envelope.id, UnsetType):
            self._agent_requests[envelope.id], self._agent_request_methods[envelope.id] = (
                transport,
                str(envelope.method),
            )
        add_frame(out, [transport], frame)

    def _route_reply(self, envelope: Envelope, out: Deliveries) -> bool:
        """Route an answer to the room that asked. Return False if none did."""
        if not isinstance(envelope.id, int):
            return False
        is_success = isinstance(envelope.error, UnsetType) or bytes(envelope.error) == b"null"
        if self._shared_calls.resolve(envelope, is_success, out):
            return True
        call = self._requests.pop(envelope.id, None)
        if call is None:
            return False
        call.transport.request_numbers.pop(call.id, None)
        if call.ended is not None and not call.ended.done():
            call.ended.set_result(None)
        if call.method == "session/new":
            self._on_session_opened(call, peek_params(envelope.result).session if is_success else None, out)
        elif call.session is not None and (
            call.method in _CLOSE_METHODS if is_success else call.method in _REOPEN_METHODS
        ):
            self._owners.release(call.session, call.transport)
        add_frame(out, [call.transport], reply_with_id(call.id, envelope))
        return True

    def _on_session_opened(self, request: ForwardedRequest, session: str | None, out: Deliveries) -> None:
        """Give a new session to the room that opened it, with the messages that came early."""
        if session is not None:
            self._owners.claim(session, request.transport)
            if request.transport.is_detached:
                self._close_session(session, request.transport)
                self._owners.release(session, request.transport)
        for ids, envelope, frame in self._owners.take_early():
            self._route_session_call(ids, envelope, frame, out)

    # --- detach -------------------------------------------------------------------------------------------------

    async def detach(self, transport: SharedTransport, reason: str = "") -> None:
        """Remove a room. Close its sessions while other rooms stay; stop the process after the last one."""
        if not transport.is_detached:
            transport.is_detached = True
            self.transports.remove(transport)
            if self.transports and not self._is_closed:
                await self._release_sessions(transport)
        if not self.transports:
            await self.close(reason)

    async def _release_sessions(self, transport: SharedTransport) -> None:
        """Close the sessions of a room at the agent, and wait, so that a later start does not see their messages."""
        self._shared_calls.cancel(transport, UNSET)
        for id in [id for id, asked in self._agent_requests.items() if asked is transport]:
            self._decline(id, self._agent_request_methods[id])
            self._forget_agent_request(id)
        loop = asyncio.get_running_loop()
        sessions = self._owners.sessions_of(transport)
        for session in sessions:
            self._close_session(session, transport)
        waiting = []
        for call in self._requests.values():
            if call.transport is transport:
                call.ended = loop.create_future()
                waiting.append(call.ended)
        if waiting:
            await asyncio.wait(waiting, timeout=RELEASE_TIMEOUT)
        for session in sessions:
            self._owners.release(session, transport)

    def _close_session(self, session: str, transport: SharedTransport) -> None:
        """Cancel the turn of a session at the agent, and close the session if the agent can."""
        params, form = encode({self._cancel_form.session_member: session}), self._cancel_form
        is_busy = any(call.session == session and call.method == "session/prompt" for call in self._requests.values())
        if is_busy or not self._can_close:
            self._send(encode_call(self._next_number() if form.is_request else UNSET, form.method, params))
        if self._can_close:
            number = self._next_number()
            self._requests[number] = ForwardedRequest(transport, None, "session/close", session)
            self._send(encode_call(number, "session/close", params))

    @property
    def _can_close(self) -> bool:
        return can_close_sessions(self._shared_calls.result("initialize"))

    def _decline(self, id: Id, method: str) -> None:
        is_leave = method == "session/request_permission"
        self._send(encode_result(id, PERMISSION_CANCELLED) if is_leave else encode_error(id, SESSION_CLOSED_ERROR))

    def _forget_agent_request(self, id: Id) -> None:
        del self._agent_requests[id], self._agent_request_methods[id]

    def _send(self, data: bytes) -> None:
        if not self._is_closed:
            try:
                self.inner.send(data)
            except ConnectionFailed:  # the reader gets the error too and tells all rooms
                pass

    # --- close --------------------------------------------------------------------------------------------------

    async def close(self, reason: str = "") -> None:
        """Stop the process, whoever uses it."""
        self._fail(TransportClosed(f"the connection to {self.peer} was closed" + (f": {reason}" if reason else "")))
        await self.inner.close(reason)
        await asyncio.wait([self._reader])

    def _fail(self, error: ConnectionFailed) -> None:
        if self._is_closed:
            return
        self._is_closed = True
        self._on_closed(self)
        for call in self._requests.values():
            if call.ended is not None and not call.ended.done():
                call.ended.set_result(None)
        for transport in self.transports:
            transport.fail(error)
