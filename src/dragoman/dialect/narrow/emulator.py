"""The emulator of a client that gets its updates from an agent with more to tell. It wraps the client's own emulator.

Each update is narrowed, then passes through the flow of the wrapped emulator. Contents of tool calls and output of
terminals are collected for a moment, because a client gets them whole; they are sent before the turn ends.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final

from msgspec import UNSET

from dragoman.dialect.emulator import (
    Emulator,
    EmulatorSettings,
    Flow,
    FlowMaker,
    NotifyUser,
    Pass,
    SendNotification,
    SendRequest,
    Sleep,
    Start,
)
from dragoman.dialect.narrow.client_view import view_of
from dragoman.dialect.narrow.narrowing import CONTENT, TERMINALS, Narrowing
from dragoman.dialect.side_data import get_member
from dragoman.dialect.text_chunk import Chunk
from dragoman.errors import ProtocolError
from dragoman.schema.initialize import InitializeParams, InitializeResult
from dragoman.schema.side import Side
from dragoman.schema.toolcall import Diff, ToolCallBlock
from dragoman.schema.update import UpdateParams

# How long contents of tool calls and output of terminals are collected at least. Seconds.
DELAYS: Final[dict[str, float]] = {CONTENT: 0.1, TERMINALS: 0.25}

# Characters of whole contents a second, so that a long text that grows does not fill the connection.
MAX_RATE: Final = 1_000_000

_UPDATE: Final = "session/update"
_REQUEST_PERMISSION: Final = "session/request_permission"


class NarrowingEmulator(Emulator):
    """For a client of any dialect that knows less than its agent tells; `inner` is its own emulator, if it has one."""

    def __init__(self, peer_side: Side, settings: EmulatorSettings, inner: Emulator | None = None) -> None:
        super().__init__(peer_side, settings)
        self.inner = inner
        self.narrowing = Narrowing(view_of(None))
        self.observe: Callable[[str, Any], None] = lambda method, params: None  # gets what is passed on, once narrowed
        self._waiting: set[tuple[str, str]] = set()  # session and kind of what is sent after a delay
        self._sizes: dict[tuple[str, str], int] = {}  # characters that were sent at the last time
        inner_incoming: Mapping[str, FlowMaker] = {} if inner is None else inner.incoming
        inner_outgoing: Mapping[str, FlowMaker] = {} if inner is None else inner.outgoing
        self._inner_outgoing = inner_outgoing
        # The flows of `inner` get it instead of us.
        incoming = {name: self._inner_flow(make) for name, make in inner_incoming.items()}
        outgoing = {name: self._inner_flow(make) for name, make in inner_outgoing.items()}
        for name, make in _AROUND.items():
            incoming[name] = self._flow_around(incoming.get(name, _pass), make)
        outgoing[_UPDATE] = NarrowingEmulator._update
        outgoing[_REQUEST_PERMISSION] = NarrowingEmulator._request_permission
        self.incoming = incoming  # type: ignore[misc]  # the tables of one connection
        self.outgoing = outgoing  # type: ignore[misc]
        if inner is not None:
            self.result_observers = {  # type: ignore[misc]
                name: _observer_of(inner, observe) for name, observe in inner.result_observers.items()
            }
            self.unannounced_capabilities = inner.unannounced_capabilities  # type: ignore[misc]

    def note_initialize(self, params: InitializeParams) -> None:
        """Note what the client shows."""
        self.note_capabilities(params.client_capabilities)
        if self.inner is not None:
            self.inner.note_initialize(params)

    def note_capabilities(self, capabilities: Any) -> None:
        """Note what the client shows, from its capabilities."""
        self.narrowing = Narrowing(view_of(capabilities))

    def note_initialize_result(self, result: InitializeResult) -> None:
        """Note the agent's initialize result."""
        if self.inner is not None:
            self.inner.note_initialize_result(result)

    def pass_chunk(self, chunk: Chunk) -> Chunk | None:
        """Return a text chunk, and note it if its message can still be changed; None if it has another id by now."""
        id = chunk.message_id
        if id and not self.narrowing.passes_text(chunk.session, chunk.kind, id):
            return None
        passed = chunk if self.inner is None else self.inner.pass_chunk(chunk)
        if id and passed is not None:
            self.narrowing.note_text(chunk.session, chunk.kind, id, chunk.text)
        return passed

    def flush(self, session_id: str) -> Flow | None:
        """Return the flow that sends contents and output that are still collected."""
        return self._send_all_pending(session_id)

    def note_history(self, session_id: str, updates: Iterable[Any]) -> None:
        """Note updates that the client got before, as they were."""
        for update in updates:
            self.narrowing.updates(session_id, update)
        self.narrowing.drop_pending(session_id)
        self.narrowing.losses.take()

    # --- what the agent says ----------------------------------------------------------------------------------

    def _update(self, params: Any) -> Flow:
        session, update = params.session_id, params.update
        for narrow in self.narrowing.updates(session, update):
            if narrow is update or narrow == update:  # with the members that the vocabulary does not know
                yield from self._through_inner(_UPDATE, params)
            else:
                yield from self._send_update(session, narrow, params.meta)
        yield from self._report_losses()
        for kind in self.narrowing.pending(session):
            if (session, kind) not in self._waiting:
                self._waiting.add((session, kind))
                yield Start(self._send_later(session, kind))

    def _send_update(self, session: str, update: Any, meta: Any = UNSET) -> Flow:
        """Send an update that the agent did not send in this form."""
        flow = self._through_inner(_UPDATE, UpdateParams(session_id=session, update=update, meta=meta))
        return (yield from _replace_pass(flow, _notify))

    def _send_later(self, session: str, kind: str) -> Flow:
        """Send what is collected until then."""
        try:
            yield Sleep(max(DELAYS[kind], self._sizes.get((session, kind), 0) / MAX_RATE))
        finally:
            self._waiting.discard((session, kind))
        yield from self._send_pending(session, kind)

    def _send_pending(self, session: str, kind: str) -> Flow:
        updates = self.narrowing.take(session, kind)
        if not updates:
            return
        self._sizes[session, kind] = sum(map(_size_of, updates))
        for update in updates:
            yield from self._send_update(session, update)
        yield from self._report_losses()

    def _send_all_pending(self, session: str) -> Flow:
        for kind in (CONTENT, TERMINALS):
            yield from self._send_pending(session, kind)

    def _request_permission(self, params: Any) -> Flow:
        updates, narrow = self.narrowing.question(params)
        for update in updates:
            yield from self._send_update(params.session_id, update)
        yield from self._report_losses()
        if narrow == params:
            return (yield from self._through_inner(_REQUEST_PERMISSION, params))
        return (yield from _replace_pass(self._through_inner(_REQUEST_PERMISSION, narrow), _request))

    def _report_losses(self) -> Flow:
        for text in self.narrowing.losses.take():
            yield NotifyUser(text)

    def _through_inner(self, method: str, params: Any) -> Flow:
        self.observe(method, params)
        make = self._inner_outgoing.get(method, _pass)
        return (yield from make(self.inner, params))

    # --- what the client asks ---------------------------------------------------------------------------------
    # These see the params that `inner` passes on, with the agent's ids of sessions.

    def _prompt(self, params: Any) -> Flow:
        self.narrowing.begin_turn(params.session_id)
        try:
            result = yield Pass(params)
        except ProtocolError:
            yield from self._send_all_pending(params.session_id)
            raise
        finally:
            self.narrowing.end_turn(params.session_id)
        yield from self._send_all_pending(params.session_id)
        result = self.narrowing.prompt_result(result)
        yield from self._report_losses()
        return result

    def _new_session(self, params: Any) -> Flow:
        result = yield Pass(params)
        result = self.narrowing.opening_result(get_member(result, "session_id"), result)
        yield from self._report_losses()
        return result

    def _load_session(self, params: Any) -> Flow:
        session = params.session_id
        self.narrowing.begin_replay(session)
        try:
            result = yield Pass(params)
        finally:
            self.narrowing.end_replay(session)
        yield from self._send_all_pending(session)
        result = self.narrowing.opening_result(session, result)
        yield from self._report_losses()
        return result

    def _close_session(self, params: Any) -> Flow:
        result = yield Pass(params)
        yield from self._send_all_pending(params.session_id)
        self.narrowing.forget(params.session_id)
        for kind in (CONTENT, TERMINALS):
            self._sizes.pop((params.session_id, kind), None)
        return result

    def _set_mode(self, params: Any) -> Flow:
        result = yield Pass(params)
        self.narrowing.set_mode(params.session_id, params.mode_id)
        return result

    def _set_option(self, params: Any) -> Flow:
        result = yield Pass(params)
        updates, result = self.narrowing.options_result(params.session_id, result)
        for update in updates:
            yield from self._send_update(params.session_id, update)
        yield from self._report_losses()
        return result

    # --- the tables -------------------------------------------------------------------------------------------

    def _inner_flow(self, make: FlowMaker) -> FlowMaker:
        return lambda _, params: make(self.inner, params)

    def _flow_around(self, make: FlowMaker, around: FlowMaker) -> FlowMaker:
        """Return a flow of a request of the client whose Pass is one of our flows."""
        return lambda _, params: _replace_pass(make(self.inner, params), lambda passed: around(self, passed))


_AROUND: Final[dict[str, FlowMaker]] = {
    "session/prompt": NarrowingEmulator._prompt,
    "session/new": NarrowingEmulator._new_session,
    "session/fork": NarrowingEmulator._new_session,
    "session/load": NarrowingEmulator._load_session,
    "session/resume": NarrowingEmulator._load_session,
    "session/close": NarrowingEmulator._close_session,
    "session/delete": NarrowingEmulator._close_session,
    "session/set_mode": NarrowingEmulator._set_mode,
    "session/set_config_option": NarrowingEmulator._set_option,
}


def _pass(_: Any, params: Any) -> Flow:
    return (yield Pass(params))


def _notify(params: Any) -> Flow:
    yield SendNotification(_UPDATE, params)


def _request(params: Any) -> Flow:
    return (yield SendRequest(_REQUEST_PERMISSION, params))


def _replace_pass(flow: Flow, on_pass: Callable[[Any], Flow]) -> Flow:
    """Run a flow with another flow in place of each Pass."""
    answer: Any = None
    error: ProtocolError | None = None
    while True:
        try:
            effect = flow.send(answer) if error is None else flow.throw(error)
        except StopIteration as stop:
            return stop.value
        answer, error = None, None
        try:
            answer = (yield from on_pass(effect.params)) if isinstance(effect, Pass) else (yield effect)
        except ProtocolError as fault:
            error = fault


def _observer_of(inner: Emulator, observe: Callable[[Any, Any], None]) -> Callable[[Any, Any], None]:
    return lambda _, result: observe(inner, result)


def _size_of(update: Any) -> int:
    """Return about how many characters the content of a tool call has."""
    size = 0
    for item in get_member(update, "content") or ():
        if type(item) is ToolCallBlock:
            size += len(get_member(item.content, "text") or get_member(item.content, "data") or "")
        elif type(item) is Diff:
            size += len(item.new_text) + len(item.old_text or "")
    return size
